#include "models/resnet.h"

#include <algorithm>
#include <utility>

namespace gspmd::models {
namespace {

constexpr int64_t kWiden = 4;  // a bottleneck's last convolution

// One convolution of a block.
struct Part {
  int64_t kernel, stride, in, out;
};

// A block by its convolutions.
struct Block {
  std::vector<Part> convs;
  std::optional<Part> shortcut;
};

Block block_of(ResidualKind kind, int64_t in, int64_t features, int64_t stride) {
  Block block;
  if (kind == ResidualKind::basic)
    block.convs = {{3, stride, in, features}, {3, 1, features, features}};
  else
    block.convs = {
        {1, 1, in, features}, {3, stride, features, features}, {1, 1, features, kWiden * features}};
  const int64_t out = block.convs.back().out;
  if (stride != 1 || in != out) block.shortcut = {1, stride, in, out};
  return block;
}

int64_t stride_of(size_t stage, int64_t index) { return stage > 0 && index == 0 ? 2 : 1; }

std::vector<std::vector<Block>> blocks_of(const ResNetConfig& config) {
  std::vector<std::vector<Block>> stages;
  int64_t in = config.features, features = config.features;
  for (size_t stage = 0; stage < config.blocks.size(); ++stage, features *= 2) {
    std::vector<Block>& blocks = stages.emplace_back();
    for (int64_t i = 0; i < config.blocks[stage]; ++i) {
      blocks.push_back(block_of(config.kind, in, features, stride_of(stage, i)));
      in = blocks.back().convs.back().out;
    }
  }
  return stages;
}

Part stem_of(const ResNetConfig& config) {
  const bool full = config.stem == Stem::full;
  return {full ? 7 : 3, full ? 2 : 1, config.channels, config.features};
}

NormedConv<Shape> shapes_of(const Part& part, DType dtype) {
  return normed_conv_shapes(part.kernel, 2, part.in, part.out, dtype);
}

// Rows of a convolution's result, its padding being half the kernel.
int64_t reduced(int64_t size, int64_t stride) { return (size + stride - 1) / stride; }

Tensor residual(ConvolutionPass& convolve, const ResidualParams<Tensor>& params,
                const std::string& path, const Block& sizes, const Tensor& input) {
  int64_t stride = 1;
  for (const Part& part : sizes.convs) stride *= part.stride;
  const Tensor x = convolve.split().activations(input, stride);
  Tensor y = x;
  for (size_t i = 0; i < params.convs.size(); ++i) {
    if (i > 0) y = relu(y);
    y = convolve(params.convs[i], path + ".convs." + std::to_string(i), y, sizes.convs[i].stride);
  }
  const Tensor kept =
      params.shortcut ? convolve(*params.shortcut, path + ".shortcut", x, stride) : x;
  return relu(y + kept);
}

// How many logits of a row are above that of the label, or are none: b
Tensor places(const Tensor& logits, const Tensor& labels) {
  const Tensor chosen =
      sum(logits * one_hot(labels, logits.dim(1), logits.dtype()), {.axes = 1, .keep_dims = true});
  return sum(convert(logical_not(logits <= chosen), DType::f32), {.axes = 1});
}

}  // namespace

ResNetConfig resnet18() { return {}; }

ResNetConfig resnet50() {
  ResNetConfig config;
  config.kind = ResidualKind::bottleneck;
  config.blocks = {3, 4, 6, 3};
  return config;
}

void check(const ResNetConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"features", config.features}, {"height", config.height},
      {"width", config.width},       {"channels", config.channels},
      {"classes", config.classes},   {"norm_groups", config.norm_groups}};
  for (const auto& [name, value] : sizes)
    if (value < 1) user_error("resnet: {} is {}; it must be at least 1", name, value);
  if (config.blocks.empty())
    user_error("resnet: there is no stage; give the number of blocks of each in `blocks`");
  for (size_t i = 0; i < config.blocks.size(); ++i)
    if (config.blocks[i] < 1)
      user_error("resnet: stage {} has {} blocks; it must have at least 1", i, config.blocks[i]);
  if (config.dtype != DType::f32 && config.dtype != DType::f64)
    user_error("resnet: the dtype is {}; f32 and f64 are supported", dtype_name(config.dtype));
}

ResNetParams<Shape> parameter_shapes(const ResNetConfig& config) {
  check(config);
  ResNetParams<Shape> params;
  params.stem = shapes_of(stem_of(config), config.dtype);
  int64_t features = config.features;
  for (const std::vector<Block>& blocks : blocks_of(config)) {
    auto& stage = params.stages.emplace_back();
    for (const Block& block : blocks) {
      auto& made = stage.emplace_back();
      for (const Part& part : block.convs) made.convs.push_back(shapes_of(part, config.dtype));
      if (block.shortcut) made.shortcut = shapes_of(*block.shortcut, config.dtype);
      features = block.convs.back().out;
    }
  }
  params.head.weight = Shape(config.dtype, {features, config.classes});
  params.head.bias = Shape(config.dtype, {config.classes});
  return params;
}

