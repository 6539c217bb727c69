// The example as a program: its output, its exit codes.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace gspmd::examples::train_transformer_test {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string out;  // standard output and error together
};

Outcome run(const std::string& arguments) {
  const std::string command =
      fmt::format("'{}/examples/train_transformer' {} 2>&1", GSPMD_BINARY_DIR, arguments);
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
    "--layers 1 --d-model 16 --d-ff 32 --heads 4 --seq 16 --batch 4 --steps 3 --threads 2 ";

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("train_transformer: --json gives an object per step and the totals", "[examples]") {
  const Outcome outcome = run(kSmall + "--mesh data=2,model=4 --json --check --sample 5");
  INFO(outcome.out);
  REQUIRE(outcome.exit_code == 0);
  const auto lines = lines_of(outcome.out);
  REQUIRE(lines.size() == 4);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(lines[i].at("step") == i + 1);
    CHECK(lines[i].at("loss").get<double>() > 1);
    CHECK(lines[i].at("seconds").get<double>() > 0);
  }
  for (const char* key : {"tokens_per_second", "gflops", "percent_of_peak", "heldout_loss",
                          "bytes_per_device_per_step", "predicted_peak_bytes", "arena_bytes"}) {
    INFO(key);
    CHECK(lines[3].at(key).get<double>() > 0);
  }
  CHECK(!lines[3].at("collectives").empty());
  CHECK(!lines[3].at("compile_seconds").empty());
  CHECK(lines[3].at("check").at("equal") == true);
  CHECK(lines[3].at("sample").get<std::string>().size() == 5);
}

TEST_CASE("train_transformer: people get a progress line and a table", "[examples]") {
  const Outcome outcome = run(kSmall + "--mesh 1");
  INFO(outcome.out);
  CHECK(outcome.exit_code == 0);
  for (const char* text :
       {"step 3/3", "tokens/s", "left", "held-out loss", "order-2 n-gram model"}) {
    CHECK(outcome.out.find(text) != std::string::npos);
  }
}

TEST_CASE("train_transformer: the exact form is checked bit by bit", "[examples]") {
  const Outcome outcome =
      run("--layers 1 --d-model 8 --d-ff 8 --heads 4 --seq 8 --batch 4 --steps 3 --mesh a=2,b=2 "
          "--recipe 2d --exact --check --json");
  INFO(outcome.out);
  REQUIRE(outcome.exit_code == 0);
  CHECK(lines_of(outcome.out).back().at("check").at("max_relative_difference") == 0);
}

TEST_CASE("train_transformer: --trace writes the last step, with the same losses", "[examples]") {
  const std::string file = fmt::format("{}/tests/train-trace.json", GSPMD_BINARY_DIR);
  const Outcome plain = run(kSmall + "--mesh data=2,model=2 --json");
  const Outcome traced = run(kSmall + "--mesh data=2,model=2 --json --trace '" + file + "'");
  INFO(traced.out);
  REQUIRE(traced.exit_code == 0);
  const auto before = lines_of(plain.out), after = lines_of(traced.out);
  for (size_t i = 0; i < 3; ++i) CHECK(before[i].at("loss") == after[i].at("loss"));
  std::ifstream in(file);
  const auto trace = nlohmann::json::parse(in);
  std::remove(file.c_str());
  int64_t tracks = 0, collectives = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") ++tracks;
    if (event.value("cat", "") == "collective") ++collectives;
  }
  CHECK(tracks == 4);
  CHECK(collectives >= 4 * 3);
}

TEST_CASE("train_transformer: every wrong option is one message and exit code 2", "[examples]") {
  const std::vector<std::string> wrong = {"--mesh data=0",
                                          "--mesh data=two",
                                          "--recipe 3d",
                                          "--heads 3",
                                          "--layers 0",
                                          "--layers -1",
                                          "--seq 1000000",
                                          "--steps x",
                                          "--dtype f16",
                                          "--optimizer none",
                                          "--norm batch",
                                          "--positions relative",
                                          "--text no/such/file",
                                          "--exact --bias",
                                          "--d-model 1000000000 --heads 1",
                                          "--batch 2000000000",
                                          "--lr -1",
                                          "--no-such-option",
                                          "--trace /no/such/file"};
  for (const std::string& option : wrong) {
    const Outcome outcome = run(option);
    INFO(option << ": " << outcome.out);
    CHECK(outcome.exit_code == 2);
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
  }
}

