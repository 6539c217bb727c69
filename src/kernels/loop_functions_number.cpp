// Arithmetic, comparison, selection and bit loops of every element type; plain loops that the
// compiler vectorises for each instruction set.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loop_functions_number.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/loop_elementwise-inl.h"
#include "kernels/loop_families.h"
#include "kernels/loop_functions.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

template <class T>
constexpr bool kFloat = std::is_floating_point_v<T>;
template <class T>
struct BitsOf {
  using type = std::make_unsigned_t<T>;
};
template <>
struct BitsOf<float> {
  using type = uint32_t;
};
template <>
struct BitsOf<double> {
  using type = uint64_t;
};
template <>
struct BitsOf<bool> {
  using type = uint8_t;
};
template <class T>
using Bits = typename BitsOf<T>::type;

// Integer arithmetic wraps around; done on the unsigned type because signed overflow is undefined.
struct Add {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (kFloat<T>) return a + b;
    return static_cast<T>(Bits<T>(a) + Bits<T>(b));
  }
};
struct Subtract {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (kFloat<T>) return a - b;
    return static_cast<T>(Bits<T>(a) - Bits<T>(b));
  }
};
struct Multiply {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (kFloat<T>) return a * b;
    return static_cast<T>(Bits<T>(a) * Bits<T>(b));
  }
};
// HLO: x / 0 is -1 (all bits set), the smallest integer / -1 is itself.
struct Divide {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (kFloat<T>) return a / b;
    if (b == 0) return static_cast<T>(~Bits<T>(0));
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return static_cast<T>(Bits<T>(0) - Bits<T>(a));
    }
    return a / b;
  }
};
struct Remainder {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (kFloat<T>) {
      return std::fmod(a, b);
    } else {
      if (b == 0) return a;
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return 0;
      }
      return a % b;
    }
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
// Shifts by the width or more give 0 (or the sign).
struct ShiftLeft {
  template <class T>
  static T apply(T a, T b) {
    constexpr Bits<T> kWidth = sizeof(T) * 8;
    const Bits<T> s = Bits<T>(b);
    return s >= kWidth ? T(0) : static_cast<T>(Bits<T>(a) << (s & (kWidth - 1)));
  }
};
struct ShiftRightLogical {
  template <class T>
  static T apply(T a, T b) {
    constexpr Bits<T> kWidth = sizeof(T) * 8;
    const Bits<T> s = Bits<T>(b);
    return s >= kWidth ? T(0) : static_cast<T>(Bits<T>(a) >> (s & (kWidth - 1)));
  }
};
struct ShiftRightArithmetic {
  template <class T>
  static T apply(T a, T b) {
    constexpr Bits<T> kWidth = sizeof(T) * 8;
    using S = std::make_signed_t<T>;
    const Bits<T> s = Bits<T>(b) >= kWidth ? kWidth - 1 : Bits<T>(b);
    return static_cast<T>(static_cast<S>(a) >> s);
  }
};

#define GSPMD_COMPARE(Name, op)   \
  struct Name {                   \
    template <class T>            \
    static bool apply(T a, T b) { \
      return a op b;              \
    }                             \
  };
GSPMD_COMPARE(Eq, ==)
GSPMD_COMPARE(Ne, !=)
GSPMD_COMPARE(Ge, >=)
GSPMD_COMPARE(Gt, >)
GSPMD_COMPARE(Le, <=)
GSPMD_COMPARE(Lt, <)
#undef GSPMD_COMPARE

