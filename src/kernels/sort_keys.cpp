// Elements as integers that compare as they do, and sorts of those.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sort_keys.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "hwy/cache_control.h"
#include "kernels/sort_keys.h"

#ifndef GSPMD_FIRST_BELOW_TYPE
#define GSPMD_FIRST_BELOW_TYPE
namespace gspmd {
using FirstBelow = int64_t (*)(const uint32_t* keys, int64_t n, uint32_t bound);
}
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

// Of bits of a float of 2 or 4 bytes in the upper bytes of `bits`: -0 as 0 and NaN told of, unless
// ordered totally. A mask of the sign turns negative numbers around.
template <class U, bool kTotal>
uint32_t float_key(U bits, U infinity, uint32_t& unordered) {
  constexpr int kBits = 8 * sizeof(U);
  constexpr U kSign = static_cast<U>(U{1} << (kBits - 1));
  if constexpr (!kTotal) {
    const U magnitude = static_cast<U>(bits & ~kSign);
    unordered |= magnitude > infinity ? 1 : 0;
    bits = magnitude == 0 ? U{0} : bits;
  }
  using S = std::make_signed_t<U>;
  const U negative = static_cast<U>(static_cast<S>(bits) >> (kBits - 1));
  return static_cast<U>(bits ^ (negative | kSign));
}

template <class U>
uint32_t unsigned_key(U bits, bool is_signed) {
  return static_cast<U>(bits ^ (is_signed ? U{1} << (8 * sizeof(U) - 1) : 0));
}

// f(element's bits) for each, in order.
template <class U, class F>
void for_each_bits(const KeyElements& e, uint32_t* keys, F&& f) {
  const uint32_t flip = e.descending ? ~uint32_t{0} : 0;
  if (e.step == static_cast<int64_t>(sizeof(U))) {
    constexpr int64_t kBlock = 256 / sizeof(U), kAhead = 4096 / sizeof(U);
    const auto* const in = reinterpret_cast<const U*>(e.first);
    int64_t i = 0;
    for (; i + kBlock <= e.count; i += kBlock) {
      for (int64_t line = 0; line < kBlock; line += 64 / sizeof(U))
        hwy::Prefetch(in + i + kAhead + line);
      for (int64_t j = i; j < i + kBlock; ++j) keys[j] = f(in[j]) ^ flip;
    }
    for (; i < e.count; ++i) keys[i] = f(in[i]) ^ flip;
    return;
  }
  const std::byte* at = e.first;
  for (int64_t i = 0; i < e.count; ++i, at += e.step) {
    U bits;
    std::memcpy(&bits, at, sizeof(U));
    keys[i] = f(bits) ^ flip;
  }
}

template <class U, uint32_t kInfinity>
bool float_keys(const KeyElements& e, uint32_t* keys) {
  uint32_t unordered = 0;
  constexpr U infinity = static_cast<U>(kInfinity);
  if (e.total_order)
    for_each_bits<U>(e, keys,
                     [&](U bits) { return float_key<U, true>(bits, infinity, unordered); });
  else
    for_each_bits<U>(e, keys,
                     [&](U bits) { return float_key<U, false>(bits, infinity, unordered); });
  return unordered == 0;
}

template <class U, bool kSigned>
bool integer_keys(const KeyElements& e, uint32_t* keys) {
  for_each_bits<U>(e, keys, [](U bits) { return unsigned_key(bits, kSigned); });
  return true;
}

// Four vectors are looked through as a whole.
int64_t first_below_bound(const uint32_t* keys, int64_t n, uint32_t bound) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, bound);
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto load = [&](int64_t v) HWY_ATTR { return hn::LoadU(d, keys + i + v * lanes); };
    const auto least = hn::Min(hn::Min(load(0), load(1)), hn::Min(load(2), load(3)));
    if (!hn::AllFalse(d, hn::Lt(least, most))) break;
  }
  for (; i + lanes <= n; i += lanes) {
    const auto found = hn::FindFirstTrue(d, hn::Lt(hn::LoadU(d, keys + i), most));
    if (found >= 0) return i + static_cast<int64_t>(found);
  }
  while (i < n && keys[i] >= bound) ++i;
  return i;
}

}  // namespace

