#include "models/unet3d.h"

#include <string>

namespace gspmd::models {
namespace {

// Features of a level, from 0.
int64_t features_of(const UNet3dConfig& config, int64_t level) { return config.features << level; }

// Two 3x3x3 convolutions.
std::vector<NormedConv<Shape>> pair_of(int64_t in, int64_t out, DType dtype) {
  return {normed_conv_shapes(3, 3, in, out, dtype), normed_conv_shapes(3, 3, out, out, dtype)};
}

Conv<Shape> conv_shapes(int64_t size, int64_t in, int64_t out, DType dtype) {
  return {Shape(dtype, {size, size, size, in, out}), Shape(dtype, {out})};
}

Tensor both(ConvolutionPass& convolve, const std::vector<NormedConv<Tensor>>& layers,
            const std::string& path, const Tensor& input) {
  Tensor x = convolve.split().activations(input);
  for (size_t i = 0; i < layers.size(); ++i)
    x = relu(convolve(layers[i], path + "." + std::to_string(i), x));
  return x;
}

// Dice coefficients of the classes but the background: of each row [b,classes-1], or of all rows
// [classes-1]; 1 where there is nothing to find and nothing found. `predicted` and `masks`:
// b,d,h,w,classes, numbers from 0 to 1.
Tensor dice(const Tensor& predicted, const Tensor& masks, const Axes& axes) {
  const auto total = [&](const Tensor& x) {
    const Tensor sums = sum(x, {.axes = axes});
    return slice_dim(sums, -1, 1, sums.dim(-1));
  };
  const Tensor found = total(predicted * masks), size = total(predicted + masks);
  return where(size > 0, 2 * found / maximum(size, 1e-6), 1);
}

}  // namespace

void check(const UNet3dConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {{"levels", config.levels},
                                                   {"features", config.features},
                                                   {"depth", config.depth},
                                                   {"height", config.height},
                                                   {"width", config.width},
                                                   {"channels", config.channels},
                                                   {"norm_groups", config.norm_groups}};
  for (const auto& [name, value] : sizes)
    if (value < 1) user_error("unet3d: {} is {}; it must be at least 1", name, value);
  if (config.classes < 2)
    user_error("unet3d: there are {} classes; give 2 or more, of which 0 is the background",
               config.classes);
  if (config.levels > 16)
    user_error("unet3d: levels is {}; 16 are more than enough", config.levels);
  const int64_t factor = int64_t(1) << (config.levels - 1);
  const std::pair<const char*, int64_t> halved[] = {
      {"depth", config.depth}, {"height", config.height}, {"width", config.width}};
  for (const auto& [name, value] : halved)
    if (value % factor != 0)
      user_error("unet3d: {} levels halve a {} of {} unevenly; give a multiple of {}",
                 config.levels, name, value, factor);
  if (config.dtype != DType::f32 && config.dtype != DType::f64)
    user_error("unet3d: the dtype is {}; f32 and f64 are supported", dtype_name(config.dtype));
}

UNet3dParams<Shape> parameter_shapes(const UNet3dConfig& config) {
  check(config);
  UNet3dParams<Shape> params;
  int64_t in = config.channels;
  for (int64_t level = 0; level < config.levels; ++level) {
    const int64_t features = features_of(config, level);
    params.down.push_back(pair_of(in, features, config.dtype));
    in = features;
    if (level + 1 == config.levels) break;
    params.grow.push_back(conv_shapes(2, 2 * features, features, config.dtype));
    params.up.push_back(pair_of(2 * features, features, config.dtype));
  }
  params.head = conv_shapes(1, config.features, config.classes, config.dtype);
  return params;
}

UNet3d::UNet3d(const UNet3dConfig& config, const Mesh& mesh, const ImageLayout& layout)
    : config_(config), split_(mesh, layout, 3) {
  check(config);
}

BatchNormOptions UNet3d::norm() const {
  return {.momentum = config_.norm_momentum, .groups = config_.norm_groups};
}

Tensor UNet3d::grow(const Conv<Tensor>& layer, const Tensor& x) const {
  const Tensor y = conv_transpose(x, split_.parameter(layer.kernel), "NDHWC,DHWIO->NDHWC",
                                  {.strides = {2, 2, 2}});
  return split_.activations(y + split_.parameter(*layer.bias));
}

Tensor UNet3d::pass(ConvolutionPass& convolve, const UNet3dParams<Tensor>& params,
                    const Tensor& volumes) const {
  std::vector<Tensor> kept;
  Tensor x = volumes;
  for (size_t level = 0; level < params.down.size(); ++level) {
    if (level > 0) x = max_pool(x, {2, 2, 2}, {.strides = {2, 2, 2}});
    x = both(convolve, params.down[level], "down." + std::to_string(level), x);
    kept.push_back(x);
  }
  for (size_t level = params.up.size(); level-- > 0;) {
    const Tensor grown = grow(params.grow[level], x);
    x = both(convolve, params.up[level], "up." + std::to_string(level),
             concatenate({kept[level], grown}, 4));
  }
  return Conv<Tensor>{split_.parameter(params.head.kernel), split_.parameter(*params.head.bias)}(x);
}

std::pair<Tensor, Leaves<Tensor>> UNet3d::train(const UNet3dParams<Tensor>& params,
                                                const Leaves<Tensor>& running,
                                                const Tensor& volumes) const {
  ConvolutionPass convolve = ConvolutionPass::training(split_, norm(), running);
  const Tensor logits = pass(convolve, params, volumes);
  return {logits, convolve.running()};
}

Tensor UNet3d::logits(const UNet3dParams<Tensor>& params, const Leaves<Tensor>& running,
                      const Tensor& volumes) const {
  ConvolutionPass convolve = ConvolutionPass::inference(split_, norm(), running);
  return pass(convolve, params, volumes);
}

Leaves<Shape> UNet3d::parameter_shapes() const {
  return flatten(models::parameter_shapes(config_));
}

Leaves<Array> UNet3d::initial_parameters(uint32_t seed) const {
  return initial_convolutions(parameter_shapes(), seed);
}

Leaves<Shape> UNet3d::state_shapes() const { return running_averages(parameter_shapes()); }

Leaves<Array> UNet3d::initial_state() const { return initial_running_averages(parameter_shapes()); }

Leaves<Shape> UNet3d::batch_shapes(int64_t rows) const {
  const UNet3dConfig& c = config_;
  return {{"volumes", {c.dtype, {rows, c.depth, c.height, c.width, c.channels}}},
          {"masks", {DType::s32, {rows, c.depth, c.height, c.width}}}};
}

Objective UNet3d::objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                            const Leaves<Tensor>& batch) const {
  const auto tree = tree_of(models::parameter_shapes(config_), params);
  auto [logits, running] = train(tree, state, batch.at(0).second);
  if (dtype_size(logits.dtype()) < 4) logits = convert(logits, DType::f32);
  const Tensor masks = split_.activations(batch.at(1).second);
  const Tensor chosen = one_hot(masks, config_.classes, logits.dtype());
  const Tensor overlap = mean(dice(softmax(logits), chosen, {0, 1, 2, 3}));
  return {cross_entropy(logits, masks) + (1 - overlap),
          {{"dice", stop_gradient(overlap)}},
          std::move(running)};
}

