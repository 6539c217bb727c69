// Training that is killed and resumed, as a program.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "load.h"

namespace gspmd::examples {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

// A folder of this process's own for checkpoints and output.
struct Folder {
  std::string path = fmt::format("{}/tests/resume-{}", GSPMD_BINARY_DIR, getpid());
  Folder() { fs::remove_all(path), fs::create_directories(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
};

// An example as a child that writes into a file; its name may be the first of the arguments.
class Training {
 public:
  Training(const Folder& folder, Arguments arguments) : out_(folder.path + "/out") {
    std::string name = "train_transformer";
    if (arguments.at(0).starts_with("train_")) {
      name = arguments[0];
      arguments.erase(arguments.begin());
    }
    child_ = fork();
    if (child_ != 0) return;
    const int out = open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(out, 1);
    dup2(out, 2);
    const std::string program = GSPMD_BINARY_DIR "/examples/" + name;
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  std::string output() const {
    std::ostringstream text;
    text << std::ifstream(out_).rdbuf();
    return text.str();
  }
  bool running() {
    if (child_ != 0 && waitpid(child_, &status_, WNOHANG) == child_) child_ = 0;
    return child_ != 0;
  }
  // Whether it was still running.
  bool kill_now() {
    if (child_ == 0) return false;
    kill(child_, SIGKILL);
    return !WIFEXITED(finish());
  }
  int finish() {
    if (child_ != 0) waitpid(child_, &status_, 0);
    child_ = 0;
    return status_;
  }

 private:
  std::string out_;
  pid_t child_ = 0;
  int status_ = 0;
};

// The loss of each step in JSON lines, digit for digit; half a line at the end counts for nothing.
std::map<int64_t, std::string> losses_of(const std::string& output) {
  std::map<int64_t, std::string> losses;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step")) losses[json["step"]] = json["loss"].dump();
  }
  return losses;
}

std::map<int64_t, std::string> losses_of_run(const Folder& folder, const Arguments& arguments) {
  Training training(folder, arguments);
  const int status = training.finish();
  INFO(training.output());
  REQUIRE(status == 0);
  return losses_of(training.output());
}

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Arguments kModel = {
    "--layers", "1", "--d-model", "16", "--d-ff", "32",     "--heads", "4",        "--seq", "16",
    "--batch",  "4", "--threads", "2",  "--json", "--seed", "3",       "--recipe", "2d"};
const Arguments kMesh = {"--mesh", "data=2,model=2"};

Arguments checkpoints(const Folder& folder, const std::string& every) {
  return {"--checkpoint", folder.path + "/run", "--checkpoint-every", every};
}

void damage(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(fs::file_size(path) / 2));
  file.put('\x55').put('\xaa').put('\x55');
}

fs::path newest(const Folder& folder) {
  fs::path last;
  for (const auto& entry : fs::directory_iterator(folder.path + "/run"))
    last = std::max(last, entry.path());
  return last;
}

// Kills a run `kills` times, resumes it each time, and sees the losses of the run that was let go.
void check_kills(const Folder& folder, const Arguments& settings, size_t steps, int kills) {
  const auto whole = losses_of_run(folder, settings);
  REQUIRE(whole.size() == steps);

  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const Arguments resumed = settings + checkpoints(folder, "2") + Arguments{"--resume"};
  std::map<int64_t, std::string> seen;
  const auto take = [&](const std::string& output) {
    for (const auto& [step, loss] : losses_of(output)) {
      INFO("step " << step);
      CHECK(loss == whole.at(step));
      seen[step] = loss;
    }
  };
  for (int killed = 0; killed < kills;) {
    Training training(folder, resumed);
    // After some steps, and then somewhere in the next one or in writing its checkpoint.
    const size_t count = random() % 8;
    while (training.running() && losses_of(training.output()).size() < count) usleep(500);
    usleep(static_cast<useconds_t>(random() % (count == 0 ? 300'000 : 15'000)));
    const bool killed_now = training.kill_now();
    take(training.output());
    if (!killed_now) break;  // done before its time
    ++killed;
  }
  const auto last = losses_of_run(folder, resumed);
  for (const auto& [step, loss] : last) CHECK(loss == whole.at(step));
  seen.insert(last.begin(), last.end());
  CHECK(seen.size() == whole.size());
}

// Two classes of 8x8 pixels: a bright upper and a bright lower half.
void write_images(const Folder& folder) {
  for (int c = 0; c < 2; ++c) {
    const std::string name = folder.path + (c == 0 ? "/images/upper" : "/images/lower");
    fs::create_directories(name);
    for (int i = 0; i < 20; ++i) {
      std::string pixels;
      for (int p = 0; p < 64; ++p)
        pixels += static_cast<char>(((p < 32) == (c == 0) ? 90 : 20) + (7 * i + 5 * p) % 23);
      std::ofstream(fmt::format("{}/{}.pgm", name, i), std::ios::binary) << "P5 8 8 255\n"
                                                                         << pixels;
    }
  }
}

}  // namespace

TEST_CASE("train_transformer: killed at random moments and resumed, the losses are the same bits",
          "[examples][resume][once]") {
  const Folder folder;
  const Arguments settings = kModel + kMesh + Arguments{"--steps", "150"};
  check_kills(folder, settings, 150, static_cast<int>(random_load(20)));
  // No leftovers, the newest three.
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path + "/run"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"step-000146.safetensors", "step-000148.safetensors",
                                          "step-000150.safetensors"});
}