struct Copy {
  template <class T>
  static T apply(T a) {
    return a;
  }
};
struct Negate {
  template <class T>
  static T apply(T a) {
    if constexpr (kFloat<T>) return -a;
    return static_cast<T>(Bits<T>(0) - Bits<T>(a));
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    if constexpr (kFloat<T>) return std::fabs(a);
    return a < T(0) ? static_cast<T>(Bits<T>(0) - Bits<T>(a)) : a;
  }
};
struct Sign {  // of -0 and NaN: itself
  template <class T>
  static T apply(T a) {
    if constexpr (kFloat<T>) return a > T(0) ? T(1) : (a < T(0) ? T(-1) : a);
    return a > T(0) ? T(1) : (a < T(0) ? T(-1) : T(0));
  }
};
struct Not {
  template <class T>
  static T apply(T a) {
    if constexpr (std::is_same_v<T, bool>)
      return !a;
    else if constexpr (!kFloat<T>)
      return static_cast<T>(~a);
    else
      return a;
  }
};
// Bits added up side by side, of pairs first. Bytes are not by a multiplication, from which g++
// makes the instruction for one number.
struct PopulationCount {
  template <class T>
  static T apply(T a) {
    constexpr Bits<T> kOnes = ~Bits<T>(0);
    Bits<T> u = Bits<T>(a);
    u -= (u >> 1) & (kOnes / 3);
    u = (u & (kOnes / 5)) + ((u >> 2) & (kOnes / 5));
    u = (u + (u >> 4)) & (kOnes / 17);
    u += u >> 8, u += u >> 16;
    if constexpr (sizeof(T) == 8) u += u >> 32;
    return static_cast<T>(u & 0x7f);
  }
};
struct CountLeadingZeros {
  template <class T>
  static T apply(T a) {
    Bits<T> u = Bits<T>(a);
    u |= u >> 1, u |= u >> 2, u |= u >> 4, u |= u >> 8, u |= u >> 16;
    if constexpr (sizeof(T) == 8) u |= u >> 32;
    return PopulationCount::apply(static_cast<T>(~u));
  }
};
struct Floor {
  template <class T>
  static T apply(T a) {
    return std::floor(a);
  }
};
struct Ceil {
  template <class T>
  static T apply(T a) {
    return std::ceil(a);
  }
};
struct IsFinite {
  template <class T>
  static bool apply(T a) {
    return std::fabs(a) <= std::numeric_limits<T>::max();
  }
};
// Of floats in doubles, as the vector loops have them; the root of doubles in what is longer.
struct Power {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(std::pow(double{a}, double{b}));
  }
};
struct Atan2 {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(std::atan2(double{a}, double{b}));
  }
};
struct Sine {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::sin(double{a}));
  }
};
struct Cosine {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::cos(double{a}));
  }
};
struct Tan {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::tan(double{a}));
  }
};
struct Erf {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::erf(double{a}));
  }
};
struct Cbrt {
  template <class T>
  static T apply(T a) {
    using Longer = std::conditional_t<sizeof(T) == 4, double, long double>;
    return static_cast<T>(std::cbrt(static_cast<Longer>(a)));
  }
};
struct Select {  // on bits: the compiler vectorises masks, not branches
  template <class T>
  static T apply(uint8_t p, T a, T b) {
    const Bits<T> mask = Bits<T>(0) - Bits<T>(p != 0);
    return std::bit_cast<T>(static_cast<Bits<T>>((std::bit_cast<Bits<T>>(a) & mask) |
                                                 (std::bit_cast<Bits<T>>(b) & ~mask)));
  }
};
struct Clamp {  // of low, x, high
  template <class T>
  static T apply(T low, T x, T high) {
    return Minimum::apply(Maximum::apply(low, x), high);
  }
};

template <class T>
LoopFunction find_any(LoopOp op) {
  switch (op) {
    case LoopOp::copy:
      return unary_loop<T, T, Copy>;
    case LoopOp::maximum:
      return binary_loop<T, T, Maximum>;
    case LoopOp::minimum:
      return binary_loop<T, T, Minimum>;
    case LoopOp::eq:
      return binary_loop<bool, T, Eq>;
    case LoopOp::ne:
      return binary_loop<bool, T, Ne>;
    case LoopOp::ge:
      return binary_loop<bool, T, Ge>;
    case LoopOp::gt:
      return binary_loop<bool, T, Gt>;
    case LoopOp::le:
      return binary_loop<bool, T, Le>;
    case LoopOp::lt:
      return binary_loop<bool, T, Lt>;
    case LoopOp::select:
      return ternary_loop<T, uint8_t, T, T, Select>;
    case LoopOp::clamp:
      return ternary_loop<T, T, T, T, Clamp>;
    default:
      return nullptr;
  }
}

