#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "ops/common/loops.h"
#include "ops/common/number_types.h"
#include "ops/window/window.h"

namespace gspmd {

// The loops of a convolution, every operand's dims in the order batch, feature (kernel: input,
// output feature), then the spatial ones. A row is `block` results in the output feature: they read
// the same window.
struct ConvolutionNest {
  Dims out_dims;
  Dims lhs, rhs, out;  // strides
  std::vector<std::vector<WindowRun>> runs;
  std::vector<bool> reversed;
  Dims kernel;                          // spatial sizes
  int64_t features_in;                  // of one group
  int64_t features_group, batch_group;  // output features of one feature group, of one batch group
  int64_t block;                        // output features in the same groups

  explicit ConvolutionNest(const Node& node);
  // In the order batch, block of features, spatial.
  Dims row_dims() const;
  int64_t rows() const;
};

// Where the sums of one row begin in lhs and rhs, and their loops.
struct ConvolutionWindow {
  Dims counts;
  std::array<Dims, 2> steps;
  std::array<int64_t, 2> base{0, 0};
  // `row`: an index of row_dims().
  void move_to(const ConvolutionNest& nest, const Dims& row);
};

// sums[j] += left * right[j * stride]
template <class A, class T>
void add_products(std::vector<A>& sums, A left, const T* right, int64_t stride) {
  const size_t count = sums.size();
  if (stride == 1) {
    for (size_t j = 0; j < count; ++j) add_product(sums[j], left, to_accumulator<A>(right[j]));
  } else {
    for (size_t j = 0; j < count; ++j)
      add_product(sums[j], left, to_accumulator<A>(right[static_cast<int64_t>(j) * stride]));
  }
}

// Writes results next to each other in the output feature, `stride` elements apart.
template <class A>
using StoreSums = void (*)(const std::vector<A>& sums, std::byte* out, int64_t offset,
                           int64_t stride);

template <class A, class R>
void store_sums(const std::vector<A>& sums, std::byte* out, int64_t offset, int64_t stride) {
  R* const to = reinterpret_cast<R*>(out) + offset;
  for (size_t j = 0; j < sums.size(); ++j)
    to[static_cast<int64_t>(j) * stride] = from_accumulator<R>(sums[j]);
}

template <class A>
StoreSums<A> store_sums_as(DType result) {
  return visit_number(result, [](auto tag) -> StoreSums<A> {
    return &store_sums<A, typename decltype(tag)::type>;
  });
}

// Rows [begin, end), each result by one plain sum in A: floats in double, rounded once; integers
// wrap in 64 bits. Results are of the type that `store` writes.
template <class A, class T>
void convolve(const ConvolutionNest& nest, const T* lhs, const T* rhs, std::byte* out,
              StoreSums<A> store, int64_t begin, int64_t end) {
  const Dims dims = nest.row_dims();
  Dims index(dims.size(), 0);
  int64_t rest = begin;
  for (size_t d = index.size(); d-- > 0; rest /= dims[d]) index[d] = rest % dims[d];
  ConvolutionWindow window;
  std::vector<A> sums(static_cast<size_t>(nest.block));
  for (int64_t n = begin; n < end; ++n) {
    window.move_to(nest, index);
    std::fill(sums.begin(), sums.end(), A(0));
    for_each_offset<2>(
        window.counts, window.steps, window.base, [&](const std::array<int64_t, 2>& at) {
          add_products(sums, to_accumulator<A>(lhs[at[0]]), rhs + at[1], nest.rhs[1]);
        });
    int64_t offset = index[1] * (nest.block - 1) * nest.out[1];
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * nest.out[d];
    store(sums, out, offset, nest.out[1]);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace gspmd
