#include <bit>
#include <cmath>
#include <cstring>

#include "base/narrow.h"
#include "gspmd/base/error.h"
#include "ops/common/numeric.h"
#include "ops/common/widen.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

uint64_t load(const std::byte* from, int64_t element, int64_t size) {
  uint64_t value = 0;
  std::memcpy(&value, from + element * size, static_cast<size_t>(size));
  return value;
}

// Elements of `from` as one stream of bits, lowest first, cut into elements of `to`; at least one
// of the two has less than a byte.
void regroup_bits(const Array& from, const Array& to) {
  const int in_bits = element_bits(from.dtype());
  const int out_bits = element_bits(to.dtype());
  const int unit = std::min(in_bits, out_bits);
  const uint64_t mask = (uint64_t(1) << unit) - 1;
  const int64_t in_size = dtype_size(from.dtype());
  const int64_t out_size = dtype_size(to.dtype());
  const std::byte* const in = from.bytes().data();
  std::byte* const out = to.bytes().data();
  for (int64_t k = 0; k < to.size() * (out_bits / unit); ++k) {
    const int64_t source = k / (in_bits / unit);
    const int64_t target = k / (out_bits / unit);
    const auto piece = load(in, source, in_size) >> (k % (in_bits / unit) * unit) & mask;
    const uint64_t value = load(out, target, out_size) | piece << (k % (out_bits / unit) * unit);
    std::memcpy(out + target * out_size, &value, static_cast<size_t>(out_size));
  }
}

struct Layout {
  int exponent_bits, mantissa_bits;
};
template <class T>
constexpr Layout kLayout = {};
template <>
constexpr Layout kLayout<float16> = {5, 10};
template <>
constexpr Layout kLayout<bfloat16> = {8, 7};
template <>
constexpr Layout kLayout<float> = {8, 23};
template <>
constexpr Layout kLayout<double> = {11, 52};

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

// The mantissa is rounded to nearest even first, which may carry into the exponent; exponents that
// do not fit become infinity or zero: numbers below the smallest normal one go to zero.
template <class T>
T with_precision(T value, int64_t exponent_bits, int64_t mantissa_bits) {
  constexpr Layout from = kLayout<T>;
  using U = BitsOf<T>;
  uint64_t x = std::bit_cast<U>(value);
  const uint64_t sign = x & uint64_t(1) << (from.exponent_bits + from.mantissa_bits);
  const uint64_t infinity = ((uint64_t(1) << from.exponent_bits) - 1) << from.mantissa_bits;
  x ^= sign;
  if (x > infinity && mantissa_bits > 0) return value;  // NaN stays where the mantissa can say so
  if (x >= infinity) {
    x = infinity;
  } else {
    if (mantissa_bits < from.mantissa_bits) {
      const int64_t cut = from.mantissa_bits - mantissa_bits;
      x += ((uint64_t(1) << (cut - 1)) - 1) + (x >> cut & 1);
      x &= ~((uint64_t(1) << cut) - 1);
    }
    if (exponent_bits < from.exponent_bits) {
      const uint64_t bias = (uint64_t(1) << (from.exponent_bits - 1)) - 1;
      const uint64_t reduced = (uint64_t(1) << (exponent_bits - 1)) - 1;
      const uint64_t exponent = x >> from.mantissa_bits;
      if (exponent > bias + reduced)
        x = infinity;
      else if (exponent <= bias - reduced)
        x = 0;
    }
  }
  return std::bit_cast<T>(static_cast<U>(x | sign));
}

}  // namespace

int storage_bits(DType dtype) {
  return is_narrow(dtype) ? narrow_bits(dtype) : static_cast<int>(8 * dtype_size(dtype));
}

int element_bits(DType dtype) { return dtype == DType::pred ? 1 : storage_bits(dtype); }

Value evaluate_bitcast_convert(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const bool whole = context.node.is(Opcode::bitcast);
  const auto bits = whole ? storage_bits : element_bits;
  const int from = bits(x.dtype());
  const int to = bits(context.node.shape.dtype);
  if (from == to || (from >= 8 && to >= 8))
    return {Array(context.node.shape, x.clone().storage()), {}, false};
  const Array result(context.node.shape);
  regroup_bits(x, result);
  return {result, {}, false};
}

Value evaluate_reduce_precision(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  const ScalarAttributes& attrs = context.node.attrs.scalar;
  visit_dtype(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_float_v<T>) {
      const std::span<const T> in = x.data<T>();
      const std::span<T> out = result.data<T>();
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = with_precision(in[i], attrs.exponent_bits, attrs.mantissa_bits);
    }
  });
  return {result, {}, false};
}

// Away from zero with the probability that the random bits, as a fraction, give to the rest that
// truncation to an integer leaves; floats round to nearest.
Value evaluate_stochastic_convert(const EvalContext& context) {
  const Array x = widened(context.operands[0].array);
  const Array& random = context.operands[1].array;
  const DType dtype = context.node.shape.dtype;
  const Array rounded(DType::f64, x.dims());
  const std::span<double> values = rounded.data<double>();
  const int bits = static_cast<int>(8 * dtype_size(random.dtype()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = x.at(static_cast<int64_t>(i));
    if (is_floating(dtype) || !std::isfinite(values[i])) continue;
    const double whole = std::trunc(std::fabs(values[i]));
    const double rest = std::fabs(values[i]) - whole;
    const double chance = std::ldexp(random.at(static_cast<int64_t>(i)), -bits);
    values[i] = std::copysign(whole + (chance < rest ? 1 : 0), values[i]);
  }
  if (is_narrow(dtype)) return {narrowed(rounded, dtype), {}, false};
  return {converted(rounded, Array(context.node.shape)), {}, false};
}

}  // namespace gspmd
