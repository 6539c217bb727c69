// Depthwise convolutions of channels last: six positions by two vectors of features in registers.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise_sums.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/depthwise_rows.h"
#include "kernels/stream.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kDepthwisePositions = 6;
using DepthwiseTag = hn::ScalableTag<float>;
using DepthwiseVector = hn::Vec<DepthwiseTag>;

// What elements are in memory, and in registers.
struct DepthwiseF32 {
  using Stored = float;
  static GSPMD_INLINE DepthwiseVector load(const float* from) {
    return hn::LoadU(DepthwiseTag(), from);
  }
  static GSPMD_INLINE void store(DepthwiseVector v, float* to) {
    hn::StoreU(v, DepthwiseTag(), to);
  }
};

// Rounded to the nearest, of two the even one. What is NaN has no bits behind those that stay: sums
// of products have it from an operand, or as the processor makes it.
struct DepthwiseBf16 {
  using Stored = uint16_t;
  using Bits = hn::RebindToUnsigned<DepthwiseTag>;
  using Narrow = hn::Rebind<uint16_t, DepthwiseTag>;

  static GSPMD_INLINE hn::Vec<Bits> rounded(DepthwiseVector v) {
    const Bits d;
    const auto bits = hn::BitCast(d, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    return hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fffu)));
  }
  static GSPMD_INLINE DepthwiseVector load(const uint16_t* from) {
    const auto bits = hn::PromoteTo(Bits(), hn::LoadU(Narrow(), from));
    return hn::BitCast(DepthwiseTag(), hn::ShiftLeft<16>(bits));
  }
  static GSPMD_INLINE void store(DepthwiseVector v, uint16_t* to) {
    hn::StoreU(hn::TruncateTo(Narrow(), hn::ShiftRight<16>(rounded(v))), Narrow(), to);
  }
#if HWY_TARGET == HWY_SCALAR
  static void load(const uint16_t* from, DepthwiseVector& first, DepthwiseVector& second) {
    first = load(from), second = load(from + 1);
  }
  static void store(DepthwiseVector first, DepthwiseVector second, uint16_t* to) {
    store(first, to), store(second, to + 1);
  }
#else
  using Pairs = hn::Repartition<uint16_t, DepthwiseTag>;
  // Of twice as many those at even places, and the others.
  static GSPMD_INLINE void load(const uint16_t* from, DepthwiseVector& even, DepthwiseVector& odd) {
    const Bits d;
    const auto bits = hn::BitCast(d, hn::LoadU(Pairs(), from));
    even = hn::BitCast(DepthwiseTag(), hn::ShiftLeft<16>(bits));
    odd = hn::BitCast(DepthwiseTag(), hn::And(bits, hn::Set(d, 0xffff0000u)));
  }
  static GSPMD_INLINE void store(DepthwiseVector even, DepthwiseVector odd, uint16_t* to) {
    const auto upper = hn::And(rounded(odd), hn::Set(Bits(), 0xffff0000u));
    const auto both = hn::Or(hn::ShiftRight<16>(rounded(even)), upper);
    hn::StoreU(hn::BitCast(Pairs(), both), Pairs(), to);
  }
#endif
};

struct DepthwiseF16 {
  using Stored = uint16_t;
  using Bits = hn::Rebind<uint16_t, DepthwiseTag>;
  using Halves = hn::Rebind<hwy::float16_t, DepthwiseTag>;

  static GSPMD_INLINE DepthwiseVector load(const uint16_t* from) {
    return hn::PromoteTo(DepthwiseTag(), hn::BitCast(Halves(), hn::LoadU(Bits(), from)));
  }
  static GSPMD_INLINE void store(DepthwiseVector v, uint16_t* to) {
    hn::StoreU(hn::BitCast(Bits(), hn::DemoteTo(Halves(), v)), Bits(), to);
  }
};

// Features of one position: whole vectors, or with `kFew` so many of one. As pairs they are in
// registers where a load and a store of pairs see the same ones.
template <class X, class Y>
constexpr bool kDepthwisePairs = std::is_same_v<X, DepthwiseBf16>&& std::is_same_v<Y, X>;

