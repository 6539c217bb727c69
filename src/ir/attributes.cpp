#include "gspmd/ir/attributes.h"

#include <algorithm>
#include <cstring>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

// Bits, not values: -0 differs from 0, and a NaN equals the same NaN.
bool same_literal(const Array& a, const Array& b) {
  if (a.empty() || b.empty()) return a.empty() == b.empty();
  if (!(a.shape() == b.shape())) return false;
  const std::span<std::byte> x = a.bytes();
  const std::span<std::byte> y = b.bytes();
  return x.data() == y.data() || std::memcmp(x.data(), y.data(), x.size()) == 0;
}

// Digits and pairs may say the same.
bool same_permutation(const Permutation& a, const Permutation& b) {
  if ((a.order == nullptr) == (b.order == nullptr)) return a == b;
  auto x = materialize(a), y = materialize(b);
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  return x == y;
}

}  // namespace

Permutation shift_along(DeviceOrder order, Digits digits, int64_t shift, bool wraps) {
  Permutation permutation{{}, order, digits, digits, shift, wraps};
  const int64_t count = tile_count(digits);
  if (wraps) permutation.shift = ((shift % count) + count) % count;
  if (permutation.shift == 0) internal_error("collective-permute: a shift by 0 of {}", count);
  return permutation;
}

namespace {

std::vector<std::pair<int64_t, int64_t>> materialize_shift(const Permutation& permutation) {
  const int64_t count = tile_count(permutation.from);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t rank = 0; rank < permutation.order->count; ++rank) {
    const int64_t tile = tile_index(permutation.from, rank);
    int64_t next = tile + permutation.shift;
    if (!permutation.wraps && (next < 0 || next >= count)) continue;
    next = (next % count + count) % count;
    int64_t target = rank;
    for (size_t i = permutation.from.size(); i-- > 0;) {
      const Digit& digit = permutation.from[i];
      target += (next % digit.size - rank / digit.stride % digit.size) * digit.stride;
      next /= digit.size;
    }
    pairs.emplace_back(permutation.order->device(rank), permutation.order->device(target));
  }
  return pairs;
}

}  // namespace

std::vector<std::pair<int64_t, int64_t>> materialize(const Permutation& permutation) {
  if (permutation.order == nullptr) return permutation.pairs;
  if (permutation.shift != 0) return materialize_shift(permutation);
  if (permutation.from.size() != permutation.to.size())
    internal_error("collective-permute: {} digits go to {} digits", permutation.from.size(),
                   permutation.to.size());
  std::vector<std::pair<int64_t, int64_t>> pairs;
  pairs.reserve(static_cast<size_t>(permutation.order->count));
  for (int64_t rank = 0; rank < permutation.order->count; ++rank) {
    int64_t target = rank;
    for (const Digit& digit : permutation.to)
      target -= (rank / digit.stride) % digit.size * digit.stride;
    for (size_t i = 0; i < permutation.from.size(); ++i) {
      const Digit& from = permutation.from[i];
      target += (rank / from.stride) % from.size * permutation.to[i].stride;
    }
    pairs.emplace_back(permutation.order->device(rank), permutation.order->device(target));
  }
  return pairs;
}

bool equal(const Attributes& a, const Attributes& b) {
  return a.dimensions == b.dimensions && a.index == b.index && a.starts == b.starts &&
         a.limits == b.limits && a.strides == b.strides && a.slice_sizes == b.slice_sizes &&
         a.padding == b.padding && a.window == b.window && a.conv == b.conv &&
         a.ragged == b.ragged && a.triangular == b.triangular && a.scalar == b.scalar &&
         a.dot == b.dot && a.gather == b.gather && a.scatter == b.scatter &&
         a.direction == b.direction && a.compare_type == b.compare_type &&
         a.replica_groups == b.replica_groups && same_permutation(a.permutation, b.permutation) &&
         a.channel_id == b.channel_id && a.use_global_device_ids == b.use_global_device_ids &&
         a.indices_are_sorted == b.indices_are_sorted && a.unique_indices == b.unique_indices &&
         a.custom_call_target == b.custom_call_target && a.fusion_kind == b.fusion_kind &&
         a.other == b.other && same_literal(a.literal, b.literal);
}

}  // namespace gspmd
