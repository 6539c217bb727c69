#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gspmd/mesh/sharding.h"

// Shardings as tables over devices: the slow, always correct path for two device orders.

namespace gspmd {

// One part of a layout, a dim say: which of `count` tiles each device holds.
struct Coordinates {
  int64_t count = 1;
  std::vector<int64_t> of;  // by position in a list of devices
  bool operator==(const Coordinates&) const = default;
};

std::vector<int64_t> sorted_devices(DeviceOrder order);
bool same_devices(DeviceOrder a, DeviceOrder b);
// Ranks that tell most layouts apart, looked at before all of them are: the second and the last of
// each digit, alone.
std::vector<int64_t> telling_ranks(const Digits& digits);
// Of `a`, over the same devices: the first, and those that tell by the dims of either.
std::vector<int64_t> telling_ranks(const Sharding& a, const Sharding& b);
Coordinates coordinates(const std::vector<int64_t>& devices, DeviceOrder order,
                        const Digits& digits);
// Empty where the sharding is not unreduced with that combiner.
const Digits& unreduced_digits(const Sharding& sharding, Combiner combiner);

// Whether devices that differ only in `x` over order a are those that differ only in `y` over b.
bool same_groups(const std::vector<int64_t>& devices, DeviceOrder a, const Digits& x, DeviceOrder b,
                 const Digits& y);

// The side that refines the other: equal, other side not split, or, `by_prefix`, its tiles nest in
// the other's.
std::optional<Coordinates> finer_of(Coordinates a, Coordinates b, bool by_prefix);

struct PlacedDigits {
  DeviceOrder order;
  std::vector<Digits> digits;  // one list per part added
};

// Parts of a layout put together; every tile of the whole is held by equally many devices.
class DeviceTiles {
 public:
  explicit DeviceTiles(size_t devices) : index_(devices, 0) {}
  // False where there is no part, or more tiles than devices.
  bool add(const std::optional<Coordinates>& part);
  // Digits over the first order that has them: `candidates`, sorted devices, else a list made for
  // the purpose. nullopt where tiles are not held by equally many devices.
  std::optional<PlacedDigits> place(const std::vector<int64_t>& devices,
                                    std::vector<DeviceOrder> candidates) const;

 private:
  Dims dims_;
  std::vector<int64_t> index_;  // row-major tile by position in the list of devices
  int64_t tiles_ = 1;
};

}  // namespace gspmd
