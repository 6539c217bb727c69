#pragma once

// Devices that take part in one collective.

#include <cstdint>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/mesh/digits.h"

namespace gspmd {

// Groups of devices that take part in one collective, in HLO's three forms, none of them
// materialised unless `lists` is.
//   lists:  {{0,1},{2,3}}            iota:  [num_groups,group_size]<=[reshape]T(transpose)
// Neither (num_groups == 0): one group of all devices, written {}. With an `order` the numbers of
// the iota form are ranks of it; the text has lists then.
struct ReplicaGroups {
  // --- one form or the other; what the other one uses is empty or 0
  std::vector<std::vector<int64_t>> lists;
  int64_t num_groups = 0;
  int64_t group_size = 0;
  std::vector<int64_t> reshape;
  std::vector<int64_t> transpose;  // empty: identity
  DeviceOrder order = nullptr;     // of the iota form; nullptr: ranks are devices
  bool operator==(const ReplicaGroups&) const = default;
};

// Every set of ranks that differ only in `digits`, members in tile_index order (digits' own order,
// major first), as device ids of `order`. Iota form; with the order where that is none of digits.
GSPMD_API ReplicaGroups groups_over(DeviceOrder order, const Digits& digits);
GSPMD_API std::string to_string(const ReplicaGroups& groups);  // as in HLO text
// The groups as lists of device ids; `num_devices` is used by the empty form.
GSPMD_API std::vector<std::vector<int64_t>> materialize(const ReplicaGroups& groups,
                                                        int64_t num_devices);
// Devices in one group.
GSPMD_API int64_t group_size(const ReplicaGroups& groups, int64_t num_devices);

}  // namespace gspmd
