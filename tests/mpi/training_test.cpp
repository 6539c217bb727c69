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
    REQUIRE(std::filesystem::remove(folder + "/step-000006.safetensors"));
    const JobResult rest = run_job(processes, train + " --resume" + keep);
    CHECK(rest.err == "");
    CHECK(losses(rest) == std::map<int64_t, std::string>{{5, expected.at(5)}, {6, expected.at(6)}});
    std::filesystem::remove_all(folder);
    before = 2;
  }
  scratch("text");
}

}  // namespace gspmd
