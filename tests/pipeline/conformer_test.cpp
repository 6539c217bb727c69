#include "models/conformer.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gspmd/testing.h"
#include "models/trainer.h"

namespace gspmd::models {
namespace {

ConformerConfig small_config() {
  ConformerConfig config;
  config.layers = 4;
  config.model = 8;
  config.hidden = 12;
  config.heads = 2;
  config.kernel = 3;
  config.frames = 6;
  config.features = 5;
  config.classes = 4;
  config.dtype = DType::f64;
  return config;
}

constexpr int64_t kRows = 8;
const Mesh kCube{{"stage", 2}, {"data", 2}, {"model", 2}};

// Frames whose class is the place of their largest feature among the first.
Leaves<Array> batch_of(const ConformerConfig& config, int64_t rows, uint32_t seed) {
  const Array frames =
      random_normal_array(Shape(config.dtype, {rows, config.frames, config.features}), seed);
  Array labels(DType::s32, {rows, config.frames});
  for (int64_t i = 0; i < labels.size(); ++i) {
    int64_t best = 0;
    for (int64_t c = 1; c < config.classes; ++c)
      if (frames.at(i * config.features + c) > frames.at(i * config.features + best)) best = c;
    labels.set(i, double(best));
  }
  return {{"frames", frames}, {"labels", labels}};
}

std::unique_ptr<Trainer> trainer_of(const ConformerConfig& config, PipelineConfig pipeline,
                                    const Mesh& mesh, bool update) {
  if (mesh.rank() > 0) pipeline.mesh_axis = "stage";
  const Layout layout = mesh.rank() > 0 ? pipeline_layout("2d", mesh, "stage") : Layout();
  TrainerOptions options;
  options.model = std::make_shared<ConformerModel>(config, pipeline, mesh, layout);
  options.mesh = mesh;
  options.batch = kRows;
  options.threads = 2;
  if (!update) options.optimizer.kind = Optimizer::none;
  return std::make_unique<Trainer>(options);
}

PipelineConfig pipeline_of(PipelineKind kind, int64_t stages, int64_t microbatches) {
  PipelineConfig pipeline;
  pipeline.kind = kind;
  pipeline.stages = stages;
  pipeline.microbatches = microbatches;
  return pipeline;
}

// Loss, gradients and what the batch norms' averages have become, number by number.
std::vector<double> step_numbers(const PipelineConfig& pipeline, const Mesh& mesh) {
  const ConformerConfig config = small_config();
  const auto trainer = trainer_of(config, pipeline, mesh, false);
  std::vector<double> all{trainer->step(batch_of(config, kRows, 1), 0).loss};
  for (const Leaves<Array>* leaves : {&trainer->gradients(), &trainer->model_state()})
    for (const auto& [path, array] : *leaves)
      for (int64_t i = 0; i < array.size(); ++i) all.push_back(array.at(i));
  return all;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// The blocks one after the other, a micro-batch after the other.
std::vector<double> numbers_by_hand(int64_t microbatches) {
  const ConformerConfig config = small_config();
  const ConformerModel model(config, pipeline_of(PipelineKind::gpipe, 1, microbatches), Mesh(),
                             Layout());
  const ConformerLayer layer(config, Mesh(), Layout());
  const auto shapes = model.parameter_shapes();
  const auto step = [&](Leaves<Tensor> params, Tensor frames, Tensor labels) {
    const auto loss = [&](const Leaves<Tensor>& leaves) {
      const Leaves<Tensor> block_leaves(leaves.begin() + 1, leaves.end() - 1);
      Tensor total;
      std::vector<Tensor> means(size_t(config.layers)), squares = means;
      for (int64_t m = 0; m < microbatches; ++m) {
        const auto rows = range(m, {}, microbatches);
        Tensor x = einsum("btf,fm->btm", frames(rows), leaves.front().second);
        for (int64_t i = 0; i < config.layers; ++i) {
          Leaves<Tensor> one;
          for (const auto& [path, leaf] : block_leaves)
            one.emplace_back(path.substr(path.find('.') + 1), leaf(i));
          const auto [y, said] = layer(tree_of(conformer_block_shapes(config), one), x);
          x = y;
          Tensor& mean_so_far = means[size_t(i)];
          Tensor& square_so_far = squares[size_t(i)];
          mean_so_far = m == 0 ? said.mean : mean_so_far + said.mean;
          square_so_far = m == 0 ? said.square : square_so_far + said.square;
        }
        const Tensor logits = einsum("btm,mc->btc", x, leaves.back().second);
        const Tensor part = cross_entropy(logits, labels(rows));
        total = m == 0 ? part : total + part;
      }
      const double share = (1 - config.momentum) / double(microbatches);
      return std::tuple{total / double(microbatches), stack(means) * share,
                        stack(squares) * share + config.momentum};
    };
    return value_and_grad(loss)(params);
  };
  const Leaves<Array> params = model.initial_parameters(0), batch = batch_of(config, kRows, 1);
  const auto [value, grads] = compile(step, {}, params, batch[0].second, batch[1].second)(
      params, batch[0].second, batch[1].second);
  std::vector<double> all{std::get<0>(value).item()};
  const auto add = [&](const Array& array) {
    for (int64_t i = 0; i < array.size(); ++i) all.push_back(array.at(i));
  };
  for (const auto& leaf : grads) add(leaf.second);
  add(std::get<1>(value));
  add(std::get<2>(value));
  return all;
}

}  // namespace

TEST_CASE("conformer: batch norms see a micro-batch, their averages the mini-batch", "[pipeline]") {
  for (const int64_t microbatches : {1, 4}) {
    const std::vector<double> expected = numbers_by_hand(microbatches);
    INFO(microbatches << " microbatches");
    CHECK(largest_difference(step_numbers(pipeline_of(PipelineKind::gpipe, 1, microbatches), {}),
                             expected) < 1e-11);
  }
}

TEST_CASE(
    "conformer: loss, gradients and averages are the same by any stages, and on pipeline x "
    "data x model",
    "[pipeline]") {
  const std::vector<double> expected = step_numbers(pipeline_of(PipelineKind::gpipe, 1, 4), {});
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::circular}) {
    for (const int64_t stages : {2, 4})
      CHECK(largest_difference(step_numbers(pipeline_of(kind, stages, 4), {}), expected) < 1e-11);
    CHECK(largest_difference(step_numbers(pipeline_of(kind, 2, 4), kCube), expected) < 1e-11);
  }
}

