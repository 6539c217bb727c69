// The commands that documents tell people to type.
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>

#include "style/source_scan.h"

namespace gspmd::style {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;  // module, tag

// What `expression`, of one or two groups, finds in the documents.
Names found_in_documents(const std::string& expression) {
  Names found;
  const std::regex pattern(expression);
  for (const SourceFile& file : read_documents(GSPMD_SOURCE_DIR)) {
    if (!file.path.ends_with(".md")) continue;
    for (std::sregex_iterator at(file.text.begin(), file.text.end(), pattern), end; at != end; ++at)
      found.emplace_back((*at)[1], at->size() > 2 ? (*at)[2].str() : "");
  }
  return found;
}

}  // namespace

TEST_CASE("the filters of tests that documents name find tests", "[style]") {
  const Names tags = found_in_documents(R"x(tests/test_(\w+) "(\[\w+\])")x");
  const Names modules = found_in_documents(R"x(ctest --test-dir build -R\s+"([^"]+)")x");
  CHECK(!tags.empty());
  CHECK(!modules.empty());
  const std::vector<SourceFile> tests = read_sources(GSPMD_SOURCE_DIR, {"tests"});
  const auto any = [&](const std::string& folder, const std::string& text) {
    return std::any_of(tests.begin(), tests.end(), [&](const SourceFile& file) {
      return file.path.starts_with(folder) && file.text.find(text) != std::string::npos;
    });
  };
  for (const auto& [module, tag] : tags) {
    INFO(module << " " << tag);
    CHECK(any("tests/" + module + "/", tag));
  }
  for (const auto& [filter, none] :
       modules) {  // ctest's names are "<module>:<test>", without a space
    INFO(filter);
    REQUIRE(std::regex_match(filter, std::regex(R"x(\^\w+:)x")));
    CHECK(any("tests/" + filter.substr(1, filter.size() - 2) + "/", "TEST_CASE("));
  }
}

TEST_CASE("scripts that share a build folder configure it in one way, the preset's", "[style]") {
  int presets = 0;
  for (const SourceFile& file : read_documents(GSPMD_SOURCE_DIR)) {
    // Faults are built in a tree of their own.
    if (!file.path.starts_with("scripts/") || file.path == "scripts/mutate") continue;
    INFO(file.path);
    CHECK(file.text.find("-DGSPMD_") == std::string::npos);
    if (file.text.find("cmake --preset") != std::string::npos) ++presets;
  }
  CHECK(presets == 1);  // scripts/setup.sh
}

}  // namespace gspmd::style
