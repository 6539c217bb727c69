#pragma once

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "ops/common/numeric.h"
#include "ops/common/scalar_program.h"

namespace gspmd {

// How reduce, scatter and the reducing collectives put values together.

// Floats accumulate in double and are rounded once at the end.
template <class T>
using AccumulatorOf =
    std::conditional_t<is_float_v<T>, double,
                       std::conditional_t<is_complex_v<T>, std::complex<double>, T>>;

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
      if constexpr (!is_complex_v<T>) return maximum(a, b);
      break;
    case Combiner::min:
      if constexpr (!is_complex_v<T>) return minimum(a, b);
      break;
    case Combiner::logical_and:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(a & b);
      break;
    case Combiner::logical_or:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(a | b);
      break;
  }
  internal_error("combine: {} of values that have none", combiner_name(combiner));
}

// The results of ops that take n inputs and then n initial values: filled with these.
std::vector<Array> initial_results(const EvalContext& context);
// The inputs of such an op.
std::vector<Array> inputs_of(const EvalContext& context);

// accumulators[.][at] = to_apply(accumulators[.][at]..., values[.][from]...) for any computation.
class CalledCombiner {
 public:
  // The arrays are shared; their elements are those that combine() reads and writes.
  CalledCombiner(const CallComputation& call, const Computation& to_apply,
                 const std::vector<Array>& accumulators, const std::vector<Array>& values);
  void combine(int64_t at, int64_t from);
  // accumulators[.][at] = accumulators[.][from]
  void copy(int64_t at, int64_t from);

 private:
  struct Column {
    std::byte* data;
    int64_t size;  // of an element
  };
  static std::vector<Column> columns(const std::vector<Array>& arrays);
  ScalarProgram program_;
  std::vector<Column> accumulators_, values_;
  uint32_t combined_ = 0;
};

}  // namespace gspmd
