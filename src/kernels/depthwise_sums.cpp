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

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kDepthwisePositions = 6;
using DepthwiseTag = hn::ScalableTag<float>;

// `lanes` of them, of bf16 as bits.
template <bool kFew, class X>
GSPMD_INLINE hn::Vec<DepthwiseTag> depthwise_load(const X* from, [[maybe_unused]] int64_t lanes) {
  const DepthwiseTag d;
  if constexpr (kFew) {
    HWY_ALIGN X few[HWY_LANES(float)] = {};
    std::copy_n(from, lanes, few);
    return depthwise_load<false>(few, lanes);
  }
  if constexpr (std::is_same_v<X, float>) {
    return hn::LoadU(d, from);
  } else {
    const hn::Rebind<uint16_t, DepthwiseTag> narrow;
    const hn::RebindToUnsigned<DepthwiseTag> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(narrow, from))));
  }
}

// As bf16 rounded to the nearest, of two the even one; what is NaN stays so.
template <bool kFew, class Y>
GSPMD_INLINE void depthwise_store(hn::Vec<DepthwiseTag> sum, Y* to,
                                  [[maybe_unused]] int64_t lanes) {
  const DepthwiseTag d;
  if constexpr (kFew) {
    HWY_ALIGN Y few[HWY_LANES(float)];
    depthwise_store<false>(sum, few, lanes);
    std::copy_n(few, lanes, to);
    return;
  }
  if constexpr (std::is_same_v<Y, float>) {
    hn::StoreU(sum, d, to);
  } else {
    const hn::RebindToUnsigned<DepthwiseTag> du;
    const hn::Rebind<uint16_t, DepthwiseTag> narrow;
    const auto bits = hn::BitCast(du, sum);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    const auto nan = hn::RebindMask(du, hn::IsNaN(sum));
    const auto whole = hn::IfThenElse(nan, hn::Or(bits, hn::Set(du, 0x400000u)), rounded);
    hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(whole)), narrow, to);
  }
}

// Positions [first, last) of a row, which read the same taps: of tap t the elements `x[t]` behind
// the place that a position begins at, and the weights at `w[t]`.
struct DepthwiseRun {
  int64_t first, last;
  const int64_t *x, *w;
  int64_t taps;
};

// Features from `c` on of a row: where position 0 begins in x, and what is from one to the next.
template <class X, class Y>
struct DepthwiseRow {
  const X* x;
  const float* w;
  Y* y;
  int64_t at, x_step, y_step;
};

// So many positions from p on, or one whose taps are summed in four chains.
template <int64_t kPositions, int64_t kVectors, bool kFew, class X, class Y>
GSPMD_INLINE void depthwise_block(const DepthwiseRow<X, Y>& row, const DepthwiseRun& run, int64_t p,
                                  int64_t c, int64_t lanes) {
  constexpr int64_t kChains = kPositions == 1 ? 4 : 1;
  const DepthwiseTag d;
  const auto all = static_cast<int64_t>(hn::Lanes(d));
  const int64_t at = row.at + p * row.x_step + c;
  hn::Vec<DepthwiseTag> sums[kPositions * kChains][kVectors];
  for (auto& of_position : sums)
    for (auto& sum : of_position) sum = hn::Zero(d);
  const auto add = [&](int64_t t, int64_t chain) HWY_ATTR {
    const float* const by = row.w + (run.w[t] + c);
    const X* const from = row.x + (at + run.x[t]);
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto weight = depthwise_load<kFew>(by + v * all, lanes);
      for (int64_t n = 0; n < kPositions; ++n)
        sums[n + chain][v] =
            hn::MulAdd(depthwise_load<kFew>(from + n * row.x_step + v * all, lanes), weight,
                       sums[n + chain][v]);
    }
  };
  int64_t t = 0;
  for (; t + kChains <= run.taps; t += kChains)
    for (int64_t chain = 0; chain < kChains; ++chain) add(t + chain, chain);
  for (; t < run.taps; ++t) add(t, 0);
  for (int64_t n = 0; n < kPositions; ++n)
    for (int64_t v = 0; v < kVectors; ++v) {
      auto sum = sums[n][v];
      if constexpr (kChains == 4)
        sum = hn::Add(hn::Add(sum, sums[1][v]), hn::Add(sums[2][v], sums[3][v]));
      depthwise_store<kFew>(sum, row.y + (p + n) * row.y_step + c + v * all, lanes);
    }
}

