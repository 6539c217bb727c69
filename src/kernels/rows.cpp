#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/rows.h"
#include "kernels/stream.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Sums {
  static constexpr int64_t kSize = sizeof(T);

  // Elements at `at` of all sources, added up in their order.
  template <class D>
  static HWY_INLINE auto sum(D d, std::span<const std::byte* const> sources, int64_t at) {
    const auto load = [&](const std::byte* source) HWY_ATTR {
      return hn::LoadU(d, reinterpret_cast<const T*>(source + at));
    };
    auto total = load(sources[0]);
    for (size_t i = 1; i < sources.size(); ++i) total = hn::Add(total, load(sources[i]));
    return total;
  }

  template <bool kStreamed>
  static HWY_INLINE void row(std::byte* target, std::span<const std::byte* const> sources,
                             int64_t from, int64_t bytes) {
    const hn::ScalableTag<T> d;
    const hn::CappedTag<T, 1> one;
    const auto step = static_cast<int64_t>(hn::Lanes(d)) * kSize;
    const auto store = [&](auto value, std::byte* at) HWY_ATTR {
      if constexpr (kStreamed)
        hn::Stream(value, d, reinterpret_cast<T*>(at));
      else
        hn::StoreU(value, d, reinterpret_cast<T*>(at));
    };
    int64_t i = 0;
    if constexpr (kStreamed) {  // up to where whole vectors begin
      for (; i < bytes && reinterpret_cast<uintptr_t>(target + i) % 64 != 0; i += kSize)
        hn::StoreU(sum(one, sources, from + i), one, reinterpret_cast<T*>(target + i));
    }
    // Four vectors at a time: each waits for its own sums only.
    for (; i + 4 * step <= bytes; i += 4 * step) {
      const auto a = sum(d, sources, from + i), b = sum(d, sources, from + i + step);
      const auto c = sum(d, sources, from + i + 2 * step), e = sum(d, sources, from + i + 3 * step);
      store(a, target + i);
      store(b, target + i + step);
      store(c, target + i + 2 * step);
      store(e, target + i + 3 * step);
    }
    for (; i + step <= bytes; i += step)
      hn::StoreU(sum(d, sources, from + i), d, reinterpret_cast<T*>(target + i));
    for (; i < bytes; i += kSize)
      hn::StoreU(sum(one, sources, from + i), one, reinterpret_cast<T*>(target + i));
  }

  static void rows(const RowBlock& block, std::byte* target, int64_t target_step,
                   std::span<const std::byte* const> sources, int64_t source_step, bool streamed) {
    for (int64_t r = 0; r < block.rows; ++r) {
      if (streamed)
        row<true>(target + r * target_step, sources, r * source_step, block.bytes);
      else
        row<false>(target + r * target_step, sources, r * source_step, block.bytes);
    }
  }
};

template <int64_t kBytes>
void short_rows(int64_t rows, std::byte* to, int64_t to_step, const std::byte* from,
                int64_t from_step) {
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_step, from + r * from_step, kBytes);
}

void copies(const RowBlock& block, std::byte* to, int64_t to_step, const std::byte* from,
            int64_t from_step, bool streamed) {
  const auto known = [&](auto&& copy) { copy(block.rows, to, to_step, from, from_step); };
  switch (block.bytes) {  // a call for each of such rows costs more than the row
    case 4:
      return known(short_rows<4>);
    case 8:
      return known(short_rows<8>);
    case 16:
      return known(short_rows<16>);
    case 32:
      return known(short_rows<32>);
    case 64:
      return known(short_rows<64>);
    case 128:
      return known(short_rows<128>);
    case 256:
      return known(short_rows<256>);
    default:
      break;
  }
  const StreamFunction stream = stream_function();
  for (int64_t r = 0; r < block.rows; ++r) {
    if (streamed)
      stream(to + r * to_step, from + r * from_step, block.bytes);
    else
      std::memcpy(to + r * to_step, from + r * from_step, static_cast<size_t>(block.bytes));
  }
}

}  // namespace

decltype(&copy_rows) find_copies() { return copies; }
SumRows find_sums(DType dtype) {
  if (dtype == DType::f32) return Sums<float>::rows;
  if (dtype == DType::s32) return Sums<int32_t>::rows;
#if HWY_HAVE_FLOAT64
  if (dtype == DType::f64) return Sums<double>::rows;
#endif
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_copies);
HWY_EXPORT(find_sums);

void copy_rows(const RowBlock& block, std::byte* to, int64_t to_step, const std::byte* from,
               int64_t from_step, bool streamed) {
  static const auto function = HWY_DYNAMIC_DISPATCH(find_copies)();
  if (block.bytes > 0) function(block, to, to_step, from, from_step, streamed);
}

SumRows find_sum_rows(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_sums)(dtype); }

}  // namespace gspmd
#endif
