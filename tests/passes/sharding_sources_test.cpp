// That annotations explain what they are said to explain (the files of tests/data/hlo): without all
// that a digit is ascribed to, it is gone.

#include "gspmd/passes/explain/sharding_sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

std::map<std::string, const Node*> nodes_by_name(const Module& module) {
  std::map<std::string, const Node*> result;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      result[computation->name() + "/" + node->name()] = node.get();
  return result;
}

// Completes a copy without the sharding of one node.
std::unique_ptr<Module> completed_without(const Module& given, const Node& annotated) {
  auto module = given.clone();
  for (const auto& node : module->find(annotated.parent().name())->nodes())
    if (node->name() == annotated.name()) node->sharding.reset();
  propagate(*module, open_boundary());
  return module;
}

struct Count {
  int64_t removals = 0, explained = 0, kept = 0;
  std::string first;  // that was kept
};

void count_removal(const Module& with, const ShardingSources& sources, const Module& without,
                   const std::string& name, Count& count) {
  ++count.removals;
  const auto after = nodes_by_name(without);
  for (const auto& [path, node] : nodes_by_name(with)) {
    bool explained = false;
    for (size_t i = 0; i < node->origins.size(); ++i)
      explained |= sources.annotations(*node, i) == std::vector<std::string>{name};
    const auto found = after.find(path);
    if (!explained || found == after.end()) continue;
    ++count.explained;
    const auto& now = found->second->sharding;
    if (!now || !(*now == *node->sharding)) continue;
    ++count.kept;
    if (count.first.empty()) count.first = path + " without " + name;
  }
}

}  // namespace

TEST_CASE("no digit of the corpus outlives the only annotation that it is ascribed to") {
  Count count;
  for (const auto& file : std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/hlo")) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const auto given = parse_module(text.str(), file.path().string());
    const auto with = given->clone();
    propagate(*with, open_boundary());
    const ShardingSources sources(*with);
    for (const auto& computation : given->computations())
      for (const auto& node : computation->nodes()) {
        if (!node->sharding || node->is(Opcode::custom_call)) continue;
        const auto without = completed_without(*given, *node);
        count_removal(*with, sources, *without, node->name(), count);
      }
  }
  INFO(count.first);
  CHECK(count.removals > 50);
  CHECK(count.explained > 100);
  CHECK(count.kept == 0);
}
