#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("functions of one real number are those of NumPy and SciPy, at infinities and NaN too",
          "[api][numpy]") {
  const NumpyCases cases("elementwise");
  cases.check("acos", [](Tensor x) { return acos(x); });
  cases.check("acosh", [](Tensor x) { return acosh(x); });
  cases.check("asin", [](Tensor x) { return asin(x); });
  cases.check("asinh", [](Tensor x) { return asinh(x); });
  cases.check("atan", [](Tensor x) { return atan(x); });
  cases.check("atanh", [](Tensor x) { return atanh(x); });
  cases.check("cosh", [](Tensor x) { return cosh(x); });
  cases.check("sinh", [](Tensor x) { return sinh(x); });
  cases.check("tan", [](Tensor x) { return tan(x); });
  cases.check("cbrt", [](Tensor x) { return cbrt(x); });
  cases.check("log2", [](Tensor x) { return log2(x); });
  cases.check("log10", [](Tensor x) { return log10(x); });
  cases.check("reciprocal", [](Tensor x) { return reciprocal(x); });
  cases.check("erf", [](Tensor x) { return erf(x); });
  cases.check("round", [](Tensor x) { return round(x); });
  cases.check("trunc", [](Tensor x) { return trunc(x); });
  cases.check("isnan", [](Tensor x) { return isnan(x); });
  cases.check("isinf", [](Tensor x) { return isinf(x); });
  cases.check("round_away_from_zero", [](Tensor x) { return round_away_from_zero(x); });
  cases.check("erf_inv", [](Tensor x) { return erf_inv(x); });
  cases.check("erf_inv_f32", [](Tensor x) { return erf_inv(x); }, {1e-6, 1e-9});
}

TEST_CASE("functions of one complex number are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("elementwise");
  cases.check("acos_complex", [](Tensor x) { return acos(x); });
  cases.check("acosh_complex", [](Tensor x) { return acosh(x); });
  cases.check("asin_complex", [](Tensor x) { return asin(x); });
  cases.check("asinh_complex", [](Tensor x) { return asinh(x); });
  cases.check("atan_complex", [](Tensor x) { return atan(x); });
  cases.check("atanh_complex", [](Tensor x) { return atanh(x); });
  cases.check("cosh_complex", [](Tensor x) { return cosh(x); });
  cases.check("sinh_complex", [](Tensor x) { return sinh(x); });
  cases.check("tan_complex", [](Tensor x) { return tan(x); });
  cases.check("log2_complex", [](Tensor x) { return log2(x); });
  cases.check("log10_complex", [](Tensor x) { return log10(x); });
  cases.check("reciprocal_complex", [](Tensor x) { return reciprocal(x); });
}

TEST_CASE("functions of two numbers are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("elementwise");
  cases.check("atan2", [](Tensor a, Tensor b) { return atan2(a, b); });
  cases.check("logaddexp", [](Tensor a, Tensor b) { return logaddexp(a, b); });
  cases.check("nextafter", [](Tensor a, Tensor b) { return nextafter(a, b); }, {0, 0});
  cases.check("nextafter_f32", [](Tensor a, Tensor b) { return nextafter(a, b); }, {0, 0});
  cases.check("floor_divide", [](Tensor a, Tensor b) { return floor_divide(a, b); });
  cases.check("mod", [](Tensor a, Tensor b) { return mod(a, b); });
  cases.check("floor_divide_s32", [](Tensor a, Tensor b) { return floor_divide(a, b); });
  cases.check("mod_s32", [](Tensor a, Tensor b) { return mod(a, b); });
  cases.check("floor_divide_u8", [](Tensor a, Tensor b) { return floor_divide(a, b); });
}

TEST_CASE("bits of integers are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("elementwise");
  cases.check("and", [](Tensor a, Tensor b) { return a & b; });
  cases.check("or", [](Tensor a, Tensor b) { return a | b; });
  cases.check("xor", [](Tensor a, Tensor b) { return a ^ b; });
  cases.check("not", [](Tensor x) { return ~x; });
  cases.check("shift_left", [](Tensor a, Tensor b) { return a << b; });
  cases.check("shift_right", [](Tensor a, Tensor b) { return a >> b; });
  cases.check("shift_right_u32", [](Tensor a, Tensor b) { return a >> b; });
  cases.check("shift_right_logical", [](Tensor a, Tensor b) { return shift_right_logical(a, b); });
  cases.check("popcount", [](Tensor x) { return popcount(x); });
  cases.check("clz", [](Tensor x) { return clz(x); });
  cases.check("bitcast", [](Tensor x) { return bitcast(x, DType::s32); });
  cases.check("bitcast_to_narrow", [](Tensor x) { return bitcast(x, DType::u16); });
  cases.check("bitcast_to_wide", [](Tensor x) { return bitcast(x, DType::u64); });
  cases.check("reduce_precision", [](Tensor x) { return reduce_precision(x, 8, 7); });
}

TEST_CASE("complex numbers are made and taken apart as in NumPy", "[api][numpy]") {
  const NumpyCases cases("elementwise");
  cases.check("complex", [](Tensor a, Tensor b) { return complex(a, b); });
  cases.check("real", [](Tensor x) { return real(x); });
  cases.check("imag", [](Tensor x) { return imag(x); });
  cases.check("conj", [](Tensor x) { return conj(x); });
  cases.check("angle", [](Tensor x) { return angle(x); });
  cases.check("abs", [](Tensor x) { return abs(x); });
  cases.check("real_real", [](Tensor x) { return real(x); });
  cases.check("imag_real", [](Tensor x) { return imag(x); });
  cases.check("conj_real", [](Tensor x) { return conj(x); });
  cases.check("angle_real", [](Tensor x) { return angle(x); });
  cases.check("abs_real", [](Tensor x) { return abs(x); });
  cases.check("clip", [](Tensor a, Tensor b) { return clip(a, b, 0.5); });
}

TEST_CASE("erf_inv near the ends is as exact as erf lets it be", "[api]") {
  const Array x = Array::of<double>({4}, {-1 + 1e-9, 0.9999, 1 - 1e-12, 1 - 1e-15});
  const Array back = run([](Tensor t) { return erf(erf_inv(t)); }, x);
  CHECK(expect_close({back}, {x}, {0, 1e-15}).message == "");
}
