#pragma once

#include "passes/partition/choose_factor_sharding.h"

namespace gspmd {

// The spread that sends the least of all that give no device more iterations than `first` does; of
// several the one of the fewest steps, `first` before all others. What operands and result send is
// priced as the reshards, exchanges and sums that follow from a spread (docs/spec/partitioning.md
// 2.2). `first` itself, unpriced, where layouts have no common digits or are on some of the devices
// only.
CheapestFactorSharding cheapest_factor_sharding(const FactorShardingProblem& problem,
                                                const FactorDigits& first);

// Bytes of a move on the mesh as searches price it, and on all devices.
struct ScaledBytes {
  int64_t priced = 0, real = 0;
};
ScaledBytes move_bytes(const Shape& shape, const Sharding& from, const Sharding& to,
                       int64_t num_devices);

}  // namespace gspmd
