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
const std::vector<std::string> kModules = {"base", "mesh",   "moves",   "io",  "ir",   "kernels",
                                           "ops",  "passes", "runtime", "api", "tools"};

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

// The rooms of src/passes, low to high, and the page that is the compiler. Each includes itself and
// lower ones.
const std::vector<std::string> kRooms = {"graph",     "simplify",    "prepare",       "complete",
                                         "partition", "collectives", "fuse",          "memory",
                                         "pipeline",  "explain",     "differentiate", "verify"};

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

// A pass asks the traits and rules of an op; where it names one, the next op of its kind is
// forgotten. What it may name: collectives, which it makes, and what holds a program together.
TEST_CASE("passes name no more ops than they did", "[style]") {
  const std::set<std::string> structure = {"parameter",
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
  constexpr int64_t kNames = 226;  // may only go down
  int64_t names = 0;
  for (const SourceFile& file : sources()) {
    if (room_of(file.path).empty() || part(file.path, 0) == "tests") continue;
    const std::string code = blank_comments_and_literals(file.text);
    const std::regex name("Opcode::(\\w+)");
    for (std::sregex_iterator at(code.begin(), code.end(), name), end; at != end; ++at)
      names += structure.count((*at)[1]) == 0 ? 1 : 0;
  }
  CHECK(names <= kNames);
  std::printf("names of ops in passes: %lld\n", static_cast<long long>(names));
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
