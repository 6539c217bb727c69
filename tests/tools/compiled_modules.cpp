// Modules as XLA dumps them after its passes: scheduled, with fusions, layouts, backend configs,
// asynchronous pairs and the tables of stack frames.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/run_command.h"

namespace gspmd {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

const std::string kFolder = GSPMD_SOURCE_DIR "/tests/data/compiled/";

std::vector<std::string> compiled_files() {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(kFolder))
    files.push_back(file.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// "all-reduce 10 1280 [2,2]<=[2,2]T(1,0) loop.py:5", sorted.
std::vector<std::string> collectives(const std::string& verb, const std::string& file) {
  const CommandResult result = run_command(verb + " " + kFolder + file + " --json");
  INFO(result.err);
  REQUIRE(result.code == 0);
  std::vector<std::string> lines;
  const Json json = Json::parse(result.out);
  for (const Json& c : json["collectives"])
    lines.push_back(fmt::format("{} {} {} {} {}", c["kind"].get<std::string>(),
                                c["count"].get<int64_t>(), c["bytes"].get<int64_t>(),
                                c["groups"].get<std::string>(), c["source"].get<std::string>()));
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE("every verb takes compiled modules; what they print reads back as itself") {
  REQUIRE(compiled_files().size() >= 5);
  for (const std::string& file : compiled_files()) {
    for (const std::string verb : {"print", "propagate", "partition"}) {
      INFO(verb << " " << file);
      const CommandResult first = run_command(verb + " " + file);
      REQUIRE(first.code == 0);
      CHECK(run_command("print -", first.out).out == first.out);
    }
    for (const std::string verb : {"explain", "cost", "visualize"}) {
      INFO(verb << " " << file);
      CHECK(run_command(verb + " " + file + " --json").code == 0);
    }
    for (const std::string verb : {"run", "verify"}) {  // not all of their ops have kernels
      const CommandResult result = run_command(verb + " " + file + " --json");
      INFO(verb << " " << file << ": " << result.err);
      if (result.code != 0) CHECK_THAT(result.err, Contains(" cannot run") && Contains(".hlo:"));
    }
  }
}

TEST_CASE("explain and cost list the collectives of a compiled module by bytes, groups and line") {
  // 4 x 8 numbers of 4 bytes; groups of 2 ten times, then of 4: the formulas of
  // docs/spec/command.md 4.5.
  const std::vector<std::string> forms = {"all-gather 1 96 [1,4]<=[4] m.py:8",
                                          "all-reduce 1 192 {} a b.py:3",
                                          "all-reduce 10 1280 [2,2]<=[2,2]T(1,0) loop.py:5",
                                          "all-to-all 1 96 {{0,1,2,3}} m.py:4",
                                          "all-to-all 1 96 {{0,1,2,3}} m.py:6",
                                          "reduce-scatter 1 96 [1,4]<=[4] m.py:7"};
  CHECK(collectives("explain", "async_forms.hlo") == forms);
  CHECK(collectives("cost", "async_forms.hlo") == forms);
  CHECK(collectives("partition", "async_forms.hlo") == forms);
  // Reads its line from the tables; 8 x 16 numbers in groups of 4.
  CHECK(collectives("explain", "cpu_scheduled.hlo") ==
        std::vector<std::string>{"all-reduce 1 768 [2,4]<=[8] model.py:14"});
  CHECK(collectives("explain", "gpu_scheduled.hlo") ==
        std::vector<std::string>{"all-gather 1 96 [1,4]<=[4] x.py:10",
                                 "collective-permute 1 128 {{0,1},{1,2},{2,3},{3,0}} x.py:11",
                                 "reduce-scatter 1 96 {{0,1,2,3}} x.py:9"});
  // Inside of a fusion: 16 x 4 x 16 numbers of 2 bytes.
  CHECK(collectives("explain", "tpu_scheduled.hlo") ==
        std::vector<std::string>{
            "all-gather 1 1920 [1,16]<=[16] t.py:9",
            "all-reduce 1 3840 {{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}} t.py:8"});
}

TEST_CASE("a compiled module runs on each device, whatever its parameters were parts of") {
  const CommandResult result = run_command("verify " + kFolder + "cpu_scheduled.hlo --json");
  REQUIRE(result.code == 0);
  CHECK(Json::parse(result.out)["equal"] == true);
  // The same without the marks of a compiler is a module of whole values, with a sum in it.
  std::string text = run_command("print " + kFolder + "cpu_scheduled.hlo").out;
  text.replace(text.find("is_scheduled=true, "), 19, "");
  for (size_t at; (at = text.find("_spmd")) != std::string::npos;) text.replace(at, 5, "");
  CHECK_THAT(run_command("explain -", text).err, Contains("belongs to a per-device program"));
}

TEST_CASE("several modules of HLO text in a file are printed in turn, other verbs refuse them") {
  const std::string second = "HloModule b\nENTRY e {\n  ROOT p = f32[3] parameter(0)\n}\n";
  const std::string text =
      "// RUN: tool %s\nHloModule a\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n"
      "// -----\n// CHECK: nothing\n" +
      second + "// -----\n";
  const CommandResult both = run_command("print -", text);
  REQUIRE(both.code == 0);
  CHECK_THAT(both.out, Contains("HloModule a") && Contains("\n// -----\nHloModule b"));
  CHECK(run_command("print -", both.out).out == both.out);
  CHECK_THAT(run_command("run -", text).err, Contains("2 modules in one file"));
  CHECK_THAT(run_command("print -", text + "HloModule c\nENTRY e {\n  x = wrong(p)\n}\n").err,
             Contains("<stdin>:15:"));
}

TEST_CASE("stack frames of a dump become files and lines") {
  const std::string text = run_command("print " + kFolder + "cpu_scheduled.hlo").out;
  CHECK_THAT(text, Contains("source_file=\"lib with space/layers.py\" source_line=80"));
  CHECK_THAT(text, Contains("control-predecessors={%gte.1}"));
  CHECK_THAT(run_command("print " + kFolder + "async_forms.hlo").out,
             Contains("%rss = ((f32[4,8]{1,0}), f32[1,8]{1,0}) async-start(%a2ad2), "
                      "calls=%async_reduce-scatter, control-predecessors={%a2ad2, %y}"));
}

TEST_CASE("a compiled module is printed as StableHLO, JSON configurations as text") {
  const CommandResult result =
      run_command("print " + kFolder + "gpu_scheduled.hlo --emit stablehlo");
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("stablehlo.reduce_scatter") &&
                             Contains("backend_config = \"{\\22operation_queue_id\\22:"));
  CHECK(run_command("print -", result.out).out == result.out);
}

}  // namespace gspmd