TEST_CASE("examples: every model, killed at random moments and resumed, has the same losses",
          "[examples][resume][once]") {
  const Folder folder;
  const int kills = std::getenv("GSPMD_LONG") != nullptr ? 10 : static_cast<int>(random_load(2));
  write_images(folder);
  const Arguments blocks = kModel + Arguments{"--layers", "4"};
  const Arguments volumes = {"--depth",   "8", "--height", "8",         "--width",    "8",
                             "--levels",  "2", "--batch",  "4",         "--features", "4",
                             "--heldout", "2", "--json",   "--threads", "2"};
  const Arguments experts = {"--layers", "2", "--d-model",   "16",   "--d-ff", "32",
                             "--heads",  "4", "--expert-ff", "16",   "--seq",  "16",
                             "--batch",  "8", "--compare",   "none", "--json", "--threads",
                             "2"};
  const std::vector<Arguments> models = {
      blocks + Arguments{"--pipeline", "gpipe", "--stages", "2", "--microbatches", "2", "--mesh",
                         "stage=2,data=2"},
      blocks + Arguments{"--pipeline", "circular", "--stages", "2", "--microbatches", "2", "--mesh",
                         "stage=2,model=2"},
      kModel + Arguments{"--mesh", "data=3", "--recipe", "data", "--weight-update", "data",
                         "--gather-bf16", "--clip-norm", "1"},
      kModel + Arguments{"--mesh", "data=2,model=2", "--fsdp", "data"},
      Arguments{"train_moe", "--mesh", "data=2,model=2", "--recipe", "hybrid"} + experts,
      Arguments{"train_resnet", "--mesh", "data=2,height=2", "--images", folder.path + "/images",
                "--features", "4", "--stages", "2", "--batch", "8", "--json", "--threads", "2"},
      Arguments{"train_unet", "--mesh", "d=2,h=2"} + volumes,
  };
  for (const Arguments& model : models) {
    INFO(fmt::format("{}", fmt::join(model, " ")));
    fs::remove_all(folder.path + "/run");
    check_kills(folder, model + Arguments{"--steps", "40"}, 40, kills);
  }
}

