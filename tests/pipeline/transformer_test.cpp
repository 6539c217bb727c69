// Transformers as pipelines against the plain ones.
#include <catch2/catch.hpp>
#include <cmath>

#include "gspmd/testing.h"
#include "models/pipelined_transformer.h"
#include "models/trainer.h"
#include "test_folder.h"

namespace gspmd::models::transformer_test {
namespace {

TransformerConfig small_config(Form form) {
  TransformerConfig config;
  // The exact form multiplies scores and values: numbers of more layers would not fit.
  config.layers = form == Form::exact ? 2 : 8;
  config.model = 8;
  config.hidden = 12;
  config.heads = 4;
  config.seq = 5;
  config.vocab = 11;
  config.form = form;
  config.dtype = DType::f64;
  config.scan = true;
  return config;
}

constexpr int64_t kRows = 16;

enum class Step : uint8_t { gradients, update };

TrainerOptions trainer_options(std::shared_ptr<const Model> model, const Mesh& mesh, Step step) {
  TrainerOptions options;
  options.model = std::move(model);
  options.mesh = mesh;
  options.batch = kRows;
  options.seed = 3;
  options.threads = 2;
  if (step == Step::gradients) options.optimizer.kind = Optimizer::none;
  return options;
}

// Loss and gradients; those of stacked blocks have their numbers in one order whatever their dims.
std::vector<std::vector<double>> step_numbers(std::shared_ptr<const Model> model, const Mesh& mesh,
                                              const Leaves<Array>& batch) {
  Trainer trainer(trainer_options(std::move(model), mesh, Step::gradients));
  std::vector<std::vector<double>> all{{trainer.step(batch, 0).loss}};
  for (const auto& [path, array] : trainer.gradients()) {
    std::vector<double>& leaf = all.emplace_back();
    for (int64_t i = 0; i < array.size(); ++i) leaf.push_back(array.at(i));
  }
  return all;
}

double largest_difference(const std::vector<std::vector<double>>& a,
                          const std::vector<std::vector<double>>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    for (size_t k = 0; k < a[i].size(); ++k)
      largest = std::max(largest, std::abs(a[i][k] - b[i][k]));
  }
  return largest;
}

PipelineConfig pipeline_of(PipelineKind kind, int64_t stages, const Mesh& mesh) {
  PipelineConfig pipeline;
  pipeline.kind = kind;
  pipeline.stages = stages;
  pipeline.microbatches = 8;
  if (mesh.rank() > 0) pipeline.mesh_axis = "stage";
  return pipeline;
}

std::shared_ptr<const PipelinedTransformerModel> pipelined(const TransformerConfig& config,
                                                           const PipelineConfig& pipeline,
                                                           const Mesh& mesh,
                                                           const std::string& recipe) {
  const Layout layout =
      mesh.rank() > 0 ? pipeline_layout(recipe, mesh, pipeline.mesh_axis) : Layout();
  return std::make_shared<PipelinedTransformerModel>(config, pipeline, mesh, layout);
}

constexpr PipelineKind kKinds[] = {PipelineKind::gpipe, PipelineKind::circular};
const Mesh kCube{{"stage", 2}, {"data", 2}, {"model", 2}};

}  // namespace

TEST_CASE("pipelined transformer: loss and gradients are bit for bit those of one device",
          "[pipeline]") {
  const TransformerConfig config = small_config(Form::exact);
  const auto plain = std::make_shared<TransformerModel>(config, Mesh(), Layout());
  const Leaves<Array> batch = random_batch(config, kRows, 1);
  const auto expected = step_numbers(plain, Mesh(), batch);
  double sum = 0;
  for (const auto& leaf : expected)
    for (const double number : leaf) sum += std::abs(number);
  REQUIRE((sum > 0 && sum < std::pow(2., 53)));
  for (const PipelineKind kind : kKinds) {
    const auto check = [&, kind](int64_t stages, const Mesh& mesh, const std::string& recipe) {
      INFO((kind == PipelineKind::gpipe ? "gpipe, " : "circular, ")
           << stages << " stages on " << to_string(mesh) << ", " << recipe);
      const auto model = pipelined(config, pipeline_of(kind, stages, mesh), mesh, recipe);
      CHECK(step_numbers(model, mesh, batch) == expected);
    };
    for (const int64_t stages : {1, 2}) check(stages, Mesh(), "");
    for (const char* recipe : {"2d", "data", "model", "fsdp"}) check(2, kCube, recipe);
    check(2, Mesh{{"data", 4}, {"stage", 2}}, "data");
  }
}

