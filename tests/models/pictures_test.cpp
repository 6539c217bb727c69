// The pictures in docs/models are those of compiled steps.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "gspmd/ir/module.h"
#include "models/moe_model.h"
#include "models/pipelined_transformer.h"
#include "models/resnet.h"
#include "models/trainer.h"
#include "models/unet3d.h"

namespace gspmd::models {
namespace {

std::string page(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(GSPMD_SOURCE_DIR "/docs/models/" + name + ".md").rdbuf();
  return text.str();
}

Trainer step_of(std::shared_ptr<const Model> model, const Mesh& mesh, int64_t batch) {
  TrainerOptions options;
  options.model = std::move(model);
  options.mesh = mesh;
  options.batch = batch;
  options.prepare = false;
  return Trainer(options);
}

// What a page draws of one compiled step.
class Pictures {
 public:
  Pictures(const std::string& name, const ExecutableBase& step) : text_(page(name)), step_(step) {}

  // An argument or a result, by path.
  void has(const std::string& path) const {
    for (const Node* parameter : step_.module().completed->entry()->parameters())
      if (parameter->name() == path) return has(parameter->shape, step_.parameter_sharding(path));
    FAIL("no parameter " << path);
  }
  // A value that the completed program has, split so.
  void has(const Shape& shape, const SplitDims& split) const {
    const Sharding sharding = sharding_of(step_.mesh(), split);
    bool found = false;
    for (const auto& computation : step_.module().completed->computations())
      for (const auto& node : computation->nodes())
        found = found ||
                (node->shape == shape && node->sharding && equivalent(*node->sharding, sharding));
    CHECK(found);
    has(shape, sharding);
  }

 private:
  void has(const Shape& shape, const Sharding& sharding) const {
    const std::string picture = visualize(shape, sharding);
    INFO(picture);
    CHECK(text_.find(picture) != std::string::npos);
  }
  std::string text_;
  const ExecutableBase& step_;
};

TransformerConfig demo() {
  TransformerConfig config;
  config.layers = 2;
  return config;
}

}  // namespace

TEST_CASE("pictures: the Transformer's 2d recipe", "[models]") {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const Trainer trainer =
      step_of(std::make_shared<TransformerModel>(demo(), mesh, layout_2d(mesh)), mesh, 16);
  const Pictures pictures("transformer", trainer.executable());
  pictures.has("params.blocks.0.w_in");
  pictures.has(Shape(DType::f32, {16, 128, 256}), {{"data"}, {}, {"model"}});
}

TEST_CASE("pictures: tables of experts on both sides of their way", "[models]") {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  MoeTransformerConfig config;
  config.dense = demo();
  config.moe.gating.experts = 8;
  const Trainer trainer = step_of(
      std::make_shared<MoeTransformerModel>(config, mesh, moe_layout_of_recipe("experts-y", mesh)),
      mesh, 16);
  const Pictures pictures("moe", trainer.executable());
  pictures.has("params.sparse.0.experts.w_in");
  const Shape table(DType::f32, {16, 8, 32, 256});
  pictures.has(table, {{"data", "model"}, {}, {}, {}});  // where its tokens are
  pictures.has(table, {{"data"}, {"model"}, {}, {}});    // where its experts are
}

TEST_CASE("pictures: images and volumes", "[models]") {
  const Mesh plane{{"data", 2}, {"height", 4}};
  ResNetConfig digits;
  digits.features = 16;
  digits.stem = Stem::small;
  digits.height = digits.width = 8;
  digits.channels = 1;
  digits.classes = 10;
  const Trainer resnet =
      step_of(std::make_shared<ResNet>(digits, plane, image_combined_layout(plane, 2)), plane, 64);
  const Pictures images("resnet", resnet.executable());
  images.has("batch.images");

  const Mesh space{{"d", 2}, {"h", 2}, {"w", 2}};
  UNet3dConfig volumes;
  volumes.depth = 32;
  volumes.height = volumes.width = 16;
  const Trainer unet =
      step_of(std::make_shared<UNet3d>(volumes, space, image_spatial_layout(space, 3)), space, 4);
  Pictures("unet3d", unet.executable()).has("batch.volumes");
}

TEST_CASE("pictures: stages and shards of weights", "[models]") {
  const Mesh mesh{{"stage", 2}, {"data", 2}, {"model", 2}};
  TransformerConfig config = demo();
  config.layers = 4;
  PipelineConfig pipeline;
  pipeline.stages = 2;
  pipeline.microbatches = 4;
  pipeline.mesh_axis = "stage";
  const Trainer staged = step_of(std::make_shared<PipelinedTransformerModel>(
                                     config, pipeline, mesh, pipeline_layout("2d", mesh, "stage")),
                                 mesh, 16);
  const Pictures stages("pipeline", staged.executable());
  stages.has("params.blocks.0.w_in");

  const Mesh line{{"data", 8}};
  TrainerOptions options;
  options.model = std::make_shared<TransformerModel>(demo(), line, data_layout(line));
  options.mesh = line;
  options.prepare = false;
  options.weight_update.axes = {"data"};
  const Trainer shared(options);
  const Pictures updates("weight_update_sharding", shared.executable());
  updates.has("state.m.blocks.0.w_in");
}

}  // namespace gspmd::models
