#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kAt = f64({3, 5}, 1);
const Array kOther = f64({3, 5}, 2);

std::vector<Case> of_one_operand() {
  return {
      GSPMD_CASE("acos", kAt, acos(t)),
      GSPMD_CASE("acosh", kAt, acosh(t + 1.)),
      GSPMD_CASE("asin", kAt, asin(t)),
      GSPMD_CASE("asinh", kAt, asinh(t)),
      GSPMD_CASE("atan", kAt, atan(t)),
      GSPMD_CASE("atanh", kAt, atanh(t)),
      GSPMD_CASE("cosh", kAt, cosh(t)),
      GSPMD_CASE("sinh", kAt, sinh(t)),
      GSPMD_CASE("tan", kAt, tan(t)),
      GSPMD_CASE("cbrt", kAt, cbrt(t)),
      GSPMD_CASE("log2", kAt, log2(t)),
      GSPMD_CASE("log10", kAt, log10(t)),
      GSPMD_CASE("reciprocal", kAt, reciprocal(t)),
      GSPMD_CASE("erf", kAt, erf(t)),
      GSPMD_CASE("erf_inv", kAt, erf_inv(t)),
      GSPMD_CASE("exp", kAt, exp(t)),
      GSPMD_CASE("expm1", kAt, expm1(t)),
      GSPMD_CASE("log", kAt, log(t)),
      GSPMD_CASE("log1p", kAt, log1p(t)),
      GSPMD_CASE("tanh", kAt, tanh(t)),
      GSPMD_CASE("sigmoid", kAt, sigmoid(t)),
      GSPMD_CASE("sqrt", kAt, sqrt(t)),
      GSPMD_CASE("rsqrt", kAt, rsqrt(t)),
      GSPMD_CASE("sin", kAt, sin(t)),
      GSPMD_CASE("cos", kAt, cos(t)),
      GSPMD_CASE("square", kAt, square(t)),
      GSPMD_CASE("abs", kAt, abs(t - 0.55) * t),
      GSPMD_CASE("operator-: of one", kAt, -t * t),
      GSPMD_CASE("convert", kAt, real(convert(t, DType::c128) * convert(t * t, DType::c128))),
      GSPMD_CASE("reduce_precision", kAt, reduce_precision(t, 11, 52) * t),
      GSPMD_CASE("stop_gradient", kAt, t * t + 0. * stop_gradient(t)),
  };
}

// Functions with steps and kinks: the derivatives of their pieces.
std::vector<Case> of_pieces() {
  return {
      GSPMD_CASE("sign", kAt, t * sign(t - 0.55)),
      GSPMD_CASE("floor", kAt, t * floor(t * 3.)),
      GSPMD_CASE("ceil", kAt, t * ceil(t * 3.)),
      GSPMD_CASE("round", kAt, t * round(t * 3.)),
      GSPMD_CASE("round_away_from_zero", kAt, t * round_away_from_zero(t * 3.)),
      GSPMD_CASE("trunc", kAt, t * trunc(t * 3.)),
      GSPMD_CASE("clip", kAt, clip(t, 0.3, 0.7) * t),
      GSPMD_CASE("clip: of bounds", kAt, clip(0.5, t * 0.8, t + 0.1)),
      GSPMD_CASE("clamp", kAt, clamp(0.3, t, 0.7) * t),
      GSPMD_CASE("clamp: of bounds", kAt, clamp(t * 0.8, 0.5, t + 0.1)),
      GSPMD_CASE("remainder", kAt, remainder(t * 3., t * t + 0.4)),
      GSPMD_CASE("mod", kAt, mod(-t * 3., t * t + 0.4)),
      GSPMD_CASE("floor_divide", kAt, t * floor_divide(t * 3., 0.7)),
  };
}

std::vector<Case> of_several_operands() {
  return {
      GSPMD_CASE("operator+", kAt, t * t + t(0)),
      GSPMD_CASE("operator-", kAt, 2. - (t - t * t(all, range(1, 2)))),
      GSPMD_CASE("operator*", kAt, t * t(0) * kOther),
      GSPMD_CASE("operator/", kAt, 2. / t + t / (t(0) + 1.) + kOther / t),
      GSPMD_CASE("operator+=", kAt, t += t(0) * t),
      GSPMD_CASE("operator-=", kAt, t -= t(0) * t),
      GSPMD_CASE("operator*=", kAt, t *= t(0)),
      GSPMD_CASE("operator/=", kAt, t /= t(0)),
      GSPMD_CASE("atan2", kAt, atan2(t, t * t - 0.9) + atan2(t(0), kOther)),
      GSPMD_CASE("logaddexp", kAt, logaddexp(t, t(0) * 3.)),
      GSPMD_CASE("maximum", kAt, maximum(t * t, kOther * t(0))),
      GSPMD_CASE("minimum", kAt, minimum(t * t, kOther * t(0))),
      GSPMD_CASE("pow", kAt, pow(t, t(0) + 1.5)),
      GSPMD_CASE("pow: of numbers", kAt, pow(t, 2.5) + pow(2., t) + pow(t, 3)),
      GSPMD_CASE("where", kAt, where(t > 0.55, t * t, kOther * t(0))),
      GSPMD_CASE("select", kAt, select(t > 0.55, t * t, sin(t))),
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
