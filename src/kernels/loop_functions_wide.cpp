// Functions of f32 that are computed in doubles and rounded once, so that nearly all results are
// the nearest numbers; and the roundings to whole numbers.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loop_functions_wide.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/loop_families.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTwoToThe52 = 0x1p52;
constexpr double kWholeNumbers = 0x1.8p52;  // added to a number: it is in the low bits then

// c[first] + c[first + 1] x + ... of kSome coefficients; x, x^2, x^4, x^8 and x^16 are given. By
// halves: steps that wait for each other fill a processor's queues.
template <int kFirst, int kSome, class D, class V, int kCount>
GSPMD_INLINE V polynomial_part(D d, const double (&c)[kCount], V x, V x2, V x4, V x8, V x16) {
  if constexpr (kSome == 1) {
    return hn::Set(d, c[kFirst]);
  } else {
    constexpr int kLow = kSome > 16 ? 16 : kSome > 8 ? 8 : kSome > 4 ? 4 : kSome > 2 ? 2 : 1;
    const V power = kLow == 16 ? x16 : kLow == 8 ? x8 : kLow == 4 ? x4 : kLow == 2 ? x2 : x;
    const V low = polynomial_part<kFirst, kLow>(d, c, x, x2, x4, x8, x16);
    const V high = polynomial_part<kFirst + kLow, kSome - kLow>(d, c, x, x2, x4, x8, x16);
    return hn::MulAdd(high, power, low);
  }
}
template <class D, class V, int kCount>
GSPMD_INLINE V polynomial(D d, V x, const double (&c)[kCount]) {
  static_assert(kCount <= 32);
  const V x2 = hn::Mul(x, x), x4 = hn::Mul(x2, x2), x8 = hn::Mul(x4, x4);
  return polynomial_part<0, kCount>(d, c, x, x2, x4, x8, hn::Mul(x8, x8));
}

template <class D, class V>
GSPMD_INLINE hn::Vec<hn::RebindToUnsigned<D>> bits_of(D, V x) {
  return hn::BitCast(hn::RebindToUnsigned<D>(), x);
}
// The sign that the lowest bit of `whole` stands for, which kWholeNumbers was added to.
template <class D, class V>
GSPMD_INLINE V lowest_bit_as_sign(D d, V whole) {
  return hn::BitCast(d, hn::ShiftLeft<63>(bits_of(d, whole)));
}
template <class D, class V>
GSPMD_INLINE auto not_below(D d, V size, double limit) {  // NaN is not either
  return hn::Not(hn::Lt(size, hn::Set(d, limit)));
}

// Pi in two doubles.
constexpr double kPi = 3.141592653589793, kPiRest = 1.2246467991473532e-16;
constexpr double kMostTurned = 0x1p40;  // what angles can be reduced from
// An angle less n * pi * unit.
template <class D, class V>
GSPMD_INLINE V turned_back(D d, V x, V n, double unit) {
  const V r = hn::NegMulAdd(n, hn::Set(d, kPi * unit), x);
  return hn::NegMulAdd(n, hn::Set(d, kPiRest * unit), r);
}
// sin(r) for |r| <= pi / 2, error 8e-14 of it.
template <class D, class V>
GSPMD_INLINE V sine_of_half_turn(D d, V r) {
  constexpr double kSine[] = {
      0.9999999999999496,    -0.1666666666646655,    0.0083333333203519,   -0.00019841266681876787,
      2.755695280400059e-06, -2.503026387632415e-08, 1.541115620698822e-10};
  return hn::Mul(r, polynomial(d, hn::Mul(r, r), kSine));
}

// Functions whose arguments are turned back by multiples of pi first.
struct Turning {
  template <class D, class V>
  static GSPMD_INLINE auto rare(D d, V x) {
    return not_below(d, hn::Abs(x), kMostTurned);
  }
};