TEST_CASE("pipelined transformer: gradients by any number of stages", "[pipeline]") {
  const TransformerConfig config = small_config(Form::standard);
  const auto plain = std::make_shared<TransformerModel>(config, Mesh(), Layout());
  const Leaves<Array> batch = random_batch(config, kRows, 1);
  const auto expected = step_numbers(plain, Mesh(), batch);
  for (const PipelineKind kind : kKinds)
    for (const int64_t stages : {1, 2, 4, 8}) {
      INFO((kind == PipelineKind::gpipe ? "gpipe, " : "circular, ") << stages << " stages");
      const auto model = pipelined(config, pipeline_of(kind, stages, Mesh()), Mesh(), "");
      CHECK(largest_difference(step_numbers(model, Mesh(), batch), expected) < 1e-12);
    }
}

TEST_CASE("pipelined transformer: trains and evaluates as one device on pipeline x data x model",
          "[pipeline]") {
  const TransformerConfig config = small_config(Form::standard);
  const auto run = [&](std::shared_ptr<const Model> model, const Mesh& mesh) {
    Trainer trainer(trainer_options(std::move(model), mesh, Step::update));
    std::vector<double> values;
    for (uint32_t step = 0; step < 4; ++step)
      values.push_back(trainer.step(random_batch(config, kRows, 10 + step), 1e-2).loss);
    auto evaluation = trainer.evaluation();
    evaluation.add(random_batch(config, kRows, 99), kRows - 3);
    values.push_back(evaluation.averages().at(0).second);
    return values;
  };
  const std::vector<double> expected =
      run(std::make_shared<TransformerModel>(config, Mesh(), Layout()), Mesh());
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::circular})
    for (const Mesh& mesh : {Mesh(), kCube}) {
      const std::vector<double> got =
          run(pipelined(config, pipeline_of(kind, 2, mesh), mesh, "2d"), mesh);
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(std::abs(got[i] - expected[i]) < 1e-6 * expected[i]);
    }
}

TEST_CASE("pipelined transformer: a checkpoint resumes on another mesh, and without a pipeline",
          "[pipeline]") {
  const TransformerConfig config = small_config(Form::standard);
  for (const PipelineKind kind : kKinds) {
    const TestFolder folder("pipeline");
    Checkpoints checkpoints(folder.path());
    const auto model_on = [&](const Mesh& mesh) {
      return pipelined(config, pipeline_of(kind, 2, mesh), mesh, "2d");
    };
    Trainer first(trainer_options(model_on(kCube), kCube, Step::update));
    first.step(random_batch(config, kRows, 1), 1e-2);
    first.save(checkpoints, 1, {});
    const Leaves<Array> batch = random_batch(config, kRows, 2);
    const double loss = first.step(batch, 1e-2).loss;

    const Mesh other{{"stage", 2}};
    Trainer second(trainer_options(model_on(other), other, Step::update));
    REQUIRE(second.restore(checkpoints) == 1);
    // The same numbers without a pipeline, as one device reads them.
    const auto model = model_on(other);
    const auto plain = [&](TransformerParams<Tensor> params, Tensor tokens, Tensor labels) {
      return Transformer(model->config(), Mesh(), Layout()).loss(params, tokens, labels);
    };
    const TransformerParams<Array> params = model->plain_params(second.params());
    const double plain_loss = compile(plain, {}, params, batch[0].second, batch[1].second)(
                                  params, batch[0].second, batch[1].second)
                                  .item();
    CHECK(std::abs(plain_loss - loss) < 1e-10);
    CHECK(std::abs(second.step(batch, 1e-2).loss - loss) < 1e-10);
  }
}

