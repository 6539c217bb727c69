// What holds of completion on any module (the files of tests/data/hlo).

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
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

// The computations of a printed module in another order; names tell which is which.
std::string reordered(const std::string& text, size_t shift) {
  const size_t head = text.find("\n\n");
  std::vector<std::string> blocks;
  for (size_t at = head; at != std::string::npos && at + 2 < text.size();) {
    const size_t next = text.find("\n\n", at + 2);
    blocks.push_back(text.substr(at + 2, next == std::string::npos ? next : next - at - 2));
    at = next;
  }
  std::reverse(blocks.begin(), blocks.end());
  std::rotate(blocks.begin(), blocks.begin() + static_cast<int64_t>(shift % blocks.size()),
              blocks.end());
  std::string result = text.substr(0, head);
  for (const std::string& block : blocks) result += "\n\n" + block;
  return result + "\n";
}

// The same layout with `copies` devices in the place of each one.
Sharding repeated(const Sharding& s, int64_t copies) {
  if (s.is_tuple()) {
    std::vector<Sharding> leaves;
    for (const Sharding& leaf : s.elements()) leaves.push_back(repeated(leaf, copies));
    return Sharding::tuple(std::move(leaves));
  }
  if (!s.is_tiled() || !s.order() || !s.order()->is_iota() || s.mesh()) return s;
  const auto wider = [&](Digits digits) {
    for (Digit& digit : digits) digit.stride *= copies;
    return digits;
  };
  std::vector<Digits> dims;
  for (int64_t d = 0; d < s.rank(); ++d) dims.push_back(wider(s.dim(d)));
  return Sharding::tiled(iota_order(s.order()->count * copies), std::move(dims),
                         wider(s.manual_digits()))
      .with_open(s.open());
}

std::string tile_counts(const Module& module) {
  std::string text;
  const auto add = [&](const Sharding& s) {
    for (int64_t d = 0; d < s.rank(); ++d) text += fmt::format("{} ", s.tiles(d));
  };
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      text += node->name() + ": ";
      if (node->sharding && node->sharding->is_tuple())
        for (const Sharding& leaf : node->sharding->elements()) add(leaf);
      else if (node->sharding)
        add(*node->sharding);
      text += "\n";
    }
  return text;
}

std::map<std::string, std::string> shardings_by_name(const Module& module) {
  std::map<std::string, std::string> result;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      result[computation->name() + "/" + node->name()] =
          node->sharding ? to_string(*node->sharding) : "none";
  return result;
}

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

TEST_CASE("completion of the corpus does not depend on the order of its computations") {
  size_t moved = 0;
  for (const std::string& file : corpus())
    for (const PropagateOptions& options : modes()) {
      const auto module = parse_module(read(file), file);
      const std::string text = to_text(*module);
      propagate(*module, options);
      for (size_t shift = 0; shift < 3; ++shift) {
        const auto other = parse_module(reordered(text, shift), file);
        INFO(file << " shift " << shift << " spmd " << options.spmd);
        REQUIRE(other->computations().size() == module->computations().size());
        for (size_t i = 0; i < module->computations().size(); ++i)
          moved += module->computations()[i]->name() != other->computations()[i]->name() ? 1 : 0;
        propagate(*other, options);
        CHECK(shardings_by_name(*other) == shardings_by_name(*module));
      }
    }
  CHECK(moved > 10);
}

TEST_CASE("completion takes as many sweeps on 65,536 devices as on 8, to the same layouts") {
  size_t compared = 0;
  for (const std::string& file : corpus()) {
    const std::string text = read(file);
    if (text.find("<=[8]") == std::string::npos) continue;
    if (text.find("xla.sdy.meshes") != std::string::npos) continue;  // its own mesh says how many
    INFO(file);
    // Sweeps and tiles with `copies` devices in the place of each of the 8.
    const auto completed_on = [&](int64_t copies) {
      const auto module = parse_module(text, file);
      for (const auto& computation : module->computations())
        for (const auto& node : computation->nodes())
          if (node->sharding) node->sharding = repeated(*node->sharding, copies);
      PropagateStats stats;
      PropagateOptions options;
      options.stats = &stats;
      propagate(*module, options);
      return std::pair{stats.sweeps, tile_counts(*module)};
    };
    CHECK(completed_on(1) == completed_on(8192));
    ++compared;
  }
  CHECK(compared > 3);
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