struct Sine : Turning {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V x) {
    const V magic = hn::Set(d, kWholeNumbers);
    const V whole = hn::MulAdd(x, hn::Set(d, 1 / kPi), magic);
    const V r = turned_back(d, x, hn::Sub(whole, magic), 1);
    return hn::Xor(sine_of_half_turn(d, r), lowest_bit_as_sign(d, whole));
  }
  static double exact(double x) { return std::sin(x); }
};
struct Cosine : Turning {  // the sine of a quarter turn more
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V x) {
    const V magic = hn::Set(d, kWholeNumbers), half = hn::Set(d, 0.5);
    const V whole = hn::Add(hn::MulAdd(x, hn::Set(d, 1 / kPi), half), magic);
    const V r = turned_back(d, x, hn::Sub(hn::Sub(whole, magic), half), 1);
    return hn::Xor(sine_of_half_turn(d, r), lowest_bit_as_sign(d, whole));
  }
  static double exact(double x) { return std::cos(x); }
};
// sin(r) / cos(r) for |r| <= pi / 4, or -cos(r) / sin(r); error 5e-12.
struct Tan : Turning {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V x) {
    constexpr double kSine[] = {0.9999999999956709, -0.16666666631577168, 0.008333328781097757,
                                -0.00019839201800436314, 2.717341870116158e-06};
    constexpr double kCosine[] = {0.9999999999999444,     -0.4999999999935079,
                                  0.0416666665438622,     -0.00138888803912356,
                                  2.4798928225823623e-05, -2.717339169572195e-07};
    const V magic = hn::Set(d, kWholeNumbers);
    const V whole = hn::MulAdd(x, hn::Set(d, 2 / kPi), magic);
    const V r = turned_back(d, x, hn::Sub(whole, magic), 0.5);
    const V square = hn::Mul(r, r);
    const V sine = hn::Mul(r, polynomial(d, square, kSine));
    const V cosine = polynomial(d, square, kCosine);
    const V sign = lowest_bit_as_sign(d, whole);
    const V above = hn::IfNegativeThenElse(sign, cosine, sine);
    return hn::Div(hn::Xor(above, sign), hn::IfNegativeThenElse(sign, sine, cosine));
  }
  static double exact(double x) { return std::tan(x); }
};

// x * y^2, where y, one over the root, is first guessed from a third of the bits (10 %) and then
// multiplied twice by (1 - e)^(-1/3), e = 1 - x y^3.
struct Cbrt {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V x) {
    const V y = inverse(d, hn::Abs(x));
    const V root = hn::Mul(hn::Mul(x, y), y);
    return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, kInfinity)), root, hn::Add(x, x));
  }
  template <class D, class V>
  static GSPMD_INLINE V inverse(D d, V size) {
    const hn::RebindToUnsigned<D> du;
    const V magic = hn::Set(d, kTwoToThe52);
    const auto high = hn::Or(hn::ShiftRight<32>(bits_of(d, size)), bits_of(d, magic));
    const V third = hn::Mul(hn::Sub(hn::BitCast(d, high), magic), hn::Set(d, -1.0 / 3));
    const V guess = hn::Add(third, hn::Set(d, kTwoToThe52 + 1430186664));
    V y = hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(du, guess)));
    constexpr double kFirst[] = {0.33333400185411766, 0.22335730760273678, 0.17356773195912975};
    constexpr double kSecond[] = {1.0 / 3, 2.0 / 9};
    V e = error(d, size, y);
    y = hn::MulAdd(hn::Mul(y, e), polynomial(d, e, kFirst), y);
    e = error(d, size, y);
    return hn::MulAdd(hn::Mul(y, e), polynomial(d, e, kSecond), y);
  }

 private:
  template <class D, class V>
  static GSPMD_INLINE V error(D d, V x, V y) {
    return hn::NegMulAdd(hn::Mul(hn::Mul(x, y), y), y, hn::Set(d, 1.0));
  }
};
// The root as above, less what its cube is off.
struct CbrtOfDouble {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V x) {
    const V y = Cbrt::inverse(d, hn::Abs(x));
    const V root = hn::Mul(hn::Mul(x, y), y);
    const V square = hn::Mul(root, root);
    const V rest = hn::Mul(hn::MulSub(root, root, square), root);
    const V off = hn::Add(hn::MulSub(square, root, x), rest);
    return hn::NegMulAdd(hn::Mul(off, hn::Set(d, 1.0 / 3)), hn::Mul(y, y), root);
  }
  template <class D, class V>
  static GSPMD_INLINE auto rare(D d, V x) {  // where a cube's rest is no normal number, infinity
    const V size = hn::Abs(x);
    return hn::Or(hn::Lt(size, hn::Set(d, 1e-280)), not_below(d, size, kInfinity));
  }
  static double exact(double x) {
    return static_cast<double>(std::cbrt(static_cast<long double>(x)));
  }
};

