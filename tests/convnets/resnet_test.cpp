// ResNets: their sizes, and the same losses on every mesh with every recipe.
#include "models/resnet.h"

#include <catch2/catch.hpp>

#include "convnets/small_convnets.h"

namespace gspmd::models {
namespace {

constexpr int64_t kRows = 8;

std::vector<double> losses(const ResNetConfig& config, const Mesh& mesh, const std::string& recipe,
                           int64_t steps) {
  return losses_of(trainer_of(resnet_on(config, mesh, recipe), mesh, kRows), config.classes, steps,
                   0.05);
}

}  // namespace

TEST_CASE("resnet: the published networks have their numbers of parameters", "[resnet]") {
  CHECK(elements_count(flatten(parameter_shapes(resnet18()))) == 11689512);
  CHECK(elements_count(flatten(parameter_shapes(resnet50()))) == 25557032);
  CHECK(convolution_sizes(resnet50()).size() == 53);
}

TEST_CASE("resnet: 20 losses on (2,4) over batch and height are those of one device", "[resnet]") {
  const ResNetConfig config = small_resnet();
  const std::vector<double> expected = losses(config, Mesh(), "data", 20);
  REQUIRE(expected.front() != expected.back());
  const Mesh mesh{{"data", 2}, {"height", 4}};
  for (const std::string& recipe : image_recipe_names()) {
    INFO(recipe);
    const double difference = largest_difference(losses(config, mesh, recipe, 20), expected);
    INFO(difference);
    CHECK(difference <= 1e-3);
  }
}

}  // namespace gspmd::models
