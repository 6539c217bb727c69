// The example with experts as a program.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

namespace gspmd::examples::train_moe_test {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string out;  // standard output and error together
};

Outcome run(const std::string& arguments) {
  const std::string command =
      fmt::format("'{}/examples/train_moe' {} 2>&1", GSPMD_BINARY_DIR, arguments);
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.out.append(buffer, n);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

const std::string kSmall =
    "--layers 2 --d-model 16 --d-ff 32 --expert-ff 16 --heads 4 --seq 16 --batch 8 --threads 2 ";

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("train_moe: losses are checked, loads and the dense model's loss are said",
          "[examples]") {
  const Outcome outcome =
      run(kSmall + "--steps 3 --mesh data=2,model=4 --recipe hybrid --json --check");
  INFO(outcome.out);
  REQUIRE(outcome.exit_code == 0);
  const auto lines = lines_of(outcome.out);
  REQUIRE(lines.size() == 4);
  for (size_t i = 0; i < 3; ++i)
    for (const char* metric : {"nll", "aux_loss", "z_loss", "load_max"})
      CHECK(lines[i].at("metrics").at(metric).get<double>() > 0);
  CHECK(lines[3].at("check").at("equal") == true);
  CHECK(lines[3].at("heldout_loss").get<double>() > 1);
  CHECK(lines[3].at("dense_loss").get<double>() > 1);
  // Half a hidden unit is what rounding may add.
  CHECK(lines[3].at("dense_flops").get<double>() ==
        Approx(lines[3].at("flops").get<double>()).epsilon(0.02));
  std::istringstream loads(lines[3].at("device_loads").get<std::string>());
  std::vector<double> devices;
  for (double load; loads >> load;) devices.push_back(load);
  REQUIRE(devices.size() == 8);
  CHECK(devices[0] == devices[3]);  // parts of the same experts
  CHECK(devices[0] + devices[4] >= 8 * 16);
}

TEST_CASE("train_moe: a run goes on from a checkpoint on another mesh", "[examples]") {
  const std::string folder = fmt::format("{}/tests/moe-checkpoints", GSPMD_BINARY_DIR);
  std::filesystem::remove_all(folder);
  const std::string common = kSmall + "--steps 8 --compare none --json ";
  const Outcome whole = run(common + "--mesh 1");
  const std::string saved = common + "--checkpoint-every 4 --checkpoint '" + folder + "' ";
  const Outcome first = run(saved + "--mesh data=8");
  REQUIRE(first.exit_code == 0);
  std::filesystem::remove(folder + "/step-000008.safetensors");
  const Outcome second = run(saved + "--mesh data=2,model=2 --recipe hybrid --resume");
  INFO(second.out);
  REQUIRE(second.exit_code == 0);
  const auto expected = lines_of(whole.out), actual = lines_of(second.out);
  REQUIRE(actual.size() == 5);
  for (size_t i = 0; i < 4; ++i)
    CHECK(actual[i].at("loss").get<double>() ==
          Approx(expected[4 + i].at("loss").get<double>()).epsilon(1e-4));
  std::filesystem::remove_all(folder);
}

TEST_CASE("train_moe: every wrong option is one message and exit code 2", "[examples]") {
  for (const std::string option :
       {"--layers 3", "--experts 1", "--capacity 0", "--recipe 2d", "--routing top1",
        "--aux-weight -1", "--d-model 1000000000 --heads 1"}) {
    const Outcome outcome = run(option + " --steps 1");
    INFO(option << ": " << outcome.out);
    CHECK(outcome.exit_code == 2);
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
  }
  // Seen when the model meets its batch, below the line that says what is trained.
  for (const std::string option : {"--group 7", "--mesh data=8 --dispatch gather --batch 4"}) {
    const Outcome outcome = run(option + " --steps 1");
    INFO(option << ": " << outcome.out);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.find("\nmoe: ") != std::string::npos);
  }
}

}  // namespace gspmd::examples::train_moe_test
