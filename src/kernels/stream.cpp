#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/stream.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/stream.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Whole cache lines, and what is around them as usual.
void stream(std::byte* to, const std::byte* from, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLine);
  const int64_t head = std::min(bytes, (kLine - past) % kLine);
  if (head > 0) std::memcpy(to, from, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kLine <= bytes; i += kLine)
    for (int64_t j = 0; j < kLine; j += lanes)
      hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from) + i + j), d,
                 reinterpret_cast<uint8_t*>(to) + i + j);
  if (i < bytes) std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

}  // namespace

StreamFunction find_stream() { return stream; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_stream);

StreamFunction stream_function() {
  static const StreamFunction function = HWY_DYNAMIC_DISPATCH(find_stream)();
  return function;
}

void flush_stream() { hwy::FlushStream(); }

}  // namespace gspmd
#endif
