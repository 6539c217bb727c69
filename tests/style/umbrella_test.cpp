// What gspmd/gspmd.h brings into every file of a user's project, by the #include lines.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "style/source_scan.h"

namespace gspmd::style {
namespace {

using Headers = std::map<std::string, std::string>;  // "gspmd/ir/op.h" -> text

struct Reached {
  std::set<std::string> ours, others;
};

// All headers that `name` includes, itself among them, through headers of ours.
Reached reached_from(const Headers& headers, const std::string& name) {
  Reached reached;
  std::vector<std::string> open = {name};
  while (!open.empty()) {
    const std::string header = open.back();
    open.pop_back();
    if (!reached.ours.insert(header).second) continue;
    const auto at = headers.find(header);
    INFO(header);
    REQUIRE(at != headers.end());
    for (const std::string& next : quoted_includes(at->second)) open.push_back(next);
    for (const std::string& next : library_includes(at->second)) reached.others.insert(next);
  }
  return reached;
}

// What is in `headers` but not in `allowed`.
std::vector<std::string> beyond(const std::set<std::string>& headers,
                                const std::set<std::string>& allowed) {
  std::vector<std::string> found;
  for (const std::string& header : headers)
    if (allowed.count(header) == 0) found.push_back(header);
  return found;
}

Headers public_headers() {
  Headers headers;
  for (const SourceFile& file : read_sources(GSPMD_SOURCE_DIR, {"include"}))
    headers[file.path.substr(sizeof("include/") - 1)] = file.text;
  return headers;
}

// Measured with g++ 12, as a file of only these and as the cost of one more: together 0.55 s, of
// which <string>, <memory> and <vector> are 0.4; <cstdlib> comes with <string>. Left out for what
// they add: fmt/format.h 0.15 s, <complex> 0.10, <atomic> 4 %, <iostream>, <sstream>, <regex>,
// <filesystem>, <mutex>, <thread>, <chrono>, <unordered_map>, <algorithm>, <ranges>.
const std::set<std::string> kAllowed = {
    "array",      "concepts", "cstddef",          "cstdint", "cstdlib",     "cstring", "fmt/core.h",
    "functional", "map",      "initializer_list", "memory",  "optional",    "set",     "span",
    "stdexcept",  "string",   "string_view",      "tuple",   "type_traits", "utility", "vector"};

}  // namespace

TEST_CASE("headers are followed through those of ours only", "[style]") {
  const Headers headers = {{"gspmd/a.h", "#include <map>\n\n#include \"gspmd/b.h\"\n"},
                           {"gspmd/b.h", "#include <regex>\n#include \"gspmd/a.h\"\n"},
                           {"gspmd/c.h", "#include <chrono>\n"}};
  const Reached reached = reached_from(headers, "gspmd/a.h");
  CHECK(reached.ours == std::set<std::string>{"gspmd/a.h", "gspmd/b.h"});
  CHECK(beyond(reached.others, kAllowed) == std::vector<std::string>{"regex"});
}

TEST_CASE("gspmd/gspmd.h brings in no header that is slow to compile", "[style]") {
  const Headers headers = public_headers();
  const Reached reached = reached_from(headers, "gspmd/gspmd.h");
  CHECK(reached.ours.size() > 20);
  CHECK(beyond(reached.others, kAllowed) == std::vector<std::string>{});
  // The graph and what works on it stay behind names (gspmd/ir/module_fwd.h).
  for (const char* heavy :
       {"gspmd/ir/module.h", "gspmd/ir/attributes.h", "gspmd/ir/op.h", "gspmd/passes/pipeline.h",
        "gspmd/runtime/executor.h", "gspmd/xtensor.h"}) {
    INFO(heavy);
    CHECK(headers.count(heavy) == 1);
    CHECK(reached.ours.count(heavy) == 0);
  }
}

}  // namespace gspmd::style
