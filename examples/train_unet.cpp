// Trains a 3-D U-Net on generated volumes with known masks, split over a simulated mesh along their
// dims.
//   train_unet --mesh d=2,h=2,w=2 --recipe spatial --check
#include <fmt/format.h>

#include <algorithm>

#include "examples/front.h"
#include "examples/volumes.h"
#include "models/unet3d.h"

namespace gspmd::examples {
namespace {

// What is held out is the same for all runs, and far from what they train on.
constexpr uint32_t kHeldOutSeed = 1;
constexpr int64_t kHeldOutFirst = int64_t(1) << 40;

struct Options {
  VolumeOptions volumes;
  int64_t features = 8;
  int64_t levels = 3;
  int64_t norm_groups = 1;
  int64_t heldout = 30;

  void declare(Front& front) {
    front.add_size("depth", volumes.depth, "of a volume");
    front.add_size("height", volumes.height, "");
    front.add_size("width", volumes.width, "");
    front.add_number("noise", volumes.noise, "deviation of a voxel; bodies are 1 brighter");
    front.add_size("features", features, "of the first level");
    front.add_size("levels", levels, "each halves depth, height and width");
    front.add_size("norm-groups", norm_groups, "parts of the batch with statistics of their own");
    front.add_size("heldout", heldout, "volumes to evaluate on");
  }

  models::UNet3dConfig config() const {
    models::UNet3dConfig config;
    config.levels = levels;
    config.features = features;
    config.depth = volumes.depth;
    config.height = volumes.height;
    config.width = volumes.width;
    config.classes = 3;
    config.norm_groups = norm_groups;
    return config;
  }
};

class UNetTask : public Task {
 public:
  UNetTask(const RunOptions& run, const Options& options) : run_(run), own_(options) {}

  std::shared_ptr<const models::Model> model(const Mesh& mesh) const override {
    return std::make_shared<models::UNet3d>(own_.config(), mesh,
                                            models::image_layout_of_recipe(run_.recipe, mesh, 3));
  }
  models::Leaves<Array> batch(int64_t step) const override {
    const VolumeBatch made =
        generated_volumes(own_.volumes, step * run_.batch, run_.batch, run_.seed);
    return {{"volumes", made.volumes}, {"masks", made.masks}};
  }
  std::string data() const override {
    const VolumeOptions& v = own_.volumes;
    return fmt::format("generated volumes of {}x{}x{} with ellipsoids and boxes, {} held out",
                       v.depth, v.height, v.width, own_.heldout);
  }
  std::pair<std::string, std::string> fingerprint() const override {
    return {"volumes", "ellipsoids and boxes"};
  }
  std::string unit() const override { return "voxels"; }
  int64_t units_per_row() const override {
    return own_.volumes.depth * own_.volumes.height * own_.volumes.width;
  }
  Comparison comparison() const override { return {.tolerance = 1e-3, .steps = 20}; }
  int64_t evaluation_batches() const override {
    return (own_.heldout + run_.batch - 1) / run_.batch;
  }
  EvaluationBatch evaluation_batch(int64_t index) const override {
    const int64_t first = index * run_.batch;
    const VolumeBatch made =
        generated_volumes(own_.volumes, kHeldOutFirst + first, run_.batch, kHeldOutSeed);
    return {{{"volumes", made.volumes}, {"masks", made.masks}},
            std::min(run_.batch, own_.heldout - first)};
  }

 private:
  RunOptions run_;
  Options own_;
};

}  // namespace
}  // namespace gspmd::examples

int main(int argc, char** argv) {
  using namespace gspmd::examples;
  RunOptions defaults;
  defaults.recipe = "spatial";
  defaults.batch = 4;
  defaults.steps = 600;
  defaults.lr = 3e-3;
  Options options;
  Front front("train_unet", "Trains a 3-D U-Net on a simulated mesh.", defaults,
              gspmd::models::image_recipe_names());
  options.declare(front);
  return front.main(argc, argv,
                    [&] { return std::make_unique<UNetTask>(front.options(), options); });
}
