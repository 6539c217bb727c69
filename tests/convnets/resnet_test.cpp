// ResNets: their sizes, the same losses on every mesh with every recipe, and what a device holds
// and sends.
#include "models/resnet.h"

#include <catch2/catch.hpp>

#include "convnets/halos.h"
#include "convnets/small_convnets.h"
#include "gspmd/ir/module.h"
#include "gspmd/passes/pipeline.h"

namespace gspmd::models::resnet_test {
namespace {

constexpr int64_t kRows = 8;
const Mesh kMesh{{"data", 2}, {"height", 4}};

std::vector<double> losses(const ResNetConfig& config, const Mesh& mesh, const std::string& recipe,
                           int64_t steps) {
  return losses_of(trainer_of(resnet_on(config, mesh, recipe), mesh, kRows), config.classes, steps,
                   0.05);
}

Trainer compiled(const ResNetConfig& config, const Mesh& mesh, const std::string& recipe) {
  TrainerOptions options = trainer_of(resnet_on(config, mesh, recipe), mesh, kRows);
  options.prepare = false;
  return Trainer(options);
}

void check_losses(const ResNetConfig& config, const std::vector<Mesh>& meshes, int64_t steps) {
  const std::vector<double> expected = losses(config, Mesh(), "data", steps);
  REQUIRE(std::abs(expected.front() - expected.back()) > 0.05);
  for (const Mesh& mesh : meshes)
    for (const std::string& recipe : image_recipe_names()) {
      INFO(to_string(mesh) << " " << recipe);
      CHECK(largest_difference(losses(config, mesh, recipe, steps), expected) <= 1e-3);
    }
}

// Bytes of all halos of a step by batch and height, images being four bytes a number.
int64_t halo_bytes(const ResNetConfig& config, const Mesh& mesh) {
  const int64_t images = kRows / mesh.size("data"), parts = mesh.size("height");
  int64_t numbers = 0;
  bool first = true;  // the images have no gradient
  for (const ConvSize& c : convolution_sizes(config)) {
    const Halo in = halo_of_input(c.kernel, c.stride), out = halo_of_gradient(c.kernel, c.stride);
    // For the result, and again for the kernel's gradient.
    numbers += 2 * c.in * halo_elements({c.height / parts, c.width}, {parts, 1}, in);
    if (!first)
      numbers += c.out * halo_elements({c.out_height / parts, c.out_width}, {parts, 1}, out);
    first = false;
  }
  return 4 * images * numbers;
}

}  // namespace

TEST_CASE("resnet: the published networks have their numbers of parameters", "[resnet]") {
  CHECK(elements_count(flatten(parameter_shapes(resnet18()))) == 11689512);
  CHECK(elements_count(flatten(parameter_shapes(resnet50()))) == 25557032);
  CHECK(convolution_sizes(resnet50()).size() == 53);
  // The published 4.1e9 multiply-adds of an image; a training step is three passes.
  const ResNet model(resnet50(), Mesh(), {});
  CHECK(model.training_flops(2) / 12 == Approx(4.1e9).epsilon(0.01));
}

TEST_CASE("resnet: blocks may begin as the identity", "[resnet]") {
  for (ResNetConfig config : {resnet18(), resnet50()}) {
    config.features = 8;
    config.identity_blocks = true;
    std::vector<std::string> zeros;
    for (const auto& [path, array] : ResNet(config, Mesh(), {}).initial_parameters(1))
      if (path.ends_with("scale") && array.at(0) == 0) zeros.push_back(path);
    const bool basic = config.kind == ResidualKind::basic;
    CHECK(zeros.size() == (basic ? 8 : 16));
    CHECK(zeros[0] == (basic ? "stages.0.0.convs.1.norm.scale" : "stages.0.0.convs.2.norm.scale"));
  }
}

TEST_CASE("resnet: 20 losses over batch and height are those of one device", "[resnet]") {
  check_losses(small_resnet(), {kMesh, Mesh{{"x", 3}}}, 20);
}

// Rounding that puts an activation on the other side of a relu's kink is rare there.
TEST_CASE("resnet: 20 losses in 64 bits are the same to their last digits", "[resnet]") {
  ResNetConfig config = small_resnet();
  config.dtype = DType::f64;
  const std::vector<double> expected = losses(config, Mesh(), "data", 20);
  for (const Mesh& mesh : {kMesh, Mesh{{"data", 1}, {"height", 3}}})
    CHECK(largest_difference(losses(config, mesh, "combined", 20), expected) <= 1e-11);
}

TEST_CASE("resnet: bottlenecks and the full stem have the losses of one device", "[resnet]") {
  ResNetConfig config = small_resnet();
  config.kind = ResidualKind::bottleneck;
  config.stem = Stem::full;
  config.height = 64;
  config.label_smoothing = 0.1;
  check_losses(config, {kMesh, Mesh{{"a", 2}, {"b", 2}, {"c", 2}}}, 5);
}

TEST_CASE("resnet: rows too few for their devices go to the batch", "[resnet]") {
  ResNetConfig config = small_resnet();
  config.height = 8;  // 8, 4, 2
  check_losses(config, {kMesh}, 5);
  const Trainer step = compiled(config, kMesh, "combined");
  std::vector<Dims> last;  // of the last stage on a device
  for (const auto& node : step.executable().module().local->entry()->nodes())
    if (node->is(Opcode::convolution) && !node->backward && node->dims().back() == 32)
      last.push_back(node->dims());
  CHECK(last == std::vector<Dims>(3, Dims{1, 2, 3, 32}));
  CHECK(step.executable().stats().evaluated.empty());
  // They go before the stage: within it nothing is sent to neighbours.
  for (const CollectiveStats& c : step.executable().stats().uncombined)
    CHECK((c.kind != "collective-permute" || c.op.find("stages.2") == std::string::npos));
}

TEST_CASE("resnet: a device has its part of every activation, and exactly the halo", "[resnet]") {
  const ResNetConfig config = small_resnet();
  const Trainer step = compiled(config, kMesh, "combined");
  CHECK(step.executable().stats().full_rematerializations.empty());
  const std::map<int64_t, int64_t> rows = {{12, 16 / 4}, {6, 8 / 4}, {3, 4 / 4}};  // by width
  int64_t activations = 0, convolutions = 0;
  for (const auto& node : step.executable().module().local->entry()->nodes()) {
    if (node->shape.is_tuple || node->rank() != 4 || node->dim(0) != kRows / 2) continue;
    INFO(node->name() << " " << to_string(node->shape) << " of " << *node->metadata.op_name);
    const bool in_conv = node->metadata.op_name.find("/conv") != std::string::npos;
    if (!in_conv || node->is(Opcode::convolution)) {
      CHECK(node->dim(1) == rows.at(node->dim(2)));
      ++activations;
    }
    if (!node->is(Opcode::convolution) || node->backward || node->operand(1)->dim(0) == 1) continue;
    const Node& read = *node->operand(0);
    const Halo halo = halo_of_input(3, read.dim(2) / node->dim(2));
    CHECK(read.dim(1) == rows.at(read.dim(2)) + halo.low + halo.high);
    ++convolutions;
  }
  CHECK(convolutions == 7);
  CHECK(activations > 100);
}

TEST_CASE("resnet: neighbours send the halos of the formula, and no activation moves whole",
          "[resnet]") {
  const ResNetConfig config = small_resnet();
  for (const Mesh& mesh :
       {kMesh, Mesh{{"data", 4}, {"height", 2}}, Mesh{{"data", 1}, {"height", 4}}}) {
    INFO(to_string(mesh));
    const Trainer step = compiled(config, mesh, "combined");
    CHECK(bytes_to_neighbours(step.executable()) == halo_bytes(config, mesh));
    CHECK(moves_of_whole_values(step.executable()) == std::vector<std::string>{});
  }
  CHECK(bytes_to_neighbours(compiled(config, kMesh, "data").executable()) == 0);
}

TEST_CASE("resnet: what a device needs falls with the devices", "[resnet]") {
  ResNetConfig config = small_resnet();
  config.height = 64;
  config.width = 48;
  const int64_t whole = compiled(config, Mesh(), "data").executable().stats().peak_live_bytes;
  const int64_t part = compiled(config, kMesh, "combined").executable().stats().peak_live_bytes;
  INFO(whole << " " << part);
  CHECK(part < whole / 8 + whole / 40);
}

TEST_CASE("resnet: fsdp holds an eighth of every weight and slot", "[resnet]") {
  const Trainer trainer = compiled(small_resnet(), kMesh, "fsdp");
  const ExecutableBase& step = trainer.executable();
  const std::vector<TracedLeaf>& leaves = step.traced().arguments();
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::string& path = leaves[i].path;
    if (leaves[i].shape.rank() == 0 || path.starts_with("model_state")) continue;
    INFO(path << " " << to_string(step.parameter_sharding(int64_t(i))));
    CHECK(step.parameter_sharding(int64_t(i)).num_tiles() == 8);
  }
}

