// Sizes, layering and portability of the project's own files, read from the tree.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <map>
#include <regex>
#include <set>

#include "style/source_scan.h"

namespace gspmd::style {
namespace {

constexpr int64_t kMaxFileLines = 600;
constexpr int64_t kMaxFunctionLines = 80;

const std::vector<std::string> kCodeFolders = {"include", "src",   "models", "examples",
                                               "tests",   "bench", "docs"};

const std::vector<SourceFile>& sources() {
  static const std::vector<SourceFile> files = read_sources(GSPMD_SOURCE_DIR, kCodeFolders);
  return files;
}

// Low to high. A module includes itself and lower ones, but for kernels, which know no IR.
const std::vector<std::string> kModules = {"base",   "mesh",    "moves", "io",
                                           "ir",     "kernels", "ops",   "stablehlo",
                                           "passes", "runtime", "api",   "tools"};

int64_t level(const std::string& module) {
  const auto at = std::find(kModules.begin(), kModules.end(), module);
  return at == kModules.end() ? -1 : at - kModules.begin();
}

bool may_include(const std::string& from, const std::string& to) {
  if (from == to) return true;
  if (from == "kernels") return to == "base";
  return level(to) < level(from);
}

std::string part(const std::string& path, size_t index) {
  size_t begin = 0;
  for (; index > 0; --index) begin = path.find('/', begin) + 1;
  return path.substr(begin, path.find('/', begin) - begin);
}

// The module a file belongs to; umbrella headers (include/gspmd/gspmd.h) are the API's.
std::string module_of_file(const std::string& path) {
  const std::string top = part(path, 0);
  if (top == "src") return part(path, 1);
  if (top != "include") return "";
  const std::string module = part(path, 2);
  return level(module) >= 0 ? module : "api";
}

// "gspmd/ir/op.h" and "ir/op_private.h" -> "ir"; "" for another library's.
std::string module_of_include(const std::string& name) {
  const bool ours = name.rfind("gspmd/", 0) == 0;
  const std::string module = part(ours ? name.substr(6) : name, 0);
  if (level(module) >= 0) return module;
  return ours ? "api" : "";
}

// The rooms of src/passes, low to high, and the page that is the compiler, with what it gives. Each
// includes itself and lower ones.
const std::vector<std::string> kRooms = {
    "graph",       "simplify", "prepare",       "shardy", "complete",  "partition",
    "collectives", "update",   "fuse",          "memory", "pass_time", "compiled_module",
    "pipeline",    "explain",  "differentiate", "batch",  "verify"};

// "src/passes/fuse/fuse.cpp" and "gspmd/passes/fuse/fuse.h" -> "fuse"; "" outside of the passes.
std::string room_of(std::string path) {
  for (const char* top : {"src/", "include/", "gspmd/"})
    if (path.rfind(top, 0) == 0) path = path.substr(std::string(top).size());
  if (part(path, 0) != "passes") return "";
  const std::string room = part(path, 1);
  return room.substr(0, room.find('.'));
}

std::vector<std::string> room_violations(const std::vector<SourceFile>& files) {
  const auto room_level = [](const std::string& room) {
    return std::find(kRooms.begin(), kRooms.end(), room) - kRooms.begin();
  };
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    const std::string top = part(file.path, 0), from = room_of(file.path);
    if (from.empty() || (top != "src" && top != "include")) continue;
    for (const std::string& name : quoted_includes(file.text)) {
      const std::string to = room_of(name);
      if (!to.empty() && room_level(to) > room_level(from))
        violations.push_back(file.path + " includes " + name);
    }
  }
  return violations;
}

std::vector<std::string> layering_violations(const std::vector<SourceFile>& files) {
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    const std::string module = module_of_file(file.path);
    for (const std::string& name : quoted_includes(file.text)) {
      const std::string top = part(file.path, 0);
      bool allowed = true;
      if (top == "models" || top == "examples") {
        allowed =
            name == "gspmd/gspmd.h" || name == "gspmd/testing.h" || name.rfind("gspmd/", 0) != 0;
      } else if (!module.empty()) {
        const std::string included = module_of_include(name);
        allowed = included.empty() || may_include(module, included);
      }
      if (!allowed) violations.push_back(file.path + " includes " + name);
    }
  }
  return violations;
}

}  // namespace