// 2^(y log2|x|), with the sign of x where y is odd.
struct Power {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V x, V y) {
    V log = log2_of(d, hn::Abs(x));
    log = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -1e300), log);
    const V limit = hn::Set(d, 200.0);  // beyond all floats
    const V size = exp2_of(d, hn::Max(hn::Neg(limit), hn::Min(limit, hn::Mul(y, log))));
    const V half = hn::Mul(y, hn::Set(d, 0.5));
    const auto is_broken = hn::Ne(hn::Round(y), y);
    const auto is_even = hn::Eq(hn::Round(half), half);
    const V sign = hn::And(x, hn::Set(d, -0.0));
    const V with_sign = hn::Or(size, hn::IfThenZeroElse(hn::Or(is_even, is_broken), sign));
    const auto is_nan = hn::And(hn::Lt(x, hn::Zero(d)), is_broken);
    const V nan = hn::Set(d, std::numeric_limits<double>::quiet_NaN());
    return hn::IfThenElse(is_nan, nan, with_sign);
  }
  template <class D, class V>
  static GSPMD_INLINE auto rare(D d, V x, V y) {
    return not_below(d, hn::Add(hn::Abs(x), hn::Abs(y)), kInfinity);
  }
  static double exact(double x, double y) { return std::pow(x, y); }

 private:
  // The exponent, and s = (m - 1) / (m + 1) of m from sqrt(1/2) to sqrt(2), error 3e-14.
  template <class D, class V>
  static GSPMD_INLINE V log2_of(D d, V x) {
    const hn::RebindToUnsigned<D> du;
    constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd, kOne = 0x3ff0000000000000;
    constexpr double kLog2[] = {2.8853900817778504,  0.9617966941123595, 0.5770779426302618,
                                0.41220922733052445, 0.3199066608891474, 0.28288718263073565};
    const V magic = hn::Set(d, kTwoToThe52), one = hn::Set(d, 1.0);
    const auto bits = hn::Add(bits_of(d, x), hn::Set(du, kOne - kRootOfHalf));
    const V biased = hn::BitCast(d, hn::Or(hn::ShiftRight<52>(bits), bits_of(d, magic)));
    const V exponent = hn::Sub(biased, hn::Set(d, kTwoToThe52 + 1023));
    const auto fraction = hn::And(bits, hn::Set(du, 0x000fffffffffffff));
    const V m = hn::BitCast(d, hn::Add(fraction, hn::Set(du, kRootOfHalf)));
    const V s = hn::Div(hn::Sub(m, one), hn::Add(m, one));
    return hn::MulAdd(s, polynomial(d, hn::Mul(s, s), kLog2), exponent);
  }
  // 2^n * (1 + r q(r)), |r| <= 1/2, error 5e-12.
  template <class D, class V>
  static GSPMD_INLINE V exp2_of(D d, V t) {
    constexpr double kExp2[] = {0.6931471805568274,     0.24022650695888467,
                                0.05550410906373737,    0.009618129135269306,
                                0.0013333478409865399,  0.00015403475142315847,
                                1.5303721130801367e-05, 1.3250819664096275e-06};
    const V magic = hn::Set(d, kWholeNumbers);
    const V whole = hn::Add(t, magic);
    const V r = hn::Sub(t, hn::Sub(whole, magic));
    const V p = hn::MulAdd(r, polynomial(d, r, kExp2), hn::Set(d, 1.0));
    const auto power = hn::ShiftLeft<52>(bits_of(d, whole));
    return hn::BitCast(d, hn::Add(bits_of(d, p), power));
  }
};

