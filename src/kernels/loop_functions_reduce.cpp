// Conversions and folds.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loop_functions_reduce.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/loop_elementwise-inl.h"
#include "kernels/loop_families.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

// Float to integer: towards zero, clamped to the range, NaN to 0.
template <class R, class T>
struct Convert {
  static R apply(T x) {
    if constexpr (std::is_same_v<R, bool>) {
      return x != T(0);
    } else if constexpr (std::is_floating_point_v<T> && std::is_integral_v<R>) {
      constexpr T kLow = static_cast<T>(std::numeric_limits<R>::min());
      constexpr T kHigh = static_cast<T>(std::numeric_limits<R>::max());
      if (!(x > kLow)) return std::isnan(x) ? R(0) : std::numeric_limits<R>::min();
      return x >= kHigh ? std::numeric_limits<R>::max() : static_cast<R>(x);
    } else {
      return static_cast<R>(x);
    }
  }
};

template <class T>
LoopFunction convert_from(DType result) {
  switch (result) {
    case DType::pred:
      return unary_loop<bool, T, Convert<bool, T>>;
    case DType::s32:
      return unary_loop<int32_t, T, Convert<int32_t, T>>;
    case DType::s64:
      return unary_loop<int64_t, T, Convert<int64_t, T>>;
    case DType::u32:
      return unary_loop<uint32_t, T, Convert<uint32_t, T>>;
    case DType::u64:
      return unary_loop<uint64_t, T, Convert<uint64_t, T>>;
    case DType::f32:
      return unary_loop<float, T, Convert<float, T>>;
    case DType::f64:
      return unary_loop<double, T, Convert<double, T>>;
    default:
      return nullptr;
  }
}

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else if constexpr (std::is_same_v<T, bool>)
      return a | b;
    else
      return static_cast<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else if constexpr (std::is_same_v<T, bool>)
      return a & b;
    else
      return static_cast<T>(std::make_unsigned_t<T>(a) * std::make_unsigned_t<T>(b));
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

template <class T, class F, int kWidth>
void fold_halves(T* lanes) {
  if constexpr (kWidth > 0) {
    GSPMD_IVDEP
    for (int j = 0; j < kWidth; ++j) lanes[j] = F::apply(lanes[j], lanes[j + kWidth]);
    fold_halves<T, F, kWidth / 2>(lanes);
  }
}

// Element i goes to lane i % 64, then lanes are folded in halves, those without an element left
// out: the same order on every machine.
template <class T, class F>
void fold(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
          uint32_t) {
  constexpr int64_t kLanes = 64;
  const T* x = reinterpret_cast<const T*>(a);
  T& result = *reinterpret_cast<T*>(out);
  alignas(64) T lanes[kLanes];
  if (n < kLanes) {
    for (int64_t j = 0; j < n; ++j) lanes[j] = x[j];
    for (int64_t width = kLanes / 2; width > 0; width /= 2)
      for (int64_t j = 0; j < width && j + width < n; ++j)
        lanes[j] = F::apply(lanes[j], lanes[j + width]);
    result = lanes[0];
    return;
  }
  for (int64_t j = 0; j < kLanes; ++j) lanes[j] = x[j];
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes) {
    GSPMD_IVDEP
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = F::apply(lanes[j], x[i + j]);
  }
  for (int64_t j = 0; i + j < n; ++j) lanes[j] = F::apply(lanes[j], x[i + j]);
  fold_halves<T, F, kLanes / 2>(lanes);
  result = lanes[0];
}

// The same of kTurnedLines lines: what is combined of neighbouring elements lies side by side.
template <class T, class F>
void fold_turned(std::byte* results, std::byte* turned, int64_t n) {
  constexpr int64_t kLanes = 64;
  T* const x = reinterpret_cast<T*>(turned);
  const auto join = [x](int64_t elements, int64_t apart) HWY_ATTR {
    const T* const other = x + apart * kTurnedLines;
    GSPMD_IVDEP
    for (int64_t i = 0; i < elements * kTurnedLines; ++i) x[i] = F::apply(x[i], other[i]);
  };
  for (int64_t e = kLanes; e < n; e += kLanes) join(std::min(kLanes, n - e), e);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    if (width < n) join(std::min(width, n - width), width);
  std::copy_n(x, kTurnedLines, reinterpret_cast<T*>(results));
}

