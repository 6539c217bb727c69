#include "stablehlo/round_trip.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "stablehlo/op_cases.h"

namespace gspmd::stablehlo {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> files(const std::string& folder, const std::string& extension) {
  std::vector<fs::path> found;
  for (const auto& entry :
       fs::directory_iterator(fs::path(GSPMD_SOURCE_DIR) / "tests/data" / folder))
    if (entry.path().extension() == extension) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  REQUIRE(!found.empty());
  return found;
}

}  // namespace

TEST_CASE("HLO as StableHLO and back has equal values and shardings", "[round_trip]") {
  for (const fs::path& path : files("hlo", ".hlo")) {
    INFO(path);
    const std::unique_ptr<Module> module = parse_module(read_file(path), path.filename().string());
    check_round_trip(*module, can_run(*module));
  }
}

TEST_CASE("examples print as a fixed point and read as the same module", "[round_trip]") {
  for (const fs::path& path : files("stablehlo", ".mlir")) {
    INFO(path);
    const std::unique_ptr<Module> module =
        parse_stablehlo(read_file(path), path.filename().string());
    const std::string text = to_stablehlo(*module);
    INFO(text);
    const std::unique_ptr<Module> read = parse_stablehlo(text, "printed.mlir");
    CHECK(to_stablehlo(*read) == text);
    // Groups by axes of a mesh are written as lists: what is read again is equal.
    CHECK(structurally_equal(*parse_stablehlo(to_stablehlo(*read)), *read));
    CHECK(read->frontend_attributes == module->frontend_attributes);
  }
}

namespace {

// The text with its lines at the margin, where their indentation does not tell which brace ends a
// function: it is read as a whole then.
std::string at_margin(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    result += line + "\n";
  }
  return result;
}

}  // namespace

