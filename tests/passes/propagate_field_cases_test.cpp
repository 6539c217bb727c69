// The cases of tests/data/completion: modules with the shardings that users of the field know them
// to complete to. A case starts with "=== its name", then come
//   options: no-spmd output=true,false parameters=true cse-prevention-only    (where there are any)
//   expect: instruction = sharding or none                                    (one or more)
// and the module.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace propagate_field_cases_test {
namespace {

struct Case {
  std::string name, module;
  PropagateOptions options;
  std::vector<std::pair<std::string, std::string>> expected;
};

std::vector<bool> flags(const std::string& text) {
  std::vector<bool> result;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) result.push_back(word == "true");
  return result;
}

void read_options(const std::string& text, PropagateOptions& options) {
  std::stringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "no-spmd")
      options.spmd = false;
    else if (word == "cse-prevention-only")
      options.cse_prevention_only = true;
    else if (word.starts_with("output="))
      options.allow_output = flags(word.substr(7));
    else if (word.starts_with("parameters="))
      options.allow_parameters = flags(word.substr(11));
    else
      FAIL("no option " + word);
  }
}

std::vector<Case> cases() {
  std::vector<Case> found;
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/completion"))
    files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("=== ")) {
        found.push_back({line.substr(4), {}, {}, {}});
      } else if (line.starts_with("options: ")) {
        read_options(line.substr(9), found.back().options);
      } else if (line.starts_with("expect: ")) {
        const size_t equals = line.find(" = ");
        found.back().expected.emplace_back(line.substr(8, equals - 8), line.substr(equals + 3));
      } else if (!found.empty()) {
        found.back().module += line + "\n";
      }
    }
  }
  return found;
}

bool is_sharded_as(const Node& node, const std::string& text) {
  if (text == "none" || !node.sharding) return (text == "none") == !node.sharding;
  return equivalent(*node.sharding, parse_sharding(text, node.shape.is_tuple ? -1 : node.rank()));
}

}  // namespace

TEST_CASE("completion of the field's cases") {
  const std::vector<Case> all = cases();
  CHECK(all.size() > 100);
  for (const Case& c : all) {
    INFO(c.name << "\n" << c.module);
    const auto module = parse_module(c.module);
    propagate(*module, c.options);
    verify_module(*module);
    REQUIRE(!c.expected.empty());
    for (const auto& [name, sharding] : c.expected) {
      INFO(name << " is " << sharding_text(*module, name) << ", expected " << sharding);
      CHECK(is_sharded_as(*find_node(*module, name), sharding));
    }
    // Barriers are gone afterwards, and with them what they held back.
    if (c.module.find("ShardBarrier") != std::string::npos) continue;
    const auto again = parse_module(to_text(*module));
    propagate(*again, c.options);
    CHECK(to_text(*again) == to_text(*module));
  }
}

}  // namespace propagate_field_cases_test
