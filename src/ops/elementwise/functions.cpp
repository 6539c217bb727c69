#include <cmath>
#include <complex>

#include "ops/common/numeric.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

// Functions are computed in double and rounded once: at most half a unit in the last place of f32
// and of shorter types.
using Complex = std::complex<double>;
using ComplexFunction = Complex (*)(Complex);

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Complex expm1_complex(Complex z) {
  const double x = z.real();
  const double y = z.imag();
  if (y == 0) return {std::expm1(x), y};
  const double half = std::sin(y / 2);
  return {std::expm1(x) * std::cos(y) - 2 * half * half, std::exp(x) * std::sin(y)};
}

// |1 + z|^2 = 1 + x(2 + x) + y^2, of which the logarithm is taken without the 1.
Complex log1p_complex(Complex z) {
  const long double x = z.real();
  const long double y = z.imag();
  const auto angle = static_cast<double>(std::atan2(y, 1 + x));
  const bool small = std::fabs(x) < 1e3L && std::fabs(y) < 1e3L;
  if (!small || (1 + x) * (1 + x) + y * y < 0.5L)
    return {std::log(std::hypot(1 + z.real(), z.imag())), angle};
  return {static_cast<double>(0.5L * std::log1p(x * (2 + x) + y * y)), angle};
}

Complex rsqrt_complex(Complex z) {
  if (z == Complex(0)) return {INFINITY, kNan};
  if (std::isinf(z.real()) || std::isinf(z.imag())) return 0;
  return Complex(1) / std::sqrt(z);
}

Complex sign_complex(Complex z) { return z == Complex(0) ? z : z / std::abs(z); }

Complex cbrt_complex(Complex z) { return z == Complex(0) ? z : std::pow(z, Complex(1.0 / 3)); }

Complex round_complex(Complex z) { return z; }  // infer refuses complex numbers

struct FunctionRow {
  Opcode opcode;
  RealFunction real;
  ComplexFunction complex = round_complex;
};
// Lambdas choose among the overloads of <cmath>.
#define GSPMD_BOTH(op, name)                            \
  {                                                     \
    Opcode::op, [](double x) { return std::name(x); },  \
        [](Complex z) { return Complex(std::name(z)); } \
  }
#define GSPMD_REAL(op, name)                                  \
  {                                                           \
    Opcode::op, [](double x) { return double(std::name(x)); } \
  }
constexpr FunctionRow kFunctions[] = {
    GSPMD_BOTH(acos, acos),
    GSPMD_BOTH(acosh, acosh),
    GSPMD_BOTH(asin, asin),
    GSPMD_BOTH(asinh, asinh),
    GSPMD_BOTH(atanh, atanh),
    GSPMD_BOTH(cosine, cos),
    GSPMD_BOTH(cosh, cosh),
    GSPMD_BOTH(exponential, exp),
    GSPMD_BOTH(log, log),
    GSPMD_BOTH(sine, sin),
    GSPMD_BOTH(sinh, sinh),
    GSPMD_BOTH(sqrt, sqrt),
    GSPMD_BOTH(tan, tan),
    GSPMD_BOTH(tanh, tanh),
    GSPMD_REAL(ceil, ceil),
    GSPMD_REAL(erf, erf),
    GSPMD_REAL(floor, floor),
    GSPMD_REAL(round_nearest_afz, round),
    GSPMD_REAL(round_nearest_even, nearbyint),
    // The library's root of a double is up to three units off.
    {Opcode::cbrt, [](double x) { return double(std::cbrt(static_cast<long double>(x))); },
     cbrt_complex},
    {Opcode::exponential_minus_one, [](double x) { return std::expm1(x); }, expm1_complex},
    {Opcode::log_plus_one, [](double x) { return std::log1p(x); }, log1p_complex},
    {Opcode::logistic, [](double x) { return 1 / (1 + std::exp(-x)); },
     [](Complex z) { return Complex(1) / (Complex(1) + std::exp(-z)); }},
    {Opcode::rsqrt, [](double x) { return 1 / std::sqrt(x); }, rsqrt_complex},
};
#undef GSPMD_BOTH
#undef GSPMD_REAL

const FunctionRow* function_row(Opcode opcode) {
  for (const FunctionRow& row : kFunctions)
    if (row.opcode == opcode) return &row;
  return nullptr;
}

Complex power_complex(Complex a, Complex b) {
  if (b == Complex(0)) return 1;
  if (a == Complex(0) && b.real() > 0) return 0;
  return std::pow(a, b);
}

// The angle of x + iy, continued to complex x and y.
Complex atan2_complex(Complex y, Complex x) {
  if (x == Complex(1)) return std::atan(y);
  using Wide = std::complex<long double>;
  const Wide i(0, 1), a(y), b(x);
  return Complex(-i * std::log((b + i * a) / std::sqrt(b * b + a * a)));
}

// f(x), or f(x, y), of every element, computed in double or in complex double.
template <class Real, class ComplexF>
Value each_element(const EvalContext& context, Real real, ComplexF complex) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> in = x.data<T>();
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < out.size(); ++i) {
      if constexpr (is_complex_v<T>)
        out[i] = convert_element<T>(complex(convert_element<Complex>(in[i]), i));
      else if constexpr (is_float_v<T>)
        out[i] = convert_element<T>(real(static_cast<double>(in[i]), i));
      else
        internal_error("{}: no kernel for {}", opcode_name(context.node.opcode()),
                       dtype_name(result.dtype()));
    }
  });
  return {result, {}, false};
}

}  // namespace

RealFunction real_function(Opcode opcode) {
  const FunctionRow* const row = function_row(opcode);
  return row ? row->real : nullptr;
}

Value evaluate_function(const EvalContext& context) {
  const FunctionRow& row = *function_row(context.node.opcode());
  return each_element(
      context, [&](double x, size_t) { return row.real(x); },
      [&](Complex z, size_t) { return row.complex(z); });
}

Value evaluate_atan2(const EvalContext& context) {
  const Array& second = context.operands[1].array;
  return visit_number(second.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> x = second.data<T>();
    return each_element(
        context, [&](double y, size_t i) { return std::atan2(y, convert_element<double>(x[i])); },
        [&](Complex y, size_t i) { return atan2_complex(y, convert_element<Complex>(x[i])); });
  });
}

Value evaluate_function_power(const EvalContext& context) {
  const Array& second = context.operands[1].array;
  return visit_number(second.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> y = second.data<T>();
    return each_element(
        context, [&](double x, size_t i) { return std::pow(x, convert_element<double>(y[i])); },
        [&](Complex x, size_t i) { return power_complex(x, convert_element<Complex>(y[i])); });
  });
}

Value evaluate_complex_sign(const EvalContext& context) {
  return each_element(
      context, [](double x, size_t) { return x; },
      [](Complex z, size_t) { return sign_complex(z); });
}

}  // namespace gspmd
