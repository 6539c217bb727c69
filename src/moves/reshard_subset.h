#pragma once

#include <optional>

#include "gspmd/moves/reshard.h"

namespace gspmd {

// A set of devices that counts by steps as a part of all devices: where the others stand as seen
// from it.
struct DeviceSubset {
  // All devices: the digits of the set's ranks, and above them those that lead out of the set. So
  // digits over the set's order are the same digits here, with the tiles again on the others.
  DeviceOrder all = nullptr;
  // The same, but counted from the set: its ranks come first.
  DeviceOrder from_set = nullptr;
  // What leads out of the set, of a rank of `from_set`; {number of copies of the set, its size}.
  Digit copies;
  // By copy, the set itself being copy 0: how far the ids of its devices are from those of the set.
  std::vector<int64_t> distances;
};
// nullopt where the set does not count by steps that are digits of the device ids, or is all.
std::optional<DeviceSubset> subset_of_all(DeviceOrder set, int64_t num_devices);

// A way between two layouts of which one or both are on such a set: over layouts of all devices, by
// collectives whose number and description do not grow with the devices. nullopt: there is none.
// collective_broadcast without pieces: each device of the set sends to those at its place in the
// copies, by one broadcast where all are to have its shard, else by a permute each what that one is
// to have of it. What `from` and `to` leave unsaid is decided: they are over definite devices.
std::optional<ReshardPlan> plan_over_all(const Shape& global, const Sharding& from,
                                         const Sharding& to, DeviceOrder from_devices,
                                         DeviceOrder to_devices, int64_t num_devices);

}  // namespace gspmd