TEST_CASE("pipelined transformer: inside of the loop only boundaries cross between stages",
          "[pipeline]") {
  const TransformerConfig config = small_config(Form::standard);
  for (const PipelineKind kind : kKinds)
    for (const char* recipe : {"2d", "data", "model", "fsdp"}) {
      const auto model = pipelined(config, pipeline_of(kind, 2, kCube), kCube, recipe);
      TrainerOptions options = trainer_options(model, kCube, Step::update);
      options.prepare = false;
      const Trainer trainer(options);
      const ExecutableStats& stats = trainer.executable().stats();
      INFO(recipe << "\n" << to_string(stats));
      CHECK(stats.full_rematerializations.empty());
      const int64_t iterations = model->schedule().iterations();
      int64_t directions = 0;
      for (const CollectiveStats& s : stats.uncombined) {
        if (s.kind == "collective-permute" && s.count == iterations) {
          ++directions;
          CHECK(s.backward == (directions == 2));
        } else if (s.count >= iterations) {
          // Of a stage with itself.
          INFO(s.kind << " over " << s.axes << " for " << s.op << " " << s.source);
          CHECK(s.axes.find("stage") == std::string::npos);
          CHECK(s.kind != "collective-permute");
        }
      }
      CHECK(directions == 2);
    }
}

TEST_CASE("pipelined transformer: the head is not computed once for each stage", "[pipeline]") {
  TransformerConfig config = small_config(Form::standard);
  config.vocab = 1000;
  const auto flops = [&](const Mesh& mesh) {
    const auto model = std::make_shared<PipelinedTransformerModel>(
        config, pipeline_of(PipelineKind::gpipe, 4, mesh), mesh, Layout());
    TrainerOptions options = trainer_options(model, mesh, Step::gradients);
    options.prepare = false;
    return double(Trainer(options).executable().stats().flops);
  };
  CHECK(flops(Mesh{{"stage", 4}}) < 1.1 * flops(Mesh()) / 4);
}

TEST_CASE("pipelined transformer: what does not fit is told", "[pipeline][errors]") {
  const TransformerConfig config = small_config(Form::standard);
  const auto error_of = [&](PipelineConfig pipeline, const Mesh& mesh) {
    try {
      PipelinedTransformerModel(config, pipeline, mesh, Layout());
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  PipelineConfig pipeline = pipeline_of(PipelineKind::gpipe, 3, Mesh());
  CHECK_THAT(error_of(pipeline, Mesh()),
             Catch::Contains("3 stages do not divide the 8 layers; choose a divisor"));
  pipeline.stages = 2;
  pipeline.mesh_axis = "stage";
  CHECK_THAT(error_of(pipeline, Mesh{{"data", 2}}),
             Catch::Contains("has no axis \"stage\" for the stages"));
  pipeline = pipeline_of(PipelineKind::circular, 4, Mesh());
  pipeline.microbatches = 2;
  CHECK_THAT(error_of(pipeline, Mesh()), Catch::Contains("2 microbatches go round 4 stages"));
  pipeline.microbatches = 8;
  pipeline.rounds = 4;
  CHECK_THAT(error_of(pipeline, Mesh()),
             Catch::Contains("4 stages of 4 blocks do not divide the 8 layers"));
  pipeline.rounds = 2;
  CHECK(error_of(pipeline, Mesh()) == "no error");
  pipeline.microbatches = 7;
  const auto model = pipelined(config, pipeline, Mesh(), "");
  CHECK_THROWS_WITH(Trainer(trainer_options(model, Mesh(), Step::gradients)),
                    Catch::Contains("7 microbatches do not divide the 16 rows"));
}

}  // namespace gspmd::models::transformer_test
