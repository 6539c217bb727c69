// Quotients of complex numbers.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/complex_divide.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <complex>
#include <cstring>

#include "kernels/complex_divide.h"
#include "kernels/loop_elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kQuotients = 256;  // at a time

// At most kQuotients of pairs; how many are NaN in both parts.
int64_t divide_pairs(const float* a, const float* b, int64_t n, float* quotients) {
  int32_t lost = 0;
  GSPMD_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const double p = a[2 * i], q = a[2 * i + 1], u = b[2 * i], v = b[2 * i + 1];
    const double factor = 1 / (u * u + v * v);
    const auto real = static_cast<float>((p * u + q * v) * factor);
    const auto imag = static_cast<float>((q * u - p * v) * factor);
    quotients[2 * i] = real;
    quotients[2 * i + 1] = imag;
    lost += ((real != real) & (imag != imag)) ? 1 : 0;
  }
  return lost;
}

}  // namespace

void divide_complex(float* out, const float* a, const float* b, int64_t n) {
  alignas(64) float quotients[2 * kQuotients];
  for (int64_t first = 0; first < n; first += kQuotients) {
    const int64_t count = std::min(kQuotients, n - first);
    const float *x = a + 2 * first, *y = b + 2 * first;
    const int64_t lost = divide_pairs(x, y, count, quotients);
    for (int64_t i = 0; lost > 0 && i < count; ++i) {
      float* const made = quotients + 2 * i;
      if (made[0] == made[0] || made[1] == made[1]) continue;
      const auto quotient =
          std::complex(x[2 * i], x[2 * i + 1]) / std::complex(y[2 * i], y[2 * i + 1]);
      made[0] = quotient.real();
      made[1] = quotient.imag();
    }
    std::memcpy(out + 2 * first, quotients, static_cast<size_t>(count) * 2 * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(divide_complex);

PreparedKernel prepare_complex_divide(int64_t elements) {
  constexpr int64_t kPartOfQuotients = 16384;
  PreparedKernel kernel;
  kernel.parts = std::clamp<int64_t>(elements / kPartOfQuotients, 1, 8);
  kernel.cost = 100 + 2 * static_cast<double>(elements);
  kernel.run = [elements, parts = kernel.parts](const KernelArgs& args) {
    const int64_t first = args.part * elements / parts, last = (args.part + 1) * elements / parts;
    HWY_DYNAMIC_DISPATCH(divide_complex)
    (reinterpret_cast<float*>(args.results[0]) + 2 * first,
     reinterpret_cast<const float*>(args.operands[0]) + 2 * first,
     reinterpret_cast<const float*>(args.operands[1]) + 2 * first, last - first);
  };
  return kernel;
}

}  // namespace gspmd
#endif