TEST_CASE("train_transformer: words that are no choice are errors that list the choices",
          "[examples]") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--optimizer adamm", "--optimizer: there is no \"adamm\"; choose one of sgd, adam, adamw"},
      {"--dtype f16", "--dtype: there is no \"f16\"; choose one of f32, f64"},
      {"--recipe 4d", "2d-attempt1"},
      {"--compute f8", "f32, bf16, f16"},
      {"--compute bf16 --dtype f64", "--compute: bf16 goes with weights of f32, not of f64"},
      {"--batch 6 --microbatches 4", "4 microbatches do not divide the batch of 6"}};
  for (const auto& [option, message] : wrong) {
    const Outcome outcome = run(option);
    INFO(option << ": " << outcome.out);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.find(message) != std::string::npos);
  }
}

TEST_CASE("train_transformer: a pipeline has the losses of blocks one after the other",
          "[examples][once]") {
  const std::string options = kSmall + "--layers 4 --microbatches 2 --sample 3 --json --check ";
  const auto plain = lines_of(run(options).out);
  for (const std::string pipeline :
       {"gpipe --stages 4 --mesh stage=4,data=2",
        "circular --stages 2 --mesh stage=2,data=2,model=2", "gpipe --stages 2 --mesh data=2"}) {
    const Outcome outcome = run(options + "--pipeline " + pipeline);
    INFO(outcome.out);
    REQUIRE(outcome.exit_code == 0);
    const auto lines = lines_of(outcome.out);
    REQUIRE(lines.size() == plain.size());
    for (size_t i = 0; i < 3; ++i)
      CHECK(lines[i].at("loss").get<double>() ==
            Approx(plain[i].at("loss").get<double>()).epsilon(1e-4));
    CHECK(lines[3].at("heldout_loss").get<double>() ==
          Approx(plain[3].at("heldout_loss").get<double>()).epsilon(1e-3));
    CHECK(lines[3].at("check").at("equal") == true);
  }
  const Outcome wrong = run(options + "--pipeline gpipe --stages 3");
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.out.find("3 stages do not divide the 4 layers") != std::string::npos);
}

TEST_CASE("train_transformer: --evaluate-every says the held-out loss as it falls", "[examples]") {
  const Outcome outcome = run(kSmall + "--steps 30 --lr 0.02 --evaluate-every 10 --json");
  INFO(outcome.out);
  REQUIRE(outcome.exit_code == 0);
  const auto lines = lines_of(outcome.out);
  REQUIRE(lines.size() == 31);
  std::vector<double> losses;
  for (size_t i = 0; i < 30; ++i) {
    CHECK(lines[i].contains("evaluation") == (i == 9 || i == 19));
    if (lines[i].contains("evaluation"))
      losses.push_back(lines[i].at("evaluation").at("loss").get<double>());
  }
  losses.push_back(lines[30].at("heldout_loss").get<double>());
  CHECK(losses[1] < losses[0]);
  CHECK(losses[2] < losses[1]);
}

TEST_CASE("train_transformer: --help lists every option of its contract", "[examples]") {
  const Outcome outcome = run("--help");
  CHECK(outcome.exit_code == 0);
  for (const char* option : {"--text",
                             "--mesh",
                             "--recipe",
                             "--layers",
                             "--d-model",
                             "--d-ff",
                             "--heads",
                             "--seq",
                             "--batch",
                             "--steps",
                             "--lr",
                             "--seed",
                             "--threads",
                             "--optimizer",
                             "--norm",
                             "--bias",
                             "--positions",
                             "--dtype",
                             "--exact",
                             "--check",
                             "--sample",
                             "--json",
                             "--trace",
                             "--checkpoint",
                             "--checkpoint-every",
                             "--resume",
                             "--microbatches",
                             "--evaluate-every",
                             "--compute"}) {
    INFO(option);
    CHECK(outcome.out.find(option) != std::string::npos);
  }
}

}  // namespace gspmd::examples::train_transformer_test
