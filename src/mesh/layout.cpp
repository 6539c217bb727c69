#include "mesh/layout.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "mesh/device_terms.h"
#include "mesh/digit_tools.h"

namespace gspmd {

namespace {

// The order of the same devices by ascending id: one for all orders of the same devices.
DeviceOrder ascending(DeviceOrder order) {
  static std::mutex mutex;
  static auto* const known = new std::unordered_map<DeviceOrder, DeviceOrder>;  // as orders: kept
  const std::lock_guard lock(mutex);
  DeviceOrder& found = (*known)[order];
  if (!found) found = list_order(sorted_devices(order));
  return found;
}

}  // namespace

std::vector<int64_t> sorted_devices(DeviceOrder order) {
  std::vector<int64_t> devices = order->devices();
  if (!std::is_sorted(devices.begin(), devices.end())) std::sort(devices.begin(), devices.end());
  return devices;
}

bool same_devices(DeviceOrder a, DeviceOrder b) {
  if (a == b) return true;
  if (a->count != b->count) return false;
  if (const auto x = devices_of_order(a), y = devices_of_order(b); x && y) return *x == *y;
  return ascending(a) == ascending(b);
}

std::vector<int64_t> telling_ranks(const Digits& digits) {
  std::vector<int64_t> ranks;
  for (const Digit& digit : digits)
    ranks.insert(ranks.end(), {digit.stride, digit.stride * (digit.size - 1)});
  return ranks;
}

std::vector<int64_t> telling_ranks(const Sharding& a, const Sharding& b) {
  std::vector<int64_t> ranks{0};
  for (int64_t i = 0; i < std::max(a.rank(), b.rank()); ++i) {
    for (const int64_t r : telling_ranks(a.dim(i))) ranks.push_back(r);
    for (const int64_t r : telling_ranks(b.dim(i)))
      if (const int64_t there = a.order()->rank(b.order()->device(r)); there >= 0)
        ranks.push_back(there);
  }
  return ranks;
}

Coordinates coordinates(const std::vector<int64_t>& devices, DeviceOrder order,
                        const Digits& digits) {
  Coordinates c{tile_count(digits), {}};
  c.of.reserve(devices.size());
  for (const int64_t device : devices) c.of.push_back(tile_index(digits, order->rank(device)));
  return c;
}

const Digits& unreduced_digits(const Sharding& sharding, Combiner combiner) {
  static const Digits none;
  for (const Unreduced& u : sharding.unreduced())
    if (u.combiner == combiner) return u.digits;
  return none;
}

std::optional<Coordinates> finer_of(Coordinates a, Coordinates b, bool by_prefix) {
  if (a.count < b.count) std::swap(a, b);
  if (b.count == 1) return a;
  if (a.count % b.count != 0 || (!by_prefix && a.count != b.count)) return std::nullopt;
  const int64_t inner = a.count / b.count;
  for (size_t i = 0; i < a.of.size(); ++i)
    if (a.of[i] / inner != b.of[i]) return std::nullopt;
  return a;
}

bool same_groups(const std::vector<int64_t>& devices, DeviceOrder a, const Digits& x, DeviceOrder b,
                 const Digits& y) {
  if (tile_count(x) != tile_count(y)) return false;
  if (tile_count(x) == 1) return true;  // each device for itself
  const Digits rest_x = complement(x, a->count);
  const Digits rest_y = complement(y, b->count);
  // Group of a -> group of b; groups are equally large, so a function is enough.
  std::vector<int64_t> partner(static_cast<size_t>(tile_count(rest_x)), -1);
  for (const int64_t device : devices) {
    int64_t& p = partner[static_cast<size_t>(tile_index(rest_x, a->rank(device)))];
    const int64_t q = tile_index(rest_y, b->rank(device));
    if (p >= 0 && p != q) return false;
    p = q;
  }
  return true;
}

bool DeviceTiles::add(const std::optional<Coordinates>& part) {
  if (!part) return false;
  tiles_ = saturating_multiply(tiles_, part->count);
  if (tiles_ > static_cast<int64_t>(index_.size())) return false;
  dims_.push_back(part->count);
  for (size_t i = 0; i < index_.size(); ++i) index_[i] = index_[i] * part->count + part->of[i];
  return true;
}

namespace {

// Positions grouped by tile, in the given sequence of positions within each.
std::vector<int64_t> grouped(const std::vector<int64_t>& tile_of, int64_t tiles) {
  const auto size = static_cast<int64_t>(tile_of.size()) / tiles;
  std::vector<int64_t> next(static_cast<size_t>(tiles));
  for (int64_t t = 0; t < tiles; ++t) next[static_cast<size_t>(t)] = t * size;
  std::vector<int64_t> out(tile_of.size());
  for (size_t i = 0; i < tile_of.size(); ++i)
    out[static_cast<size_t>(next[static_cast<size_t>(tile_of[i])]++)] = static_cast<int64_t>(i);
  return out;
}

}  // namespace

std::optional<PlacedDigits> DeviceTiles::place(const std::vector<int64_t>& devices,
                                               std::vector<DeviceOrder> candidates) const {
  const auto count = static_cast<int64_t>(devices.size());
  std::vector<int64_t> held(static_cast<size_t>(tiles_), 0);
  for (const int64_t t : index_) ++held[static_cast<size_t>(t)];
  for (const int64_t h : held)
    if (h * tiles_ != count) return std::nullopt;
  Dims dims = dims_;
  dims.push_back(count / tiles_);
  candidates.push_back(list_order(devices));
  for (const DeviceOrder order : candidates) {
    std::vector<int64_t> tile_of_rank(devices.size());
    for (size_t i = 0; i < devices.size(); ++i)
      tile_of_rank[static_cast<size_t>(order->rank(devices[i]))] = index_[i];
    // Replicas in ascending rank: the order that digits left over have.
    if (std::optional<std::vector<Digits>> digits =
            find_digits(dims, grouped(tile_of_rank, tiles_))) {
      digits->pop_back();
      return PlacedDigits{order, std::move(*digits)};
    }
  }
  std::vector<int64_t> list = grouped(index_, tiles_);
  for (int64_t& d : list) d = devices[static_cast<size_t>(d)];
  PlacedDigits placed{list_order(std::move(list)), row_major_digits(dims)};
  placed.digits.pop_back();
  return placed;
}

}  // namespace gspmd
