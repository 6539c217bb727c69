#pragma once

#include "gspmd/kernels/prepared_kernel.h"
#include "gspmd/ops/builders.h"
#include "ops/window/window.h"

namespace gspmd {

constexpr int64_t kCumulativeRow = 512;  // columns that go on side by side

// Lines along a dim of `size` elements in the input and `positions` in the result, `inner` elements
// apart. Position i combines the input up to i + shift, or from there on.
struct Cumulative {
  Combiner combiner = Combiner::sum;
  DType dtype = DType::f32;
  int64_t outer = 1, size = 0, positions = 0, inner = 1;
  CumulativeDim form;

  // Of the n-th position in the order of the sums.
  int64_t position(int64_t n) const { return form.reverse ? positions - 1 - n : n; }
};

}  // namespace gspmd
