#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kElementwiseAt = f64({3, 5}, 1);
const Array kOther = f64({3, 5}, 2);

std::vector<Case> of_one_operand() {
  return {
      GSPMD_CASE("acos", kElementwiseAt, acos(t)),
      GSPMD_CASE("acosh", kElementwiseAt, acosh(t + 1.)),
      GSPMD_CASE("asin", kElementwiseAt, asin(t)),
      GSPMD_CASE("asinh", kElementwiseAt, asinh(t)),
      GSPMD_CASE("atan", kElementwiseAt, atan(t)),
      GSPMD_CASE("atanh", kElementwiseAt, atanh(t)),
      GSPMD_CASE("cosh", kElementwiseAt, cosh(t)),
      GSPMD_CASE("sinh", kElementwiseAt, sinh(t)),
      GSPMD_CASE("tan", kElementwiseAt, tan(t)),
      GSPMD_CASE("cbrt", kElementwiseAt, cbrt(t)),
      GSPMD_CASE("log2", kElementwiseAt, log2(t)),
      GSPMD_CASE("log10", kElementwiseAt, log10(t)),
      GSPMD_CASE("reciprocal", kElementwiseAt, reciprocal(t)),
      GSPMD_CASE("erf", kElementwiseAt, erf(t)),
      GSPMD_CASE("erf_inv", kElementwiseAt, erf_inv(t)),
      GSPMD_CASE("exp", kElementwiseAt, exp(t)),
      GSPMD_CASE("expm1", kElementwiseAt, expm1(t)),
      GSPMD_CASE("log", kElementwiseAt, log(t)),
      GSPMD_CASE("log1p", kElementwiseAt, log1p(t)),
      GSPMD_CASE("tanh", kElementwiseAt, tanh(t)),
      GSPMD_CASE("sigmoid", kElementwiseAt, sigmoid(t)),
      GSPMD_CASE("sqrt", kElementwiseAt, sqrt(t)),
      GSPMD_CASE("rsqrt", kElementwiseAt, rsqrt(t)),
      GSPMD_CASE("sin", kElementwiseAt, sin(t)),
      GSPMD_CASE("cos", kElementwiseAt, cos(t)),
      GSPMD_CASE("square", kElementwiseAt, square(t)),
      GSPMD_CASE("abs", kElementwiseAt, abs(t - 0.55) * t),
      GSPMD_CASE("operator-: of one", kElementwiseAt, -t * t),
      GSPMD_CASE("convert", kElementwiseAt,
                 real(convert(t, DType::c128) * convert(t * t, DType::c128))),
      GSPMD_CASE("reduce_precision", kElementwiseAt, reduce_precision(t, 11, 52) * t),
      GSPMD_CASE("stop_gradient", kElementwiseAt, t * t + 0. * stop_gradient(t)),
  };
}

// Functions with steps and kinks: the derivatives of their pieces.
std::vector<Case> of_pieces() {
  return {
      GSPMD_CASE("sign", kElementwiseAt, t * sign(t - 0.55)),
      GSPMD_CASE("floor", kElementwiseAt, t * floor(t * 3.)),
      GSPMD_CASE("ceil", kElementwiseAt, t * ceil(t * 3.)),
      GSPMD_CASE("round", kElementwiseAt, t * round(t * 3.)),
      GSPMD_CASE("round_away_from_zero", kElementwiseAt, t * round_away_from_zero(t * 3.)),
      GSPMD_CASE("trunc", kElementwiseAt, t * trunc(t * 3.)),
      GSPMD_CASE("clip", kElementwiseAt, clip(t, 0.3, 0.7) * t),
      GSPMD_CASE("clip: of bounds", kElementwiseAt, clip(0.5, t * 0.8, t + 0.1)),
      GSPMD_CASE("clamp", kElementwiseAt, clamp(0.3, t, 0.7) * t),
      GSPMD_CASE("clamp: of bounds", kElementwiseAt, clamp(t * 0.8, 0.5, t + 0.1)),
      GSPMD_CASE("remainder", kElementwiseAt, remainder(t * 3., t * t + 0.4)),
      GSPMD_CASE("mod", kElementwiseAt, mod(-t * 3., t * t + 0.4)),
      GSPMD_CASE("floor_divide", kElementwiseAt, t * floor_divide(t * 3., 0.7)),
  };
}

std::vector<Case> of_several_operands() {
  return {
      GSPMD_CASE("operator+", kElementwiseAt, t * t + t(0)),
      GSPMD_CASE("operator-", kElementwiseAt, 2. - (t - t * t(all, range(1, 2)))),
      GSPMD_CASE("operator*", kElementwiseAt, t * t(0) * kOther),
      GSPMD_CASE("operator/", kElementwiseAt, 2. / t + t / (t(0) + 1.) + kOther / t),
      GSPMD_CASE("operator+=", kElementwiseAt, t += t(0) * t),
      GSPMD_CASE("operator-=", kElementwiseAt, t -= t(0) * t),
      GSPMD_CASE("operator*=", kElementwiseAt, t *= t(0)),
      GSPMD_CASE("operator/=", kElementwiseAt, t /= t(0)),
      GSPMD_CASE("atan2", kElementwiseAt, atan2(t, t * t - 0.9) + atan2(t(0), kOther)),
      GSPMD_CASE("logaddexp", kElementwiseAt, logaddexp(t, t(0) * 3.)),
      GSPMD_CASE("maximum", kElementwiseAt, maximum(t * t, kOther * t(0))),
      GSPMD_CASE("minimum", kElementwiseAt, minimum(t * t, kOther * t(0))),
      GSPMD_CASE("pow", kElementwiseAt, pow(t, t(0) + 1.5)),
      GSPMD_CASE("pow: of numbers", kElementwiseAt, pow(t, 2.5) + pow(2., t) + pow(t, 3)),
      GSPMD_CASE("where", kElementwiseAt, where(t > 0.55, t * t, kOther * t(0))),
      GSPMD_CASE("select", kElementwiseAt, select(t > 0.55, t * t, sin(t))),
  };
}

}  // namespace

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases = of_one_operand();
  for (auto& more : {of_pieces(), of_several_operands()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace gspmd::test
