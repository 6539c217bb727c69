#pragma once

#include <cstdint>

namespace gspmd {

// Functions that loops of fused ops do not have.
enum class RareFunction : uint8_t { acos, acosh, asin, asinh, atanh, cosh, sinh };

// y = f(x) of n doubles, each to within 2^-44 of its size, for numbers inside of the function's
// domain, not 0 and at most 88 in size where it grows exponentially; others give anything. Both
// arrays have room for n rounded up to a multiple of 8. The bits may differ between machines.
using RareLoop = void (*)(const double* x, int64_t n, double* y);
RareLoop rare_loop(RareFunction function);

}  // namespace gspmd
