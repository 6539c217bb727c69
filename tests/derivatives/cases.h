#pragma once

// What the tables of cases are written with.

#include "api/support.h"
#include "derivatives/checks.h"

// A row: the builder's name, its function of `t`, and the point.
#define GSPMD_CASE(name, x, ...)                            \
  Case {                                                    \
    name, [](Tensor t) -> Tensor { return __VA_ARGS__; }, x \
  }

namespace gspmd::test {

inline Array f64(Dims dims, unsigned seed, double low = 0.2, double high = 0.9) {
  return random_array({DType::f64, std::move(dims)}, seed, low, high);
}
inline Array s32(Dims dims, std::vector<int32_t> numbers) {
  return Array::of<int32_t>(std::move(dims), numbers);
}

}  // namespace gspmd::test
