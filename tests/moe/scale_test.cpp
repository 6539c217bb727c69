// What a Transformer with experts sends and needs on a device, and its published sizes.
#include <catch2/catch.hpp>
#include <map>

#include "gspmd/ir/module.h"
#include "models/moe_model.h"
#include "models/trainer.h"

namespace gspmd::models {
namespace {

using Counts = std::map<std::string, int64_t>;

Trainer inspected(const MoeTransformerConfig& c, const Mesh& mesh, const std::string& recipe,
                  int64_t batch, Optimizer optimizer = Optimizer::adam) {
  TrainerOptions o;
  o.model = std::make_shared<MoeTransformerModel>(c, mesh, moe_layout_of_recipe(recipe, mesh));
  o.mesh = mesh;
  o.batch = batch;
  o.optimizer.kind = optimizer;
  o.prepare = false;
  return Trainer(o);
}

MoeTransformerConfig small_config(int64_t experts) {
  MoeTransformerConfig c;
  c.dense.layers = 4;
  c.dense.model = c.moe.model = 16;
  c.dense.hidden = 24;
  c.dense.heads = 4;
  c.dense.seq = c.moe.group = 12;
  c.dense.vocab = 37;
  c.moe.hidden = 20;
  c.moe.gating.experts = experts;
  return c;
}

std::string phase(const CollectiveStats& c) {
  if (c.backward) return "backward";
  return c.op.find("adam") == std::string::npos ? "forward" : "update";
}

Counts counts(const Trainer& trainer) {
  Counts result;
  for (const CollectiveStats& c : trainer.executable().stats().uncombined)
    result[fmt::format("{} {} {}", phase(c), c.kind, c.axes)] += c.count;
  return result;
}

std::string causes(const Trainer& trainer) {
  std::string text;
  for (const CollectiveStats& c : trainer.executable().stats().uncombined)
    text += fmt::format("{} {} {} x{} of {} for {} {}\n", phase(c), c.kind, c.axes, c.count,
                        c.tensor, c.op, c.source);
  return text;
}

// What two more blocks add, one of them with experts.
Counts counts_per_pair(MoeTransformerConfig c, const Mesh& mesh, const std::string& recipe) {
  c.dense.layers = 6;
  Counts six = counts(inspected(c, mesh, recipe, 8));
  c.dense.layers = 4;
  for (const auto& [key, count] : counts(inspected(c, mesh, recipe, 8))) six[key] -= count;
  std::erase_if(six, [](const auto& entry) { return entry.second == 0; });
  return six;
}

}  // namespace

TEST_CASE("moe transformer: a layer of experts sends two all-to-alls forward and two backward",
          "[moe]") {
  for (const Dispatch dispatch : {Dispatch::einsum, Dispatch::gather})
    for (const Mesh& mesh : {Mesh{{"X", 8}}, Mesh{{"X", 2}, {"Y", 4}}}) {
      MoeTransformerConfig c = small_config(8);
      c.moe.dispatch = dispatch;
      const std::string axes = mesh.axes().size() == 1 ? "X" : "X,Y";
      INFO(causes(inspected(c, mesh, "experts", 8)));
      // The weights that every device has: norms, attention and the dense layer, and the router.
      CHECK(counts_per_pair(c, mesh, "experts") == Counts{{"forward all-to-all " + axes, 2},
                                                          {"backward all-to-all " + axes, 2},
                                                          {"update all-reduce " + axes, 15}});
    }
}

TEST_CASE("moe transformer: experts on X, each split over Y, add one sum of each over Y", "[moe]") {
  const Counts found = counts_per_pair(small_config(8), Mesh{{"X", 2}, {"Y", 4}}, "hybrid");
  INFO(causes(inspected(small_config(8), Mesh{{"X", 2}, {"Y", 4}}, "hybrid", 8)));
  const Counts expected = {
      {"forward all-to-all X", 2},  {"backward all-to-all X", 2},
      {"forward all-reduce Y", 4},   // after two attentions, the dense layer and the experts
      {"backward all-reduce Y", 4},  // of what each of them reads
      {"update all-reduce X", 15},   // weights but the experts'
  };
  CHECK(found == expected);
}

// The paper's table 5: with tokens per device fixed, a device's memory and work stay what they are
// while experts and devices grow together.
TEST_CASE("moe transformer: memory and work per device stay, for 4 to 32 experts and devices",
          "[moe]") {
  std::map<int64_t, ExecutableStats> stats;
  for (const int64_t d : {4, 8, 16, 32}) {
    MoeTransformerConfig c = small_config(d);
    c.dense.model = c.moe.model = 64;
    c.dense.hidden = c.moe.hidden = 512;
    c.dense.seq = c.moe.group = 64;
    stats[d] = inspected(c, Mesh{{"X", d}}, "experts", 2 * d).executable().stats();
  }
  const ExecutableStats& first = stats.at(4);
  for (const auto& [d, s] : stats) {
    INFO(d << " devices");
    CHECK(double(s.flops) < 1.1 * double(first.flops));
    CHECK(double(s.predicted_peak_bytes) < 1.1 * double(first.predicted_peak_bytes));
    // What grows is the router: 6 operations per token, expert and model dim, twice as much for
    // twice as many experts, and gating, some tens per token and expert.
    const double tokens = 2 * 64, layers = 2, more = double(d - 4);
    const double router = 6 * tokens * layers * 64 * more;
    const auto grown = double(s.flops - first.flops);
    CHECK(grown >= router);
    CHECK(grown <= router + 200 * tokens * layers * more);
  }
}

namespace {

MoeTransformerConfig published(int64_t experts, int64_t layers) {
  MoeTransformerConfig c;
  c.dense.layers = layers;
  c.dense.model = c.moe.model = 1024;
  c.dense.hidden = c.moe.hidden = 8192;
  c.dense.heads = 16;
  c.dense.seq = c.moe.group = 1024;
  c.dense.vocab = 96 * 1024;  // 64k of the source and 32k of the target
  c.dense.positions = Positions::none;
  c.dense.scan = true;
  c.moe.gating.experts = experts;
  return c;
}

}  // namespace

// GShard's table of models. Its heads are twice as wide as ours, 0.1 to 0.3 billion weights.
TEST_CASE("moe transformer: the published models have the published numbers of weights", "[moe]") {
  struct Row {
    int64_t experts, layers;
    double weights;  // as published, in billions
    int64_t gibi;    // of experts, in units of 2^30
  };
  for (const Row& row : {Row{2048, 36, 600, 576}, Row{2048, 12, 200, 192}, Row{512, 36, 150, 144},
                         Row{512, 12, 50, 48}, Row{128, 36, 37, 36}, Row{128, 12, 12.5, 12}}) {
    const MoeTransformerConfig c = published(row.experts, row.layers);
    INFO(row.experts << " experts, " << row.layers << " layers: " << parameter_count(c));
    CHECK(expert_parameter_count(c) == row.gibi << 30);
    // The paper counts in units of 2^30 and rounds.
    const double gibi = double(parameter_count(c)) / double(int64_t(1) << 30);
    CHECK(gibi == Approx(row.weights).epsilon(0.04));
  }
}

TEST_CASE(
    "moe transformer: 600 billion weights on 2,048 devices compile, and send what they should",
    "[moe]") {
  const Trainer trainer =
      inspected(published(2048, 36), Mesh{{"X", 2048}}, "experts", 4096, Optimizer::adafactor);
  const ExecutableStats& stats = trainer.executable().stats();
  int64_t forward = 0, backward = 0;
  for (const CollectiveStats& c : stats.uncombined)
    if (c.kind == "all-to-all") (c.backward ? backward : forward) += c.count;
  INFO(causes(trainer));
  CHECK(forward == 2 * 18);
  CHECK(backward == 2 * 18);
  // One expert of each layer on a device: 18 * 2 * 1024 * 8192 weights in f32.
  const Leaves<Shape> shapes = trainer.options().model->parameter_shapes();
  const Computation& program = *trainer.executable().module().program->entry();
  int64_t experts = 0;
  for (size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i].first.find("experts.w_") != std::string::npos)
      experts += program.parameters().at(i)->shape.bytes();
  CHECK(experts == int64_t(18) * 2 * 1024 * 8192 * 4);
  CHECK(stats.full_rematerializations.empty());
}

}  // namespace gspmd::models
