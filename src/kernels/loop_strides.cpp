#include "kernels/loop_strides.h"

#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loop_strides.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void every_other(std::byte* out, const std::byte* from, int64_t n) {
  T* const r = reinterpret_cast<T*>(out);
  const T* const x = reinterpret_cast<const T*>(from);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes < n; i += lanes)  // one more is read, which is before the last
    hn::StoreU(hn::ConcatEven(d, hn::LoadU(d, x + 2 * i + lanes), hn::LoadU(d, x + 2 * i)), d,
               r + i);
  if (i > 0) {  // the last ones, some of them once more, with what lies before each
    const T* const last = x + 2 * (n - lanes) - 1;
    hn::StoreU(hn::ConcatOdd(d, hn::LoadU(d, last + lanes), hn::LoadU(d, last)), d, r + n - lanes);
    return;
  }
#endif
  for (; i < n; ++i) r[i] = x[2 * i];
}

template <class T>
void in_turn(std::byte* out, const std::byte* a, const std::byte* b, int64_t n) {
  T* const r = reinterpret_cast<T*>(out);
  const T* const x = reinterpret_cast<const T*>(a);
  const T* const y = reinterpret_cast<const T*>(b);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes)
    hn::StoreInterleaved2(hn::LoadU(d, x + i), hn::LoadU(d, y + i), d, r + 2 * i);
  if (i > 0 && i < n) {  // the last ones, some of them once more
    i = n - lanes;
    hn::StoreInterleaved2(hn::LoadU(d, x + i), hn::LoadU(d, y + i), d, r + 2 * i);
    return;
  }
#endif
  for (; i < n; ++i) {
    r[2 * i] = x[i];
    r[2 * i + 1] = y[i];
  }
}

template <class T>
constexpr LoopStrides strides_of() {
  return {every_other<T>, in_turn<T>};
}

}  // namespace

const LoopStrides& find_loop_strides(int64_t element_size) {
  static constexpr LoopStrides kStrides[] = {strides_of<uint8_t>(), strides_of<uint16_t>(),
                                             strides_of<uint32_t>(), strides_of<uint64_t>()};
  return kStrides[element_size == 1 ? 0 : element_size == 2 ? 1 : element_size == 4 ? 2 : 3];
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_loop_strides);

const LoopStrides& loop_strides(int64_t element_size) {
  return HWY_DYNAMIC_DISPATCH(find_loop_strides)(element_size);
}

}  // namespace gspmd
#endif
