// The fsdp recipe of any model.
#include "models/fsdp.h"

#include <catch2/catch.hpp>

#include "models/trainer.h"
#include "models/transformer_run.h"

namespace gspmd::models {
namespace {

TEST_CASE("fsdp splits the largest dim that divides evenly, else the largest") {
  const Leaves<Shape> shapes = {{"even", Shape(DType::f32, {8, 16, 12})},
                                {"first", Shape(DType::f32, {8, 8})},
                                {"odd", Shape(DType::f32, {5, 9})},
                                {"scalar", Shape(DType::f32, {})},
                                {"small", Shape(DType::f32, {4})}};
  const FsdpOptions o{Mesh{{"x", 2}, {"y", 4}}, {}, 5};
  const std::vector<std::pair<std::string, int64_t>> wanted = {
      {"even", 1}, {"first", 0}, {"odd", 1}, {"scalar", -1}, {"small", -1}};
  CHECK(fsdp_dims(shapes, o) == wanted);
  CHECK(fsdp_dims(shapes, {o.mesh, {"x"}, 0})[4].second == 0);
  CHECK_THROWS_WITH(fsdp_dims(shapes, {o.mesh, {"z"}, 0}), Catch::Contains("z"));
  CHECK_THROWS_WITH(fsdp_model(nullptr, o), Catch::Contains("no model"));
}

TEST_CASE("a model under fsdp holds its share and gathers a layer at a time") {
  TransformerConfig config;
  config.layers = 4;
  config.model = 16;
  config.hidden = 64;
  config.heads = 2;
  config.seq = 4;
  config.vocab = 40;
  config.positions = Positions::learned;
  for (const bool scan : {false, true}) {
    CAPTURE(scan);
    config.scan = scan;
    TrainerOptions o;
    o.mesh = Mesh{{"data", 4}};
    const auto plain =
        std::make_shared<TransformerModel>(config, o.mesh, layout_of_recipe("data", o.mesh));
    o.model = plain;
    o.batch = 4;
    o.optimizer.eps = 1e-6;
    Trainer whole(o);
    o.model = fsdp_model(plain, {o.mesh});
    Trainer sharded(o);
    for (uint32_t i = 0; i < 3; ++i) {
      const auto batch = random_batch(config, o.batch, i);
      CHECK(sharded.step(batch, 1e-3).loss == Approx(whole.step(batch, 1e-3).loss).epsilon(1e-5));
    }
    const ExecutableStats& stats = sharded.executable().stats();
    const ExecutableStats& plain_stats = whole.executable().stats();
    CHECK(stats.parameter_bytes == Approx(plain_stats.parameter_bytes / 4.0).epsilon(0.03));
    // Weights are gathered twice and gradients scattered once, where an all-reduce is two of these.
    CHECK(static_cast<double>(stats.collective_bytes) ==
          Approx(1.5 * static_cast<double>(plain_stats.collective_bytes)).epsilon(0.03));
    CHECK(stats.predicted_peak_bytes < plain_stats.predicted_peak_bytes / 2);
    int64_t reduced = 0, most_gathered = 0;
    for (const CollectiveStats& c : stats.uncombined) {
      if (c.kind == "all-reduce") reduced += c.bytes;
      if (c.kind == "all-gather") most_gathered = std::max(most_gathered, c.bytes / c.count);
    }
    CHECK(reduced == 4 * 2 * 3 / 4);              // the loss
    CHECK(most_gathered == 4 * 16 * 64 * 3 / 4);  // one weight of one layer
  }
}

TEST_CASE("what fsdp leaves whole can be shared by its updates") {
  TransformerConfig config;
  config.layers = 1;
  config.model = 16;
  config.hidden = 32;
  config.heads = 2;
  config.seq = 4;
  config.vocab = 40;
  TrainerOptions o;
  o.mesh = Mesh{{"data", 4}};
  o.model = fsdp_model(
      std::make_shared<TransformerModel>(config, o.mesh, layout_of_recipe("data", o.mesh)),
      {o.mesh, {}, 300});
  o.batch = 4;
  o.optimizer.eps = 1e-6;
  Trainer some(o);
  CHECK(some.executable().parameter_sharding("params.final_norm").is_replicated());
  o.weight_update.axes = {"data"};
  Trainer all(o);
  for (const std::string path : {"params.final_norm", "state.m.final_norm"})
    CHECK(all.executable().parameter_sharding(path).tiles(0) == 4);
  CHECK(all.executable().parameter_sharding("params.blocks.0.w_in") ==
        some.executable().parameter_sharding("params.blocks.0.w_in"));
  const auto batch = random_batch(config, o.batch, 1);
  CHECK(all.step(batch, 1e-3).loss == some.step(batch, 1e-3).loss);
  CHECK(all.step(batch, 1e-3).loss == Approx(some.step(batch, 1e-3).loss).epsilon(1e-6));
}

}  // namespace
}  // namespace gspmd::models
