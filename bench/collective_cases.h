#pragma once

// What collectives and mpi_collectives measure, under the same names.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace gspmd {

constexpr int64_t kCollectiveDevices = 8;
constexpr const char* kCollectiveOps[] = {"all-reduce", "all-gather", "reduce-scatter",
                                          "all-to-all", "collective-permute"};

// `bytes`: of the larger of operand and result of one device. Dim 0 or 1 of two.
inline std::string collective_title(const std::string& op, int64_t bytes, int64_t dim) {
  return fmt::format("{}, {} bytes, {} dim", op, bytes, dim == 0 ? "first" : "last");
}

// How often one is run in a round.
inline int64_t collective_times(int64_t bytes) {
  return std::clamp<int64_t>((int64_t{1} << 24) / bytes, 1, 64);
}

}  // namespace gspmd