TEST_CASE("the function scanner measures functions and skips classes, data and literals",
          "[style]") {
  const std::string text =
      "namespace a {\n"
      "const int table[] = {\n  1, 2};  // {\n"
      "struct S {\n"
      "  int f() const { return g('{'); }\n"
      "  std::vector<int> v{1, 2};\n"
      "};\n"
      "bool operator==(S a, S b) {\n"
      "  const char* s = R\"x({)x\";\n"
      "  if (a) { return 1'000; }\n"
      "}\n"
      "}  // namespace a\n";
  const auto found = find_functions(text);
  std::vector<std::string> seen;
  for (const FunctionSpan& f : found) {
    seen.push_back(f.head + "@" + std::to_string(f.first_line) + "+" + std::to_string(f.lines));
  }
  CHECK(seen == std::vector<std::string>{"int f() const @5+1", "bool operator==(S a, S b) @8+4"});
}

TEST_CASE("the room check finds includes of higher rooms and of the page", "[style]") {
  const std::vector<SourceFile> files = {
      {"src/passes/complete/a.cpp", "#include \"passes/partition/b.h\"\n"},
      {"include/gspmd/passes/fuse/c.h", "#include \"gspmd/passes/graph/d.h\"\n"},
      {"src/passes/fuse/e.cpp", "#include \"gspmd/passes/pipeline.h\"\n"},
      {"src/passes/pipeline.cpp", "#include \"passes/verify/f.h\"\n"},
      {"tests/passes/g.cpp", "#include \"passes/partition/b.h\"\n"}};
  CHECK(room_violations(files) ==
        std::vector<std::string>{"src/passes/complete/a.cpp includes passes/partition/b.h",
                                 "src/passes/fuse/e.cpp includes gspmd/passes/pipeline.h",
                                 "src/passes/pipeline.cpp includes passes/verify/f.h"});
}

TEST_CASE("the layering check finds upward includes", "[style]") {
  const std::vector<SourceFile> files = {
      {"src/kernels/a.cpp", "#include \"gspmd/ir/op.h\"\n#include \"hwy/highway.h\"\n"},
      {"include/gspmd/ops/b.h", "#include \"gspmd/passes/partition.h\"\n"},
      {"src/passes/c.cpp", "#include \"passes/c_private.h\"\n#include \"gspmd/ops/builders.h\"\n"},
      {"include/gspmd/gspmd.h", "#include \"gspmd/api/tensor.h\"\n"},
      {"models/d.cpp", "#include \"gspmd/gspmd.h\"\n#include \"gspmd/base/array.h\"\n"}};
  CHECK(layering_violations(files) ==
        std::vector<std::string>{"src/kernels/a.cpp includes gspmd/ir/op.h",
                                 "include/gspmd/ops/b.h includes gspmd/passes/partition.h",
                                 "models/d.cpp includes gspmd/base/array.h"});
}

TEST_CASE("every module includes only lower modules, models and examples only the public header",
          "[style]") {
  REQUIRE(!sources().empty());
  CHECK(layering_violations(sources()) == std::vector<std::string>{});
}

TEST_CASE("every room of the passes includes only lower rooms", "[style]") {
  CHECK(room_violations(sources()) == std::vector<std::string>{});
}

// A pass asks the traits, rules and nests of an op; where it names one, the next op of its kind is
// forgotten. What all may name: collectives, which passes make, and what holds a program together.
const std::set<std::string> kStructure = {"parameter",
                                          "tuple",
                                          "get_tuple_element",
                                          "while_",
                                          "conditional",
                                          "call",
                                          "fusion",
                                          "partition_id",
                                          "all_reduce",
                                          "all_gather",
                                          "reduce_scatter",
                                          "all_to_all",
                                          "collective_permute",
                                          "collective_broadcast",
                                          "ragged_all_to_all",
                                          "all_reduce_start",
                                          "all_gather_start",
                                          "collective_permute_start",
                                          "all_reduce_done",
                                          "all_gather_done",
                                          "collective_permute_done"};

