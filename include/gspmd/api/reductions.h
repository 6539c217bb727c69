#pragma once

// Reductions beyond sum, mean, max and min: products, logic, spread, norms, places of extrema, any
// function of two scalars, and running totals.

#include <functional>
#include <optional>

#include "gspmd/api/math.h"
#include "gspmd/base/export.h"

namespace gspmd {

GSPMD_API Tensor prod(Operand x, const ReduceOptions& options = {});  // of all elements
GSPMD_API Tensor any(Operand x, const ReduceOptions& options = {});   // of pred: whether one holds

// Whether all elements of pred hold; as an index, all of a dim (indexing.h).
struct GSPMD_API All {
  // Of the elements along the dims named.
  Tensor operator()(Operand x, const ReduceOptions& options = {}) const;
};
inline constexpr All all{};  // all(x), and x(all, 0)

// How var() and stddev() run.
struct VarianceOptions {
  Axes axes = {};          // default: all
  bool keep_dims = false;  // reduced dims stay with size 1
  double ddof = 0;         // what the sum of squares is divided by: the count less this
};
GSPMD_API Tensor var(Operand x, const VarianceOptions& options = {});  // mean of squares, floating
GSPMD_API Tensor stddev(Operand x, const VarianceOptions& options = {});  // its root; NumPy's std

// How norm() runs.
struct VectorNormOptions {
  Axes axes = {};          // default: all, as of one vector
  bool keep_dims = false;  // reduced dims stay with size 1
  double ord = 2;          // p of the p-norm; also infinity, -infinity, and 0: how many are not 0
};
// (sum |x|^p)^(1/p), as numpy.linalg.norm of vectors; floating or complex.
GSPMD_API Tensor norm(Operand x, const VectorNormOptions& options = {});

// Which dim argmax() and argmin() look along.
struct ArgOptions {
  std::optional<int64_t> axis = {};  // default: all elements, in row-major order
  bool keep_dims = false;            // the dim stays with size 1
};
// --- The place, s32, of the greatest or least element: the first of equals, and NaN before all.
GSPMD_API Tensor argmax(Operand x, const ArgOptions& options = {});
GSPMD_API Tensor argmin(Operand x, const ArgOptions& options = {});

// A function of two scalars, traced once. It reads nothing but the two and C++ numbers.
using ScalarFunction = std::function<Tensor(Tensor, Tensor)>;
// All elements along the dims named and `init` joined by `f`, which is associative and commutative,
// in no particular order. As jax.lax.reduce.
GSPMD_API Tensor reduce(Operand x, Operand init, const ScalarFunction& f,
                        const ReduceOptions& options = {});

// Along which dim running totals are taken.
struct CumulativeOptions {
  std::optional<int64_t> axis = {};  // default: all elements as one vector, in row-major order
  bool reverse = false;              // from the last element to the first
};
// --- Element i is the total of elements 0 to i along the dim. As NumPy's and jax.lax's.
GSPMD_API Tensor cumsum(Operand x, const CumulativeOptions& options = {});
GSPMD_API Tensor cumprod(Operand x, const CumulativeOptions& options = {});
GSPMD_API Tensor cummax(Operand x, const CumulativeOptions& options = {});
GSPMD_API Tensor cummin(Operand x, const CumulativeOptions& options = {});
GSPMD_API Tensor cumlogsumexp(Operand x, const CumulativeOptions& options = {});

}  // namespace gspmd
