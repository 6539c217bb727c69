// 3-D U-Nets: the same losses however the volumes are cut, halos by formula, Dice coefficients.
#include "models/unet3d.h"

#include <catch2/catch.hpp>

#include "convnets/halos.h"
#include "convnets/small_convnets.h"

namespace gspmd::models::unet3d_test {
namespace {

constexpr int64_t kRows = 2;

// Depths of 32, 16 and 8 in three levels.
UNet3dConfig small_unet() {
  UNet3dConfig config;
  config.features = 4;
  config.depth = 32;
  config.height = 8;
  config.width = 8;
  config.channels = 2;
  config.classes = 3;
  return config;
}

TrainerOptions options_of(const UNet3dConfig& config, const Mesh& mesh, const std::string& recipe) {
  return trainer_of(std::make_shared<UNet3d>(config, mesh, image_layout_of_recipe(recipe, mesh, 3)),
                    mesh, kRows);
}

std::vector<double> losses(const Mesh& mesh, const std::string& recipe) {
  const UNet3dConfig config = small_unet();
  return losses_of(options_of(config, mesh, recipe), config.classes, 5, 0.1);
}

// Bytes of all halos of a step, volumes being split over `devices` along each dim.
int64_t halo_bytes(const UNet3dConfig& config, const std::vector<int64_t>& devices) {
  int64_t numbers = 0;
  for (const auto& [path, shape] : flatten(parameter_shapes(config))) {
    const bool halved = path.starts_with("down.") || path.starts_with("up.");
    if (!halved || !path.ends_with("kernel")) continue;  // those of 2x2x2 and 1x1x1 read no halo
    const int64_t level = std::stoll(path.substr(path.find('.') + 1));
    const std::vector<int64_t> shard = {(config.depth >> level) / devices[0],
                                        (config.height >> level) / devices[1],
                                        (config.width >> level) / devices[2]};
    const int64_t elements = halo_elements(shard, devices, {1, 1});
    const int64_t in = shape.dims[3], out = shape.dims[4];
    // For the result, the kernel's gradient, and that of the input; volumes have none.
    numbers += elements * (2 * in + (path == "down.0.0.kernel" ? 0 : out));
  }
  return 4 * kRows * numbers;
}

}  // namespace

TEST_CASE("unet3d: losses are equal split over 2, 4 and 8 devices and over all dims", "[unet3d]") {
  const std::vector<double> expected = losses(Mesh(), "data");
  REQUIRE(expected.front() - expected.back() > 0.05);
  std::vector<std::pair<Mesh, std::string>> cases = {{{{"d", 2}}, "spatial"},
                                                     {{{"d", 4}}, "spatial"},
                                                     {{{"d", 8}}, "spatial"},
                                                     {{{"d", 3}}, "spatial"},
                                                     {{{"d", 2}, {"h", 4}}, "spatial"}};
  for (const std::string& recipe : image_recipe_names())
    cases.push_back({{{"d", 2}, {"h", 2}, {"w", 2}}, recipe});
  for (const auto& [mesh, recipe] : cases) {
    const double difference = largest_difference(losses(mesh, recipe), expected);
    INFO(to_string(mesh) << " " << recipe << " " << difference);
    CHECK(difference <= 1e-5);
  }
}

TEST_CASE("unet3d: neighbours send the halos of the formula and nothing else", "[unet3d]") {
  const UNet3dConfig config = small_unet();
  const std::pair<Mesh, std::vector<int64_t>> cases[] = {
      {Mesh{{"d", 2}}, {2, 1, 1}},
      {Mesh{{"d", 4}}, {4, 1, 1}},
      {Mesh{{"d", 8}}, {8, 1, 1}},
      {Mesh{{"d", 2}, {"h", 2}, {"w", 2}}, {2, 2, 2}}};
  for (const auto& [mesh, devices] : cases) {
    INFO(to_string(mesh));
    TrainerOptions options = options_of(config, mesh, "spatial");
    options.prepare = false;
    const Trainer step(options);
    CHECK(bytes_to_neighbours(step.executable()) == halo_bytes(config, devices));
    CHECK(moves_of_whole_values(step.executable()) == std::vector<std::string>{});
    CHECK(step.executable().stats().full_rematerializations.empty());
  }
}

TEST_CASE("unet3d: what a device needs falls with the devices", "[unet3d]") {
  UNet3dConfig config = small_unet();
  config.height = config.width = 16;
  const auto peak = [&](const Mesh& mesh) {
    TrainerOptions options = options_of(config, mesh, "spatial");
    options.prepare = false;
    return double(Trainer(options).executable().stats().peak_live_bytes);
  };
  const double whole = peak(Mesh());
  for (const int64_t devices : {2, 4, 8}) {
    INFO(devices);
    CHECK(double(devices) * peak(Mesh{{"d", devices}}) < 1.25 * whole);
  }
}

TEST_CASE("unet3d: Dice coefficients are those counted voxel by voxel", "[unet3d]") {
  UNet3dConfig config = small_unet();
  config.depth = 8;
  const Mesh mesh{{"d", 2}, {"h", 2}};
  Trainer trainer(options_of(config, mesh, "combined"));
  CHECK(trainer.executable().stats().evaluated.empty());
  const Model& model = *trainer.options().model;
  for (uint32_t i = 0; i < 10; ++i) trainer.step(random_images(model, kRows, 2, 9 + i), 0.1);
  Leaves<Array> batch = random_images(model, kRows, 2, 1);  // none of class 2
  Trainer::Evaluation evaluation = trainer.evaluation();
  evaluation.add(batch, 1);

  const UNet3d one(config, Mesh(), {});
  const auto best_of = [&](Leaves<Tensor> params, Leaves<Tensor> state, Tensor volumes) {
    return argmax(one.logits(tree_of(parameter_shapes(config), params), state, volumes),
                  {.axis = -1});
  };
  const Array best =
      compile(best_of, {}, one.parameter_shapes(), one.state_shapes(), batch[0].second)(
          trainer.params(), trainer.model_state(), batch[0].second);
  const Array& masks = batch[1].second;
  double dice = 0, hits = 0;
  const int64_t voxels = masks.size() / kRows;
  for (const int c : {1, 2}) {
    double both = 0, either = 0;
    for (int64_t i = 0; i < voxels; ++i) {
      both += best.at(i) == c && masks.at(i) == c;
      either += double(best.at(i) == c) + double(masks.at(i) == c);
      if (c == 1) hits += best.at(i) == masks.at(i);
    }
    dice += (either > 0 ? 2 * both / either : 1) / 2;
  }
  const Leaves<double> averages = evaluation.averages();
  REQUIRE(averages.size() == 3);
  CHECK(averages[1].second == Approx(hits / double(voxels)));
  CHECK(averages[2].second == Approx(dice));
  CHECK(dice > 0.55);  // the class that is not there has a half
}

TEST_CASE("unet3d: wrong sizes are told", "[unet3d][errors]") {
  using Catch::Matchers::Contains;
  const auto made = [](auto change) {
    UNet3dConfig config = small_unet();
    change(config);
    UNet3d(config, Mesh(), {});
  };
  CHECK_THROWS_WITH(made([](UNet3dConfig& c) { c.height = 10; }),
                    Contains("3 levels halve a height of 10 unevenly; give a multiple of 4"));
  CHECK_THROWS_WITH(made([](UNet3dConfig& c) { c.classes = 1; }), Contains("1 classes"));
  CHECK_THROWS_WITH(made([](UNet3dConfig& c) { c.levels = 0; }), Contains("levels is 0"));
  CHECK_THROWS_WITH(made([](UNet3dConfig& c) { c.levels = 63; }), Contains("levels is 63"));
}

TEST_CASE("unet3d: floating point operations are those of the convolutions", "[unet3d]") {
  UNet3dConfig config = small_unet();
  config.levels = 2;
  // Of one volume: 32*8*8 voxels with 27*(2*4 + 4*4) and 27*(8*4 + 4*4) products, 8*4 to grow and
  // 4*3 of the head, and an eighth of them with 27*(4*8 + 8*8).
  const double products = 2048.0 * (27 * 72 + 32 + 12) + 256.0 * 27 * 96;
  CHECK(UNet3d(config, Mesh(), {}).training_flops(3) == 18 * products);
}

}  // namespace gspmd::models::unet3d_test
