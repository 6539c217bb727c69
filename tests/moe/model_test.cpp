// The Transformer with experts: the same losses on every mesh, what it reports, and what a layer
// sends.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "load.h"
#include "models/moe_model.h"
#include "models/trainer.h"
#include "models/transformer_model.h"

namespace gspmd::models {
namespace {

MoeTransformerConfig small_config() {
  MoeTransformerConfig c;
  c.dense.layers = 4;
  c.dense.model = 16;
  c.dense.hidden = 24;
  c.dense.heads = 4;
  c.dense.seq = 12;
  c.dense.vocab = 37;
  c.moe.model = 16;
  c.moe.hidden = 20;
  c.moe.group = 12;
  c.moe.gating.experts = 8;
  c.moe.gating.form = GatingForm::released;
  c.moe.gating.capacity_factor = 1;
  c.moe.gating.min_capacity = 1;  // and then a multiple of 4
  c.z_weight = 0.001;
  return c;
}

TrainerOptions options_of(const MoeTransformerConfig& c, const Mesh& mesh,
                          const std::string& recipe, int64_t batch = 8) {
  TrainerOptions o;
  o.model = std::make_shared<MoeTransformerModel>(
      c, mesh,
      mesh.num_devices() == 1 ? MoeTransformerLayout() : moe_layout_of_recipe(recipe, mesh));
  o.mesh = mesh;
  o.batch = batch;
  o.optimizer.eps = 1e-6;
  o.seed = 3;
  o.threads = 2;
  return o;
}

Leaves<Array> batch_of(const MoeTransformerConfig& c, int64_t rows, uint32_t seed) {
  Leaves<Array> batch = random_batch(c.dense, rows, seed);
  if (c.moe.routing == Routing::top2 && c.moe.gating.second != SecondExpert::all)
    batch.emplace_back("seed", Array::scalar(int32_t(seed)));
  return batch;
}

std::vector<double> losses(const TrainerOptions& options, const MoeTransformerConfig& c,
                           int64_t steps) {
  Trainer trainer(options);
  INFO(to_string(trainer.executable().stats()));
  CHECK(trainer.executable().stats().evaluated.empty());
  std::vector<double> values;
  for (int64_t step = 0; step < steps; ++step)
    values.push_back(trainer.step(batch_of(c, options.batch, 100 + uint32_t(step)), 1e-2).loss);
  return values;
}

double largest_difference(const std::vector<double>& actual, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]) / std::abs(expected[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
  }
  return worst;
}

const Mesh kRow{{"X", 8}};
const Mesh kGrid{{"X", 2}, {"Y", 4}};

}  // namespace

TEST_CASE("moe transformer: 20 steps on (8), (2,4) and one device have the same losses", "[moe]") {
  const int64_t steps = random_load(20);
  for (const GatingForm form : {GatingForm::published, GatingForm::released}) {
    MoeTransformerConfig c = small_config();
    c.moe.gating.form = form;
    const std::vector<double> expected = losses(options_of(c, Mesh(), "experts"), c, steps);
    REQUIRE(expected.back() < (steps < 20 ? 1 : 0.95) * expected.front());
    for (const Mesh& mesh : {kRow, kGrid})
      for (const std::string& recipe : moe_recipe_names()) {
        INFO("form " << int(form) << ", " << recipe << " on " << to_string(mesh));
        const auto actual = losses(options_of(c, mesh, recipe), c, steps);
        CHECK(largest_difference(actual, expected) < 1e-4);
      }
  }
}

TEST_CASE("moe transformer: every kind of routing has the same losses on meshes", "[moe]") {
  struct Kind {
    Routing routing;
    Dispatch dispatch;
  };
  for (const Kind& kind :
       {Kind{Routing::top2, Dispatch::gather}, Kind{Routing::dropless, Dispatch::einsum},
        Kind{Routing::expert_choice, Dispatch::einsum},
        Kind{Routing::expert_choice, Dispatch::gather}}) {
    MoeTransformerConfig c = small_config();
    c.dense.layers = 2;
    c.moe.routing = kind.routing;
    c.moe.dispatch = kind.dispatch;
    const std::vector<double> expected = losses(options_of(c, Mesh(), "experts"), c, 8);
    for (const std::string recipe : {"experts", "hybrid"}) {
      INFO("routing " << int(kind.routing) << ", dispatch " << int(kind.dispatch) << ", "
                      << recipe);
      CHECK(largest_difference(losses(options_of(c, kGrid, recipe), c, 8), expected) < 1e-4);
    }
  }
}

TEST_CASE("moe transformer: pairs of blocks in a loop, and made again, train alike", "[moe]") {
  MoeTransformerConfig c = small_config();
  const std::vector<double> expected = losses(options_of(c, Mesh(), "experts"), c, 4);
  for (const bool scan : {false, true})
    for (const bool remat : {false, true}) {
      c.dense.scan = scan;
      c.dense.remat = remat;
      INFO((scan ? "scan" : "unrolled") << (remat ? ", remat" : ""));
      CHECK(largest_difference(losses(options_of(c, kGrid, "experts"), c, 4), expected) < 1e-5);
    }
}

