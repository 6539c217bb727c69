// What holds of completion on any module (the files of tests/data/hlo).

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

std::vector<std::string> corpus() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/hlo"))
    if (entry.path().extension() == ".hlo") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string read(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<PropagateOptions> modes() { return {{}, open_boundary(), without_spmd()}; }

// Shardings in the order of the nodes, whatever their names.
std::string shardings(const Module& module) {
  std::string text;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      text += (node->sharding ? to_string(*node->sharding) : "none") + "\n";
  return text;
}

}  // namespace

TEST_CASE("completion of the corpus finds nothing new the second time, and is the same each time") {
  const std::vector<std::string> files = corpus();
  REQUIRE(files.size() > 20);
  for (const std::string& file : files)
    for (const PropagateOptions& options : modes()) {
      INFO(file << " spmd " << options.spmd << " open " << options.allow_output.size());
      const auto module = parse_module(read(file), file);
      const auto other = module->clone();
      propagate(*module, options);
      verify_module(*module);
      propagate(*other, options);
      CHECK(to_text(*module) == to_text(*other));
      const auto again = module->clone();
      CHECK_FALSE(propagate(*again, options));
      CHECK(to_text(*again) == to_text(*module));
    }
}

TEST_CASE("completion of the corpus changes no annotation and does not look at names") {
  for (const std::string& file : corpus())
    for (const PropagateOptions& options : modes()) {
      INFO(file << " spmd " << options.spmd << " open " << options.allow_output.size());
      const auto given = parse_module(read(file), file);
      const auto module = given->clone();
      propagate(*module, options);
      for (const auto& computation : given->computations())
        for (const auto& node : computation->nodes()) {
          if (!node->sharding || node->sharding->is_tuple() || !node->sharding->is_tiled())
            continue;
          if (node->is(Opcode::parameter) || node->is_root() || !node->sharding->open().empty())
            continue;
          if (node->sharding->shard_group() != 0 || node->attrs.other.contains("backend_config"))
            continue;  // in a group, or with dims that are left open
          for (const auto& after : module->find(computation->name())->nodes())
            if (after->name() == node->name() && after->sharding)
              CHECK(equivalent(*after->sharding, *node->sharding));
        }
      const auto renamed = given->clone();
      int64_t number = 0;
      for (const auto& computation : renamed->computations())
        for (const auto& node : computation->nodes())
          computation->rename(node.get(), fmt::format("v{}", (number++ * 7919) % 1'000'003));
      propagate(*renamed, options);
      CHECK(shardings(*renamed) == shardings(*module));
    }
}
