// What each recipe costs, stated per layer: the collectives after unreduced sums and cse and before
// combining, and the sharding of every tensor of a layer.
#include <catch2/catch.hpp>
#include <map>

#include "gspmd/ir/module.h"
#include "gspmd/testing.h"
#include "models/small_models.h"

namespace gspmd::models {
namespace {

const Mesh kMesh{{"X", 2}, {"Y", 4}};

// Every dim has a size of its own, so that dims say which tensor it is: B 4, S 6, M 16, N 8, D 2,
// H 24.
TransformerConfig layer_config(int64_t layers) {
  TransformerConfig config = small_config(DType::f32);
  config.layers = layers;
  config.vocab = 40;
  return config;
}

std::unique_ptr<Trainer> compiled(const std::string& recipe, int64_t layers) {
  TransformerRun options = trainer_on(layer_config(layers), kMesh, recipe, 4);
  options.prepare = false;
  return make_trainer(options);
}

// "forward all-gather Y" -> how many.
using Counts = std::map<std::string, int64_t>;

// The optimizer reads the gradients, so the collective of a weight gradient is caused by its
// update.
std::string phase(const CollectiveStats& c) {
  if (c.backward) return "backward";
  return c.op.find("adam") == std::string::npos ? "forward" : "update";
}

Counts counts(const Trainer& trainer) {
  Counts result;
  for (const CollectiveStats& c : trainer.executable().stats().uncombined) {
    result[fmt::format("{} {} {}", phase(c), c.kind, c.axes)] += c.count;
  }
  return result;
}

// What one more layer adds.
Counts counts_per_layer(const std::string& recipe) {
  Counts three = counts(*compiled(recipe, 3));
  for (const auto& [key, count] : counts(*compiled(recipe, 2))) three[key] -= count;
  for (auto at = three.begin(); at != three.end();) {
    at = at->second == 0 ? three.erase(at) : std::next(at);
  }
  return three;
}

std::string causes(const Trainer& trainer) {
  std::string text;
  for (const CollectiveStats& c : trainer.executable().stats().uncombined) {
    text +=
        fmt::format("{} {} {} x{} for {} {}\n", phase(c), c.kind, c.axes, c.count, c.op, c.source);
  }
  return text;
}

// Annotations of the model's own; differentiation repeats them on the gradients.
int64_t annotations_in_layer(const Module& module, const std::string& scope) {
  int64_t count = 0;
  for (const auto& node : module.entry()->nodes()) {
    const bool annotation = node->is(Opcode::custom_call) && !node->backward;
    if (annotation && node->metadata.op_name.find(scope + "/") != std::string::npos) ++count;
  }
  return count;
}

// Table 1's sharding of a tensor of a layer by its dims, and what is not in the table by its rule:
// no entry for the others (scalars, statistics, masks).
std::map<Dims, std::string> table_of_2d() {
  return {{{4, 6, 16}, "{devices=[2,1,4]<=[8]}"},
          {{4, 6, 8, 2}, "{devices=[2,1,4,1]<=[8]}"},
          {{4, 8, 6, 6}, "{devices=[2,4,1,1]<=[8]}"},
          {{4, 6, 24}, "{devices=[2,1,4]<=[8]}"},
          {{16, 8, 2}, "{devices=[2,4,1]<=[8]}"},
          {{8, 2, 16}, "{devices=[4,1,2]<=[2,4]T(1,0)}"},
          {{16, 24}, "{devices=[2,4]<=[8]}"},
          {{24, 16}, "{devices=[4,2]<=[2,4]T(1,0)}"},
          {{40, 16}, "{devices=[4,2]<=[2,4]T(1,0)}"},
          {{16}, "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}};
}

// "name shape: sharding" of every tensor that is not as the table says.
std::vector<std::string> differences_from_table(const Module& module,
                                                const std::map<Dims, std::string>& table) {
  std::vector<std::string> found;
  for (const auto& node : module.entry()->nodes()) {
    const auto row = table.find(node->shape.dims);
    const bool floating = !node->shape.is_tuple && node->shape.dtype == DType::f32;
    const bool fill = node->is(Opcode::constant) || node->is(Opcode::broadcast);
    if (row == table.end() || !floating || fill) continue;
    const Sharding sharding = node->sharding.value_or(Sharding::replicated());
    if (!equivalent(sharding.with_open({}), parse_sharding(row->second))) {
      found.push_back(
          fmt::format("{} {}: {}", node->name(), to_string(node->shape), to_string_v2(sharding)));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("2d: seven annotations in a layer", "[models]") {
  const auto trainer = compiled("2d", 2);
  CHECK(annotations_in_layer(trainer->executable().traced().module(), "layer0") == 7);
  CHECK(annotations_in_layer(trainer->executable().traced().module(), "layer1") == 7);
}

TEST_CASE("2d: every forward, backward and optimizer tensor is sharded as table 1 says",
          "[models]") {
  const auto trainer = compiled("2d", 2);
  const Module& completed = *trainer->executable().module().completed;
  CHECK(differences_from_table(completed, table_of_2d()) == std::vector<std::string>{});
  CHECK(trainer->executable().stats().full_rematerializations.empty());
}

TEST_CASE("2d: the collectives of a layer", "[models]") {
  INFO(causes(*compiled("2d", 1)));
  const Counts expected = {
      {"forward all-gather Y", 2},       // the inputs of attention and of the feed-forward part
      {"forward reduce-scatter Y", 2},   // after Wo and Wout
      {"forward all-reduce Y", 2},       // statistics of the two norms
      {"forward all-gather X", 6},       // weights
      {"backward all-gather Y", 4},      // dy twice, the saved inputs twice
      {"backward reduce-scatter Y", 2},  // dx
      {"backward all-reduce Y", 2},      // statistics
      {"update reduce-scatter X", 6},    // weight gradients
      {"backward all-gather X", 6},      // weights again
      {"update all-reduce X", 2},        // gradients of norm scales
  };
  CHECK(counts_per_layer("2d") == expected);
}

TEST_CASE("data: one all-reduce per gradient and one for the loss, combined into few", "[models]") {
  const auto trainer = compiled("data", 2);
  INFO(causes(*trainer));
  const int64_t gradients = leaf_count_of(parameter_shapes(layer_config(2)));
  CHECK(expect_collectives(trainer->executable(), {{"all-reduce", "X,Y", gradients + 1}}));
  CHECK(trainer->executable().stats().collective_count <= 2);
  CHECK(counts_per_layer("data") == Counts{{"update all-reduce X,Y", 8}});
}

TEST_CASE("model: two all-reduces per layer and direction, and those of embedding and loss",
          "[models]") {
  const auto trainer = compiled("model", 2);
  INFO(causes(*trainer));
  CHECK(counts_per_layer("model") ==
        Counts{{"forward all-reduce X,Y", 2}, {"backward all-reduce X,Y", 2}});
  // Forward: 4 of layers, embedding, maximum, sum of exponentials, picked logit; backward: 4 of
  // layers and the gradient of the head's input.
  CHECK(expect_collectives(trainer->executable(), {{"all-reduce", "X,Y", 13}}));
}

TEST_CASE("fsdp: every weight and every optimizer slot is split over all devices", "[models]") {
  const auto trainer = compiled("fsdp", 2);
  const ExecutableBase& step = trainer->executable();
  const std::vector<TracedLeaf>& leaves = step.traced().arguments();
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].shape.rank() == 0) continue;
    INFO(leaves[i].path << " " << to_string(step.parameter_sharding(int64_t(i))));
    CHECK(step.parameter_sharding(int64_t(i)).num_tiles() == 8);
  }
}

TEST_CASE("the recipes need no full rematerialisation", "[models]") {
  for (const std::string& recipe : recipe_names()) {
    INFO(recipe);
    const auto trainer = compiled(recipe, 1);
    std::vector<std::string> found;
    for (const FullRematerialization& full :
         trainer->executable().stats().full_rematerializations) {
      found.push_back(full.tensor + " " + full.from + " -> " + full.to + " for " + full.op);
    }
    CHECK(found == std::vector<std::string>{});
  }
}

}  // namespace gspmd::models
