#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gspmd/mesh/sharding.h"

// Orders that count by steps, compared and changed by arithmetic: no list of devices exists.

namespace gspmd {

// What a tile index is of a device's id: `base` plus, for each term, the place of the device along
// its step times `weight`, which may be 0 or negative. Terms by descending step, none that
// continues its neighbour: equal functions over equal sets of devices are equal values.
struct DeviceFunction {
  struct Term {
    int64_t size = 1, step = 1;  // of the devices
    int64_t weight = 0;
    bool operator==(const Term&) const = default;
  };
  int64_t least = 0;  // device id
  int64_t base = 0;
  std::vector<Term> terms;
  bool operator==(const DeviceFunction&) const = default;
};
// The tile of `digits`; nullopt where the order lists its devices, or digits cut its steps at
// places that do not divide each other.
std::optional<DeviceFunction> tile_function(DeviceOrder order, const Digits& digits);
// Equal for equal sets of devices. nullopt as above.
std::optional<DeviceFunction> devices_of_order(DeviceOrder order);
// Equal where devices that differ in the digits only are the same. nullopt as above.
std::optional<DeviceFunction> group_function(DeviceOrder order, const Digits& digits);
// The digits over `order` whose tiles the function gives; nullopt where there are none, as where it
// counts another way round.
std::optional<Digits> digits_of(const DeviceFunction& function, DeviceOrder order);

// `sequence`, which reads the whole rank, as digits of the device ids 0..count-1; nullopt where the
// order is none of digits: it counts backwards, leaves ids out, or lists them.
std::optional<Digits> device_digits(DeviceOrder order, const Digits& sequence);

// The devices by rank as texts list them: none where rank r is device r.
std::vector<int64_t> ids_in_text(DeviceOrder order);

// The order in which the device of rank r is the one whose rank in `order` has the coordinates of
// r, those along `turned` backwards. nullptr where that takes a list of more than `most` devices.
DeviceOrder turned_order(DeviceOrder order, const Digits& turned, int64_t most);
// The devices of `order` as counted through `sequence`, which reads the whole rank, major first.
DeviceOrder order_along(DeviceOrder order, const Digits& sequence);

}  // namespace gspmd