// The one list of passes that name other ops or read an attribute of one family, how often at most,
// and why they must.
struct Namer {
  const char* file;  // below src/passes
  int64_t names, attributes;
  const char* why;
};
constexpr Namer kNamers[] = {
    {"collectives/collective_motion.cpp", 4, 0, "what means and sums in wider types are made of"},
    {"collectives/reduce_scatter.cpp", 5, 0,
     "the slice of its own part, and what may stand before"},
    {"collectives/schedule.cpp", 5, 0,
     "asynchronous calls, which it makes; constants, which are no computation"},
    {"collectives/windowed_einsum.cpp", 5, 3, "tails that partitioning cuts and pads"},
    {"complete/manual_constants.cpp", 3, 0, "values that a region may make anew"},
    {"complete/propagate.cpp", 6, 0, "annotations, and the copies that hold two of them"},
    {"complete/propagate_scalar_broadcasts.cpp", 1, 0, "what it is about"},
    {"complete/propagation_calls.cpp", 4, 0, "transfers, which call nothing"},
    {"complete/propagation_rules.cpp", 9, 0, "annotations, and the field's exceptions by op"},
    {"differentiate/region_values.cpp", 1, 0, "the borders of regions, which it makes"},
    {"graph/node_cost.cpp", 2, 0, "what is no work"},
    {"fuse/fuse_graph.cpp", 3, 0, "what a loop makes from its index"},
    {"graph/started_collective.cpp", 2, 0, "asynchronous calls, which hold it"},
    {"graph/trip_count.cpp", 4, 1, "the form of a counted loop"},
    {"memory/plan_memory_buffers.cpp", 2, 0, "what lies in the program; asynchronous calls"},
    {"memory/recompute.cpp", 1, 0, "opaque calls, of which nobody knows what they take"},
    {"memory/value_reads.cpp", 1, 0, "asynchronous calls"},
    {"partition/manual.cpp", 1, 0, "what holds manual values without looking at them"},
    {"partition/partition_factors.cpp", 2, 0, "which bits of partial sums are kept"},
    {"partition/partition_values.cpp", 1, 0, "splats, which are made again instead of moved"},
    {"partition/some_devices.cpp", 2, 0, "opaque calls"},
    {"partition/poison_absent.cpp", 2, 0, "the wrong value of a pred"},
    {"partition/choose_factor_sharding.cpp", 2, 0, "slices that are cheaper where they are"},
    {"partition/factor_sharding_problem.cpp", 2, 0,
     "constants, which are made again instead of moved"},
    {"prepare/check_numbers.cpp", 7, 0, "the checks that it makes, and what makes no numbers"},
    {"prepare/join_async.cpp", 10, 0, "forms of asynchronous ops, which it takes away"},
    {"prepare/merge_pads.cpp", 4, 6, "the two ops that it merges"},
    {"prepare/normalize.cpp", 1, 0, "copies, which it makes"},
    {"prepare/static_starts.cpp", 8, 4, "slices with starts that are known"},
    {"shardy/import_shardings.cpp", 1, 0, "calls of the dialect, which it makes"},
    {"shardy/lower_sdy.cpp", 3, 0, "calls of the dialect, which it takes away"},
    {"shardy/prepare_constraints.cpp", 2, 0, "ops that data-flow edges flow into"},
    {"shardy/prepare_module.cpp", 1, 0, "constants, of which each reader has its own"},
    {"shardy/program_builder.cpp", 5, 0, "where XLA looks for annotations"},
    {"shardy/write_back.cpp", 1, 0, "calls of the dialect, which it makes"},
    {"simplify/simplify_arithmetic.cpp", 18, 0, "identities of arithmetic"},
    {"simplify/simplify_common.cpp", 7, 3, "values that are known"},
    {"simplify/simplify_shape.cpp", 30, 9, "identities of data movement"},
    {"update/shard_updates.cpp", 3, 0, "copies, which it makes; what is spread over an update"},
    {"update/stacked_gradients.cpp", 4, 0, "the form of a loop that writes rows"},
    {"update/update_regions.cpp", 4, 0, "what partial sums pass; what is spread over an update"},
};

int64_t matches(const std::string& code, const std::regex& pattern,
                const std::set<std::string>& without) {
  int64_t count = 0;
  for (std::sregex_iterator at(code.begin(), code.end(), pattern), end; at != end; ++at)
    count += without.count((*at)[1]) == 0 ? 1 : 0;
  return count;
}

