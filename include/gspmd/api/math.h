#pragma once

// Elementwise arithmetic, comparisons and reductions.

#include <initializer_list>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// --- one operand, element by element; floating unless said otherwise
GSPMD_API Tensor exp(Operand x);
GSPMD_API Tensor expm1(Operand x);
GSPMD_API Tensor log(Operand x);
GSPMD_API Tensor log1p(Operand x);
GSPMD_API Tensor tanh(Operand x);
GSPMD_API Tensor sigmoid(Operand x);
GSPMD_API Tensor sqrt(Operand x);
GSPMD_API Tensor rsqrt(Operand x);  // 1 / sqrt(x)
GSPMD_API Tensor sin(Operand x);
GSPMD_API Tensor cos(Operand x);
GSPMD_API Tensor floor(Operand x);
GSPMD_API Tensor ceil(Operand x);
GSPMD_API Tensor square(Operand x);       // any number
GSPMD_API Tensor abs(Operand x);          // any number
GSPMD_API Tensor sign(Operand x);         // any number; -1, 0, 1
GSPMD_API Tensor is_finite(Operand x);    // pred
GSPMD_API Tensor logical_not(Operand x);  // pred

// --- two operands, broadcasting as operators do
GSPMD_API Tensor maximum(Operand a, Operand b);
GSPMD_API Tensor minimum(Operand a, Operand b);
GSPMD_API Tensor pow(Operand a, Operand b);
GSPMD_API Tensor remainder(Operand a, Operand b);  // sign of the dividend, as C++'s % and fmod
GSPMD_API Tensor logical_and(Operand a, Operand b);
GSPMD_API Tensor logical_or(Operand a, Operand b);
GSPMD_API Tensor equal(Operand a, Operand b);
GSPMD_API Tensor not_equal(Operand a, Operand b);

// `condition` (pred) ? a : b, all three broadcast together; of two C++ numbers s32, or f32 where
// one is floating. `select` is HLO's name for it.
GSPMD_API Tensor where(Operand condition, Operand a, Operand b);
GSPMD_API Tensor select(Operand condition, Operand a, Operand b);  // as where
GSPMD_API Tensor clamp(Operand low, Operand x, Operand high);      // min(max(x, low), high)

// Dims to reduce: `-1`, `{0, 2}`, or by default all of them. Negative counts from the end.
class GSPMD_API Axes {
 public:
  Axes() = default;
  // --- One dim, several, or all where none is named
  Axes(int axis);
  Axes(int64_t axis);
  Axes(std::initializer_list<int64_t> axes);
  Axes(std::vector<int64_t> axes);
  bool all() const { return all_; }                           // no dim was named
  const std::vector<int64_t>& list() const { return axes_; }  // as given; not where all() holds

 private:
  std::vector<int64_t> axes_;
  bool all_ = true;
};

// Which dims a reduction removes.
struct ReduceOptions {
  Axes axes = {};          // default: all
  bool keep_dims = false;  // reduced dims stay with size 1
};
// --- Of all elements along the dims named.
GSPMD_API Tensor sum(Operand x, const ReduceOptions& options = {});
GSPMD_API Tensor mean(Operand x, const ReduceOptions& options = {});  // floating
GSPMD_API Tensor max(Operand x, const ReduceOptions& options = {});
GSPMD_API Tensor min(Operand x, const ReduceOptions& options = {});

// --- kinds of value
GSPMD_API Tensor convert(Operand x, DType dtype);
// The same value, through which no gradient flows.
GSPMD_API Tensor stop_gradient(Operand x);

}  // namespace gspmd