// Fold<T, F>::get() with the F of `op`.
template <class T, template <class, class> class Fold>
auto find_fold(LoopOp op) -> decltype(Fold<T, Sum>::get()) {
  if (op == LoopOp::reduce_sum) return Fold<T, Sum>::get();
  if (op == LoopOp::reduce_product) return Fold<T, Product>::get();
  if constexpr (!std::is_floating_point_v<T>) {
    if (op == LoopOp::reduce_and) return Fold<T, And>::get();
    if (op == LoopOp::reduce_or) return Fold<T, Or>::get();
    if (op == LoopOp::reduce_xor) return Fold<T, Xor>::get();
  }
  if (op == LoopOp::reduce_max) return Fold<T, Maximum>::get();
  if (op == LoopOp::reduce_min) return Fold<T, Minimum>::get();
  return nullptr;
}

template <class T, class F>
struct OfLine {
  static LoopFunction get() { return fold<T, F>; }
};
template <class T, class F>
struct OfRows {
  static FoldRows get() { return fold_rows<T, T, F, Plain>; }
};

template <class T, class F>
struct OfTurned {
  static FoldTurned get() { return fold_turned<T, F>; }
};

template <template <class, class> class Fold>
auto find_fold_of(LoopOp op, DType input) -> decltype(Fold<float, Sum>::get()) {
  switch (input) {
    case DType::pred:
      return find_fold<bool, Fold>(op);
    case DType::s32:
      return find_fold<int32_t, Fold>(op);
    case DType::s64:
      return find_fold<int64_t, Fold>(op);
    case DType::u32:
      return find_fold<uint32_t, Fold>(op);
    case DType::u64:
      return find_fold<uint64_t, Fold>(op);
    case DType::f32:
      return find_fold<float, Fold>(op);
    case DType::f64:
      return find_fold<double, Fold>(op);
    default:
      return nullptr;
  }
}

}  // namespace
LoopFunction find_reduce_loop(LoopOp op, DType input) { return find_fold_of<OfLine>(op, input); }
FoldRows find_rows(LoopOp op, DType input) { return find_fold_of<OfRows>(op, input); }
FoldTurned find_turned(LoopOp op, DType input) { return find_fold_of<OfTurned>(op, input); }
LoopFunction find_convert_loop(DType input, DType result) {
  switch (input) {
    case DType::pred:
      return convert_from<bool>(result);
    case DType::s32:
      return convert_from<int32_t>(result);
    case DType::s64:
      return convert_from<int64_t>(result);
    case DType::u32:
      return convert_from<uint32_t>(result);
    case DType::u64:
      return convert_from<uint64_t>(result);
    case DType::f32:
      return convert_from<float>(result);
    case DType::f64:
      return convert_from<double>(result);
    default:
      return nullptr;
  }
}
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_reduce_loop);
HWY_EXPORT(find_rows);
HWY_EXPORT(find_turned);
HWY_EXPORT(find_convert_loop);
LoopFunction reduce_loop(LoopOp op, DType input) {
  return HWY_DYNAMIC_DISPATCH(find_reduce_loop)(op, input);
}
FoldRows number_fold_rows(LoopOp reduce, DType input) {
  return HWY_DYNAMIC_DISPATCH(find_rows)(reduce, input);
}
FoldTurned find_fold_turned(LoopOp reduce, DType input) {
  return HWY_DYNAMIC_DISPATCH(find_turned)(reduce, input);
}
LoopFunction convert_loop(DType input, DType result) {
  return HWY_DYNAMIC_DISPATCH(find_convert_loop)(input, result);
}
}  // namespace gspmd
#endif
