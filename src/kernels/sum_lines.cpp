#include "kernels/sum_lines.h"

#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sum_lines.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

constexpr int kLineLanes = 8;                             // of a vector
constexpr int kLineVectors = 8;                           // what is summed side by side
constexpr int64_t kLineWide = kLineLanes * kLineVectors;  // elements of those

// Vectors of a line: the first `whole` have all lanes, the next one those of `mask`.
template <class D>
struct SummedLine {
  using V = hn::Vec<D>;
  D d;
  V v[kLineVectors + 1];
  hn::Mask<D> mask;

  // Those that are `kApart` behind join the first ones.
  template <int kApart>
  GSPMD_INLINE void join(int whole) {
#pragma GCC unroll 4
    for (int k = 0; k < kApart; ++k) {
      if (k + kApart < whole)
        v[k] = hn::Add(v[k], v[k + kApart]);
      else if (k + kApart == whole)
        v[k] = hn::IfThenElse(mask, hn::Add(v[k], v[k + kApart]), v[k]);
    }
  }
};

// All lanes of a line that has kWhole whole vectors, or 8 and more, in one vector.
template <int kWhole, class D, class T>
GSPMD_INLINE hn::Vec<D> line_in_lanes(D d, const T* x, int64_t n) {
  SummedLine<D> line{d, {}, {}};
#pragma GCC unroll 8
  for (int k = 0; k < kWhole; ++k) line.v[k] = hn::LoadU(d, x + k * kLineLanes);
  if constexpr (kWhole < kLineVectors) {
    line.mask = hn::FirstN(d, static_cast<size_t>(n - kWhole * kLineLanes));
    line.v[kWhole] = hn::MaskedLoad(line.mask, d, x + kWhole * kLineLanes);
  } else {
    for (int64_t i = kLineWide; i < n; i += kLineWide) {
      const int64_t left = n - i;
#pragma GCC unroll 8
      for (int k = 0; k < kLineVectors; ++k) {
        const T* const from = x + i + k * kLineLanes;
        if (left >= (k + 1) * kLineLanes) {
          line.v[k] = hn::Add(line.v[k], hn::LoadU(d, from));
        } else if (left > k * kLineLanes) {
          const auto mask = hn::FirstN(d, static_cast<size_t>(left - k * kLineLanes));
          const auto sum = hn::Add(line.v[k], hn::MaskedLoad(mask, d, from));
          line.v[k] = hn::IfThenElse(mask, sum, line.v[k]);
        }
      }
    }
  }
  line.template join<4>(kWhole);
  line.template join<2>(std::min(kWhole, 4));
  line.template join<1>(std::min(kWhole, 2));
  return line.v[0];
}

// Lanes of each of eight lines are joined in halves, of two lines at a time, until a vector has a
// lane of each.
template <class D>
GSPMD_INLINE hn::Vec<D> join_lanes(D d, const hn::Vec<D> (&line)[kSummedLines]) {
  using V = hn::Vec<D>;
  const hn::Repartition<uint64_t, D> pairs;
  const auto halves = [&](V a, V b) HWY_ATTR {
    return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  };
  const auto quarters = [&](V a, V b) HWY_ATTR {
    const auto x = hn::BitCast(pairs, a), y = hn::BitCast(pairs, b);
    return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, x, y)),
                   hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)));
  };
  const V even = quarters(halves(line[0], line[4]), halves(line[2], line[6]));
  const V odd = quarters(halves(line[1], line[5]), halves(line[3], line[7]));
  const hn::Repartition<float, D> bits;  // an exchange within pairs that every type has
  const auto a = hn::BitCast(bits, even), b = hn::BitCast(bits, odd);
  return hn::Add(hn::BitCast(d, hn::OddEven(hn::DupEven(b), a)),
                 hn::BitCast(d, hn::OddEven(b, hn::DupOdd(a))));
}

template <class T, int kWhole>
void sum_lines(std::byte* results, const std::byte* lines, int64_t n) {
  const hn::FixedTag<T, kLineLanes> d;
  const T* const x = reinterpret_cast<const T*>(lines);
  hn::Vec<decltype(d)> line[kSummedLines];
  for (int64_t l = 0; l < kSummedLines; ++l) line[l] = line_in_lanes<kWhole>(d, x + l * n, n);
  hn::StoreU(join_lanes(d, line), d, reinterpret_cast<T*>(results));
}

template <class T>
SumLines sums_of_length(int64_t n) {
  static constexpr SumLines kBySize[] = {nullptr,         sum_lines<T, 1>, sum_lines<T, 2>,
                                         sum_lines<T, 3>, sum_lines<T, 4>, sum_lines<T, 5>,
                                         sum_lines<T, 6>, sum_lines<T, 7>, sum_lines<T, 8>};
  return kBySize[std::min<int64_t>(n / kLineLanes, kLineVectors)];
}

#endif

}  // namespace

SumLines sums_for([[maybe_unused]] DType dtype, [[maybe_unused]] int64_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if (dtype == DType::f32) return sums_of_length<float>(n);
  if (dtype == DType::s32 || dtype == DType::u32) return sums_of_length<int32_t>(n);
#endif
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(sums_for);
SumLines find_sum_lines(DType dtype, int64_t n) { return HWY_DYNAMIC_DISPATCH(sums_for)(dtype, n); }
}  // namespace gspmd
#endif
