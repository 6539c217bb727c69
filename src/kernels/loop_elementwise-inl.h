// Shapes of elementwise loops, for the files compiled once per instruction set. Included inside
// each target's pass (see hwy/foreach_target.h), hence the toggled guard.
#if defined(GSPMD_LOOP_ELEMENTWISE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GSPMD_LOOP_ELEMENTWISE_INL
#undef GSPMD_LOOP_ELEMENTWISE_INL
#else
#define GSPMD_LOOP_ELEMENTWISE_INL
#endif

#include <bit>
#include <cmath>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/extrema-inl.h"
#include "kernels/loop_functions.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {

// NaN where either is NaN, and -0 < +0, as the reference kernels have it.
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (!std::is_floating_point_v<T>) {
      return a > b ? a : b;
    } else {
      using B = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      const T same = std::bit_cast<T>(std::bit_cast<B>(a) & std::bit_cast<B>(b));
      const T other = a > b || std::isnan(a) ? a : b;
      return a == b ? same : other;
    }
  }
};
struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (!std::is_floating_point_v<T>) {
      return a < b ? a : b;
    } else {
      using B = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      const T same = std::bit_cast<T>(std::bit_cast<B>(a) | std::bit_cast<B>(b));
      const T other = a < b || std::isnan(a) ? a : b;
      return a == b ? same : other;
    }
  }
};

template <class R, class T, class F>
void unary_loop(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
                uint32_t) {
  R* r = reinterpret_cast<R*>(out);
  const T* x = reinterpret_cast<const T*>(a);
  GSPMD_IVDEP
  for (int64_t i = 0; i < n; ++i) r[i] = F::apply(x[i]);
}

template <class R, class T, class F>
void binary_loop(std::byte* out, const std::byte* a, const std::byte* b, const std::byte*,
                 int64_t n, uint32_t scalars) {
  R* r = reinterpret_cast<R*>(out);
  const T* x = reinterpret_cast<const T*>(a);
  const T* y = reinterpret_cast<const T*>(b);
  if ((scalars & 3) == 0) {
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = F::apply(x[i], y[i]);
  } else if ((scalars & 3) == 2) {
    const T s = *y;
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = F::apply(x[i], s);
  } else if ((scalars & 3) == 1) {
    const T s = *x;
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = F::apply(s, y[i]);
  } else {
    const R s = F::apply(*x, *y);
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = s;
  }
}

template <class R, class A, class B, class C, class F>
void ternary_loop(std::byte* out, const std::byte* a, const std::byte* b, const std::byte* c,
                  int64_t n, uint32_t scalars) {
  R* r = reinterpret_cast<R*>(out);
  const A* x = reinterpret_cast<const A*>(a);
  const B* y = reinterpret_cast<const B*>(b);
  const C* z = reinterpret_cast<const C*>(c);
  const int64_t sx = scalars & 1 ? 0 : 1, sy = scalars & 2 ? 0 : 1, sz = scalars & 4 ? 0 : 1;
  if (sx + sy + sz == 3) {
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = F::apply(x[i], y[i], z[i]);
  } else if (sx == 1 && sy == 1) {
    const C s = *z;
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = F::apply(x[i], y[i], s);
  } else if (sx == 1 && sz == 1) {
    const B s = *y;
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = F::apply(x[i], s, z[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) r[i] = F::apply(x[i * sx], y[i * sy], z[i * sz]);
  }
}

// An element as it is.
struct Plain {
  template <class T>
  static T read(T x) {
    return x;
  }
  template <class D, class T>
  static GSPMD_INLINE hwy::HWY_NAMESPACE::Vec<D> load(D d, const T* x) {
    return hwy::HWY_NAMESPACE::LoadU(d, x);
  }
};

// kFoldRows rows, `step` elements apart; Read makes a T, or a vector of them, what is combined.
template <bool kMax, class A, class T, class Read>
void fold_extreme_rows(A* r, const T* x, int64_t step, int64_t n, bool starts) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto fold = [&](auto d, int64_t i) HWY_ATTR {
    Extremum<kMax, decltype(d)> best(d, starts ? Read::load(d, x + i) : hn::LoadU(d, r + i));
    for (int64_t k = starts ? 1 : 0; k < kFoldRows; ++k) best.add(Read::load(d, x + k * step + i));
    hn::StoreU(best.value(), d, r + i);
  };
  const hn::ScalableTag<A> d;
  const hn::CappedTag<A, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) fold(d, i);
  for (; i < n; ++i) fold(one, i);
}

template <class A, class T, class F, class Read>
void fold_rows(std::byte* sum, const std::byte* rows, int64_t step, int64_t n, bool starts) {
  A* __restrict r = reinterpret_cast<A*>(sum);
  const T* __restrict x = reinterpret_cast<const T*>(rows);
  constexpr bool kMax = std::is_same_v<F, Maximum>;
  if constexpr (std::is_floating_point_v<A> && (kMax || std::is_same_v<F, Minimum>)) {
    fold_extreme_rows<kMax, A, T, Read>(r, x, step, n, starts);
  } else {
    const auto rest = [&](A value, int64_t i, int64_t first) {
      for (int64_t k = first; k < kFoldRows; ++k)
        value = F::apply(value, Read::read(x[k * step + i]));
      return value;
    };
    if (starts) {
      GSPMD_IVDEP
      for (int64_t i = 0; i < n; ++i) r[i] = rest(Read::read(x[i]), i, 1);
    } else {
      GSPMD_IVDEP
      for (int64_t i = 0; i < n; ++i) r[i] = rest(r[i], i, 0);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#endif