Leaves<Tensor> UNet3d::evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                                const Leaves<Tensor>& batch, const Tensor& weight) const {
  const auto tree = tree_of(models::parameter_shapes(config_), params);
  const Tensor scores = logits(tree, state, batch.at(0).second);
  const Tensor masks = split_.activations(batch.at(1).second);
  const Tensor rows = split_.rows(weight);
  const Tensor best = argmax(scores, {.axis = -1});
  const auto hot = [&](const Tensor& classes) {
    return one_hot(classes, config_.classes, DType::f32);
  };
  const Tensor nats = cross_entropy(scores, masks, {.reduction = Reduction::none});
  const Tensor hits = convert(equal(best, masks), DType::f32);
  const Tensor overlap = mean(dice(hot(best), hot(masks), {1, 2, 3}), {.axes = 1});
  return {{"loss", weighted_sum(mean(nats, {.axes = {1, 2, 3}}), rows)},
          {"accuracy", weighted_sum(mean(hits, {.axes = {1, 2, 3}}), rows)},
          {"dice", weighted_sum(overlap, rows)},
          {"count", sum(rows)}};
}

double UNet3d::training_flops(int64_t rows) const {
  const UNet3dConfig& c = config_;
  const double voxels = double(c.depth) * double(c.height) * double(c.width);
  double products = 0;  // of one volume
  for (const auto& [path, shape] : parameter_shapes()) {
    if (!path.ends_with("kernel")) continue;
    const size_t dot = path.find('.');
    const std::string part = path.substr(0, dot);
    const int64_t level = part == "head" ? 0 : std::stoll(path.substr(dot + 1));
    // A grown voxel is the product of one element of the kernel's 2x2x2.
    const double share = part == "grow" ? 1.0 / 8 : 1;
    products += share * double(shape.elements_count()) * voxels / double(int64_t(1) << 3 * level);
  }
  return 6 * products * double(rows);
}

}  // namespace gspmd::models
