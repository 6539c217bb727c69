#pragma once

// Layers as structs of parameters: `init` makes them on the host, a call inside of a traced
// function applies them. Linear<Array>, a leaf of a model, becomes Linear<Tensor> in the function.

#include <optional>
#include <string_view>
#include <utility>

#include "gspmd/api/convolution.h"
#include "gspmd/api/fields.h"
#include "gspmd/api/init.h"
#include "gspmd/api/nn.h"
#include "gspmd/api/tree.h"
#include "gspmd/base/export.h"

namespace gspmd {

namespace detail {
// A parameter that may be absent.
template <class T>
std::optional<Operand> optional_operand(const std::optional<T>& value, Site site) {
  return value ? std::optional<Operand>(Operand(*value, site)) : std::nullopt;
}
// --- The layers below, on their parameters
GSPMD_API Tensor linear(const Operand& x, const Operand& weight, const std::optional<Operand>& bias,
                        Site site);
GSPMD_API Tensor embed(const Operand& ids, const Operand& table, Site site);
GSPMD_API Tensor attend_embedding(const Operand& x, const Operand& table, Site site);
GSPMD_API Tensor convolve(const Operand& x, const Operand& kernel,
                          const std::optional<Operand>& bias, std::string_view layout,
                          const ConvOptions& options, Site site);
struct NamedSize {
  const char* name;
  int64_t size;
};
GSPMD_API void check_sizes(const char* op, std::initializer_list<NamedSize> sizes, Site site);
}  // namespace detail

// How Linear and Conv are made.
struct LayerOptions {
  bool bias = true;          // whether it has one, zeros
  DType dtype = DType::f32;  // of the parameters
  int64_t stream = 0;        // independent numbers from one seed
};

// x [..., in] -> x weight + bias, [..., out].
template <class T>
struct Linear {
  T weight;               // [in,out]
  std::optional<T> bias;  // [out]
  GSPMD_FIELDS(weight, bias)

  // Weights by glorot_uniform. UserError: a size below 1.
  static Linear init(int64_t in, int64_t out, uint32_t seed, const LayerOptions& options = {},
                     Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("linear", {{"in", in}, {"out", out}}, site);
    Linear layer{glorot_uniform({options.dtype, {in, out}}, seed, {.stream = options.stream}, site),
                 {}};
    if (options.bias) layer.bias = Array(options.dtype, {out});
    return layer;
  }
  // UserError: the last dim of x is not `in`, or another dtype.
  Tensor operator()(const Operand& x) const {
    return detail::linear(x, Operand(weight, x.site()), detail::optional_operand(bias, x.site()),
                          x.site());
  }
};

// How Embedding is made.
struct EmbeddingOptions {
  double stddev = 1;         // of the table's normal numbers
  DType dtype = DType::f32;  // of the table
  int64_t stream = 0;        // independent numbers from one seed
};

// A row of a table for each number.
template <class T>
struct Embedding {
  T table;  // [vocab,features]
  GSPMD_FIELDS(table)

  // UserError: a size below 1.
  static Embedding init(int64_t vocab, int64_t features, uint32_t seed,
                        const EmbeddingOptions& options = {},
                        Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("embedding", {{"vocab", vocab}, {"features", features}}, site);
    return {truncated_normal({options.dtype, {vocab, features}}, seed,
                             {.stddev = options.stddev, .stream = options.stream}, site)};
  }
  // ids [...] integers -> [..., features]; ids outside 0, ..., vocab - 1 take the nearest row.
  Tensor operator()(const Operand& ids) const {
    return detail::embed(ids, Operand(table, ids.site()), ids.site());
  }
  // x [..., features] times every row: [..., vocab], the logits of a model whose input and output
  // embeddings are one (Press and Wolf 2016). As flax.linen.Embed.attend.
  Tensor attend(const Operand& x) const {
    return detail::attend_embedding(x, Operand(table, x.site()), x.site());
  }
};

// A convolution with a bias for each feature.
template <class T>
struct Conv {
  T kernel;               // spatial dims, then [in / groups, out]
  std::optional<T> bias;  // [out]
  GSPMD_FIELDS(kernel, bias)

  // `kernel`: its spatial dims, in / groups, out, as {3, 3, 16, 32}. Weights by he_normal.
  // UserError: a size below 1, or fewer than 2 dims.
  static Conv init(const Dims& kernel, uint32_t seed, const LayerOptions& options = {},
                   Site site = Site::here()) requires std::same_as<T, Array> {
    for (const int64_t size : kernel) detail::check_sizes("conv", {{"a kernel size", size}}, site);
    Conv layer{he_normal({options.dtype, kernel}, seed, {.stream = options.stream}, site), {}};
    if (options.bias) layer.bias = Array(options.dtype, {kernel.back()});
    return layer;
  }
  // x is [batch, spatial dims, in]; `layout` as conv()'s where it is given.
  Tensor operator()(const Operand& x, const ConvOptions& options = {},
                    std::string_view layout = {}) const {
    return detail::convolve(x, Operand(kernel, x.site()), detail::optional_operand(bias, x.site()),
                            layout, options, x.site());
  }
};

// Scale and bias of layer_norm(), or of rms_norm() without bias.
template <class T>
struct LayerNorm {
  T scale, bias;  // [features]
  GSPMD_FIELDS(scale, bias)

