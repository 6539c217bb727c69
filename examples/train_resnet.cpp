// Trains a residual network on images, split over a simulated mesh by batch and height.
//   train_resnet --mesh data=2,height=4 --check
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "examples/front.h"
#include "examples/images.h"
#include "models/resnet.h"

namespace gspmd::examples {
namespace {

struct Options {
  std::string images;  // empty: the digits
  std::string net = "18";
  std::string stem = "small";
  int64_t features = 16;
  int64_t stages = 4;
  int64_t norm_groups = 1;
  int64_t shift = 1;
  double label_smoothing = 0.05;

  void declare(Front& front) {
    front.add_text("images", images,
                   "folder with a folder of .ppm, .pgm or .npy images for each class (default: the "
                   "digits of python3-sklearn)");
    front.add_word("net", net, {"18", "50"}, "layers: basic blocks or bottlenecks");
    front.add_word("stem", stem, {"small", "full"},
                   "3x3, or 7x7 and a pool that quarter the image");
    front.add_size("features", features, "of the first stage; 64 as published");
    front.add_size("stages", stages, "at most 4");
    front.add_size("norm-groups", norm_groups, "parts of the batch with statistics of their own");
    front.add_count("shift", shift, "pixels by which images are shifted at random");
    front.add_number("label-smoothing", label_smoothing, "");
  }

  models::ResNetConfig config(const ImageSet& set) const {
    models::ResNetConfig config = net == "18" ? models::resnet18() : models::resnet50();
    config.blocks.resize(std::min<size_t>(config.blocks.size(), size_t(stages)));
    config.features = features;
    config.stem = stem == "small" ? models::Stem::small : models::Stem::full;
    config.height = set.train.pixels.dim(1);
    config.width = set.train.pixels.dim(2);
    config.channels = set.train.pixels.dim(3);
    config.classes = std::ssize(set.classes);
    config.norm_groups = norm_groups;
    config.identity_blocks = true;
    config.label_smoothing = label_smoothing;
    return config;
  }
};

class ResNetTask : public Task {
 public:
  ResNetTask(const RunOptions& run, const Options& options)
      : run_(run),
        set_(options.images.empty() ? load_digits() : load_image_folder(options.images)),
        config_(options.config(set_)),
        shift_(options.shift) {}

  std::shared_ptr<const models::Model> model(const Mesh& mesh) const override {
    return std::make_shared<models::ResNet>(config_, mesh,
                                            models::image_layout_of_recipe(run_.recipe, mesh, 2));
  }
  models::Leaves<Array> batch(int64_t step) const override {
    const ImageBatch made = random_images(set_.train, run_.batch, shift_, run_.seed, step);
    return {{"images", made.images}, {"labels", made.labels}};
  }
  std::string data() const override {
    return fmt::format("{} {} of {}x{} in {} classes, {} held out", set_.train.count(), set_.name,
                       config_.height, config_.width, config_.classes, set_.heldout.count());
  }
  std::pair<std::string, std::string> fingerprint() const override {
    const auto bytes = set_.train.pixels.bytes();
    return {"images", fmt::format("{} images, fingerprint {:016x}", set_.train.count(),
                                  XXH3_64bits(bytes.data(), bytes.size()))};
  }
  std::string unit() const override { return "images"; }
  Comparison comparison() const override { return {.tolerance = 1e-3, .steps = 20}; }
  int64_t evaluation_batches() const override {
    return (set_.heldout.count() + run_.batch - 1) / run_.batch;
  }
  EvaluationBatch evaluation_batch(int64_t index) const override {
    const int64_t first = index * run_.batch;
    const ImageBatch made = images_from(set_.heldout, first, run_.batch);
    return {{{"images", made.images}, {"labels", made.labels}},
            std::min(run_.batch, set_.heldout.count() - first)};
  }

 private:
  RunOptions run_;
  ImageSet set_;
  models::ResNetConfig config_;
  int64_t shift_;
};

}  // namespace
}  // namespace gspmd::examples

int main(int argc, char** argv) {
  using namespace gspmd::examples;
  RunOptions defaults;
  defaults.recipe = "combined";
  defaults.batch = 64;
  defaults.optimizer = "adamw";
  defaults.steps = 1500;
  Options options;
  Front front("train_resnet", "Trains a residual network on a simulated mesh.", defaults,
              gspmd::models::image_recipe_names());
  options.declare(front);
  return front.main(argc, argv,
                    [&] { return std::make_unique<ResNetTask>(front.options(), options); });
}