TEST_CASE("train_transformer: a damaged checkpoint is passed over for the one before",
          "[examples][resume]") {
  const Folder folder;
  const Arguments first = kModel + kMesh + checkpoints(folder, "2");
  const auto whole = losses_of_run(folder, first + Arguments{"--steps", "6"});
  damage(newest(folder));
  Training training(folder, first + Arguments{"--steps", "6", "--resume"});
  CHECK(training.finish() == 0);
  const std::string output = training.output();
  CHECK(output.find("checkpoint of step 6 is passed over: ") != std::string::npos);
  const auto again = losses_of(output);
  REQUIRE(again.size() == 2);
  CHECK(again.at(5) == whole.at(5));
  CHECK(again.at(6) == whole.at(6));
}

TEST_CASE("train_transformer: a run goes on upon another mesh, recipe and one device",
          "[examples][resume][once]") {
  const Arguments steps = {"--steps", "8"};
  const Arguments others[] = {{"--mesh", "1"},
                              {"--mesh", "x=3", "--recipe", "data"},
                              {"--mesh", "data=4,model=2", "--check"}};
  for (const Arguments& other : others) {
    const Folder folder;
    const auto whole = losses_of_run(folder, kModel + kMesh + checkpoints(folder, "4") + steps);
    fs::remove(newest(folder));
    const auto resumed = losses_of_run(
        folder, kModel + other + checkpoints(folder, "4") + steps + Arguments{"--resume"});
    REQUIRE(resumed.size() == 4);
    for (const auto& [step, loss] : resumed)
      CHECK(std::stod(loss) == Approx(std::stod(whole.at(step))).epsilon(1e-4));
    // At its end there is nothing left to do.
    CHECK(losses_of_run(folder,
                        kModel + other + checkpoints(folder, "4") + steps + Arguments{"--resume"})
              .empty());
  }
}

TEST_CASE("train_transformer: a checkpoint of another run is refused with both values",
          "[examples][resume]") {
  const Folder folder;
  const Arguments first = kModel + kMesh + checkpoints(folder, "4") + Arguments{"--steps", "4"};
  losses_of_run(folder, first);
  const auto refused = [&](const Arguments& change, const std::string& message) {
    Training training(folder, first + change);
    const int status = training.finish();
    INFO(training.output());
    CHECK(WEXITSTATUS(status) == 2);
    CHECK(training.output().find(message) != std::string::npos);
  };
  refused({}, "has 2 checkpoints, the newest of step 4; go on with --resume");
  refused({"--resume", "--seed", "4"}, "was made with --seed 3, this run has 4");
  refused({"--resume", "--batch", "8"}, "was made with --batch 4, this run has 8");
  refused({"--resume", "--optimizer", "adamw"},
          "was made with --optimizer adam, this run has adamw");
  refused({"--resume", "--d-ff", "36"}, "was made with --d-ff 32, this run has 36");
  refused({"--resume", "--layers", "2"}, "was made with --layers 1, this run has 2");
  // Another function of parameters of the same shapes.
  refused({"--resume", "--norm", "layer"}, "was made with --norm rms, this run has layer");
  refused({"--resume", "--checkpoint", ""}, "--resume: give the folder with --checkpoint DIR");
  refused({"--checkpoint", "/dev/null/x"},
          "the folder cannot be made: Not a directory (run_checkpoints.cpp:");
  if (geteuid() != 0) {  // who may write anywhere
    fs::permissions(folder.path + "/run", fs::perms::owner_read | fs::perms::owner_exec);
    refused({"--resume", "--steps", "5"}, "run: cannot be written: Permission denied");
    fs::permissions(folder.path + "/run", fs::perms::owner_all);
  }
  damage(newest(folder));
  fs::remove(folder.path + "/run/step-000000.safetensors");
  refused({"--resume"}, "none of the 1 files is whole");
  // More steps, at another rate of learning, are a choice.
  fs::remove(newest(folder));
  losses_of_run(folder, first + Arguments{"--resume"});
  CHECK(
      losses_of_run(folder, first + Arguments{"--resume", "--steps", "5", "--lr", "1e-4"}).size() ==
      1);
}

}  // namespace gspmd::examples
