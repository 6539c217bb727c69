// Programs that JAX 0.11 lowered for eight devices, its arrays, and what its completion by Shardy
// made of the results' shardings: tests/data/jax. Arguments' shardings were drawn at random.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "gspmd/api/hlo.h"
#include "gspmd/io/npy.h"
#include "gspmd/ir/module.h"
#include "gspmd/passes/shardy/propagate_shardy.h"
#include "gspmd/stablehlo/text.h"
#include "load.h"
#include "tools/compare.h"

namespace gspmd::jax_results_test {
namespace {

struct Program {
  std::string name, results, text;
};

// "// name", "// results: {x} {} | replicated", the text, "// -----".
std::vector<Program> programs() {
  std::ifstream file(GSPMD_SOURCE_DIR "/tests/data/jax/programs.mlir");
  std::vector<Program> list(1);
  for (std::string line; std::getline(file, line);) {
    Program& program = list.back();
    if (line == "// -----")
      list.emplace_back();
    else if (line.starts_with("// results: "))
      program.results = line.substr(12);
    else if (line.starts_with("// "))
      program.name = line.substr(3);
    else
      program.text += line + "\n";
  }
  return list;
}

// "[{"x", "y"}, {}]" as "{x,y} {}"; what no axis splits as "replicated".
std::string in_short(const std::string& dims) {
  std::string text;
  for (const char c : dims)
    if (std::string_view("[]\" ?").find(c) == std::string_view::npos) text += c;
  std::string result;
  bool split = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = text[i] == ',' && i > 0 && text[i - 1] == '}';
    split = split || (text[i] != '{' && text[i] != '}' && text[i] != ',');
    result += between ? ' ' : text[i];
  }
  return split ? result : "replicated";
}

// The shardings of @main's results in the text of a completed program.
std::string result_shardings(const std::string& text) {
  const size_t main = text.find("@main(");
  const std::string signature = text.substr(main, text.find('\n', main) - main);
  const std::string results = signature.substr(signature.rfind(") -> "));
  std::string list;
  for (size_t at = results.find("tensor<"); at != std::string::npos;) {
    const size_t next = results.find("tensor<", at + 1);
    const std::string one = results.substr(at, next - at);
    const size_t mesh = one.find("#sdy.sharding<@mesh, [");
    const size_t dims = mesh == std::string::npos ? mesh : one.find('[', mesh);
    const std::string said =
        dims == std::string::npos ? "" : one.substr(dims, one.find(']', dims) - dims);
    list += (list.empty() ? "" : " | ") + in_short(said);
    at = next;
  }
  return list;
}

std::string completed_text(const Program& program) {
  const auto module = read_module(program.text, program.name + ".mlir");
  propagate_shardy(*module);
  keep_sdy_only(*module);
  std::string text;
  print_stablehlo(*module, [&](std::string_view piece) { text += piece; });
  return text;
}

using Arrays = std::map<std::string, Array>;

std::vector<Array> arrays_of(const Arrays& all, const std::string& name, const char* kind) {
  std::vector<Array> list;
  const std::string prefix = name + "/" + kind + "/";
  for (auto at = all.lower_bound(prefix); at != all.end() && at->first.starts_with(prefix); ++at)
    list.push_back(at->second);
  return list;
}

}  // namespace

TEST_CASE("programs that JAX lowered complete as in JAX, and compute on eight devices what it did",
          "[jax]") {
  Arrays all;
  for (auto& [name, array] : read_npz(GSPMD_SOURCE_DIR "/tests/data/jax/arrays.npz"))
    all.emplace(name, array);
  const std::vector<Program> list = programs();
  REQUIRE(list.size() > 150);
  const auto step = static_cast<size_t>(8 / random_load(8));
  for (size_t i = 0; i < list.size(); i += step) {
    const Program& program = list[i];
    INFO(program.name);
    const auto module = read_module(program.text, program.name + ".mlir");
    const auto run = compile(*module);
    CHECK(run.num_devices() == module->num_partitions);
    CHECK(result_shardings(completed_text(program)) == program.results);
    const std::vector<Array> expected = arrays_of(all, program.name, "out");
    const std::vector<Array> results = run(arrays_of(all, program.name, "in"));
    const tools::Comparison compared = tools::compare(expected, results, false, {});
    CHECK(compared.equal);
  }
}

}  // namespace gspmd::jax_results_test