template <class T>
LoopFunction find_arithmetic(LoopOp op) {
  switch (op) {
    case LoopOp::add:
      return binary_loop<T, T, Add>;
    case LoopOp::subtract:
      return binary_loop<T, T, Subtract>;
    case LoopOp::multiply:
      return binary_loop<T, T, Multiply>;
    case LoopOp::divide:
      return binary_loop<T, T, Divide>;
    case LoopOp::remainder:
      return binary_loop<T, T, Remainder>;
    case LoopOp::negate:
      return unary_loop<T, T, Negate>;
    case LoopOp::abs:
      return unary_loop<T, T, Abs>;
    case LoopOp::sign:
      return unary_loop<T, T, Sign>;
    default:
      return find_any<T>(op);
  }
}

template <class T>
LoopFunction find_bits(LoopOp op) {
  switch (op) {
    case LoopOp::and_:
      return binary_loop<T, T, And>;
    case LoopOp::or_:
      return binary_loop<T, T, Or>;
    case LoopOp::xor_:
      return binary_loop<T, T, Xor>;
    case LoopOp::not_:
      return unary_loop<T, T, Not>;
    default:
      return nullptr;
  }
}

template <class T>
LoopFunction find_integer(LoopOp op) {
  switch (op) {
    case LoopOp::shift_left:
      return binary_loop<T, T, ShiftLeft>;
    case LoopOp::shift_right_arithmetic:
      return binary_loop<T, T, ShiftRightArithmetic>;
    case LoopOp::shift_right_logical:
      return binary_loop<T, T, ShiftRightLogical>;
    case LoopOp::popcnt:
      return unary_loop<T, T, PopulationCount>;
    case LoopOp::count_leading_zeros:
      return unary_loop<T, T, CountLeadingZeros>;
    default:
      break;
  }
  const LoopFunction bits = find_bits<T>(op);
  return bits != nullptr ? bits : find_arithmetic<T>(op);
}

template <class T>
LoopFunction find_float(LoopOp op) {
  switch (op) {
    case LoopOp::floor:
      return unary_loop<T, T, Floor>;
    case LoopOp::ceil:
      return unary_loop<T, T, Ceil>;
    case LoopOp::is_finite:
      return unary_loop<bool, T, IsFinite>;
    case LoopOp::power:
      return binary_loop<T, T, Power>;
    case LoopOp::sine:
      return unary_loop<T, T, Sine>;
    case LoopOp::cosine:
      return unary_loop<T, T, Cosine>;
    case LoopOp::tan:
      return unary_loop<T, T, Tan>;
    case LoopOp::erf:
      return unary_loop<T, T, Erf>;
    case LoopOp::cbrt:
      return unary_loop<T, T, Cbrt>;
    case LoopOp::atan2:
      return binary_loop<T, T, Atan2>;
    default:
      return find_arithmetic<T>(op);
  }
}

LoopFunction find_pred(LoopOp op) {  // HLO: add of pred is "or", multiply is "and"
  if (op == LoopOp::add) op = LoopOp::or_;
  if (op == LoopOp::multiply) op = LoopOp::and_;
  const LoopFunction bits = find_bits<bool>(op);
  return bits != nullptr ? bits : find_any<bool>(op);
}

LoopFunction find_number(LoopOp op, DType input) {
  switch (input) {
    case DType::pred:
      return find_pred(op);
    case DType::s32:
      return find_integer<int32_t>(op);
    case DType::s64:
      return find_integer<int64_t>(op);
    case DType::u32:
      return find_integer<uint32_t>(op);
    case DType::u64:
      return find_integer<uint64_t>(op);
    case DType::f32:
      return find_float<float>(op);
    case DType::f64:
      return find_float<double>(op);
    default:
      return nullptr;
  }
}

}  // namespace
LoopFunction find_number_loop(LoopOp op, DType input) { return find_number(op, input); }
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_number_loop);
LoopFunction number_loop(LoopOp op, DType input) {
  return HWY_DYNAMIC_DISPATCH(find_number_loop)(op, input);
}
}  // namespace gspmd
#endif
