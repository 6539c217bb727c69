#pragma once

// Weight-update sharding: Xu et al., arXiv:2004.13336.

#include <cstdint>
#include <optional>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// A leaf of the result that is the next call's argument: numbers of an entry parameter and of an
// element of the root tuple.
struct StatePair {
  int64_t parameter = 0;  // of the entry
  int64_t result = 0;     // of its root
};

// What is sharded, and how.
struct ShardUpdatesOptions {
  Sharding split = {};           // of a tensor of one dim, over the axes; replicated: nothing to do
  std::vector<StatePair> state;  // where updates may be
  std::optional<DType> gather_dtype = {};  // what weights are sent as; default: their own
  int64_t min_elements = 0;                // smaller tensors stay as they are
};

// In a completed module: finds the tensors of `state` whose next value is computed from the last
// one element by element, with what else that takes (gradients, slots, norms), and that are not
// split over the axes yet. Their updates are laid out in shards: a gradient is sharded where the
// update first reads it, which makes a reduce-scatter of its all-reduce; state comes and goes in
// shards; what else reads a weight reads one gathered copy. Shards are of the dim of which a device
// gets least, the first of several, on top of the splits that there are. Tensors of several dims
// that would not be split along the first become flat ones, [elements], where they are split in no
// other way and no sums of rows are made: parameters and results change shape. Gradients that a
// loop stacks, an iteration's in a row, are summed in shards in each iteration. Returns the number
// of parameters that came to be sharded.
GSPMD_API int64_t shard_updates(Module& module, const ShardUpdatesOptions& options);

}  // namespace gspmd
