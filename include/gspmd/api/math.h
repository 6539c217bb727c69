#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "gspmd/api/operand.h"

namespace gspmd {

// --- one operand, element by element; floating unless said otherwise
Tensor exp(Operand x);
Tensor expm1(Operand x);
Tensor log(Operand x);
Tensor log1p(Operand x);
Tensor tanh(Operand x);
Tensor sigmoid(Operand x);
Tensor sqrt(Operand x);
Tensor rsqrt(Operand x);  // 1 / sqrt(x)
Tensor sin(Operand x);
Tensor cos(Operand x);
Tensor floor(Operand x);
Tensor ceil(Operand x);
Tensor square(Operand x);       // any number
Tensor abs(Operand x);          // any number
Tensor sign(Operand x);         // any number; -1, 0, 1
Tensor is_finite(Operand x);    // pred
Tensor logical_not(Operand x);  // pred

// --- two operands, broadcasting as operators do
Tensor maximum(Operand a, Operand b);
Tensor minimum(Operand a, Operand b);
Tensor pow(Operand a, Operand b);
Tensor remainder(Operand a, Operand b);  // sign of the dividend, as C++'s % and fmod
Tensor logical_and(Operand a, Operand b);
Tensor logical_or(Operand a, Operand b);
Tensor equal(Operand a, Operand b);
Tensor not_equal(Operand a, Operand b);

// `condition` (pred) ? a : b, all three broadcast together. `select` is HLO's name for it.
Tensor where(Operand condition, Operand a, Operand b);
Tensor select(Operand condition, Operand a, Operand b);
Tensor clamp(Operand low, Operand x, Operand high);

// --- reductions
// Dims to reduce: `-1`, `{0, 2}`, or by default all of them. Negative counts from the end.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : Axes(std::vector<int64_t>{axis}) {}
  Axes(int64_t axis) : Axes(std::vector<int64_t>{axis}) {}
  Axes(std::initializer_list<int64_t> axes) : Axes(std::vector<int64_t>(axes)) {}
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}
  bool all() const { return !axes_.has_value(); }
  const std::vector<int64_t>& list() const { return *axes_; }

 private:
  std::optional<std::vector<int64_t>> axes_;
};

struct ReduceOptions {
  Axes axes = {};
  bool keep_dims = false;  // reduced dims stay with size 1
};
Tensor sum(Operand x, const ReduceOptions& options = {});
Tensor mean(Operand x, const ReduceOptions& options = {});  // floating
Tensor max(Operand x, const ReduceOptions& options = {});
Tensor min(Operand x, const ReduceOptions& options = {});

// --- kinds of value
Tensor convert(Operand x, DType dtype);
// The same value, through which no gradient flows.
Tensor stop_gradient(Operand x);

}  // namespace gspmd
