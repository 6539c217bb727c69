#include "models/normed_conv.h"

#include <string_view>

namespace gspmd::models {
namespace {

constexpr std::string_view kNorm = ".norm.scale";

// The path of the layer whose norm has this scale; empty: it is none.
std::string normed_layer(const std::string& path) {
  return path.ends_with(kNorm) ? path.substr(0, path.size() - kNorm.size()) : std::string();
}

Array initial_value(const std::string& path, const Shape& shape, uint32_t seed, int64_t stream) {
  if (path.ends_with("kernel")) return he_normal(shape, seed, {.stream = stream});
  if (path.ends_with("weight")) return lecun_normal(shape, seed, {.stream = stream});
  return path.ends_with("scale") ? Array::full(shape, 1) : Array(shape);
}

}  // namespace

NormedConv<Shape> normed_conv_shapes(int64_t size, int64_t spatial_dims, int64_t in, int64_t out,
                                     DType dtype) {
  Dims kernel(static_cast<size_t>(spatial_dims), size);
  kernel.push_back(in);
  kernel.push_back(out);
  return {Shape(dtype, kernel), {Shape(dtype, {out}), Shape(dtype, {out})}};
}

Leaves<Array> initial_convolutions(const Leaves<Shape>& shapes, uint32_t seed) {
  int64_t stream = 0;
  return map_tree(shapes, [&](const std::string& path, const Shape& shape) {
    return initial_value(path, shape, seed, stream++);
  });
}

Leaves<Shape> running_averages(const Leaves<Shape>& parameters) {
  Leaves<Shape> averages;
  for (const auto& [path, shape] : parameters) {
    const std::string layer = normed_layer(path);
    if (layer.empty()) continue;
    averages.emplace_back(layer + ".mean", shape);
    averages.emplace_back(layer + ".variance", shape);
  }
  return averages;
}

Leaves<Array> initial_running_averages(const Leaves<Shape>& parameters) {
  return map_tree(running_averages(parameters), [](const std::string& path, const Shape& shape) {
    return Array::full(shape, path.ends_with(".variance") ? 1 : 0);
  });
}

ConvolutionPass::ConvolutionPass(const ImageSplit& split, const BatchNormOptions& norm,
                                 const Leaves<Tensor>& running, bool trains)
    : split_(split), norm_(norm), running_(running), trains_(trains) {
  for (size_t i = 0; i < running_.size(); ++i) places_[running_[i].first] = i;
}

ConvolutionPass ConvolutionPass::training(const ImageSplit& split, const BatchNormOptions& norm,
                                          const Leaves<Tensor>& running) {
  return {split, norm, running, true};
}

ConvolutionPass ConvolutionPass::inference(const ImageSplit& split, const BatchNormOptions& norm,
                                           const Leaves<Tensor>& running) {
  return {split, norm, running, false};
}

Tensor& ConvolutionPass::average(const std::string& path) {
  const auto place = places_.find(path);
  if (place == places_.end())
    user_error("model: there is no running average \"{}\" in its state", path);
  return running_[place->second].second;
}

Tensor ConvolutionPass::operator()(const NormedConv<Tensor>& layer, const std::string& path,
                                   const Tensor& x, int64_t stride) {
  const NameScope scope(path);
  const Tensor kernel = split_.parameter(layer.kernel);
  const auto spatial = static_cast<size_t>(x.rank() - 2);
  const int64_t around = (kernel.dim(0) - 1) / 2;
  Tensor y = gspmd::Conv<Tensor>{kernel, {}}(
      x,
      {.strides = Dims(spatial, stride), .padding = Padding::Amounts(spatial, {around, around})});
  y = split_.activations(y);
  const BatchNorm<Tensor> norm{split_.parameter(layer.norm.scale),
                               split_.parameter(layer.norm.bias)};
  Tensor &mean = average(path + ".mean"), &variance = average(path + ".variance");
  const BatchStatistics<Tensor> before{mean, variance};
  if (!trains_) return norm.infer(y, before, norm_);
  const auto [normed, after] = norm.train(y, before, norm_);
  mean = after.mean;
  variance = after.variance;
  return normed;
}

Tensor weighted_sum(const Tensor& values, const Tensor& weight) {
  return sum(convert(values, DType::f32) * weight);
}

}  // namespace gspmd::models