TEST_CASE("moe transformer: loads and drops of a step, by expert and device", "[moe]") {
  const MoeTransformerConfig c = small_config();
  std::map<std::string, std::vector<double>> found[2];
  for (const bool split : {false, true}) {
    Trainer trainer(options_of(c, split ? kGrid : Mesh(), "experts"));
    const StepResult result = trainer.step(batch_of(c, 8, 7), 1e-3);
    auto& values = found[split ? 1 : 0];
    for (const auto& [name, value] : result.metrics) values[name] = {value};
    const Leaves<Array>& state = trainer.model_state();
    REQUIRE(state.size() == 2);
    for (const auto& [name, counts] : state)
      for (int64_t i = 0; i < counts.size(); ++i) values[name + " of"].push_back(counts.at(i));
    double assigned = 0, kept = 0, most = 0;
    for (int64_t i = 0; i < 16; ++i) {
      assigned += state[0].second.at(i);
      kept += state[1].second.at(i);
      most = std::max(most, state[0].second.at(i));
      CHECK(state[1].second.at(i) <= 8 * 4);  // 8 groups, capacity 12 / 8 rounded up to 4
    }
    CHECK(assigned > 2 * 96);       // first choices of two layers
    CHECK(assigned <= 2 * 2 * 96);  // and second ones
    CHECK(values.at("dropped")[0] == Approx(1 - kept / assigned));
    CHECK(values.at("load_max")[0] == Approx(most / (assigned / 16)));
    CHECK(values.at("aux_loss")[0] > 0.9);
    if (!split) continue;
    const std::vector<double> loads =
        device_loads(state[0].second, kGrid, moe_layout_of_recipe("experts", kGrid).moe);
    double total = 0;
    for (const double load : loads) total += load;
    CHECK(total == assigned);
    CHECK(loads[3] == state[0].second.at(3) + state[0].second.at(8 + 3));
  }
  for (const auto& [name, values] : found[0])
    for (size_t i = 0; i < values.size(); ++i) {
      INFO(name);
      CHECK(found[1].at(name)[i] == Approx(values[i]).epsilon(1e-5));
    }
}

TEST_CASE("moe transformer: padded rows of an evaluation count nowhere", "[moe]") {
  MoeTransformerConfig c = small_config();
  c.moe.group = 4 * c.dense.seq;  // rows 4 to 7, of which one is there, compete
  Trainer trainer(options_of(c, Mesh{{"X", 2}}, "experts"));
  std::vector<double> averages;
  for (const uint32_t padding : {1u, 2u}) {
    Leaves<Array> batch = batch_of(c, 8, 50);
    const Leaves<Array> other = batch_of(c, 8, 50 + padding);
    for (size_t leaf : {0, 1})
      for (int64_t i = 5 * c.dense.seq; i < 8 * c.dense.seq; ++i)
        batch[leaf].second.set(i, other[leaf].second.at(i));
    Trainer::Evaluation evaluation = trainer.evaluation();
    evaluation.add(batch, 5);
    averages.push_back(evaluation.averages().at(0).second);
  }
  CHECK(averages[0] == Approx(averages[1]).epsilon(1e-6));
  CHECK(averages[0] > 1);
}

TEST_CASE("moe transformer: layers, steps and microbatches draw second experts of their own",
          "[moe]") {
  MoeTransformerConfig c = small_config();
  c.moe.gating.second_threshold = 1;  // of equal gates half are kept
  TrainerOptions o = options_of(c, Mesh(), "experts", 16);
  o.optimizer.kind = Optimizer::none;
  const auto second_choices = [&](uint32_t seed) {
    class NoRouter : public MoeTransformerModel {
     public:
      using MoeTransformerModel::MoeTransformerModel;
      Leaves<Array> initial_parameters(uint32_t from) const override {
        Leaves<Array> params = MoeTransformerModel::initial_parameters(from);
        for (auto& [path, value] : params)
          if (path.find("router") != std::string::npos) value = Array(value.shape());
        return params;
      }
    };
    o.model = std::make_shared<NoRouter>(c, Mesh(), MoeTransformerLayout());
    Trainer trainer(o);
    trainer.step(batch_of(c, o.batch, seed), 0);
    const Array assigned = trainer.model_state().at(0).second;
    std::vector<double> counts;
    for (int64_t layer = 0; layer < 2; ++layer) counts.push_back(assigned.at(layer * 8 + 1));
    return counts;
  };
  const std::vector<double> first = second_choices(1), other = second_choices(2);
  for (const std::vector<double>& counts : {first, other})
    for (const double count : counts) {
      CHECK(count > 16 * 12 * 0.3);
      CHECK(count < 16 * 12 * 0.7);
    }
  CHECK(first[0] != first[1]);
  CHECK(first != other);
  o.microbatches = 2;
  // Of two halves that were one and the same the sum would be even.
  int64_t odd = 0;
  for (const uint32_t seed : {1u, 2u, 3u, 4u, 5u, 6u})
    odd += int64_t(std::lround(2 * second_choices(seed)[0])) % 2;
  CHECK(odd > 0);
}

TEST_CASE("moe transformer: microbatches and bf16 train", "[moe]") {
  const MoeTransformerConfig c = small_config();
  TrainerOptions o = options_of(c, kGrid, "experts", 16);
  o.microbatches = 2;
  o.precision.compute = DType::bf16;
  const std::vector<double> values = losses(o, c, 20);
  CHECK(values.back() < 0.97 * values.front());
}

TEST_CASE("moe transformer: wrong configurations are named", "[moe]") {
  const auto message = [](const MoeTransformerConfig& c) {
    try {
      check(c);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using Catch::Contains;
  MoeTransformerConfig c = small_config();
  CHECK(message(c).empty());
  c.dense.layers = 3;
  CHECK_THAT(message(c), Contains("3 layers; every other one has experts"));
  c = small_config();
  c.moe.model = 8;
  CHECK_THAT(message(c), Contains("experts read 8 of f32 where blocks have 16 of f32"));
  c = small_config();
  c.aux_weight = -1;
  CHECK_THAT(message(c), Contains("the weights of losses are -1 and 0.001"));
  CHECK_THROWS_WITH(moe_layout_of_recipe("2d", kGrid),
                    Contains("the recipes are experts, experts-y, hybrid, data"));
}

}  // namespace gspmd::models
