// Extrema of windows that slide along their rows, straight from the rows: what is combined of them,
// and then along them, stays in registers.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>
#include <limits>

#include "hwy/cache_control.h"
#include "kernels/extrema-inl.h"
#include "kernels/pool_windows.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kAhead = 4096;  // bytes that are fetched ahead

// Elements as integers of which the largest stands for the extreme one: of NaN and anything that is
// NaN, and -0 lies below +0. So a step is one instruction.
template <bool kMax, class T>
class Ranks {
 public:
  using D = hn::ScalableTag<T>;
  using DI = hn::RebindToSigned<D>;
  using Rank = hn::Vec<DI>;

  GSPMD_INLINE Rank of(hn::Vec<D> x) const {
    if constexpr (!hwy::IsFloat<T>()) {
      const Rank bits = hn::BitCast(DI(), x);
      return kMax ? bits : hn::Not(bits);
    } else {
      return of_float(x, hn::IsNaN(x));
    }
  }
  // The best of three.
  GSPMD_INLINE Rank best(hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c) const {
#if HWY_TARGET <= HWY_AVX3
    if constexpr (hwy::IsFloat<T>()) {
      const hn::Mask<D> nan = hn::Or(hn::Mask<D>{either_is_nan(a.raw, b.raw)}, hn::IsNaN(c));
      return of_float(hn::Vec<D>{number(number(a.raw, b.raw), c.raw)}, nan);
    }
#endif
    return hn::Max(hn::Max(of(a), of(b)), of(c));
  }
  GSPMD_INLINE hn::Vec<D> element(Rank rank) const {
    const D d;
    const Rank bits = kMax ? rank : hn::Not(rank);
    if constexpr (!hwy::IsFloat<T>()) {
      return hn::BitCast(d, bits);
    } else {
      const hn::Vec<D> x = hn::BitCast(d, in_order(DI(), bits));
      return kMax ? x : hn::IfThenElse(hn::IsNaN(x), hn::NaN(d), x);
    }
  }

 private:
  using Integer = hn::TFromD<DI>;
  static GSPMD_INLINE Rank most() { return hn::Set(DI(), std::numeric_limits<Integer>::max()); }
  GSPMD_INLINE Rank of_float(hn::Vec<D> x, hn::Mask<D> nan) const {
    const Rank rank = in_order(DI(), hn::BitCast(DI(), x));
    return hn::IfThenElse(hn::RebindMask(DI(), nan), most(), kMax ? rank : hn::Not(rank));
  }
#if HWY_TARGET <= HWY_AVX3
  // The extreme one of two numbers, of zeros too; the number beside NaN.
  static constexpr int kRange = kMax ? 5 : 4;
  static GSPMD_INLINE __m512 number(__m512 a, __m512 b) { return _mm512_range_ps(a, b, kRange); }
  static GSPMD_INLINE __m512d number(__m512d a, __m512d b) { return _mm512_range_pd(a, b, kRange); }
  static GSPMD_INLINE __mmask16 either_is_nan(__m512 a, __m512 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
  }
  static GSPMD_INLINE __mmask8 either_is_nan(__m512d a, __m512d b) {
    return _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q);
  }
#endif
};

// Windows of kCount neighbours, kStride apart, of which kBefore lie before the row in the first.
template <bool kMax, class T, int kStride, int kCount, int kBefore>
class RowWindows {
  using R = Ranks<kMax, T>;
  using D = typename R::D;
  using DI = typename R::DI;
  using Rank = typename R::Rank;
  static constexpr int64_t kRows = 3;  // at once

 public:
  GSPMD_INLINE RowWindows(const PoolWindow& w, const std::byte* init)
      : w_(w), in_(reinterpret_cast<const T*>(w.in)) {
    T value;
    std::memcpy(&value, init, sizeof(T));
    init_ = ranks_.of(hn::Set(d_, value));
  }

  // Those of so many windows of rows one after the other, `advance` elements apart.
  GSPMD_INLINE void run(int64_t count, int64_t advance, int64_t positions, T* out) {
    if (w_.count == 0)
      std::fill_n(out, count * positions, hn::GetLane(ranks_.element(init_)));
    else
      for (int64_t i = 0; i < count; ++i, in_ += advance, out += positions)
        windows({row(0), row(1), row(2)}, positions, out);
  }

