#pragma once

// What estimates of time suppose of a device.

namespace gspmd {

// What one device of the mesh can do. The defaults are of the size of one CPU core with its share
// of memory and of a network; ratios between programs are what the estimate is for.
struct DeviceModel {
  // --- per device
  double flops_per_second = 2e11;
  double memory_bytes_per_second = 3e10;
  double link_bytes_per_second = 1e10;
  double collective_latency_seconds = 5e-6;
};

}  // namespace gspmd