TEST_CASE("a module is the same however its lines are indented", "[round_trip]") {
  for (const fs::path& path : files("stablehlo", ".mlir")) {
    INFO(path);
    const std::string text = read_file(path);
    CHECK(to_text(*parse_stablehlo(text)) == to_text(*parse_stablehlo(at_margin(text))));
  }
  // What @main calls stands behind it, in another order; one is called in a region and by another.
  const std::string text = R"(module @calls {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = call @third(%arg0) : (tensor<4xf32>) -> tensor<4xf32> loc("not @second"("a.py":1:2))
    %1 = stablehlo.reduce_precision %0, format = e5m10 : tensor<4xf32>
    %2 = func.call @first(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = stablehlo.composite "x.y" %2 {decomposition = @second} : (tensor<4xf32>) -> tensor<4xf32>
    return %3, %0 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @first(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @second(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @unused(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %arg0 : tensor<4xf32>
  }
  func.func private @second(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @third(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.sine %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
)";
  const std::string unmentioned = std::regex_replace(text, std::regex("not @second"), "not it");
  for (const std::string& one : {text, unmentioned})
    CHECK(to_text(*parse_stablehlo(one)) == to_text(*parse_stablehlo(at_margin(one))));
}

TEST_CASE("annotations that are returned print as themselves, of groups and through tuples too",
          "[round_trip]") {
  for (const char* body :
       {// A parameter's group is a call in the text; the other call is returned.
        "  x = f32[2] parameter(0), sharding={unknown shard_as 0}\n"
        "  s = f32[2] custom-call(x), custom_call_target=\"Sharding\", "
        "sharding={unknown shard_as 0}\n"
        "  a = f32[2] abs(x)\n  ROOT r = (f32[2], f32[2]) tuple(s, a)\n",
        // A tuple on the way, whose elements are all that reads it.
        "  x = f32[2] parameter(0)\n  a = f32[2] abs(x)\n"
        "  s = f32[2] custom-call(x), custom_call_target=\"Sharding\", "
        "sharding={devices=[2]<=[2]}\n"
        "  t = (f32[2], f32[2]) tuple(s, a)\n  g = f32[2] get-tuple-element(t), index=0\n"
        "  b = f32[2] get-tuple-element(t), index=1\n  c = f32[2] negate(b)\n"
        "  ROOT r = (f32[2], f32[2]) tuple(c, g)\n",
        "  x = f32[2] parameter(0)\n"
        "  s = f32[2] custom-call(x), custom_call_target=\"Sharding\", "
        "sharding={devices=[2]<=[2]}\n"
        "  t = (f32[2], f32[2]) tuple(s, x)\n  ROOT g = f32[2] get-tuple-element(t), index=0\n",
        // Of an element that has the sharding already.
        "  x = f32[2] parameter(0)\n  a = f32[2] abs(x), sharding={devices=[2]<=[2]}\n"
        "  t = (f32[2], f32[2]) tuple(a, x)\n  g = f32[2] get-tuple-element(t), index=0\n"
        "  s = f32[2] custom-call(g), custom_call_target=\"Sharding\", "
        "sharding={devices=[2]<=[2]}\n  ROOT r = (f32[2], f32[2]) tuple(s, x)\n",
        // One that nobody takes out of the tuple.
        "  x = f32[2] parameter(0)\n  a = f32[2] abs(x)\n"
        "  s = f32[2] custom-call(x), custom_call_target=\"Sharding\", "
        "sharding={devices=[2]<=[2]}\n"
        "  t = (f32[2], f32[2]) tuple(a, s)\n  g = f32[2] get-tuple-element(t), index=0\n"
        "  ROOT r = (f32[2], f32[2]) tuple(g, x)\n",
        // And one that something else reads as well.
        "  x = f32[2] parameter(0)\n"
        "  s = f32[2] custom-call(x), custom_call_target=\"Sharding\", "
        "sharding={devices=[2]<=[2]}\n"
        "  t = (f32[2], f32[2]) tuple(s, x)\n  g = f32[2] get-tuple-element(t), index=0\n"
        "  c = f32[2] negate(g)\n  ROOT r = (f32[2], f32[2]) tuple(c, g)\n"}) {
    const std::unique_ptr<Module> module =
        parse_module(std::string("HloModule m, num_partitions=2\nENTRY main {\n") + body + "}\n");
    check_round_trip(*module);
  }
}

// Ops without a form in StableHLO are kept as text; what runs before them is not a part of that.
TEST_CASE("an op that is kept as text needs no names of other ops", "[round_trip]") {
  const std::unique_ptr<Module> module = parse_module(
      "HloModule m\nENTRY main {\n  x = f32[2,4] parameter(0)\n  y = f32[2,4] parameter(1)\n"
      "  s = (f32[2,4], f32[2,4], u32[]) copy-start(x), control-predecessors={y}\n"
      "  c = f32[2,4] copy-done(s), control-predecessors={y, x}, backend_config=\"a}\"\n"
      "  b = f32[8] bitcast(c), control-predecessors={s}, custom_call_has_side_effect=false\n"
      "  n = f32[2,4] negate(y), control-predecessors={s}\n"
      "  ROOT r = (f32[8], f32[2,4]) tuple(b, n)\n}\n");
  const std::string printed = to_stablehlo(*module);
  INFO(printed);
  CHECK(printed.find("control-predecessors") == std::string::npos);
  check_round_trip(*module);
}

TEST_CASE("every op prints as itself", "[round_trip]") {
  for (const auto family :
       {elementwise_cases, shape_cases, contraction_cases, region_cases, other_cases})
    for (const OpCase& c : family()) {
      const std::string text = "func.func @main(" + c.arguments + ") -> " + c.result + " {\n" +
                               c.generic + "\nreturn %r : " + c.result + "\n}\n";
      INFO(c.name << "\n" << text);
      const std::unique_ptr<Module> module = parse_stablehlo(text, "case.mlir");
      const std::string printed = to_stablehlo(*module);
      INFO(printed);
      const std::unique_ptr<Module> read = parse_stablehlo(printed, "printed.mlir");
      CHECK(to_stablehlo(*read) == printed);
    }
}

}  // namespace gspmd::stablehlo
