#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "models/image_layout.h"
#include "models/model.h"

namespace gspmd::models {

// A convolution without bias and the batch norm behind it.
template <class T>
struct NormedConv {
  T kernel;           // spatial dims, in, out
  BatchNorm<T> norm;  // out
  GSPMD_FIELDS(kernel, norm)
};

// The shapes of one with a kernel of `size` elements along each of `spatial_dims` dims.
NormedConv<Shape> normed_conv_shapes(int64_t size, int64_t spatial_dims, int64_t in, int64_t out,
                                     DType dtype);

// Parameters of a model of such layers by what their paths end in: `kernel` normal numbers by the
// fan-in, `weight` too by the inverse fan-in, `scale` ones and `bias` zeros. A pure function of
// shapes and seed.
Leaves<Array> initial_convolutions(const Leaves<Shape>& shapes, uint32_t seed);

// The running averages of all norms among a model's parameters: of "stem.norm.scale" they are
// "stem.mean" and "stem.variance", in the order of the parameters.
Leaves<Shape> running_averages(const Leaves<Shape>& parameters);
Leaves<Array> initial_running_averages(const Leaves<Shape>& parameters);  // 0 and 1

// What the convolutions of one pass through a model share.
class ConvolutionPass {
 public:
  // Norms use the statistics of their input, by groups of its rows.
  static ConvolutionPass training(const ImageSplit& split, const BatchNormOptions& norm,
                                  const Leaves<Tensor>& running);
  // Norms use the running averages.
  static ConvolutionPass inference(const ImageSplit& split, const BatchNormOptions& norm,
                                   const Leaves<Tensor>& running);

  // Without an activation function. Around each spatial dim stand (size - 1) / 2 zeros. `path`: of
  // the layer in the parameters, "stem".
  Tensor operator()(const NormedConv<Tensor>& layer, const std::string& path, const Tensor& x,
                    int64_t stride = 1);
  const ImageSplit& split() const { return split_; }
  // The running averages, new where layers were called, in their order.
  Leaves<Tensor> running() const { return running_; }

 private:
  ConvolutionPass(const ImageSplit& split, const BatchNormOptions& norm,
                  const Leaves<Tensor>& running, bool trains);
  Tensor& average(const std::string& path);

  const ImageSplit& split_;
  BatchNormOptions norm_;
  Leaves<Tensor> running_;
  std::map<std::string, size_t> places_;  // of running_, by path
  bool trains_;
};

// Sums for an evaluation: `values` [b] under the weights f32[b] of the rows.
Tensor weighted_sum(const Tensor& values, const Tensor& weight);

}  // namespace gspmd::models
