// Evaluation on a mesh: a last batch that is padded counts for its rows, and says what a program on
// the host says of each image.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "convnets/small_convnets.h"
#include "test_folder.h"

namespace gspmd::models::evaluation_test {
namespace {

const Mesh kMesh{{"data", 2}, {"height", 4}};
constexpr int64_t kRows = 8;

ResNetConfig config_of_ten() {
  ResNetConfig config = small_resnet();
  config.classes = 10;
  return config;
}

// Batches of 8, 8 and 3 images that count.
Leaves<double> evaluated(const Trainer& trainer, const ResNetConfig& config) {
  Trainer::Evaluation evaluation = trainer.evaluation();
  for (int64_t i = 0; i < 3; ++i)
    evaluation.add(random_images(*trainer.options().model, kRows, config.classes, uint32_t(50 + i)),
                   i < 2 ? kRows : 3);
  return evaluation.averages();
}

Trainer trained(const ResNetConfig& config, const Mesh& mesh, int64_t steps, bool evaluates) {
  Trainer trainer(trainer_of(resnet_on(config, mesh, "combined"), mesh, kRows));
  for (int64_t i = 0; i < steps; ++i) {
    trainer.step(random_images(*trainer.options().model, kRows, config.classes, uint32_t(i)), 0.05);
    if (evaluates) evaluated(trainer, config);
  }
  return trainer;
}

// The same from logits, image by image.
Leaves<double> on_host(const Trainer& trainer, const ResNetConfig& config) {
  const ResNet one(config, Mesh(), {});
  const auto logits_of = [&](Leaves<Tensor> params, Leaves<Tensor> state, Tensor images) {
    return one.logits(tree_of(parameter_shapes(config), params), state, images);
  };
  const auto logits = compile(logits_of, {}, one.parameter_shapes(), one.state_shapes(),
                              one.batch_shapes(kRows)[0].second);
  double loss = 0, first = 0, five = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const Leaves<Array> batch = random_images(one, kRows, config.classes, uint32_t(50 + i));
    const Array scores = logits(trainer.params(), trainer.model_state(), batch[0].second);
    for (int64_t row = 0; row < (i < 2 ? kRows : 3); ++row) {
      std::vector<double> of_row;
      double total = 0;
      for (int64_t c = 0; c < config.classes; ++c) {
        of_row.push_back(scores.at(row * config.classes + c));
        total += std::exp(of_row.back());
      }
      const double own = of_row[size_t(batch[1].second.at(row))];
      const auto above =
          std::count_if(of_row.begin(), of_row.end(), [&](double x) { return x > own; });
      loss += std::log(total) - own;
      first += above < 1;
      five += above < 5;
    }
  }
  return {{"loss", loss / 19}, {"accuracy", first / 19}, {"top5", five / 19}};
}

void check_equal(const Leaves<double>& actual, const Leaves<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO(expected[i].first);
    CHECK(actual[i].first == expected[i].first);
    CHECK(actual[i].second == Approx(expected[i].second).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("evaluation with a padded last batch is that of the host", "[evaluation]") {
  const ResNetConfig config = config_of_ten();
  for (const Mesh& mesh : {Mesh(), kMesh}) {
    const Trainer trainer = trained(config, mesh, 3, false);
    const Leaves<double> expected = on_host(trainer, config);
    CHECK(expected[1].second < expected[2].second);
    check_equal(evaluated(trainer, config), expected);
  }
}

TEST_CASE("evaluation among the steps is that of a checkpoint on another mesh", "[evaluation]") {
  const ResNetConfig config = config_of_ten();
  const TestFolder folder("convnet-checkpoints");
  Checkpoints checkpoints(folder.path());
  const Trainer among = trained(config, kMesh, 4, true), apart = trained(config, kMesh, 4, false);
  apart.save(checkpoints, 4, {});
  Trainer later(trainer_of(resnet_on(config, Mesh(), "data"), Mesh(), kRows));
  CHECK(later.restore(checkpoints) == 4);
  const Leaves<double> expected = evaluated(among, config);
  check_equal(evaluated(apart, config), expected);
  check_equal(evaluated(later, config), expected);
}

TEST_CASE("evaluation uses the running averages, and no statistics of its batch", "[evaluation]") {
  ResNetConfig config = config_of_ten();
  config.norm_momentum = 0;
  Trainer trainer(trainer_of(resnet_on(config, kMesh, "combined"), kMesh, kRows));
  const Model& model = *trainer.options().model;
  const auto loss_of = [&](const Leaves<Array>& batch, int64_t rows) {
    Trainer::Evaluation evaluation = trainer.evaluation();
    evaluation.add(batch, rows);
    return evaluation.averages().at(0).second;
  };
  Leaves<Array> batch = random_images(model, kRows, config.classes, 1);
  const double before = loss_of(batch, kRows);
  // Without memory the averages are the statistics of the step.
  const double loss = trainer.step(batch, 0).loss;
  CHECK(loss_of(batch, kRows) == Approx(loss).epsilon(1e-5));
  CHECK(before != Approx(loss).epsilon(1e-2));
  const double of_three = loss_of(batch, 3);
  Array& images = batch[0].second;
  for (int64_t i = 3 * images.size() / kRows; i < images.size(); ++i) images.set(i, 100);
  CHECK(loss_of(batch, 3) == Approx(of_three).epsilon(1e-6));
}

TEST_CASE("logits that are no numbers are no hits", "[evaluation]") {
  const ResNetConfig config = config_of_ten();
  Trainer trainer(trainer_of(resnet_on(config, Mesh(), "data"), Mesh(), kRows));
  trainer.step(random_images(*trainer.options().model, kRows, config.classes, 1),
               std::numeric_limits<double>::quiet_NaN());
  const Leaves<double> averages = evaluated(trainer, config);
  CHECK(averages.at(1) == std::pair<std::string, double>("accuracy", 0));
  CHECK(averages.at(2).second == 0);
}

}  // namespace gspmd::models::evaluation_test
