#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/run_command.h"

namespace gspmd {
namespace {

using Json = nlohmann::json;

// Modules as JAX, PyTorch/XLA and the XLA tests print them.
std::vector<std::string> module_files() {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/hlo"))
    files.push_back(file.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// 8 devices, unless the module says more.
std::string devices(const std::string& file) {
  return file.find("_16_devices") == std::string::npos ? " --num-devices 8" : "";
}

}  // namespace

TEST_CASE("every module file computes on the mesh what it computes on one device") {
  REQUIRE(module_files().size() >= 20);
  for (const std::string& file : module_files())
    for (const char* options : {" --json", " --json --no-propagate --seed 3",
                                " --json --allow-output-propagation --allow-parameter-propagation",
                                " --json --values uniform --threads 1", " --json --no-spmd"}) {
      INFO(file << options);
      const CommandResult result = run_command("verify " + file + devices(file) + options);
      // A file's result may take over a parameter that is laid out otherwise.
      if (result.err.find("gspmd: note: ") != 0) CHECK(result.err == "");
      REQUIRE(result.code == 0);
      CHECK(Json::parse(result.out)["equal"] == true);
    }
}

TEST_CASE("the text of every module file, plain, completed and partitioned, prints as itself") {
  for (const std::string& file : module_files())
    for (const std::string& verb :
         {std::string("print "), std::string("propagate "), "partition" + devices(file) + " "}) {
      INFO(verb << file);
      const CommandResult first = run_command(verb + file);
      REQUIRE(first.code == 0);
      const CommandResult again = run_command("print -", first.out);
      CHECK(again.err == "");
      CHECK(again.out == first.out);
    }
}

TEST_CASE("an error in a sharding quotes its line only") {
  const CommandResult result = run_command("print -",
                                           "HloModule m\nENTRY e {\n  a = f32[8] parameter(0), "
                                           "sharding={devices=[8]<=[8] last\n  b = f32[] "
                                           "parameter(1)\n}\n");
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Catch::Contains("<stdin>:3:") && !Catch::Contains("parameter(1)"));
}

TEST_CASE("shardings over some of 65,536 devices partition like those over some of 4,096") {
  const std::string file = GSPMD_SOURCE_DIR "/tests/data/hlo/subset_maximal.hlo";
  const auto instructions = [&](const std::string& count) {
    const CommandResult result =
        run_command("partition " + file + " --json --num-devices " + count);
    REQUIRE(result.code == 0);
    return Json::parse(result.out)["instructions"].get<int64_t>();
  };
  CHECK(instructions("65536") == instructions("4096"));
}

}  // namespace gspmd
