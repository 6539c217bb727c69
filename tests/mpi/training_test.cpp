// Training in several processes: the losses of one, to the last bit, and checkpoints for any
// number.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "mpi/run_job.h"

namespace gspmd {
namespace {

const std::string kTrain = GSPMD_BINARY_DIR
    "/examples/train_transformer --mesh data=2,model=4 --recipe 2d --batch 4 --seq 16 "
    "--heads 4 --layers 2 --d-model 32 --d-ff 64 --json ";

// A text short enough to be evaluated at once.
std::string short_text() {
  const std::string path = scratch("text");
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::to_string(i * i) + (i % 7 == 0 ? "\n" : " ");
  write_file(path, text);
  return path;
}

// The losses of all steps, by step, as they are printed.
std::map<int64_t, std::string> losses(const JobResult& job) {
  std::map<int64_t, std::string> found;
  std::istringstream lines(job.out);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("loss")) found[json["step"].get<int64_t>()] = json["loss"].dump();
  }
  return found;
}

// Files of sets in a folder.
int64_t parts_in(const std::string& folder) {
  int64_t parts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    parts += entry.path().filename().string().find(".part-") != std::string::npos ? 1 : 0;
  return parts;
}

}  // namespace

TEST_CASE("mpi: training has one process's losses, and goes on in any number of processes") {
  const std::string train = kTrain + "--steps 6 --text " + short_text();
  const JobResult alone = run_job(1, train);
  REQUIRE(alone.code == 0);
  const auto expected = losses(alone);
  REQUIRE(expected.size() == 6);
  const std::string folder = scratch("checkpoints");
  const std::string keep = " --checkpoint " + folder + " --checkpoint-every 2 ";
  int before = 8;
  for (const int processes : {2, 1}) {
    CAPTURE(processes);
    const JobResult whole = run_job(before, train + keep);
    CHECK(whole.err == "");
    REQUIRE(whole.code == 0);
    CHECK(losses(whole) == expected);
    // Each process wrote a part, of the newest three steps.
    CHECK(parts_in(folder) == 3 * before);
    REQUIRE(std::filesystem::remove(folder + "/step-000006.safetensors"));
    const JobResult rest = run_job(processes, train + " --resume" + keep);
    CHECK(rest.err == "");
    CHECK(losses(rest) == std::map<int64_t, std::string>{{5, expected.at(5)}, {6, expected.at(6)}});
    std::filesystem::remove_all(folder);
    before = 2;
  }
  scratch("text");
}

TEST_CASE("mpi: a part that the first process does not see is named, and nothing is left of it") {
  const std::string folder = scratch("folders"), text = short_text();
  for (const char* const own : {"/0", "/1"}) std::filesystem::create_directories(folder + own);
  const std::string line =
      kTrain + "--text " + text + " --checkpoint kept --checkpoint-every 2 --steps 4";
  const JobResult apart = run_job(2, "cd " + folder + "/$P && exec " + line);
  CHECK_THAT(apart.err, Catch::Contains("kept/step-000002.part-2-of-2-") &&
                            Catch::Contains("another process wrote it, and it is not seen here"));
  CHECK(apart.code != 0);
  for (const char* const own : {"/0", "/1"}) CHECK(parts_in(folder + own + "/kept") == 0);
  // The checkpoint before is there.
  const JobResult rest = run_job(4, "cd " + folder + "/0 && exec " + line + " --resume");
  CHECK(rest.code == 0);
  CHECK(losses(rest).size() == 4);
  CHECK(parts_in(folder + "/0/kept") == 3 * 4);
  std::filesystem::remove_all(folder);
  scratch("text");
}

TEST_CASE("mpi: devices are shared as the command line says") {
  const std::string train = kTrain + "--steps 2 --text " + short_text();
  const auto expected = losses(run_job(1, train));
  for (const char* const devices : {"1,7", "6,2", "4"}) {
    CAPTURE(devices);
    const JobResult job = run_job(2, train + " --devices-per-process " + devices);
    CHECK(job.err == "");
    CHECK(losses(job) == expected);
  }
  CHECK_THAT(run_job(2, train + " --devices-per-process 3").err,
             Catch::Contains("8 devices on 2 processes that host 3, which makes 6"));
  CHECK_THAT(run_job(2, train + " --devices-per-process $((3 + 2 * P)),5").err,
             Catch::Contains("process 0 has 3,5 devices per process, process 1 has 5,5"));
  scratch("text");
}

}  // namespace gspmd
