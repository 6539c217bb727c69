#pragma once

// How long collectives take where devices are linked as a grid, by the bytes on the busiest link.

#include <cstdint>
#include <vector>

#include "gspmd/base/export.h"

namespace gspmd {

// One dim of a grid of devices.
struct TorusDim {
  int64_t size = 1;   // devices along it
  bool wraps = true;  // whether the last one is linked to the first
};

// A pod: every device has a link to each neighbour, which carries both directions at once.
struct Torus {
  std::vector<TorusDim> dims;           // major first
  double link_bytes_per_second = 7e10;  // in each direction
  double hop_seconds = 1e-6;            // from a device to its neighbour, for an empty message

  int64_t num_devices() const;  // of all dims together
};

// Seconds, for `bytes` of each device: what it holds before an all-reduce, or sends in an
// all-to-all, its own part included. UserError: a dim below 1, a rate that is not above 0.

// One ring through all devices, both ways round, as arXiv:1909.09756 begins with. A ring in a grid
// that nowhere wraps goes through every second device and back.
GSPMD_API double ring_all_reduce_seconds(double bytes, const Torus& torus);
// Scattered sums along the last dim, along the one before it on a part of the bytes, and so on;
// then gathered the other way round (arXiv:2011.03641, 2-D hierarchical all-reduce).
GSPMD_API double hierarchical_all_reduce_seconds(double bytes, const Torus& torus);
// Every device sends an equal part to every device, dim after dim on a shortest way, both ways
// where they are as long: grows with the largest dim, so with the square root of the devices of a
// square.
GSPMD_API double all_to_all_seconds(double bytes, const Torus& torus);

// Of work done in equal chunks by two stages, the second on a chunk while the first is at the next.
// UserError: fewer chunks than 1.
GSPMD_API double overlapped_seconds(double first_seconds, double second_seconds, int64_t chunks);

}  // namespace gspmd