 private:
  static constexpr int floor_div(int a) {
    return a >= 0 ? a / kStride : -((kStride - 1 - a) / kStride);
  }
  static constexpr bool kLooksAhead = floor_div(kCount - 1 - kBefore) > 0;

  // Elements whose number is i modulo kStride, of so many vectors of windows.
  struct Parts {
    Rank of[kStride];
  };
  // Of three such, one behind the other.
  struct Near {
    Parts before, here, behind;
  };

  struct Rows {
    const T *a, *b, *c;
  };
  // The last row again where there are not so many.
  GSPMD_INLINE const T* row(int64_t n) const { return in_ + w_.offsets[std::min(n, w_.count - 1)]; }

  GSPMD_INLINE void windows(const Rows& rows, int64_t positions, T* out) const {
    Near near;
    for (int i = 0; i < kStride; ++i) near.before.of[i] = init_;
    near.here = near.behind = near.before;
    if constexpr (kLooksAhead) near.here = parts<false>(rows, 0);
    const int64_t ahead = kLooksAhead ? lanes_ : 0;
    int64_t i = 0;
    for (; i + lanes_ <= positions && (i + lanes_ + ahead) * kStride <= w_.inner; i += lanes_)
      hn::StoreU(next(near, parts<true>(rows, (i + ahead) * kStride)), d_, out + i);
    for (; i < positions; i += lanes_)
      store_first(next(near, parts<false>(rows, (i + ahead) * kStride)),
                  std::min(lanes_, positions - i), out + i);
  }

  GSPMD_INLINE hn::Vec<D> next(Near& near, const Parts& parts) const {
    (kLooksAhead ? near.behind : near.here) = parts;
    const Rank best = hn::Max(along<0>(near), init_);
    near.before = near.here;
    if constexpr (kLooksAhead) near.here = near.behind;
    return ranks_.element(best);
  }

  // The best of elements kFrom... of the windows.
  template <int kFrom>
  GSPMD_INLINE Rank along(const Near& near) const {
    constexpr int kShift = floor_div(kFrom - kBefore), kPart = kFrom - kBefore - kShift * kStride;
    const Rank one =
        shifted<kShift>(near.before.of[kPart], near.here.of[kPart], near.behind.of[kPart]);
    if constexpr (kFrom + 1 == kCount)
      return one;
    else
      return hn::Max(one, along<kFrom + 1>(near));
  }

  // Lane i is that of lane i + kShift where the three stand one behind the other.
  template <int kShift>
  GSPMD_INLINE Rank shifted(Rank before, Rank here, Rank behind) const {
    if constexpr (kShift == 0) return here;
    using Integer = hn::TFromD<DI>;
    const auto lanes = static_cast<Integer>(lanes_);
    const auto place = hn::Iota(di_, static_cast<Integer>(kShift < 0 ? lanes + kShift : kShift));
    const auto index =
        hn::IndicesFromVec(di_, hn::And(place, hn::Set(di_, static_cast<Integer>(lanes - 1))));
    const auto first = hn::FirstN(di_, static_cast<size_t>(kShift < 0 ? -kShift : lanes - kShift));
    return hn::IfThenElse(first, hn::TableLookupLanes(kShift < 0 ? before : here, index),
                          hn::TableLookupLanes(kShift < 0 ? here : behind, index));
  }

  // Of the elements from `at` on. kWhole: all of them are in the rows.
  template <bool kWhole>
  GSPMD_INLINE Parts parts(const Rows& rows, int64_t at) const {
    if constexpr (kStride == 1) {
      return {{best_of_rows<kWhole>(rows, at)}};
    } else {
      const Rank a = best_of_rows<kWhole>(rows, at);
      const Rank b = best_of_rows<kWhole>(rows, at + lanes_);
      return {{hn::ConcatEven(di_, b, a), hn::ConcatOdd(di_, b, a)}};
    }
  }

