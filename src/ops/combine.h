#pragma once

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "ops/numeric.h"

namespace gspmd {

// How reduce, scatter and the reducing collectives put values together.

// Floats accumulate in double and are rounded once at the end.
template <class T>
using AccumulatorOf = std::conditional_t<is_float_v<T>, double, T>;

// std::vector<bool> has no references; this has.
template <class T>
struct Wrapped {
  T value;
};

template <class T>
T combine(Combiner combiner, T a, T b) {
  switch (combiner) {
    case Combiner::sum:
      return add_elements(a, b);
    case Combiner::product:
      return multiply_elements(a, b);
    case Combiner::max:
      return maximum(a, b);
    case Combiner::min:
      return minimum(a, b);
    case Combiner::logical_and:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(a & b);
      break;
    case Combiner::logical_or:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(a | b);
      break;
  }
  internal_error("combine: {} of floating point values", combiner_name(combiner));
}

// accumulators[.][at] = to_apply(accumulators[.][at]..., values[.][from]...) for any computation.
void combine_by_call(const CallComputation& call, const Computation& to_apply,
                     std::vector<Array>& accumulators, int64_t at, const std::vector<Array>& values,
                     int64_t from);

}  // namespace gspmd