  // Ones and zeros. UserError: features below 1.
  static LayerNorm init(int64_t features, DType dtype = DType::f32,
                        Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("layer_norm", {{"features", features}}, site);
    return {Array::full({dtype, {features}}, 1), Array(dtype, {features})};
  }
  // Over the last dim.
  Tensor operator()(const Operand& x, const NormOptions& options = {}) const {
    return layer_norm(x, Operand(scale, x.site()), Operand(bias, x.site()), options);
  }
};

// Scale of rms_norm().
template <class T>
struct RmsNorm {
  T scale;  // [features]
  GSPMD_FIELDS(scale)

  // Ones. UserError: features below 1.
  static RmsNorm init(int64_t features, DType dtype = DType::f32,
                      Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("rms_norm", {{"features", features}}, site);
    return {Array::full({dtype, {features}}, 1)};
  }
  // Over the last dim.
  Tensor operator()(const Operand& x, const NormOptions& options = {}) const {
    return rms_norm(x, Operand(scale, x.site()), options);
  }
};

// How GroupNorm normalises.
struct GroupNormOptions {
  int64_t groups = 32;  // of features; divides them
  int64_t axis = -1;    // the dim of the features
  double eps = 1e-6;    // added to the variance
};
// Of each element of dim 0 and each group of features, over all other dims: (x - mean) /
// sqrt(variance + eps) * scale + bias; scale and bias [features]. Wu and He 2018.
GSPMD_API Tensor group_norm(Operand x, Operand scale, Operand bias,
                            const GroupNormOptions& options = {});

// Scale and bias of group_norm().
template <class T>
struct GroupNorm {
  T scale, bias;  // [features]
  GSPMD_FIELDS(scale, bias)

  // Ones and zeros. UserError: features below 1.
  static GroupNorm init(int64_t features, DType dtype = DType::f32,
                        Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("group_norm", {{"features", features}}, site);
    return {Array::full({dtype, {features}}, 1), Array(dtype, {features})};
  }
  // As group_norm().
  Tensor operator()(const Operand& x, const GroupNormOptions& options = {}) const {
    return group_norm(x, Operand(scale, x.site()), Operand(bias, x.site()), options);
  }
};

// How BatchNorm normalises.
struct BatchNormOptions {
  int64_t axis = -1;      // the dim of the features
  double eps = 1e-5;      // added to the variance
  double momentum = 0.9;  // what remains of the running averages in a step; 0 to 1
  // Parts of the batch, dim 0, with statistics of their own: 1, of the whole batch, whatever its
  // sharding. As many as the devices that split the batch: each normalises by its own rows, and
  // nothing is sent forward but for the running averages.
  int64_t groups = 1;
};

// Running averages of BatchNorm, returned as state.
template <class T>
struct BatchStatistics {
  T mean, variance;  // [features]
  GSPMD_FIELDS(mean, variance)

  // Those before the first step: mean 0, variance 1. UserError: features below 1.
  static BatchStatistics init(int64_t features, DType dtype = DType::f32,
                              Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("batch_norm", {{"features", features}}, site);
    return {Array(dtype, {features}), Array::full({dtype, {features}}, 1)};
  }
};

namespace detail {
// {y, running averages}
GSPMD_API std::pair<Tensor, BatchStatistics<Tensor>> batch_norm_train(
    const Operand& x, const Operand& scale, const Operand& bias, const Operand& mean,
    const Operand& variance, const BatchNormOptions& options, Site site);
GSPMD_API Tensor batch_norm_infer(const Operand& x, const Operand& scale, const Operand& bias,
                                  const Operand& mean, const Operand& variance,
                                  const BatchNormOptions& options, Site site);
}  // namespace detail

// Ioffe and Szegedy 2015: (x - mean) / sqrt(variance + eps) * scale + bias, with the statistics of
// each feature over all other dims.
template <class T>
struct BatchNorm {
  T scale, bias;  // [features]
  GSPMD_FIELDS(scale, bias)

  // Ones and zeros. UserError: features below 1.
  static BatchNorm init(int64_t features, DType dtype = DType::f32,
                        Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("batch_norm", {{"features", features}}, site);
    return {Array::full({dtype, {features}}, 1), Array(dtype, {features})};
  }
  // Normalised by the statistics of x: {y, new running averages}, to which the variance adds
  // undivided by n - 1; no gradient flows into them. UserError: groups that do not divide the
  // batch.
  template <class S>
  std::pair<Tensor, BatchStatistics<Tensor>> train(const Operand& x,
                                                   const BatchStatistics<S>& running,
                                                   const BatchNormOptions& options = {}) const {
    const Site s = x.site();
    return detail::batch_norm_train(x, Operand(scale, s), Operand(bias, s),
                                    Operand(running.mean, s), Operand(running.variance, s), options,
                                    s);
  }
  // Normalised by the running averages.
  template <class S>
  Tensor infer(const Operand& x, const BatchStatistics<S>& running,
               const BatchNormOptions& options = {}) const {
    const Site s = x.site();
    return detail::batch_norm_infer(x, Operand(scale, s), Operand(bias, s),
                                    Operand(running.mean, s), Operand(running.variance, s), options,
                                    s);
  }
};

}  // namespace gspmd
