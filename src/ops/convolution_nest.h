#pragma once

#include <array>
#include <vector>

#include "ops/loops.h"
#include "ops/number_types.h"
#include "ops/window.h"

namespace gspmd {

// The loops of a convolution, every operand's dims in the order batch, feature (kernel: input,
// output feature), then the spatial ones.
struct ConvolutionNest {
  Dims out_dims;
  Dims lhs, rhs, out;  // strides
  std::vector<std::vector<WindowRun>> runs;
  std::vector<bool> reversed;
  Dims kernel;                          // spatial sizes
  int64_t features_in;                  // of one group
  int64_t features_group, batch_group;  // output features of one feature group, of one batch group

  explicit ConvolutionNest(const Node& node);
};

// Where the sum of one result element begins in lhs and rhs, and its loops.
struct ConvolutionWindow {
  Dims counts;
  std::array<Dims, 2> steps;
  std::array<int64_t, 2> base{0, 0};
  void move_to(const ConvolutionNest& nest, const Dims& index);
};

// Result elements [begin, end) in the order batch, feature, spatial, each by one plain sum in A:
// floats in double, rounded once; integers wrap in 64 bits.
template <class A, class T, class R>
void convolve(const ConvolutionNest& nest, const T* lhs, const T* rhs, R* out, int64_t begin,
              int64_t end) {
  Dims index(nest.out_dims.size(), 0);
  int64_t rest = begin;
  for (size_t d = index.size(); d-- > 0; rest /= nest.out_dims[d])
    index[d] = rest % nest.out_dims[d];
  ConvolutionWindow window;
  for (int64_t n = begin; n < end; ++n) {
    window.move_to(nest, index);
    A sum = A(0);
    for_each_offset<2>(
        window.counts, window.steps, window.base, [&](const std::array<int64_t, 2>& at) {
          add_product(sum, to_accumulator<A>(lhs[at[0]]), to_accumulator<A>(rhs[at[1]]));
        });
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * nest.out[d];
    out[offset] = from_accumulator<R>(sum);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < nest.out_dims[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace gspmd
