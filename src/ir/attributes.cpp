#include "gspmd/ir/attributes.h"

#include <algorithm>
#include <cstdlib>
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

Pairs::List sorted(const Permutation& permutation) {
  Pairs::List pairs = materialize(permutation).list();
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Digits and pairs may say the same.
bool same_permutation(const Permutation& a, const Permutation& b) {
  if ((a.order == nullptr) == (b.order == nullptr)) return a == b;
  return sorted(a) == sorted(b);
}

// Groups of an order are printed, and read again, as lists.
bool same_groups(const ReplicaGroups& a, const ReplicaGroups& b) {
  if ((a.order == nullptr) == (b.order == nullptr)) return a == b;
  const int64_t devices = (a.order != nullptr ? a : b).order->count;
  return materialize(a, devices) == materialize(b, devices);
}

}  // namespace

const Pairs::List& Pairs::list() const {
  static const List none;
  return list_ ? *list_ : none;
}

Pairs::List& Pairs::edit() {
  if (!list_ || list_.use_count() > 1) list_ = std::make_shared<List>(list());
  return *list_;
}

Permutation shift_along(DeviceOrder order, Digits digits, int64_t shift, bool wraps) {
  Permutation permutation{{}, order, digits, digits, shift, wraps};
  const int64_t count = tile_count(digits);
  if (wraps) permutation.shift = ((shift % count) + count) % count;
  if (permutation.shift == 0) internal_error("collective-permute: a shift by 0 of {}", count);
  return permutation;
}

Permutation tiles_along(DeviceOrder order, Digits digits, Pairs tiles) {
  return {{}, order, digits, digits, 0, false, std::move(tiles)};
}

Permutation tiles_along(DeviceOrder order, Digits digits, std::shared_ptr<const TileRule> rule) {
  return {{}, order, digits, digits, 0, false, std::nullopt, std::move(rule)};
}

namespace {

// Every device sends to the one whose tile `next` names, that differs in `from` only.
template <class Next>
Pairs::List pairs_by_tile(const Permutation& permutation, Next next) {
  Pairs::List pairs;
  for (int64_t rank = 0; rank < permutation.order->count; ++rank) {
    int64_t to = next(tile_index(permutation.from, rank));
    if (to < 0) continue;
    int64_t target = rank;
    for (size_t i = permutation.from.size(); i-- > 0;) {
      const Digit& digit = permutation.from[i];
      target += (to % digit.size - rank / digit.stride % digit.size) * digit.stride;
      to /= digit.size;
    }
    pairs.emplace_back(permutation.order->device(rank), permutation.order->device(target));
  }
  return pairs;
}

Pairs::List materialize_tiles(const Permutation& permutation) {
  const int64_t count = tile_count(permutation.from);
  if (permutation.shift != 0)
    return pairs_by_tile(permutation, [&](int64_t tile) {
      const int64_t next = tile + permutation.shift;
      if (!permutation.wraps && (next < 0 || next >= count)) return int64_t{-1};
      return (next % count + count) % count;
    });
  Pairs::List pairs;
  if (permutation.rule) {
    pairs =
        pairs_by_tile(permutation, [&](int64_t tile) { return permutation.rule->target(tile); });
  } else {
    std::vector<int64_t> next(static_cast<size_t>(count), -1);
    for (const auto& [source, target] : *permutation.tiles)
      next[static_cast<size_t>(source)] = target;
    pairs =
        pairs_by_tile(permutation, [&](int64_t tile) { return next[static_cast<size_t>(tile)]; });
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace

Pairs materialize(const Permutation& permutation) {
  const DeviceOrder order = permutation.order;
  if (order == nullptr) return permutation.pairs;
  if (permutation.shift != 0 || permutation.tiles || permutation.rule)
    return materialize_tiles(permutation);
  Pairs::List pairs;
  pairs.reserve(static_cast<size_t>(order->count));
  if (permutation.targets != nullptr) {
    for (int64_t rank = 0; rank < order->count; ++rank)
      pairs.emplace_back(order->device(rank), permutation.targets->device(rank));
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  }
  if (permutation.from.size() != permutation.to.size())
    internal_error("collective-permute: {} digits go to {} digits", permutation.from.size(),
                   permutation.to.size());
  for (int64_t rank = 0; rank < order->count; ++rank) {
    int64_t target = rank;
    for (const Digit& digit : permutation.to)
      target -= (rank / digit.stride) % digit.size * digit.stride;
    for (size_t i = 0; i < permutation.from.size(); ++i) {
      const Digit& from = permutation.from[i];
      target += (rank / from.stride) % from.size * permutation.to[i].stride;
    }
    pairs.emplace_back(order->device(rank), order->device(target));
  }
  return pairs;
}

bool is_empty(const Permutation& permutation) {
  if (permutation.order == nullptr) return permutation.pairs.empty();
  if (permutation.tiles) return permutation.tiles->empty();
  return permutation.shift != 0 && !permutation.wraps &&
         std::abs(permutation.shift) >= tile_count(permutation.from);
}

bool equal(const Attributes& a, const Attributes& b) {
  return a.dimensions == b.dimensions && a.index == b.index && a.starts == b.starts &&
         a.limits == b.limits && a.strides == b.strides && a.slice_sizes == b.slice_sizes &&
         a.padding == b.padding && a.window == b.window && a.conv == b.conv &&
         a.ragged == b.ragged && a.triangular == b.triangular && a.scalar == b.scalar &&
         a.dot == b.dot && a.gather == b.gather && a.scatter == b.scatter &&
         a.direction == b.direction && a.compare_type == b.compare_type &&
         same_groups(a.replica_groups, b.replica_groups) &&
         same_permutation(a.permutation, b.permutation) && a.channel_id == b.channel_id &&
         a.use_global_device_ids == b.use_global_device_ids &&
         a.indices_are_sorted == b.indices_are_sorted && a.unique_indices == b.unique_indices &&
         a.custom_call_target == b.custom_call_target && a.fusion_kind == b.fusion_kind &&
         a.other == b.other && same_literal(a.literal, b.literal);
}

}  // namespace gspmd
