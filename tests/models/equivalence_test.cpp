// One source, every mesh and every recipe: the same losses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "load.h"
#include "models/small_models.h"

namespace gspmd::models {
namespace {

const int64_t kSteps = random_load(20);

double largest_difference(const std::vector<double>& actual, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]) / std::abs(expected[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
  }
  return worst;
}

void check_all_meshes(const TransformerConfig& config, Optimizer optimizer, double tolerance) {
  TransformerRun single = trainer_on(config, Mesh(), "data");
  single.optimizer.kind = optimizer;
  const std::vector<double> expected = losses(single, kSteps);
  REQUIRE(expected.front() > 1);
  REQUIRE(expected.front() != expected.back());
  for (const Mesh& mesh : test_meshes()) {
    for (const std::string& recipe : recipe_names()) {
      INFO(to_string(mesh) << " recipe " << recipe);
      TransformerRun options = trainer_on(config, mesh, recipe);
      options.optimizer.kind = optimizer;
      CHECK(largest_difference(losses(options, kSteps), expected) <= tolerance);
    }
  }
}

TransformerConfig other_form(DType dtype) {
  TransformerConfig config = small_config(dtype);
  config.norm = Norm::layer;
  config.bias = true;
  config.positions = Positions::none;
  config.head = Head::untied;
  return config;
}

}  // namespace

TEST_CASE("20 steps of SGD in f32 give the same losses on every mesh with every recipe",
          "[models]") {
  check_all_meshes(small_config(DType::f32), Optimizer::sgd, 2e-4);
}

TEST_CASE("20 steps of Adam in f32 give the same losses on every mesh with every recipe",
          "[models]") {
  check_all_meshes(small_config(DType::f32), Optimizer::adam, 2e-4);
}

TEST_CASE("20 steps of SGD in f64 give the same losses on every mesh with every recipe",
          "[models]") {
  check_all_meshes(small_config(DType::f64), Optimizer::sgd, 1e-10);
}

TEST_CASE("20 steps of Adam in f64 give the same losses on every mesh with every recipe",
          "[models]") {
  check_all_meshes(small_config(DType::f64), Optimizer::adam, 1e-10);
}

TEST_CASE("layer norm, biases, no positions and an untied head give the same losses too",
          "[models]") {
  check_all_meshes(other_form(DType::f64), Optimizer::adamw, 1e-10);
}

TEST_CASE("two layers on a mesh with devices in another order give the same losses", "[models]") {
  TransformerConfig config = small_config(DType::f64);
  config.layers = 2;
  const std::vector<double> expected = losses(trainer_on(config, Mesh(), "data"), 5);
  const Mesh permuted({{"a", 2}, {"b", 4}}, {0, 5, 2, 7, 4, 1, 6, 3});
  for (const std::string& recipe : recipe_names()) {
    INFO(recipe);
    CHECK(largest_difference(losses(trainer_on(config, permuted, recipe), 5), expected) <= 1e-10);
  }
}

}  // namespace gspmd::models
