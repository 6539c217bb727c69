#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gspmd/gspmd.h"

namespace gspmd::models {

// Rows beyond a shard's own that a convolution reads on each side.
struct Halo {
  int64_t low = 0, high = 0;
};

// Of a kernel with (size - 1) / 2 zeros on each side, over shards that the stride divides: what the
// result needs of the input, and what the input's gradient needs of the result's.
inline Halo halo_of_input(int64_t kernel, int64_t stride) {
  const int64_t around = (kernel - 1) / 2;
  return {around, std::max<int64_t>(0, kernel - stride - around)};
}
inline Halo halo_of_gradient(int64_t kernel, int64_t stride) {
  const int64_t around = (kernel - 1) / 2;
  return {(kernel - 1 - around) / stride, (around + stride - 1) / stride};
}

// Elements of one feature of one example that a device sends: dim after dim, of two devices along a
// dim the longer side only, and what came along one dim goes on along the next. `shard`: the
// spatial sizes on a device.
inline int64_t halo_elements(std::vector<int64_t> shard, const std::vector<int64_t>& devices,
                             Halo halo) {
  int64_t sent = 0;
  for (size_t d = 0; d < shard.size(); ++d) {
    if (devices[d] == 1) continue;
    int64_t rows = devices[d] == 2 ? std::max(halo.low, halo.high) : halo.low + halo.high;
    for (size_t e = 0; e < shard.size(); ++e) rows *= e == d ? 1 : shard[e];
    sent += rows;
    shard[d] += halo.low + halo.high;
  }
  return sent;
}

// What one device sends to neighbours in a step.
inline int64_t bytes_to_neighbours(const ExecutableBase& step) {
  int64_t bytes = 0;
  for (const CollectiveStats& c : step.stats().uncombined)
    if (c.kind == "collective-permute") bytes += c.bytes;
  return bytes;
}

// Collectives of a step that are neither sums nor to neighbours.
inline std::vector<std::string> moves_of_whole_values(const ExecutableBase& step) {
  std::vector<std::string> moves;
  for (const CollectiveStats& c : step.stats().uncombined)
    if (c.kind != "collective-permute" && c.kind != "all-reduce")
      moves.push_back(c.kind + " of " + c.tensor + " for " + c.op);
  return moves;
}

}  // namespace gspmd::models
