// The examples of convolutional nets as programs.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "test_folder.h"

namespace gspmd::examples {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::vector<nlohmann::json> lines;
};

// A program with --json, its standard output and error together.
Outcome run(const std::string& arguments) {
  const std::string command =
      fmt::format("'{}/examples/'{} --json 2>&1", GSPMD_BINARY_DIR, arguments);
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.out.append(buffer, n);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  std::istringstream in(outcome.out);
  if (outcome.exit_code == 0)
    for (std::string line; std::getline(in, line);)
      outcome.lines.push_back(nlohmann::json::parse(line));
  return outcome;
}

// Two classes of 12x8 pixels: a bright upper and a bright lower half.
void write_images(const TestFolder& folder) {
  for (int c = 0; c < 2; ++c) {
    const std::string name = folder.file(c == 0 ? "upper" : "lower");
    std::filesystem::create_directories(name);
    for (int i = 0; i < 20; ++i) {
      std::string pixels;
      for (int p = 0; p < 96; ++p)
        pixels += static_cast<char>(((p < 48) == (c == 0) ? 90 : 20) + (7 * i + 5 * p) % 23);
      std::ofstream(fmt::format("{}/{}.pgm", name, i), std::ios::binary) << "P5 8 12 255\n"
                                                                         << pixels;
    }
  }
}

}  // namespace

TEST_CASE("train_resnet: learns the classes of a folder, as one device does", "[examples]") {
  const TestFolder folder("resnet-images");
  write_images(folder);
  const Outcome outcome =
      run("train_resnet --mesh data=2,height=4 --features 8 --stages 2 --batch 16 --steps 40 "
          "--threads 1 --lr 1e-2 --check --images " +
          folder.path());
  INFO(outcome.out);
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json& last = outcome.lines.back();
  CHECK(last.at("check").at("equal") == true);
  CHECK(last.at("heldout_accuracy") == 1);
}

TEST_CASE("train_resnet: a run goes on, on another mesh", "[examples]") {
  const TestFolder images("resnet-resume"), folder("resnet-checkpoints");
  write_images(images);
  const std::string common =
      "train_resnet --features 8 --stages 2 --batch 16 --steps 6 --threads 1 --images " +
      images.path() + " ";
  const Outcome whole = run(common + "--mesh 1");
  const std::string kept = " --checkpoint " + folder.file("run") + " --checkpoint-every 3";
  CHECK(run(common + "--mesh data=2,height=4" + kept).exit_code == 0);
  std::vector<std::filesystem::path> files;  // after 0, 3 and 6 steps
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("run")))
    files.push_back(entry.path());
  REQUIRE(files.size() == 3);
  std::filesystem::remove(*std::max_element(files.begin(), files.end()));
  const Outcome later = run(common + "--mesh h=2 --recipe spatial --resume" + kept);
  INFO(later.out);
  REQUIRE(later.exit_code == 0);
  CHECK(later.lines.front().at("step") == 4);
  CHECK(later.lines.back().at("heldout_loss").get<double>() ==
        Approx(whole.lines.back().at("heldout_loss").get<double>()).epsilon(1e-3));
}

TEST_CASE("train_resnet: digits, split over batch and height", "[examples]") {
  if (!std::filesystem::exists(
          "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz")) {
    const Outcome outcome = run("train_resnet");
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.find("install the package python3-sklearn") != std::string::npos);
    return;
  }
  const Outcome outcome =
      run("train_resnet --mesh data=2,height=4 --features 8 --stages 3 --batch 32 --steps 500 --lr "
          "5e-3 "
          "--threads 1");
  INFO(outcome.out.substr(outcome.out.rfind("{\"mesh")));
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.lines.back().at("heldout_accuracy").get<double>() >= 0.97);
}

TEST_CASE("train_unet: volumes split along all dims, as on one device", "[examples]") {
  const Outcome outcome =
      run("train_unet --mesh d=2,h=2,w=2 --depth 8 --height 8 --width 8 --levels 2 --features 4 "
          "--heldout 6 --batch 4 --steps 10 --threads 1 --check");
  INFO(outcome.out);
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json& last = outcome.lines.back();
  CHECK(last.at("check").at("equal") == true);
  CHECK(last.at("heldout_dice").get<double>() > 0);
  CHECK(outcome.lines[0].at("loss").get<double>() > outcome.lines[9].at("loss").get<double>());
}

TEST_CASE("train_unet: sizes that do not fit are told", "[examples][errors]") {
  const Outcome outcome = run("train_unet --depth 10");
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.find("halve a depth of 10 unevenly") != std::string::npos);
}

}  // namespace gspmd::examples
