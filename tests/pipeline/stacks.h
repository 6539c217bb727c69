#pragma once

// Stacks of layers to make pipelines of, with and without them.

#include <string>
#include <utility>
#include <vector>

#include "gspmd/testing.h"
#include "models/pipeline.h"

namespace gspmd::models {

// y = x + act(x w + b) v, of m features and h hidden ones.
template <class T>
struct ResidualLayer {
  T w;  // m,h
  T b;  // h
  T v;  // h,m
  GSPMD_FIELDS(w, b, v)
};

struct StackSizes {
  int64_t layers = 8, microbatches = 8, rows = 4, model = 6, hidden = 10;
};

inline Array integers(const Shape& shape, int64_t stream) {
  Array values = random_uniform_array(shape, 7, stream);
  for (int64_t i = 0; i < values.size(); ++i) values.set(i, std::floor(values.at(i) * 3) - 1);
  return values;
}

inline Array scaled(const Shape& shape, int64_t stream, double factor) {
  Array values = random_normal_array(shape, 7, stream);
  for (int64_t i = 0; i < values.size(); ++i) values.set(i, values.at(i) * factor);
  return values;
}

// Integers that stay small, so that all sums are exact; or numbers whose layers keep their size.
inline ResidualLayer<Array> stack_weights(const StackSizes& s, bool exact, DType dtype) {
  const auto draw = [&](Dims dims, int64_t stream) {
    const Shape shape(dtype, std::move(dims));
    return exact ? integers(shape, stream) : scaled(shape, stream, 0.3);
  };
  return {draw({s.layers, s.model, s.hidden}, 0), draw({s.layers, s.hidden}, 1),
          draw({s.layers, s.hidden, s.model}, 2)};
}

inline Array stack_input(const StackSizes& s, bool exact, DType dtype, int64_t stream = 5) {
  const Shape shape(dtype, {s.microbatches, s.rows, s.model});
  return exact ? integers(shape, stream) : scaled(shape, stream, 1);
}

// On one device: the layers one after the other, on all micro-batches at once.
inline Tensor run_layers(const std::function<Tensor(const ResidualLayer<Tensor>&, Tensor)>& layer,
                         const ResidualLayer<Tensor>& weights, Tensor x) {
  for (int64_t i = 0; i < weights.w.dim(0); ++i) {
    const auto one = [&](const Tensor& leaf) { return leaf(i); };
    x = layer(map_leaves(one, weights), x);
  }
  return x;
}

// As circular pipelines want them.
template <class Tree>
Tree in_rounds(const Tree& weights, int64_t rounds) {
  return map_leaves(
      [&](const Tensor& leaf) {
        Dims dims = leaf.dims();
        dims[0] /= rounds;
        dims.insert(dims.begin(), rounds);
        return reshape(leaf, dims);
      },
      weights);
}

}  // namespace gspmd::models