template <int64_t kVectors, bool kFew, class X, class Y>
void depthwise_features(const DepthwiseRow<X, Y>& row, const DepthwiseRun* runs, int64_t count,
                        int64_t c, int64_t lanes) {
  if constexpr (!kFew) lanes = static_cast<int64_t>(hn::Lanes(DepthwiseTag()));
  for (int64_t r = 0; r < count; ++r) {
    const DepthwiseRun run = runs[r];
    int64_t p = run.first;
    for (; p + kDepthwisePositions <= run.last; p += kDepthwisePositions)
      depthwise_block<kDepthwisePositions, kVectors, kFew>(row, run, p, c, lanes);
    for (; p < run.last; ++p) depthwise_block<1, kVectors, kFew>(row, run, p, c, lanes);
  }
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
  // Part k of n.
  GSPMD_INLINE void fetch(int64_t k, int64_t n) const {
    for (int64_t line = k * lines / n; line < (k + 1) * lines / n; ++line)
      __builtin_prefetch(next + line * (64 / int64_t{sizeof(X)}), 0, kSecondLevel);
  }

  static constexpr int kSecondLevel = 2;
  const X* next;
  int64_t lines;
};

template <class X, class Y>
void depthwise_rows(const DepthwiseRows& e, int64_t first, int64_t last, const std::byte* x,
                    const float* w, std::byte* y, std::byte* scratch) {
  const DepthwiseRows::Axis &outer = e.axes[0], &middle = e.axes[1], &inner = e.axes[2];
  const auto lanes = static_cast<int64_t>(hn::Lanes(DepthwiseTag()));
  auto* const runs = reinterpret_cast<DepthwiseRun*>(scratch);
  auto* const offsets = reinterpret_cast<int64_t*>(runs + e.most_runs());
  for (int64_t n = first; n < last; ++n) {
    const int64_t i = n / middle.positions % outer.positions, j = n % middle.positions;
    const int64_t image = n / (middle.positions * outer.positions);
    const int64_t count = depthwise_runs(e, i, j, runs, offsets);
    const DepthwiseRow<X, Y> row{
        reinterpret_cast<const X*>(x),
        w,
        reinterpret_cast<Y*>(y) + image * e.y_image + i * outer.y_step + j * middle.y_step,
        image * e.x_image + (i * outer.stride - outer.pad) * outer.x_step +
            (j * middle.stride - middle.pad) * middle.x_step - inner.pad * inner.x_step,
        inner.stride * inner.x_step,
        inner.y_step};
    const DepthwiseAhead<X> ahead(e, row.x, image, i, j);
    int64_t c = 0;
    const int64_t blocks = e.channels / (2 * lanes);
    for (int64_t block = 0; block < blocks; ++block, c += 2 * lanes) {
      ahead.fetch(block, blocks);
      depthwise_features<2, false>(row, runs, count, c, lanes);
    }
    for (; c < e.channels && lanes <= e.channels; c += lanes) {
      c = std::min(c, e.channels - lanes);  // the last ones maybe once more
      depthwise_features<1, false>(row, runs, count, c, lanes);
    }
    if (c < e.channels) depthwise_features<1, true>(row, runs, count, c, e.channels - c);
  }
}

}  // namespace

DepthwiseRowsFunction find_depthwise_rows(DType operand, DType result) {
  if (operand == DType::f32 && result == DType::f32) return depthwise_rows<float, float>;
  if (operand != DType::bf16) return nullptr;
  if (result == DType::bf16) return depthwise_rows<uint16_t, uint16_t>;
  return result == DType::f32 ? depthwise_rows<uint16_t, float> : nullptr;
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
