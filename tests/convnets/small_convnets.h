#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "models/resnet.h"
#include "models/trainer.h"

namespace gspmd::models {

// Three stages of one block, images of 16x12 that the last stage sees as 4x3.
inline ResNetConfig small_resnet() {
  ResNetConfig config;
  config.blocks = {1, 1, 1};
  config.features = 8;
  config.stem = Stem::small;
  config.height = 16;
  config.width = 12;
  config.channels = 3;
  config.classes = 5;
  return config;
}

inline std::shared_ptr<const ResNet> resnet_on(const ResNetConfig& config, const Mesh& mesh,
                                               const std::string& recipe) {
  return std::make_shared<ResNet>(config, mesh, image_layout_of_recipe(recipe, mesh, 2));
}

inline TrainerOptions trainer_of(std::shared_ptr<const Model> model, const Mesh& mesh,
                                 int64_t batch) {
  TrainerOptions options;
  options.model = std::move(model);
  options.mesh = mesh;
  options.batch = batch;
  options.optimizer.kind = Optimizer::sgd;
  options.seed = 3;
  options.threads = 1;
  return options;
}

// Integers below `below`.
inline Array random_integers(const Shape& shape, int64_t below, uint32_t seed) {
  const Array uniform = random_uniform_array(Shape(DType::f64, shape.dims), seed);
  Array values(Shape(DType::s32, shape.dims));
  for (int64_t i = 0; i < values.size(); ++i)
    values.set(i, std::floor(uniform.at(i) * double(below)));
  return values;
}

// Normal numbers, and integers below `classes`, of a model's batch.
inline Leaves<Array> random_images(const Model& model, int64_t rows, int64_t classes,
                                   uint32_t seed) {
  return map_tree(model.batch_shapes(rows), [&](const std::string&, const Shape& shape) {
    return shape.dtype == DType::s32 ? random_integers(shape, classes, seed)
                                     : random_normal_array(shape, seed);
  });
}

// The losses of `steps` steps.
inline std::vector<double> losses_of(const TrainerOptions& options, int64_t classes, int64_t steps,
                                     double lr) {
  Trainer trainer(options);
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step)
    losses.push_back(
        trainer.step(random_images(*options.model, options.batch, classes, uint32_t(step)), lr)
            .loss);
  return losses;
}

// The largest relative difference; infinite where a number is no number.
inline double largest_difference(const std::vector<double>& actual,
                                 const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(actual.at(i) - expected[i]) / std::abs(expected[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
  }
  return worst;
}

}  // namespace gspmd::models
