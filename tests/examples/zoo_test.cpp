// The zoo: every model at small size, on one device and on a mesh of 8, and what keeps it a zoo.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gspmd::examples::zoo_test {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code = -1;
  std::string out;  // standard output and error together
};

Outcome run_zoo(const std::string& model, const std::string& arguments) {
  const std::string command =
      fmt::format("'{}/examples/zoo/{}' {} 2>&1", GSPMD_BINARY_DIR, model, arguments);
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.out.append(buffer, n);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

// All that the model says of itself holds, at small size.
void check_model(const std::string& model) {
  const Outcome outcome = run_zoo(model, "--small --mesh 2,4");
  INFO(outcome.out);
  CHECK(outcome.exit_code == 0);
  for (const char* text : {"on one device\n", "on mesh['data'=2,'model'=4]\n",
                           "  holds: ", " on one device, ", "\nPASS\n"}) {
    INFO(text);
    CHECK(outcome.out.find(text) != std::string::npos);
  }
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("zoo: beam search finds what brute force finds", "[zoo]") { check_model("beam_search"); }
TEST_CASE("zoo: a diffusion U-Net of cut images is better than the closed form", "[zoo]") {
  check_model("diffusion_unet");
}
TEST_CASE("zoo: a Gaussian process has the likelihood of elimination", "[zoo]") {
  check_model("gaussian_process");
}
TEST_CASE("zoo: a graph network splits the karate club", "[zoo]") { check_model("graph_network"); }
TEST_CASE("zoo: conductivity is found by differentiating the heat equation", "[zoo]") {
  check_model("heat_equation");
}
TEST_CASE("zoo: Hamiltonian Monte Carlo draws with the right moments", "[zoo]") {
  check_model("hmc");
}
TEST_CASE("zoo: a Kalman filter has the joint density", "[zoo]") { check_model("kalman"); }
TEST_CASE("zoo: an LSTM uses what it remembers", "[zoo]") { check_model("lstm"); }
TEST_CASE("zoo: MAML differentiates through gradient descent", "[zoo]") { check_model("maml"); }
TEST_CASE("zoo: a separable CNN with batch normalisation tells shapes apart", "[zoo]") {
  check_model("separable_cnn");
}
TEST_CASE("zoo: a state-space model finds the impulse response", "[zoo]") {
  check_model("state_space");
}
TEST_CASE("zoo: a linear VAE comes near the likelihood of principal components", "[zoo]") {
  check_model("vae");
}
TEST_CASE("zoo: a ViT tells directions apart", "[zoo]") { check_model("vit"); }

TEST_CASE("zoo: a claim that does not hold is exit code 1", "[zoo]") {
  const Outcome outcome = run_zoo("lstm", "--small --steps 1");
  INFO(outcome.out);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.find("DOES NOT HOLD: after 1 steps") != std::string::npos);
  CHECK(outcome.out.ends_with("FAIL\n"));
}

TEST_CASE("zoo: a wrong command line is exit code 2 and one line", "[zoo]") {
  for (const char* wrong : {"--mesh 8", "--mesh 2,0", "--mesh", "--steps x", "--steps", "small"}) {
    const Outcome outcome = run_zoo("graph_network", wrong);
    INFO(wrong << ": " << outcome.out);
    CHECK(outcome.exit_code == 2);
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
  }
}

TEST_CASE("zoo: models have at most 150 lines, a test and a row in the table", "[zoo]") {
  const fs::path folder = fs::path(GSPMD_SOURCE_DIR) / "examples/zoo";
  const std::string table = read_file(folder / "README.md");
  const std::string tests = read_file(fs::path(GSPMD_SOURCE_DIR) / "tests/examples/zoo_test.cpp");
  int64_t models = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp") continue;
    ++models;
    const std::string name = entry.path().stem(), source = read_file(entry.path());
    INFO(name);
    CHECK(std::count(source.begin(), source.end(), '\n') <= 150);
    CHECK(table.find("| [" + name + "](" + name + ".cpp) |") != std::string::npos);
    CHECK(tests.find("check_model(\"" + name + "\")") != std::string::npos);
  }
  CHECK(models >= 12);
}

}  // namespace gspmd::examples::zoo_test