  template <bool kWhole>
  GSPMD_INLINE Rank best_of_rows(const Rows& rows, int64_t at) const {
    if (!kWhole && at + lanes_ > w_.inner)
      return at < w_.inner ? best_of_end(w_, in_, at, init_) : init_;
    Rank best = best_of_three({rows.a + at, rows.b + at, rows.c + at});
    for (int64_t n = kRows; n < w_.count; n += kRows)
      best = hn::Max(best, best_of_three({row(n) + at, row(n + 1) + at, row(n + 2) + at}));
    return best;
  }
  GSPMD_INLINE Rank best_of_three(const Rows& at) const {
    hwy::Prefetch(at.b + kAhead / sizeof(T));
    hwy::Prefetch(at.c + kAhead / sizeof(T));
    return ranks_.best(hn::LoadU(d_, at.a), hn::LoadU(d_, at.b), hn::LoadU(d_, at.c));
  }
  static HWY_NOINLINE Rank best_of_end(const PoolWindow& w, const T* in, int64_t at, Rank init) {
    const D d;
    const R ranks;
    HWY_ALIGN T end[HWY_LANES(T)];
    hn::Store(ranks.element(init), d, end);
    Rank best = init;
    for (int64_t n = 0; n < w.count; ++n) {
      std::copy_n(in + w.offsets[n] + at, w.inner - at, end);
      best = hn::Max(best, ranks.of(hn::Load(d, end)));
    }
    return best;
  }

  GSPMD_INLINE void store_first(hn::Vec<D> x, int64_t n, T* to) const {
#if HWY_TARGET <= HWY_AVX2
    hn::BlendedStore(x, hn::FirstN(d_, static_cast<size_t>(n)), d_, to);
#else
    HWY_ALIGN T all[HWY_LANES(T)];
    hn::Store(x, d_, all);
    std::copy_n(all, n, to);
#endif
  }

  const PoolWindow& w_;
  const T* in_;
  Rank init_;
  const R ranks_ = {};
  const D d_ = {};
  const DI di_ = {};
  const int64_t lanes_ = static_cast<int64_t>(hn::Lanes(D()));
};

template <bool kMax, class T, int kStride, int kCount, int kBefore>
void row_windows(const PoolLine& line, const PoolWindow& window, const PoolRepeat& repeat,
                 const std::byte* init, std::byte* out) {
  RowWindows<kMax, T, kStride, kCount, kBefore>(window, init)
      .run(repeat.count, repeat.advance, line.positions, reinterpret_cast<T*>(out));
}

template <bool kMax, class T>
PoolRowsFunction rows_function(const PoolLine& line) {
  const auto is = [&](int64_t stride, int64_t count, int64_t before) {
    return line.step == 1 && line.stride == stride && line.count == count && line.before == before;
  };
  if (is(2, 3, 1)) return row_windows<kMax, T, 2, 3, 1>;
  if (is(2, 3, 0)) return row_windows<kMax, T, 2, 3, 0>;
  if (is(2, 2, 0)) return row_windows<kMax, T, 2, 2, 0>;
  if (is(1, 3, 1)) return row_windows<kMax, T, 1, 3, 1>;
  return nullptr;
}

template <class T>
PoolRowsFunction rows_function(PoolOp op, const PoolLine& line) {
  if (op == PoolOp::max) return rows_function<true, T>(line);
  return op == PoolOp::min ? rows_function<false, T>(line) : nullptr;
}

#endif

}  // namespace

PoolRowsFunction find_pool_rows([[maybe_unused]] DType dtype, [[maybe_unused]] PoolOp op,
                                [[maybe_unused]] const PoolLine& line) {
#if HWY_TARGET != HWY_SCALAR
  if (dtype == DType::f32) return rows_function<float>(op, line);
  if (dtype == DType::f64) return rows_function<double>(op, line);
  if (dtype == DType::s32) return rows_function<int32_t>(op, line);
#endif
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_pool_rows);

PoolRowsFunction pool_rows_function(DType dtype, PoolOp op, const PoolLine& line) {
  return HWY_DYNAMIC_DISPATCH(find_pool_rows)(dtype, op, line);
}

}  // namespace gspmd
#endif