template <bool kFew, bool kPairs, class X, size_t kVectors>
GSPMD_INLINE void depthwise_load(const typename X::Stored* from, [[maybe_unused]] int64_t few,
                                 DepthwiseVector (&to)[kVectors]) {
  if constexpr (kFew) {
    HWY_ALIGN typename X::Stored padded[HWY_LANES(float)] = {};
    std::copy_n(from, few, padded);
    to[0] = X::load(padded);
  } else if constexpr (kPairs && kVectors == 2) {
    X::load(from, to[0], to[1]);
  } else {
    const auto lanes = static_cast<int64_t>(hn::Lanes(DepthwiseTag()));
    for (size_t v = 0; v < kVectors; ++v) to[v] = X::load(from + static_cast<int64_t>(v) * lanes);
  }
}

template <bool kFew, bool kPairs, bool kStream, class Y, size_t kVectors>
GSPMD_INLINE void depthwise_store(const DepthwiseVector (&sums)[kVectors],
                                  [[maybe_unused]] int64_t few, typename Y::Stored* to) {
  if constexpr (kFew) {
    HWY_ALIGN typename Y::Stored padded[HWY_LANES(float)];
    Y::store(sums[0], padded);
    std::copy_n(padded, few, to);
  } else if constexpr (kPairs && kVectors == 2) {
    Y::store(sums[0], sums[1], to);
  } else {
    const DepthwiseTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (size_t v = 0; v < kVectors; ++v, to += lanes) {
      if constexpr (kStream)
        hn::Stream(sums[v], d, to);
      else
        Y::store(sums[v], to);
    }
  }
}

// Positions [first, last) of a row, which read the same taps: of tap t the elements `x[t]` behind
// the place that a position begins at, and the weights at `w[t]`.
struct DepthwiseRun {
  int64_t first, last;
  const int64_t *x, *w;
  int64_t taps;
};

// A row: where position 0 begins in x, and what is from one to the next.
template <class X, class Y>
struct DepthwiseRow {
  const typename X::Stored *x, *w;
  typename Y::Stored* y;
  int64_t at, x_step, y_step;
};

// Features from `c` on of so many positions from p on, or of one whose taps are summed in four
// chains.
template <int64_t kPositions, int64_t kVectors, bool kFew, bool kStream, class X, class Y>
GSPMD_INLINE void depthwise_block(const DepthwiseRow<X, Y>& row, const DepthwiseRun& run, int64_t p,
                                  int64_t c, int64_t few) {
  constexpr bool kPairs = kDepthwisePairs<X, Y>;
  constexpr int64_t kChains = kPositions == 1 ? 4 : 1;
  const int64_t at = row.at + p * row.x_step + c;
  DepthwiseVector sums[kPositions * kChains][kVectors];
  for (auto& of_position : sums)
    for (auto& sum : of_position) sum = hn::Zero(DepthwiseTag());
  const auto add = [&](int64_t t, int64_t chain) HWY_ATTR {
    DepthwiseVector weights[kVectors], read[kVectors];
    depthwise_load<kFew, kPairs, X>(row.w + (run.w[t] + c), few, weights);
    const auto* from = row.x + (at + run.x[t]);
    for (int64_t n = 0; n < kPositions; ++n, from += row.x_step) {
      depthwise_load<kFew, kPairs, X>(from, few, read);
      for (int64_t v = 0; v < kVectors; ++v)
        sums[n + chain][v] = hn::MulAdd(read[v], weights[v], sums[n + chain][v]);
    }
  };
  int64_t t = 0;
  for (; t + kChains <= run.taps; t += kChains)
    for (int64_t chain = 0; chain < kChains; ++chain) add(t + chain, chain);
  for (; t < run.taps; ++t) add(t, 0);
  for (int64_t n = 0; n < kPositions; ++n) {
    if constexpr (kChains == 4)
      for (int64_t v = 0; v < kVectors; ++v)
        sums[n][v] = hn::Add(hn::Add(sums[n][v], sums[1][v]), hn::Add(sums[2][v], sums[3][v]));
    depthwise_store<kFew, kPairs, kStream, Y>(sums[n], few, row.y + (p + n) * row.y_step + c);
  }
}

