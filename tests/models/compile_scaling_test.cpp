// One program for any number of devices: the same instructions, whatever the sizes of the axes.
#include <catch2/catch.hpp>
#include <map>

#include "gspmd/ir/module.h"
#include "load.h"
#include "models/small_models.h"

namespace gspmd::models {
namespace {

// "opcode in stage" -> how many instructions, over all computations.
using Counts = std::map<std::string, int64_t>;

void count(const Module& module, const std::string& stage, Counts& counts) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      ++counts[fmt::format("{} in {}", opcode_name(node->opcode()), stage)];
}

// Batch, model, heads, hidden and vocabulary of at least 1,024, from shapes alone. Weights of up to
// 4 GiB: no choice may depend on how large their shards are.
Counts counts_on(const std::string& recipe, const Mesh& mesh, int64_t model) {
  TransformerRun options;
  options.config.layers = 2;
  options.config.model = model;
  options.config.hidden = 4 * model;
  options.config.heads = 1024;
  options.config.seq = 1024;
  options.config.vocab = model;
  options.batch = 1024;
  options.mesh = mesh;
  options.layout = layout_of_recipe(recipe, mesh);
  options.prepare = false;
  const auto trainer = make_trainer(options);
  const CompiledModule& module = trainer->executable().module();
  Counts counts;
  count(*module.completed, "completed", counts);
  count(*module.uncombined, "uncombined", counts);
  count(*module.local, "local", counts);
  count(*module.program, "program", counts);
  return counts;
}

}  // namespace

// On most of the meshes every dim has fewer elements than there are devices, though none than an
// axis that splits it: a way between two layouts must not split one over all devices in between.
TEST_CASE("one program: 8 devices and 65,536 take the same instructions", "[models]") {
  for (const std::string recipe : {"2d", "2d-attempt1", "2d-attempt2"}) {
    for (const int64_t model : {1024, 16384, 65536}) {
      if (random_load(8) < 8 && model == 16384)
        continue;  // with sanitizers the smallest and largest
      const Counts expected = counts_on(recipe, Mesh{{"x", 2}, {"y", 4}}, model);
      for (const auto& [x, y] : {std::pair{16, 32}, {32, 128}, {128, 512}}) {
        std::string differing;
        Counts found = counts_on(recipe, Mesh{{"x", x}, {"y", y}}, model);
        for (const auto& [what, count] : expected) found[what] -= count;
        for (const auto& [what, count] : found)
          if (count != 0) differing += fmt::format("{} more {}; ", count, what);
        INFO(recipe << " of width " << model << ", " << x << " by " << y);
        CHECK(differing == "");
      }
    }
  }
}

}  // namespace gspmd::models
