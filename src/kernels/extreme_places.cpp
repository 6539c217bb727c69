#include "kernels/extreme_places.h"

#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/extreme_places.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <type_traits>

#include "kernels/loop_functions.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The extreme number of a few elements, and whether one of them is NaN.
template <class T>
struct Extreme {
  T value;
  bool has_nan;
};

template <class T>
bool is_better(T a, T b, bool greatest) {
  return greatest ? a > b : a < b;
}

template <bool kGreatest, class D, class V = hn::Vec<D>>
GSPMD_INLINE V better_of(D, V a, V b) {
  return kGreatest ? hn::Max(a, b) : hn::Min(a, b);
}

// Of n elements, from 1.
template <bool kGreatest, class T>
Extreme<T> extreme_of(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Extreme<T> result{x[0], false};
  int64_t i = 0;
  if (n >= 2 * lanes) {
    auto a = hn::LoadU(d, x), b = hn::LoadU(d, x + lanes);
    // What is NaN: a sum of it and anything is.
    auto nan = hn::Zero(d);
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      const auto p = hn::LoadU(d, x + i), q = hn::LoadU(d, x + i + lanes);
      a = better_of<kGreatest>(d, a, p);
      b = better_of<kGreatest>(d, b, q);
      if constexpr (std::is_floating_point_v<T>) {
        const auto either = hn::Or(hn::IsNaN(p), hn::IsNaN(q));
        nan = hn::Or(nan, hn::VecFromMask(d, either));
      }
    }
    HWY_ALIGN T best[hn::MaxLanes(d)];
    hn::Store(better_of<kGreatest>(d, a, b), d, best);
    for (int64_t lane = 0; lane < lanes; ++lane)
      if (is_better(best[lane], result.value, kGreatest)) result.value = best[lane];
    if constexpr (std::is_floating_point_v<T>)
      result.has_nan = !hn::AllFalse(d, hn::MaskFromVec(nan));
  }
  for (; i < n; ++i) {
    if (is_better(x[i], result.value, kGreatest)) result.value = x[i];
    result.has_nan |= x[i] != x[i];
  }
  result.has_nan |= x[0] != x[0];
  return result;
}

// Element k of n lines beside the best so far, `best` at `at`.
template <bool kGreatest, class T, class Place>
void compare_row(const T* x, T* best, Place* at, int64_t n, Place k) {
  GSPMD_IVDEP
  for (int64_t j = 0; j < n; ++j) {
    const T b = best[j], v = x[j];
    bool wins = kGreatest ? v > b : v < b;
    if constexpr (std::is_floating_point_v<T>) wins |= (v != v) & (b == b);
    best[j] = wins ? v : b;
    at[j] = wins ? k : at[j];
  }
}

template <bool kGreatest>
struct Places {
  // Blocks that stay in the first-level cache; T: floats widen to it.
  static constexpr int64_t kBlock = 2048, kColumns = 256;

  template <class T>
  static int64_t first(const T* x, int64_t n, T value) {
    return std::find(x, x + n, value) - x;
  }
  template <class T>
  static int64_t first_nan(const T* x, int64_t n) {
    return std::find_if(x, x + n, [](T v) { return v != v; }) - x;
  }

  // `block(i, n)`: elements i to i + n.
  template <class T, class Block>
  static int64_t in_line(int64_t length, const Block& block) {
    int64_t best_block = 0;
    T best{};
    for (int64_t i = 0; i < length; i += kBlock) {
      const int64_t n = std::min(kBlock, length - i);
      const T* x = block(i, n);
      const Extreme<T> found = extreme_of<kGreatest>(x, n);
      if (found.has_nan) return i + first_nan(x, n);
      if (i > 0 && !is_better(found.value, best, kGreatest)) continue;
      best = found.value;
      best_block = i;
    }
    const int64_t n = std::min(kBlock, length - best_block);
    return best_block + first(block(best_block, n), n, best);
  }

  // `row(k, j, n)`: element k of lines j to j + n.
  template <class T, class Row>
  static void in_columns(const ElementLines& lines, int64_t* places, const Row& row) {
    using Place = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
    HWY_ALIGN T best[kColumns];
    HWY_ALIGN Place at[kColumns];
    for (int64_t j = 0; j < lines.count; j += kColumns) {
      const int64_t n = std::min(kColumns, lines.count - j);
      std::copy_n(row(0, j, n), n, best);
      std::fill_n(at, n, Place(0));
      for (int64_t k = 1; k < lines.length; ++k)
        compare_row<kGreatest>(row(k, j, n), best, at, n, static_cast<Place>(k));
      std::copy_n(at, n, places + j);
    }
  }

  template <class T>
  static void of(const ElementLines& lines, int64_t* places) {
    const T* x = reinterpret_cast<const T*>(lines.elements);
    if (lines.step == 1 && lines.count == 1)
      *places = in_line<T>(lines.length, [&](int64_t i, int64_t) { return x + i; });
    else
      in_columns<T>(lines, places,
                    [&](int64_t k, int64_t j, int64_t) { return x + k * lines.step + j; });
  }

  static void of_halves(DType dtype, const ElementLines& lines, int64_t* places) {
    const LoopFunction widen = find_loop_function(LoopOp::convert, dtype, DType::f32);
    HWY_ALIGN float wide[kBlock];
    const auto widened = [&](int64_t at, int64_t n) -> const float* {
      widen(reinterpret_cast<std::byte*>(wide), lines.elements + 2 * at, nullptr, nullptr, n, 0);
      return wide;
    };
    if (lines.step == 1 && lines.count == 1)
      *places = in_line<float>(lines.length, widened);
    else
      in_columns<float>(lines, places, [&](int64_t k, int64_t j, int64_t n) {
        return widened(k * lines.step + j, n);
      });
  }

  static void of_any(DType dtype, const ElementLines& lines, int64_t* places) {
    switch (dtype) {
      case DType::f32:
        return of<float>(lines, places);
      case DType::f64:
        return of<double>(lines, places);
      case DType::s32:
        return of<int32_t>(lines, places);
      case DType::s64:
        return of<int64_t>(lines, places);
      default:
        return of_halves(dtype, lines, places);
    }
  }
};

}  // namespace

void extreme_places(DType dtype, bool greatest, const ElementLines& lines, int64_t* places) {
  greatest ? Places<true>::of_any(dtype, lines, places)
           : Places<false>::of_any(dtype, lines, places);
}
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(extreme_places);

bool has_extreme_places(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
    case DType::s32:
    case DType::s64:
      return true;
    default:
      return false;
  }
}

void find_extreme_places(DType dtype, bool greatest, const ElementLines& lines, int64_t* places) {
  HWY_DYNAMIC_DISPATCH(extreme_places)(dtype, greatest, lines, places);
}
}  // namespace gspmd
#endif