// All features of so many positions from p on, as they lie in memory.
template <int64_t kPositions, bool kStream, class X, class Y>
void depthwise_positions(const DepthwiseRow<X, Y>& row, const DepthwiseRun& run, int64_t p,
                         int64_t channels) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(DepthwiseTag()));
  int64_t c = 0;
  for (; c + 2 * lanes <= channels; c += 2 * lanes)
    depthwise_block<kPositions, 2, false, kStream>(row, run, p, c, lanes);
  if constexpr (kStream) return;
  for (; c < channels && lanes <= channels; c += lanes) {
    c = std::min(c, channels - lanes);  // the last ones maybe once more
    depthwise_block<kPositions, 1, false, false>(row, run, p, c, lanes);
  }
  if (c < channels) depthwise_block<kPositions, 1, true, false>(row, run, p, c, channels - c);
}

// The first tap of a position that is inside of x, and behind the last.
std::pair<int64_t, int64_t> depthwise_inside(const DepthwiseRows::Axis& a, int64_t position) {
  const int64_t first = position * a.stride - a.pad;
  const int64_t begin = first < 0 ? (-first + a.dilation - 1) / a.dilation : 0;
  const int64_t end = first >= a.input ? 0 : (a.input - first + a.dilation - 1) / a.dilation;
  return {std::min(begin, a.taps), std::min(end, a.taps)};
}

// The runs of positions (i, j, ...); how many.
int64_t depthwise_runs(const DepthwiseRows& e, int64_t i, int64_t j, DepthwiseRun* runs,
                       int64_t* offsets) {
  const DepthwiseRows::Axis &outer = e.axes[0], &middle = e.axes[1], &inner = e.axes[2];
  const auto [i0, i1] = depthwise_inside(outer, i);
  const auto [j0, j1] = depthwise_inside(middle, j);
  int64_t count = 0;
  std::pair<int64_t, int64_t> last{-1, -1};
  for (int64_t p = 0; p < inner.positions; ++p) {
    const auto inside = depthwise_inside(inner, p);
    if (inside == last) {
      runs[count - 1].last = p + 1;
      continue;
    }
    last = inside;
    int64_t *const x = offsets, *const w = x + e.taps();
    offsets = w + e.taps();
    int64_t taps = 0;
    for (int64_t a = i0; a < i1; ++a)
      for (int64_t b = j0; b < j1; ++b)
        for (int64_t k = inside.first; k < inside.second; ++k) {
          x[taps] = a * outer.dilation * outer.x_step + b * middle.dilation * middle.x_step +
                    k * inner.dilation * inner.x_step;
          w[taps++] = e.w_first + a * outer.w_step + b * middle.w_step + k * inner.w_step;
        }
    runs[count++] = {p, p + 1, x, w, taps};
  }
  return count;
}

// Lines of x that no row before reads and the next one does, in the order in which they lie: what
// is read here lies far apart, so that the processor does not fetch ahead itself.
template <class X>
struct DepthwiseAhead {
  DepthwiseAhead(const DepthwiseRows& e, const X* x, int64_t image, int64_t i, int64_t j) {
    const DepthwiseRows::Axis &outer = e.axes[0], &middle = e.axes[1];
    const auto last = [](const DepthwiseRows::Axis& a, int64_t position) {
      return std::clamp<int64_t>(position * a.stride - a.pad + (a.taps - 1) * a.dilation, 0,
                                 a.input - 1);
    };
    const int64_t begin =
        image * e.x_image + last(outer, i) * outer.x_step + (last(middle, j) + 1) * middle.x_step;
    const int64_t rows = std::min(middle.stride, middle.taps);
    const int64_t end = std::min(begin + rows * middle.x_step, e.images * e.x_image);
    next = x + begin;
    lines = std::max<int64_t>(end - begin, 0) * int64_t{sizeof(X)} / 64;
  }
  // Parts [first, last) of n.
  GSPMD_INLINE void fetch(int64_t first, int64_t last, int64_t n) const {
    for (int64_t line = first * lines / n; line < last * lines / n; ++line)
      __builtin_prefetch(next + line * (64 / int64_t{sizeof(X)}), 0, kSecondLevel);
  }

  static constexpr int kSecondLevel = 2;
  const X* next;
  int64_t lines;
};

