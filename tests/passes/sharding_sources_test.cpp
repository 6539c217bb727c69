// That annotations explain what they are said to explain: exactly the digits that are ascribed to
// annotations are gone without them, in the modules of tests/data.

#include "gspmd/passes/explain/sharding_sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "passes/causality.h"
#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

// The modules of tests/data/hlo and of the cases of tests/data/completion that have annotations and
// can be completed.
std::vector<std::unique_ptr<Module>> modules() {
  std::vector<std::unique_ptr<Module>> all;
  const auto add = [&](const std::string& text) {
    try {
      auto module = parse_module(text);
      propagate(*module->clone(), open_boundary());
      if (!annotations_of(*module).empty()) all.push_back(std::move(module));
    } catch (const Error&) {  // cases of what is refused
    }
  };
  std::set<std::filesystem::path> files;
  for (const char* folder : {"/tests/data/hlo", "/tests/data/completion"})
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(GSPMD_SOURCE_DIR) + folder))
      files.insert(file.path());
  for (const std::filesystem::path& file : files) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    std::string rest = text.str();
    if (file.extension() == ".hlo") {
      add(rest);
      continue;
    }
    for (size_t at = rest.find("HloModule"); at != std::string::npos;) {
      const size_t end = rest.find("\n===", at);
      add(rest.substr(at, end == std::string::npos ? end : end - at));
      at = end == std::string::npos ? end : rest.find("HloModule", end);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("exactly the digits that are ascribed to annotations are gone without them") {
  const auto all = modules();
  REQUIRE(all.size() > 100);
  std::mt19937 random(20);
  const int64_t rounds = std::getenv("GSPMD_LONG") != nullptr ? 20 : 2;
  RemovalCount one, set, three;
  for (int64_t round = 0; round < rounds; ++round)
    for (const auto& given : all) {
      const PropagateOptions options = open_boundary();
      const auto with = given->clone();
      propagate(*with, options);
      const ShardingSources sources(*given, *with, {.propagate = options});
      const auto remove = [&](const Names& names, RemovalCount& count) {
        count_removal(*given, *with, sources, names, options, count);
      };
      remove(drawn_annotations(*given, 1, random), one);
      remove(drawn_set(*given, *with, sources, random), set);
      remove(drawn_annotations(*given, 3, random), three);
    }
  for (const RemovalCount* exact : {&one, &set}) {
    INFO(to_string(*exact));
    CHECK(exact->removals >= 200);
    CHECK(exact->gone > 200);
    CHECK(exact->kept == 0);
    CHECK(exact->unforeseen == 0);
    CHECK(exact->restored * 200 < exact->gone);
  }
  // What several do together is tried for few annotations only.
  INFO(to_string(three));
  CHECK(three.kept == 0);
  CHECK((three.restored + three.unforeseen) * 200 < three.gone + three.stay);
}
