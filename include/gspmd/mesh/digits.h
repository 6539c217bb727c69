#pragma once

// Parts of a device's rank as mixed-radix digits: the arithmetic under meshes and shardings.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/inline_vector.h"

namespace gspmd {

// One mixed-radix digit of a rank: (rank / stride) % size. A mesh axis is a digit; so is a part of
// one. Size is at least 2 in a canonical list.
struct Digit {
  int64_t size = 1;    // number of values
  int64_t stride = 1;  // ranks between neighbours
  auto operator<=>(const Digit&) const = default;
};

// Digits of one tensor dim, major first: tile index = sum over digits of coordinate * (product of
// the sizes that follow). Mostly none, one or two.
using Digits = InlineVector<Digit, 2>;

GSPMD_API int64_t tile_count(const Digits& digits);                // product of sizes
GSPMD_API int64_t tile_index(const Digits& digits, int64_t rank);  // of the rank's tile, as above
// Size-1 digits dropped; neighbours (a, s*b)(b, s) joined into (a*b, s).
GSPMD_API Digits canonical(Digits digits);

// Boundaries (stride and stride*size of every digit) that divide each other in a chain cut digits
// into atoms, the common refinement. Empty result where the boundaries form no chain.
// [(4,2)] and [(2,4)] -> atoms (2,4),(2,2), sorted by descending stride.
GSPMD_API std::optional<Digits> common_atoms(std::span<const Digits> lists);
// `digits` written in `atoms` (each digit a run of atoms); `atoms` must come from common_atoms over
// a set that contains `digits`. Major first.
GSPMD_API Digits split_into(const Digits& digits, const Digits& atoms);

// Set operations on the part of the rank that digits read; all keep the order of `a`, and all are
// canonical. Where a and b have no common atoms: disjoint() is false, and the others return
// nullopt.
GSPMD_API bool disjoint(const Digits& a, const Digits& b);
GSPMD_API std::optional<Digits> intersection(const Digits& a, const Digits& b);  // what both read
// What a reads and b does not.
GSPMD_API std::optional<Digits> difference(const Digits& a, const Digits& b);
// The longest list that both start with: [(2,4),(2,1)] and [(4,2)] -> [(2,4)].
GSPMD_API Digits common_prefix(const Digits& a, const Digits& b);
// Whether digits begin with prefix.
GSPMD_API bool is_prefix(const Digits& prefix, const Digits& digits);
GSPMD_API Digits concat(Digits major, const Digits& minor);  // one list behind the other, canonical

// A part of a rank that counts through devices: `size` of them, `step` apart (not 0, maybe
// negative).
struct DeviceStep {
  int64_t size = 1;  // number of values
  int64_t step = 1;  // from device id to device id
  auto operator<=>(const DeviceStep&) const = default;
};

// An interned, immutable order of devices. Orders that count by steps (all ids, every other one,
// ids backwards, axes of a mesh in another sequence) hold these alone, so that they are as small
// for many devices as for few; others hold a list. Equal orders are the same pointer; never freed.
struct GSPMD_API DeviceOrderValue {
  int64_t count = 1;  // number of devices
  // --- of an order that counts by steps: the device of a rank is `first` plus each coordinate
  // times
  // --- its step
  int64_t first = 0;
  std::vector<DeviceStep> steps;  // major first; no two neighbours that are one step
  // --- of the others; both empty else
  std::vector<int64_t> listed;     // devices by rank
  std::vector<int64_t> by_device;  // ranks by ascending device id

  // A step as seen from the devices.
  struct Place {
    int64_t size = 1, step = 1;  // positive
    int64_t stride = 1;          // of the digit of the rank that it is
    bool turned = false;         // the rank counts backwards
  };
  std::vector<Place> places;  // of the steps, by descending `step`
  int64_t least = 0;          // device id

  bool is_iota() const { return iota; }           // whether rank r is device r
  bool counts() const { return listed.empty(); }  // whether it counts by steps
  // Of a rank from 0 to count-1.
  int64_t device(int64_t rank) const {
    return iota ? rank : listed.empty() ? counted(rank) : listed[static_cast<size_t>(rank)];
  }
  int64_t rank(int64_t device) const;    // -1 where the device is not in the order
  int64_t last() const;                  // the highest device id
  std::vector<int64_t> devices() const;  // by rank; O(devices)

  bool iota = false;  // as is_iota() says

 private:
  int64_t counted(int64_t rank) const;
};
using DeviceOrder = const DeviceOrderValue*;  // compared by address

GSPMD_API DeviceOrder iota_order(int64_t count);  // 0, 1, ..., count-1
// The order that counts so. InternalError where a device would come twice, or could not be found
// again by its place: each step is longer than all shorter ones together lead.
GSPMD_API DeviceOrder stepped_order(int64_t first, std::vector<DeviceStep> steps);
// iota_order where the list is 0,1,2,...; the ids are distinct.
GSPMD_API DeviceOrder list_order(std::vector<int64_t> devices);

}  // namespace gspmd