// Of the smaller side by the larger one; from pi / 8 to pi / 4 less pi / 4, so that one polynomial
// holds, error 8e-13.
struct Atan2 {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V y, V x) {
    constexpr double kAtan[] = {0.9999999999992442,  -0.3333333327688608, 0.19999993049762435,
                                -0.1428538640718612, 0.11103454236491274, -0.08992528079362637,
                                0.06974084047595203, -0.03765307369056794};
    const V up = hn::Abs(y), along = hn::Abs(x);
    const V low = hn::Min(up, along), high = hn::Max(up, along);
    const auto is_turned = hn::Gt(low, hn::Mul(high, hn::Set(d, 0.4142135623730951)));
    const V above = hn::IfThenElse(is_turned, hn::Sub(low, high), low);
    const V below = hn::IfThenElse(is_turned, hn::Add(low, high), high);
    const V ratio = hn::IfThenZeroElse(hn::Eq(high, hn::Zero(d)), hn::Div(above, below));
    V angle = hn::IfThenElseZero(is_turned, hn::Set(d, kPi / 4));
    angle = hn::MulAdd(ratio, polynomial(d, hn::Mul(ratio, ratio), kAtan), angle);
    angle = hn::IfThenElse(hn::Gt(up, along), hn::Sub(hn::Set(d, kPi / 2), angle), angle);
    angle = hn::IfNegativeThenElse(x, hn::Sub(hn::Set(d, kPi), angle), angle);
    return hn::CopySign(angle, y);
  }
  template <class D, class V>
  static GSPMD_INLINE auto rare(D d, V y, V x) {
    return not_below(d, hn::Add(hn::Abs(x), hn::Abs(y)), kInfinity);
  }
  static double exact(double y, double x) { return std::atan2(y, x); }
};

// a - q b is exact, and q, of a rounded quotient, at most one too many.
struct Remainder {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V a, V b) {
    const V r = hn::NegMulAdd(hn::Trunc(hn::Div(a, b)), b, a);
    const auto is_beyond = hn::Lt(hn::Mul(r, a), hn::Zero(d));
    return hn::CopySign(hn::Add(r, hn::IfThenElseZero(is_beyond, hn::CopySign(b, a))), a);
  }
  template <class D, class V>
  static GSPMD_INLINE auto rare(D d, V a, V b) {
    return hn::Or(not_below(d, hn::Abs(hn::Div(a, b)), 0x1p50),
                  not_below(d, hn::Abs(b), kInfinity));
  }
  static double exact(double a, double b) { return std::fmod(a, b); }
};

struct RoundEven {
  template <class D, class V>
  static GSPMD_INLINE V apply(D, V x) {
    return hn::CopySign(hn::Round(x), x);  // without vectors what becomes 0 has lost its sign
  }
};
struct RoundAway {
  template <class D, class V>
  static GSPMD_INLINE V apply(D d, V x) {
    using T = hn::TFromD<D>;
    const V whole = hn::Trunc(x);
    const auto is_up = hn::Ge(hn::Abs(hn::Sub(x, whole)), hn::Set(d, T(0.5)));
    const V one = hn::CopySign(hn::Set(d, T(1)), x);
    return hn::CopySign(hn::Add(whole, hn::IfThenElseZero(is_up, one)), x);
  }
};

// Vectors of what functions compute with, of elements that are floats or the same.
template <class D, class T>
GSPMD_INLINE hn::Vec<D> load_wide(D d, const T* x) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>)
    return hn::LoadU(d, x);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), x));
}
template <class D, class T>
GSPMD_INLINE void store_wide(D d, hn::Vec<D> y, T* r) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>)
    hn::StoreU(y, d, r);
  else
    hn::StoreU(hn::DemoteTo(hn::Rebind<T, D>(), y), hn::Rebind<T, D>(), r);
}

// `y`, but of the library where `rare` is set.
template <class F, class D, class M, class... V>
HWY_NOINLINE hn::Vec<D> with_library(D d, M rare, hn::Vec<D> y, V... x) {
  constexpr size_t kLanes = hn::MaxLanes(d);
  HWY_ALIGN double result[kLanes], chosen[kLanes], in[sizeof...(V)][kLanes];
  size_t k = 0;
  (hn::Store(x, d, in[k++]), ...);
  hn::Store(y, d, result);
  hn::Store(hn::IfThenElseZero(rare, hn::Set(d, 1.0)), d, chosen);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (chosen[i] == 0) continue;
    if constexpr (sizeof...(V) == 1)
      result[i] = F::exact(in[0][i]);
    else
      result[i] = F::exact(in[0][i], in[1][i]);
  }
  return hn::Load(d, result);
}
template <class F, class D, class... V>
GSPMD_INLINE hn::Vec<D> apply_wide(D d, V... x) {
  const hn::Vec<D> y = F::apply(d, x...);
  if constexpr (requires { F::rare(d, x...); }) {
    const auto rare = F::rare(d, x...);
    if (HWY_UNLIKELY(!hn::AllFalse(d, rare))) return with_library<F>(d, rare, y, x...);
  }
  return y;
}