template <bool kStream, class X, class Y>
void depthwise_row(const DepthwiseRow<X, Y>& row, const DepthwiseRun* runs, int64_t count,
                   int64_t positions, int64_t channels,
                   const DepthwiseAhead<typename X::Stored>& ahead) {
  for (int64_t r = 0; r < count; ++r) {
    const DepthwiseRun& run = runs[r];
    int64_t p = run.first;
    for (; p + kDepthwisePositions <= run.last; p += kDepthwisePositions) {
      ahead.fetch(p, p + kDepthwisePositions, positions);
      depthwise_positions<kDepthwisePositions, kStream>(row, run, p, channels);
    }
    for (; p < run.last; ++p) {
      ahead.fetch(p, p + 1, positions);
      depthwise_positions<1, kStream>(row, run, p, channels);
    }
  }
}

// Whether whole vectors of it are written past the caches.
template <class Y>
bool streams_result(const DepthwiseRows& e, const typename Y::Stored* y) {
  if (!std::is_same_v<Y, DepthwiseF32>) return false;
  const auto lanes = static_cast<int64_t>(hn::Lanes(DepthwiseTag()));
  const auto is_whole = [&](int64_t step) { return step % (2 * lanes) == 0; };
  return is_streamed(e.rows() * e.axes[2].positions * e.channels * int64_t{sizeof(float)}) &&
         reinterpret_cast<uintptr_t>(y) % (static_cast<size_t>(lanes) * sizeof(float)) == 0 &&
         is_whole(e.channels) && is_whole(e.y_image) &&
         std::all_of(e.axes.begin(), e.axes.end(),
                     [&](const DepthwiseRows::Axis& axis) { return is_whole(axis.y_step); });
}

template <class X, class Y>
void depthwise_rows(const DepthwiseRows& e, int64_t first, int64_t last, const std::byte* x_bytes,
                    const std::byte* w_bytes, std::byte* y_bytes, std::byte* scratch) {
  const DepthwiseRows::Axis &outer = e.axes[0], &middle = e.axes[1], &inner = e.axes[2];
  const auto* const x = reinterpret_cast<const typename X::Stored*>(x_bytes);
  const auto* const w = reinterpret_cast<const typename X::Stored*>(w_bytes);
  auto* const y = reinterpret_cast<typename Y::Stored*>(y_bytes);
  auto* const runs = reinterpret_cast<DepthwiseRun*>(scratch);
  auto* const offsets = reinterpret_cast<int64_t*>(runs + e.most_runs());
  const bool streams = streams_result<Y>(e, y);
  for (int64_t n = first; n < last; ++n) {
    const int64_t i = n / middle.positions % outer.positions, j = n % middle.positions;
    const int64_t image = n / (middle.positions * outer.positions);
    const int64_t count = depthwise_runs(e, i, j, runs, offsets);
    const DepthwiseRow<X, Y> row{x,
                                 w,
                                 y + image * e.y_image + i * outer.y_step + j * middle.y_step,
                                 image * e.x_image + (i * outer.stride - outer.pad) * outer.x_step +
                                     (j * middle.stride - middle.pad) * middle.x_step -
                                     inner.pad * inner.x_step,
                                 inner.stride * inner.x_step,
                                 inner.y_step};
    const DepthwiseAhead<typename X::Stored> ahead(e, row.x, image, i, j);
    if constexpr (std::is_same_v<Y, DepthwiseF32>) {
      if (streams) {
        depthwise_row<true>(row, runs, count, inner.positions, e.channels, ahead);
        continue;
      }
    }
    depthwise_row<false>(row, runs, count, inner.positions, e.channels, ahead);
  }
  if (streams) flush_stream();
}

template <class X>
DepthwiseRowsFunction depthwise_rows_of(DType operand, DType result) {
  if (result == DType::f32) return depthwise_rows<X, DepthwiseF32>;
  return result == operand ? depthwise_rows<X, X> : nullptr;
}

}  // namespace

DepthwiseRowsFunction find_depthwise_rows(DType operand, DType result) {
  if (operand == DType::f32) return depthwise_rows_of<DepthwiseF32>(operand, result);
  if (operand == DType::bf16) return depthwise_rows_of<DepthwiseBf16>(operand, result);
  return operand == DType::f16 ? depthwise_rows_of<DepthwiseF16>(operand, result) : nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_depthwise_rows);

DepthwiseRowsFunction depthwise_rows_function(DType operand, DType result) {
  return HWY_DYNAMIC_DISPATCH(find_depthwise_rows)(operand, result);
}

}  // namespace gspmd
#endif
