#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/mesh/digits.h"

namespace gspmd {
namespace {

using Steps = std::vector<DeviceStep>;
using Places = std::vector<DeviceOrderValue::Place>;

struct OrderTable {
  std::mutex mutex;
  std::map<std::pair<int64_t, Steps>, std::unique_ptr<DeviceOrderValue>> stepped;
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

// Size-1 steps dropped; neighbours of which the minor one leads on to the major one joined.
Steps canonical_steps(const Steps& steps) {
  Steps result;
  for (const DeviceStep& s : steps) {
    if (s.size == 1) continue;
    if (!result.empty() && result.back().step == s.step * s.size)
      result.back() = {result.back().size * s.size, s.step};
    else
      result.push_back(s);
  }
  return result;
}

// By descending step; nullopt where a device could be at two places.
std::optional<Places> places_of(const Steps& steps) {
  Places places;
  int64_t stride = 1;
  for (size_t i = steps.size(); i-- > 0; stride *= steps[i].size)
    places.push_back({steps[i].size, std::abs(steps[i].step), stride, steps[i].step < 0});
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) {
    return a.step != b.step ? a.step > b.step : a.size > b.size;
  });
  int64_t reach = 0;  // of all shorter steps
  for (size_t i = places.size(); i-- > 0;) {
    if (places[i].step <= reach) return std::nullopt;
    reach += places[i].step * (places[i].size - 1);
  }
  return places;
}

// The steps by which the list counts, where it does. Of ids beyond those of any mesh, by which
// steps could not be multiplied, it stays a list.
std::optional<Steps> steps_of(const std::vector<int64_t>& devices) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (std::any_of(devices.begin(), devices.end(),
                  [](int64_t id) { return id < -kMost || id > kMost; }))
    return std::nullopt;
  const auto count = std::ssize(devices);
  const auto at = [&](int64_t k) { return devices[static_cast<size_t>(k)] - devices[0]; };
  Steps steps;  // minor first
  for (int64_t unit = 1; unit < count;) {
    const int64_t step = at(unit);
    int64_t run = 2;
    while (unit * run < count && at(unit * run) == run * step) ++run;
    if (step == 0 || count % (unit * run) != 0) return std::nullopt;
    for (int64_t k = unit; k < unit * run; ++k)
      if (at(k) != at(k % unit) + k / unit * step) return std::nullopt;
    steps.push_back({run, step});
    unit *= run;
  }
  std::reverse(steps.begin(), steps.end());
  steps = canonical_steps(steps);
  if (!places_of(steps)) return std::nullopt;
  return steps;
}

}  // namespace

int64_t DeviceOrderValue::counted(int64_t rank) const {
  int64_t id = first;
  for (size_t i = steps.size(); i-- > 0; rank /= steps[i].size)
    id += rank % steps[i].size * steps[i].step;
  return id;
}

int64_t DeviceOrderValue::rank(int64_t wanted) const {
  if (iota) return wanted >= 0 && wanted < count ? wanted : -1;
  if (counts()) {
    int64_t rest = wanted - least, found = 0;
    if (rest < 0) return -1;
    for (const Place& place : places) {
      const int64_t at = rest / place.step;
      if (at >= place.size) return -1;
      found += (place.turned ? place.size - 1 - at : at) * place.stride;
      rest -= at * place.step;
    }
    return rest == 0 ? found : -1;
  }
  const int64_t lowest = device(by_device.front());
  if (device(by_device.back()) - lowest == count - 1)  // no gaps
    return wanted >= lowest && wanted < lowest + count
               ? by_device[static_cast<size_t>(wanted - lowest)]
               : -1;
  const auto at =
      std::lower_bound(by_device.begin(), by_device.end(), wanted,
                       [&](int64_t r, int64_t id) { return listed[static_cast<size_t>(r)] < id; });
  if (at == by_device.end() || device(*at) != wanted) return -1;
  return *at;
}

int64_t DeviceOrderValue::last() const {
  if (!counts()) return device(by_device.back());
  int64_t id = least;
  for (const Place& place : places) id += place.step * (place.size - 1);
  return id;
}

std::vector<int64_t> DeviceOrderValue::devices() const {
  std::vector<int64_t> all = listed;
  if (!counts()) return all;
  all.reserve(static_cast<size_t>(count));
  all.push_back(first);
  for (size_t i = steps.size(); i-- > 0;) {
    const size_t inner = all.size();
    for (int64_t c = 1; c < steps[i].size; ++c)
      for (size_t k = 0; k < inner; ++k) all.push_back(c * steps[i].step + all[k]);
  }
  return all;
}

DeviceOrder iota_order(int64_t count) {
  if (count < 1) internal_error("device order: a count of {} devices", count);
  return stepped_order(0, {{count, 1}});
}

DeviceOrder stepped_order(int64_t first, std::vector<DeviceStep> steps) {
  steps = canonical_steps(steps);
  std::optional<Places> places = places_of(steps);
  if (!places) internal_error("device order: {} steps lead to some device twice", steps.size());
  OrderTable& orders = table();
  const std::lock_guard lock(orders.mutex);
  std::unique_ptr<DeviceOrderValue>& slot = orders.stepped[{first, steps}];
  if (!slot) {
    slot = std::make_unique<DeviceOrderValue>();
    slot->first = slot->least = first;
    for (const DeviceStep& s : steps) {
      slot->count *= s.size;
      if (s.step < 0) slot->least += (s.size - 1) * s.step;
    }
    slot->iota = first == 0 && (steps.empty() || (steps.size() == 1 && steps[0].step == 1));
    slot->steps = std::move(steps);
    slot->places = std::move(*places);
  }
  return slot.get();
}

DeviceOrder list_order(std::vector<int64_t> devices) {
  if (std::optional<Steps> steps = steps_of(devices))
    return stepped_order(devices.front(), std::move(*steps));
  const auto count = static_cast<int64_t>(devices.size());
  const uint64_t hash = hash_of(devices);
  OrderTable& orders = table();
  const std::lock_guard lock(orders.mutex);
  const auto [first, last] = orders.lists.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->listed == devices) return it->second.get();
  auto value = std::make_unique<DeviceOrderValue>();
  value->count = count;
  value->by_device.resize(devices.size());
  std::iota(value->by_device.begin(), value->by_device.end(), 0);
  std::sort(value->by_device.begin(), value->by_device.end(), [&](int64_t a, int64_t b) {
    return devices[static_cast<size_t>(a)] < devices[static_cast<size_t>(b)];
  });
  value->listed = std::move(devices);
  return orders.lists.emplace(hash, std::move(value))->second.get();
}

}  // namespace gspmd