TEST_CASE("passes name ops and attributes of families only where the list says why", "[style]") {
  const std::regex name("Opcode::(\\w+)");
  const std::regex attribute(
      "attrs\\.(starts|limits|strides|slice_sizes|padding|window|conv|ragged|triangular|scalar|"
      "dot|gather|scatter|direction|compare_type)\\b");
  int64_t all_names = 0, all_attributes = 0;
  std::vector<std::string> wrong;
  std::set<std::string> seen;
  for (const SourceFile& file : sources()) {
    if (room_of(file.path).empty() || part(file.path, 0) == "tests") continue;
    const std::string code = blank_comments_and_literals(file.text);
    const int64_t names = matches(code, name, kStructure),
                  attributes = matches(code, attribute, {});
    if (names + attributes == 0) continue;
    all_names += names;
    all_attributes += attributes;
    const auto listed = std::find_if(
        std::begin(kNamers), std::end(kNamers),
        [&](const Namer& namer) { return file.path == std::string("src/passes/") + namer.file; });
    if (listed == std::end(kNamers) || names > listed->names || attributes > listed->attributes)
      wrong.push_back(file.path + ": " + std::to_string(names) + " names of ops, " +
                      std::to_string(attributes) + " attributes of families");
    if (listed != std::end(kNamers)) seen.insert(listed->file);
  }
  for (const Namer& namer : kNamers)
    if (seen.count(namer.file) == 0)
      wrong.push_back(std::string(namer.file) + " names nothing any more; take it off the list");
  CHECK(wrong == std::vector<std::string>{});
  std::printf("names of ops in passes: %lld, attributes of families: %lld\n",
              static_cast<long long>(all_names), static_cast<long long>(all_attributes));
}

// Families whose ops are described by their rows alone.
TEST_CASE("no pass names a product, a reduction, a window, a sort or a look-up", "[style]") {
  const std::regex name(
      "Opcode::(dot|ragged_dot|scaled_dot|convolution|reduce|reduce_window|select_and_scatter|"
      "gather|scatter|sort|topk|scan|fft|cholesky|triangular_solve|map|rng|batch_norm_\\w+)\\b");
  std::vector<std::string> found;
  for (const SourceFile& file : sources())
    if (!room_of(file.path).empty() && part(file.path, 0) != "tests" &&
        matches(blank_comments_and_literals(file.text), name, {}) > 0)
      found.push_back(file.path);
  CHECK(found == std::vector<std::string>{});
}

TEST_CASE("no file has more than 600 lines", "[style]") {
  std::vector<std::string> too_long;
  std::vector<int64_t> sizes;
  for (const SourceFile& file : sources()) {
    sizes.push_back(line_count(file.text));
    if (sizes.back() > kMaxFileLines) {
      too_long.push_back(file.path + ": " + std::to_string(sizes.back()) + " lines");
    }
  }
  std::printf("files: %zu, median %ld lines, 90th percentile %ld, longest %ld\n", sizes.size(),
              percentile(sizes, 50), percentile(sizes, 90), percentile(sizes, 100));
  CHECK(too_long == std::vector<std::string>{});
}

TEST_CASE("no function has more than 80 lines", "[style]") {
  std::vector<std::string> too_long;
  std::vector<int64_t> sizes;
  for (const SourceFile& file : sources()) {
    for (const FunctionSpan& function : find_functions(file.text)) {
      sizes.push_back(function.lines);
      if (function.lines > kMaxFunctionLines) {
        too_long.push_back(file.path + ":" + std::to_string(function.first_line) + ": " +
                           function.head + ": " + std::to_string(function.lines) + " lines");
      }
    }
  }
  std::printf("functions: %zu, median %ld lines, 90th percentile %ld, longest %ld\n", sizes.size(),
              percentile(sizes, 50), percentile(sizes, 90), percentile(sizes, 100));
  CHECK(too_long == std::vector<std::string>{});
}

TEST_CASE("headers are guarded by pragma once, but those included once per instruction set",
          "[style]") {
  std::vector<std::string> unguarded;
  for (const SourceFile& file : sources()) {
    const bool header = file.path.size() > 2 && file.path.substr(file.path.size() - 2) == ".h";
    const bool guarded = file.text.find("#pragma once") != std::string::npos;
    const bool per_target = file.text.find("HWY_") != std::string::npos;
    if (header && !guarded && !per_target) unguarded.push_back(file.path);
  }
  CHECK(unguarded == std::vector<std::string>{});
}

TEST_CASE("no file names a path of somebody's machine or leaves work undone", "[style]") {
  // Spelled in two pieces, so that this file passes its own test.
  const std::vector<std::string> unwanted = {std::string("/ho") + "me/", std::string("/wo") + "rk/",
                                             std::string("/ro") + "ot/", std::string("/tm") + "p/",
                                             std::string("TO") + "DO",   std::string("FIX") + "ME"};
  std::vector<SourceFile> files = read_documents(GSPMD_SOURCE_DIR);
  files.insert(files.end(), sources().begin(), sources().end());
  std::vector<std::string> found;
  for (const SourceFile& file : files) {
    for (const std::string& word : unwanted) {
      if (file.text.find(word) != std::string::npos) found.push_back(file.path + ": " + word);
    }
  }
  CHECK(found == std::vector<std::string>{});
}

}  // namespace gspmd::style
