#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/mesh/digits.h"

namespace gspmd {
namespace {

struct OrderTable {
  std::mutex mutex;
  std::map<int64_t, std::unique_ptr<DeviceOrderValue>> iotas;
  std::unordered_multimap<uint64_t, std::unique_ptr<DeviceOrderValue>> lists;  // by hash
};

OrderTable& table() {
  // Never destroyed: orders outlive every static object that may hold a sharding.
  static OrderTable* const orders = new OrderTable;
  return *orders;
}

uint64_t hash_of(const std::vector<int64_t>& devices) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (const int64_t d : devices) {
    hash = (hash ^ static_cast<uint64_t>(d)) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

int64_t DeviceOrderValue::rank(int64_t wanted) const {
  if (devices.empty()) return wanted >= 0 && wanted < count ? wanted : -1;
  const auto found =
      std::lower_bound(by_device.begin(), by_device.end(), wanted,
                       [&](int64_t r, int64_t id) { return devices[static_cast<size_t>(r)] < id; });
  if (found == by_device.end() || device(*found) != wanted) return -1;
  return *found;
}

DeviceOrder iota_order(int64_t count) {
  if (count < 1) internal_error("device order: a count of {} devices", count);
  OrderTable& orders = table();
  const std::lock_guard lock(orders.mutex);
  std::unique_ptr<DeviceOrderValue>& slot = orders.iotas[count];
  if (!slot) {
    slot = std::make_unique<DeviceOrderValue>();
    slot->count = count;
  }
  return slot.get();
}

DeviceOrder list_order(std::vector<int64_t> devices) {
  const auto count = static_cast<int64_t>(devices.size());
  bool is_iota = true;
  for (int64_t i = 0; i < count && is_iota; ++i) is_iota = devices[static_cast<size_t>(i)] == i;
  if (is_iota) return iota_order(count);
  const uint64_t hash = hash_of(devices);
  OrderTable& orders = table();
  const std::lock_guard lock(orders.mutex);
  const auto [first, last] = orders.lists.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->devices == devices) return it->second.get();
  auto value = std::make_unique<DeviceOrderValue>();
  value->count = count;
  value->by_device.resize(devices.size());
  std::iota(value->by_device.begin(), value->by_device.end(), 0);
  std::sort(value->by_device.begin(), value->by_device.end(), [&](int64_t a, int64_t b) {
    return devices[static_cast<size_t>(a)] < devices[static_cast<size_t>(b)];
  });
  value->devices = std::move(devices);
  return orders.lists.emplace(hash, std::move(value))->second.get();
}

}  // namespace gspmd