std::vector<ConvSize> convolution_sizes(const ResNetConfig& config) {
  check(config);
  std::vector<ConvSize> sizes;
  int64_t height = config.height, width = config.width;
  const auto add = [&](const Part& part, int64_t rows, int64_t columns) {
    sizes.push_back({part.kernel, part.stride, part.in, part.out, rows, columns,
                     reduced(rows, part.stride), reduced(columns, part.stride)});
  };
  add(stem_of(config), height, width);
  const int64_t shrink = config.stem == Stem::full ? 2 : 1;
  height = reduced(reduced(height, shrink), shrink);
  width = reduced(reduced(width, shrink), shrink);
  for (const std::vector<Block>& blocks : blocks_of(config))
    for (const Block& block : blocks) {
      int64_t rows = height, columns = width;
      for (const Part& part : block.convs) {
        add(part, rows, columns);
        rows = sizes.back().out_height;
        columns = sizes.back().out_width;
      }
      if (block.shortcut) add(*block.shortcut, height, width);
      height = rows;
      width = columns;
    }
  return sizes;
}

ResNet::ResNet(const ResNetConfig& config, const Mesh& mesh, const ImageLayout& layout)
    : config_(config), split_(mesh, layout, 2) {
  check(config);
}

BatchNormOptions ResNet::norm() const {
  return {.momentum = config_.norm_momentum, .groups = config_.norm_groups};
}

Tensor ResNet::pass(ConvolutionPass& convolve, const ResNetParams<Tensor>& params,
                    const Tensor& images) const {
  Tensor x = split_.activations(images);
  x = relu(convolve(params.stem, "stem", x, stem_of(config_).stride));
  if (config_.stem == Stem::full)
    x = max_pool(x, {3, 3}, {.strides = {2, 2}, .padding = {{1, 1}, {1, 1}}});
  const std::vector<std::vector<Block>> stages = blocks_of(config_);
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (size_t i = 0; i < stages[stage].size(); ++i) {
      const std::string path = "stages." + std::to_string(stage) + "." + std::to_string(i);
      x = residual(convolve, params.stages[stage][i], path, stages[stage][i], x);
    }
  const Linear<Tensor> head{split_.parameter(params.head.weight),
                            split_.parameter(*params.head.bias)};
  return split_.rows(head(mean(x, {.axes = {1, 2}})));
}

std::pair<Tensor, Leaves<Tensor>> ResNet::train(const ResNetParams<Tensor>& params,
                                                const Leaves<Tensor>& running,
                                                const Tensor& images) const {
  ConvolutionPass convolve = ConvolutionPass::training(split_, norm(), running);
  const Tensor logits = pass(convolve, params, images);
  return {logits, convolve.running()};
}

Tensor ResNet::logits(const ResNetParams<Tensor>& params, const Leaves<Tensor>& running,
                      const Tensor& images) const {
  ConvolutionPass convolve = ConvolutionPass::inference(split_, norm(), running);
  return pass(convolve, params, images);
}

Leaves<Shape> ResNet::parameter_shapes() const {
  return flatten(models::parameter_shapes(config_));
}

Leaves<Array> ResNet::initial_parameters(uint32_t seed) const {
  Leaves<Array> params = initial_convolutions(parameter_shapes(), seed);
  if (!config_.identity_blocks) return params;
  const size_t convs = config_.kind == ResidualKind::basic ? 2 : 3;
  const std::string last = ".convs." + std::to_string(convs - 1) + ".norm.scale";
  for (auto& [path, array] : params)
    if (path.ends_with(last)) array = Array(array.shape());
  return params;
}

Leaves<Shape> ResNet::state_shapes() const { return running_averages(parameter_shapes()); }

Leaves<Array> ResNet::initial_state() const { return initial_running_averages(parameter_shapes()); }

Leaves<Shape> ResNet::batch_shapes(int64_t rows) const {
  return {{"images", {config_.dtype, {rows, config_.height, config_.width, config_.channels}}},
          {"labels", {DType::s32, {rows}}}};
}

Objective ResNet::objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                            const Leaves<Tensor>& batch) const {
  const auto tree = tree_of(models::parameter_shapes(config_), params);
  auto [logits, running] = train(tree, state, batch.at(0).second);
  const Tensor labels = split_.rows(batch.at(1).second);
  const Tensor loss = cross_entropy(logits, labels, {.label_smoothing = config_.label_smoothing});
  const Tensor hits = convert(places(stop_gradient(logits), labels) < 1, DType::f32);
  return {loss, {{"accuracy", mean(hits)}}, std::move(running)};
}

Leaves<Tensor> ResNet::evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                                const Leaves<Tensor>& batch, const Tensor& weight) const {
  const auto tree = tree_of(models::parameter_shapes(config_), params);
  const Tensor scores = logits(tree, state, batch.at(0).second);
  const Tensor labels = split_.rows(batch.at(1).second);
  const Tensor rows = split_.rows(weight);
  const Tensor place = places(scores, labels);
  const Tensor nats = cross_entropy(scores, labels, {.reduction = Reduction::none});
  return {{"loss", weighted_sum(nats, rows)},
          {"accuracy", weighted_sum(place < 1, rows)},
          {"top5", weighted_sum(place < 5, rows)},
          {"count", sum(rows)}};
}

double ResNet::training_flops(int64_t rows) const {
  double products = 0;  // of one image
  for (const ConvSize& c : convolution_sizes(config_))
    products += double(c.kernel * c.kernel * c.in * c.out) * double(c.out_height * c.out_width);
  const Shape head = models::parameter_shapes(config_).head.weight;
  products += double(head.elements_count());
  return 6 * products * double(rows);
}

double ResNet::kept_activations(int64_t rows) const {
  double elements = double(config_.height * config_.width * config_.channels);  // of one image
  // What a norm reads, and what it gives behind its activation.
  for (const ConvSize& c : convolution_sizes(config_))
    elements += 2 * double(c.out_height * c.out_width) * double(c.out);
  return elements * double(rows);
}

}  // namespace gspmd::models