TEST_CASE("conformer: learns, and evaluates by the running averages", "[pipeline]") {
  ConformerConfig config = small_config();
  config.dtype = DType::f32;
  config.layers = 2;
  const auto trainer =
      trainer_of(config, pipeline_of(PipelineKind::circular, 2, 4), Mesh{{"stage", 2}}, true);
  const auto evaluated = [&] {
    auto evaluation = trainer->evaluation();
    for (uint32_t i = 0; i < 4; ++i)
      evaluation.add(batch_of(config, kRows, 1000 + i), i == 3 ? 5 : kRows);
    return evaluation.averages();
  };
  const double before = evaluated().at(0).second;
  for (uint32_t step = 0; step < 250; ++step)
    trainer->step(batch_of(config, kRows, 10 + step), 5e-3);
  const Leaves<double> after = evaluated();
  INFO("loss " << before << " -> " << after.at(0).second << ", accuracy " << after.at(1).second);
  CHECK(after.at(0).second < 0.4 * before);
  CHECK(after.at(1).second > 0.8);
  // A row's result does not depend on those beside it.
  const auto of_row = [&](uint32_t beside) {
    Leaves<Array> batch = batch_of(config, kRows, 7), others = batch_of(config, kRows, beside);
    const int64_t row = config.frames * config.features;
    for (int64_t i = row; i < batch[0].second.size(); ++i)
      batch[0].second.set(i, others[0].second.at(i));
    auto evaluation = trainer->evaluation();
    evaluation.add(batch, 1);
    return evaluation.averages().at(0).second;
  };
  CHECK(of_row(8) == Approx(of_row(9)).epsilon(1e-6));
}

TEST_CASE("conformer: inside of the loop only boundaries cross between stages", "[pipeline]") {
  const ConformerConfig config = small_config();
  PipelineConfig pipeline = pipeline_of(PipelineKind::gpipe, 2, 4);
  pipeline.mesh_axis = "stage";
  TrainerOptions options;
  options.model = std::make_shared<ConformerModel>(config, pipeline, kCube,
                                                   pipeline_layout("2d", kCube, "stage"));
  options.mesh = kCube;
  options.batch = kRows;
  options.prepare = false;
  const Trainer trainer(options);
  const ExecutableStats& stats = trainer.executable().stats();
  INFO(to_string(stats));
  CHECK(stats.full_rematerializations.empty());
  int64_t permutes = 0;
  for (const CollectiveStats& s : stats.uncombined) {
    if (s.count < 5) continue;
    if (s.kind == "collective-permute") ++permutes;
    if (s.kind != "collective-permute") CHECK(s.axes.find("stage") == std::string::npos);
  }
  CHECK(permutes == 2);
}

TEST_CASE("conformer: wrong sizes are told", "[pipeline][errors]") {
  const auto error_of = [](auto change) {
    ConformerConfig config = small_config();
    change(config);
    try {
      check(config);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(error_of([](ConformerConfig& c) { c.frames = 0; }),
             Catch::Contains("conformer: frames is 0; it must be at least 1"));
  CHECK_THAT(error_of([](ConformerConfig& c) { c.heads = 8; }),
             Catch::Contains("8 heads of the model dim 8; choose a multiple of twice the heads"));
  CHECK_THAT(error_of([](ConformerConfig& c) { c.kernel = 4; }),
             Catch::Contains("a kernel of 4 frames has no middle; choose an odd one"));
}

}  // namespace gspmd::models