TEST_CASE("resnet: wrong sizes and layouts are told", "[resnet][errors]") {
  const auto made = [](auto change, const ImageLayout& layout = {}) {
    ResNetConfig config = small_resnet();
    change(config);
    ResNet(config, kMesh, layout);
  };
  const auto same = [](ResNetConfig&) {};
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(made([](ResNetConfig& c) { c.classes = 0; }), Contains("classes is 0"));
  CHECK_THROWS_WITH(made([](ResNetConfig& c) { c.blocks = {2, 0}; }), Contains("stage 1 has 0"));
  CHECK_THROWS_WITH(made([](ResNetConfig& c) { c.blocks.clear(); }), Contains("no stage"));
  CHECK_THROWS_WITH(made([](ResNetConfig& c) { c.dtype = DType::bf16; }), Contains("bf16"));
  CHECK_THROWS_WITH(made(same, {{"data"}, {{"data"}}, {}}), Contains("\"data\" splits two dims"));
  CHECK_THROWS_WITH(made(same, {{}, {{}, {}, {"data"}}, {}}), Contains("3 lists of axes for 2"));
  CHECK_THROWS_WITH(made(same, {{"row"}, {}, {}}), Contains("\"row\""));
  CHECK_THROWS_WITH(image_layout_of_recipe("2d", kMesh, 2), Contains("data, spatial, combined"));
}

}  // namespace gspmd::models::resnet_test
