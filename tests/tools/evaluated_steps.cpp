// What of the modules and programs of tests/data has no kernel, and so runs element by element.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "gspmd/api/hlo.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/module.h"
#include "gspmd/stablehlo/text.h"
#include "tools/run_command.h"

namespace gspmd::evaluated_steps_test {
namespace {

using Json = nlohmann::json;

// Texts by name.
std::map<std::string, std::string> modules_in(const std::string& folder) {
  std::map<std::string, std::string> texts;
  for (const auto& entry :
       std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/" + folder)) {
    if (entry.path().extension() != ".hlo" && entry.path().extension() != ".mlir") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    // Of several modules in one file each is one.
    constexpr std::string_view kBetween = "// -----\n";
    std::string rest = text.str();
    for (size_t at; (at = rest.find(kBetween)) != std::string::npos;
         rest = rest.substr(at + kBetween.size()))
      texts.emplace(fmt::format("{} {}", entry.path().filename().string(), texts.size()),
                    rest.substr(0, at));
    texts.emplace(entry.path().filename().string(), rest);
  }
  return texts;
}

std::string named(const EvaluatedStep& step) {
  const Shape leaf = leaf_shapes(step.shape).at(0);
  return step.op + " " + std::string(dtype_name(leaf.dtype));
}

struct Found {
  std::set<std::string> ops;  // "op type"
  int compiled = 0;           // modules
};

// Modules that are there to be refused are left out.
Found evaluated_in(const std::string& folder) {
  Found found;
  for (const auto& [name, text] : modules_in(folder)) try {
      const auto run = compile(*read_module(text, name));
      ++found.compiled;
      for (const EvaluatedStep& step : run.stats().evaluated) found.ops.insert(named(step));
    } catch (const Error&) {
    }
  return found;
}

// What is known to run so. All else that models are made of has a kernel.
struct Known {
  std::string_view op, types;
  std::string_view why;
};
constexpr std::string_view kFewComplex = "functions of complex numbers are rare outside of spectra";
constexpr std::string_view kTests = "written for tests of types and of the language alone";
constexpr Known kKnown[] = {
    {"exponential", "c64 c128", kFewComplex},
    {"log", "c64 c128", kFewComplex},
    {"sqrt", "c64 c128", kFewComplex},
    {"sine", "c64 c128", kFewComplex},
    {"cosine", "c64 c128", kFewComplex},
    {"tanh", "c64 c128", kFewComplex},
    {"asin", "c64", kFewComplex},
    {"acosh", "c64", kFewComplex},
    {"atan2", "c64", kFewComplex},
    {"clamp", "c64", kFewComplex},
    {"maximum", "c64", kFewComplex},
    {"minimum", "c64", kFewComplex},
    {"compare", "pred",
     "of floats in total order, as comparators of sorts do, but outside of them"},
    {"iota", "c64", kTests},
    {"transpose", "c128", "elements of 16 bytes"},
    {"reduce-window", "c128", "elements of 16 bytes"},
    {"reduce-precision", "f32", "to formats that no type has"},
    {"scatter", "f32 s32", "by a computation that is no op"},
    {"power", "s32", kTests},
    {"dot", "f32 s32", "of integers by floats"},
    {"convolution", "f32 s32", "of integers by floats"},
    {"ragged-dot", "f32", "of JAX alone, which lowers it to products elsewhere"},
    {"scaled-dot", "f32", "of formats of accelerators"},
    {"scan", "f32", "of XLA's newest programs"},
    {"dynamic-reshape", "f32", kTests},
    {"add-dependency", "f32", "orders values, which it copies"},
    {"select-and-scatter", "f32", "by comparisons that are not those of a maximum"},
    {"reduce", "f32", "of no elements: it writes the initial value"},
    {"all-reduce", "u8", "reductions over devices of types without loops"},
    {"collective-broadcast", "f32", "Shardy's programs only; values of models do not need it"},
    {"custom-call", "f32", "ops of the users' own without a kernel, sparse arrays, spectra"},
};

bool contains_word(std::string_view words, std::string_view word) {
  return (" " + std::string(words) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

bool is_known(const std::string& found) {
  const size_t space = found.find(' ');
  for (const Known& known : kKnown)
    if (known.op == found.substr(0, space))
      return contains_word(known.types, found.substr(space + 1));
  return false;
}

// Two exponentials, of which one has no kernel.
const std::string kOneOfTwo = R"(HloModule m, num_partitions=2
ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  e = f32[8,4] exponential(x)
  c = c64[8,4] complex(e, x)
  ROOT r = c64[8,4] exponential(c), metadata={source_file="model.py" source_line=7}
}
)";

}  // namespace

TEST_CASE("of the corpora nothing runs element by element but what is known to", "[once]") {
  std::set<std::string> all;
  int compiled = 0;
  for (const char* folder : {"numerics", "hlo", "stablehlo", "jax", "shardy/jax", "dumps"}) {
    const Found found = evaluated_in(folder);
    compiled += found.compiled;
    for (const std::string& op : found.ops) {
      INFO(folder << ": " << op << " has no kernel; give it one, or say above why it needs none");
      CHECK(is_known(op));
    }
    all.insert(found.ops.begin(), found.ops.end());
  }
  CHECK(compiled > 300);
  for (const Known& known : kKnown) {
    std::istringstream types{std::string(known.types)};
    for (std::string type; types >> type;) {
      INFO(known.op << " " << type << " has a kernel now; take it off the list");
      CHECK(all.contains(fmt::format("{} {}", known.op, type)));
    }
  }
}

TEST_CASE("run and verify say what runs element by element") {
  const Json steps = Json::parse(run_command("run - --json", kOneOfTwo).out)["evaluated"];
  REQUIRE(steps.size() == 1);
  CHECK(steps[0]["op"] == "exponential");
  CHECK(steps[0]["instruction"] != "");
  CHECK(steps[0]["shape"] == "c64[4,4]");
  CHECK(steps[0]["source"] == "model.py:7");
  CHECK(Json::parse(run_command("verify - --json", kOneOfTwo).out)["evaluated"] == steps);
  constexpr const char* kLine = "element by element, for want of a kernel: exponential \"";
  CHECK_THAT(run_command("run -", kOneOfTwo).err, Catch::Contains(kLine));
  CHECK_THAT(run_command("verify -", kOneOfTwo).out, Catch::Contains(kLine));
}

TEST_CASE("run and verify say nothing of what has kernels, and of copies what has none") {
  CHECK(Json::parse(run_command("run - --json", kNetwork).out)["evaluated"] == Json::array());
  CHECK(Json::parse(run_command("verify - --json", kNetwork).out)["evaluated"] == Json::array());
  CHECK(run_command("run -", kNetwork).err == "");
  const std::string copies = R"(HloModule m, num_partitions=2
ENTRY main {
  x = c64[4] parameter(0)
  ROOT s = c64[4] collective-broadcast(x), replica_groups={{0,1}}
}
)";
  for (const char* verb : {"run", "verify"}) {
    const CommandResult result = run_command(fmt::format("{} - --json", verb), copies);
    CHECK(result.err == "");
    CHECK(Json::parse(result.out)["evaluated"][0]["op"] == "collective-broadcast");
  }
}

}  // namespace gspmd::evaluated_steps_test
