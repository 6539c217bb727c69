#include "gspmd/passes/explain/torus.h"

#include <algorithm>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

void check(const Torus& torus) {
  for (const TorusDim& dim : torus.dims)
    if (dim.size < 1) user_error("torus: a dim has {} devices; give 1 or more", dim.size);
  if (!(torus.link_bytes_per_second > 0) || !(torus.hop_seconds >= 0))
    user_error(
        "torus: links of {} bytes per second, {} seconds a hop; give a rate above 0 and a "
        "time of 0 or more",
        torus.link_bytes_per_second, torus.hop_seconds);
}

// Sums of `bytes` scattered over a ring of n, or their parts gathered: each of n - 1 steps sends an
// n-th part, half of it each way. Where the ring does not close, it leads through every second
// device and back, and both directions of the links are one ring's.
double half_all_reduce(double bytes, const TorusDim& dim, const Torus& torus) {
  const auto n = static_cast<double>(dim.size);
  const double hops = dim.wraps || dim.size < 3 ? 1 : 2;
  const double rings = dim.wraps && dim.size > 2 ? 2 : 1;
  return (n - 1) * hops * torus.hop_seconds +
         bytes * (n - 1) / n / (rings * torus.link_bytes_per_second);
}

// The part of each device's bytes that crosses the busiest link of a dim in one direction, times
// the devices along the dim.
double busiest_link(const TorusDim& dim) {
  const int64_t n = dim.size, half = n / 2;
  if (!dim.wraps || n < 3) return static_cast<double>(half * (n - half)) / static_cast<double>(n);
  return static_cast<double>(half * (n - half)) / 2 / static_cast<double>(n);
}

}  // namespace

int64_t Torus::num_devices() const {
  int64_t devices = 1;
  for (const TorusDim& dim : dims) devices *= dim.size;
  return devices;
}

double ring_all_reduce_seconds(double bytes, const Torus& torus) {
  check(torus);
  // A grid with an even side, or one that wraps, has a closed way through all devices.
  bool closes = false;
  int64_t longer = 0;
  for (const TorusDim& dim : torus.dims) longer += dim.size > 1 ? 1 : 0;
  for (const TorusDim& dim : torus.dims)
    closes = closes || (dim.wraps && dim.size > 2) || (longer > 1 && dim.size % 2 == 0);
  return 2 * half_all_reduce(bytes, {torus.num_devices(), closes}, torus);
}

double hierarchical_all_reduce_seconds(double bytes, const Torus& torus) {
  check(torus);
  double seconds = 0;
  for (auto dim = torus.dims.rbegin(); dim != torus.dims.rend(); ++dim) {
    seconds += 2 * half_all_reduce(bytes, *dim, torus);
    bytes /= static_cast<double>(dim->size);
  }
  return seconds;
}

double all_to_all_seconds(double bytes, const Torus& torus) {
  check(torus);
  double load = 0, hops = 0;
  for (const TorusDim& dim : torus.dims) {
    load = std::max(load, busiest_link(dim));
    hops += static_cast<double>(dim.wraps ? dim.size / 2 : dim.size - 1);
  }
  return bytes * load / torus.link_bytes_per_second + hops * torus.hop_seconds;
}

double overlapped_seconds(double first_seconds, double second_seconds, int64_t chunks) {
  if (chunks < 1) user_error("overlapped_seconds: {} chunks; give 1 or more", chunks);
  const double first = first_seconds / static_cast<double>(chunks);
  const double second = second_seconds / static_cast<double>(chunks);
  return first + static_cast<double>(chunks - 1) * std::max(first, second) + second;
}

}  // namespace gspmd