KeyFunction find_key_function(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return float_keys<uint32_t, 0x7f800000>;
    case DType::bf16:
      return float_keys<uint16_t, 0x7f80>;
    case DType::f16:
      return float_keys<uint16_t, 0x7c00>;
    case DType::s32:
      return integer_keys<uint32_t, true>;
    case DType::u32:
      return integer_keys<uint32_t, false>;
    case DType::s16:
      return integer_keys<uint16_t, true>;
    case DType::u16:
      return integer_keys<uint16_t, false>;
    case DType::s8:
      return integer_keys<uint8_t, true>;
    case DType::u8:
    case DType::pred:
      return integer_keys<uint8_t, false>;
    default:
      return nullptr;
  }
}

FirstBelow find_first_below() { return first_below_bound; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_key_function);
HWY_EXPORT(find_first_below);

// Stable passes of kBits over the bits of items from kShift on; passes in which all items agree are
// left out.
template <class Item, int kShift, int kBits>
void radix_passes(std::vector<Item>& items, std::vector<Item>& other) {
  constexpr int kPasses = (32 + kBits - 1) / kBits;
  constexpr size_t kDigits = size_t{1} << kBits;
  std::array<std::array<uint32_t, kDigits>, kPasses> counts{};
  const size_t n = items.size();
  const auto digit = [](Item item, int pass) {
    return static_cast<size_t>(item >> (kShift + kBits * pass)) & (kDigits - 1);
  };
  for (const Item item : items)
    for (int pass = 0; pass < kPasses; ++pass) ++counts[pass][digit(item, pass)];
  other.resize(n);
  for (int pass = 0; pass < kPasses; ++pass) {
    std::array<uint32_t, kDigits>& starts = counts[pass];
    if (starts[digit(items[0], pass)] == n) continue;
    uint32_t next = 0;
    for (uint32_t& start : starts) next += std::exchange(start, next);
    Item* const to = other.data();
    for (const Item item : items) to[starts[digit(item, pass)]++] = item;
    items.swap(other);
  }
}

constexpr size_t kFew = 48, kMany = 4096;  // where passes begin to pay, and long ones

}  // namespace

KeyFunction key_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_key_function)(dtype); }

int64_t first_below(const uint32_t* keys, int64_t n, uint32_t bound) {
  static const FirstBelow function = HWY_DYNAMIC_DISPATCH(find_first_below)();
  return function(keys, n, bound);
}

void radix_sort(std::vector<uint32_t>& keys, std::vector<uint32_t>& other) {
  if (keys.size() < kFew)
    std::sort(keys.begin(), keys.end());
  else if (keys.size() < kMany)
    radix_passes<uint32_t, 0, 8>(keys, other);
  else
    radix_passes<uint32_t, 0, 11>(keys, other);
}

void radix_sort_upper(std::vector<uint64_t>& items, std::vector<uint64_t>& other) {
  if (items.size() < kFew)
    std::stable_sort(items.begin(), items.end(),
                     [](uint64_t a, uint64_t b) { return a >> 32 < b >> 32; });
  else if (items.size() < kMany)
    radix_passes<uint64_t, 32, 8>(items, other);
  else
    radix_passes<uint64_t, 32, 11>(items, other);
}

void LeastKeys::add(const uint32_t* keys, int64_t count, int64_t first_index) {
  if (k_ == 0) return;
  int64_t i = 0;
  const auto item = [&] {
    return static_cast<uint64_t>(keys[i]) << 32 | static_cast<uint64_t>(first_index + i);
  };
  for (; i < count && heap_.size() < k_; ++i) {
    heap_.push_back(item());
    std::push_heap(heap_.begin(), heap_.end());
  }
  // Of equal keys the first stay: a later one has to be below.
  while (i < count) {
    i += first_below(keys + i, count - i, static_cast<uint32_t>(heap_[0] >> 32));
    if (i == count) return;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.back() = item();
    std::push_heap(heap_.begin(), heap_.end());
    ++i;
  }
}

void LeastKeys::take(std::vector<uint64_t>& out) {
  std::sort_heap(heap_.begin(), heap_.end());
  out.swap(heap_);
  heap_.clear();
}

}  // namespace gspmd
#endif