// Of T, computed in W.
template <class T, class W, class F>
void wide_unary(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
                uint32_t) {
  const hn::ScalableTag<W> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  T* r = reinterpret_cast<T*>(out);
  const T* x = reinterpret_cast<const T*>(a);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store_wide(d, apply_wide<F>(d, load_wide(d, x + i)), r + i);
  if (i == n) return;
  T tail[hn::MaxLanes(d)] = {};
  for (int64_t j = i; j < n; ++j) tail[j - i] = x[j];
  store_wide(d, apply_wide<F>(d, load_wide(d, tail)), tail);
  for (int64_t j = i; j < n; ++j) r[j] = tail[j - i];
}

template <class F>
void wide_binary(std::byte* out, const std::byte* a, const std::byte* b, const std::byte*,
                 int64_t n, uint32_t scalars) {
  const hn::ScalableTag<double> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* r = reinterpret_cast<float*>(out);
  const float* x = reinterpret_cast<const float*>(a);
  const float* y = reinterpret_cast<const float*>(b);
  const bool one_x = (scalars & 1) != 0, one_y = (scalars & 2) != 0;
  const V first_x = hn::Set(d, static_cast<double>(*x)), first_y = hn::Set(d, double{*y});
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V p = one_x ? first_x : load_wide(d, x + i), q = one_y ? first_y : load_wide(d, y + i);
    store_wide(d, apply_wide<F>(d, p, q), r + i);
  }
  if (i == n) return;
  float tail[2][hn::MaxLanes(d)];
  for (float& v : tail[0]) v = 1;
  for (float& v : tail[1]) v = 1;
  for (int64_t j = i; j < n; ++j) {
    if (!one_x) tail[0][j - i] = x[j];
    if (!one_y) tail[1][j - i] = y[j];
  }
  const V p = one_x ? first_x : load_wide(d, tail[0]), q = one_y ? first_y : load_wide(d, tail[1]);
  store_wide(d, apply_wide<F>(d, p, q), tail[0]);
  for (int64_t j = i; j < n; ++j) r[j] = tail[0][j - i];
}

template <class T>
LoopFunction find_rounding(LoopOp op) {
  if (op == LoopOp::round_nearest_even) return wide_unary<T, T, RoundEven>;
  return op == LoopOp::round_nearest_afz ? wide_unary<T, T, RoundAway> : nullptr;
}

// Only where multiply-adds are fused: reductions take them to be exact.
LoopFunction find_single(LoopOp op) {
  if (!HWY_NATIVE_FMA) return nullptr;
  switch (op) {
    case LoopOp::sine:
      return wide_unary<float, double, Sine>;
    case LoopOp::cosine:
      return wide_unary<float, double, Cosine>;
    case LoopOp::tan:
      return wide_unary<float, double, Tan>;
    case LoopOp::cbrt:
      return wide_unary<float, double, Cbrt>;
    case LoopOp::power:
      return wide_binary<Power>;
    case LoopOp::atan2:
      return wide_binary<Atan2>;
    case LoopOp::remainder:
      return wide_binary<Remainder>;
    default:
      return nullptr;
  }
}

}  // namespace
LoopFunction find_wide_loop(LoopOp op, DType input) {
  if (input == DType::f32) {
    const LoopFunction rounding = find_rounding<float>(op);
    return rounding != nullptr ? rounding : find_single(op);
  }
  if (input != DType::f64) return nullptr;
  if (op == LoopOp::cbrt && HWY_NATIVE_FMA) return wide_unary<double, double, CbrtOfDouble>;
  return find_rounding<double>(op);
}
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_wide_loop);
LoopFunction wide_loop(LoopOp op, DType input) {
  return HWY_DYNAMIC_DISPATCH(find_wide_loop)(op, input);
}
}  // namespace gspmd
#endif
