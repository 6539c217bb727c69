#pragma once

#include <string>
#include <vector>

#include "gspmd/ir/factor_rule.h"
#include "gspmd/moves/reshard.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace gspmd {
// The ways in which a gather or a scatter can be split (docs/spec/partitioning.md 6.1), one loop of
// its nest each.
enum class IndexMethod : uint8_t {
  batching,  // operand, indices and slices share the dim by name
  parallel,  // index component = position along a dim of the indices: as if it were shared
  window,    // the slices span the operand dim: operand and slices share it
  batch,     // the slices are dealt out: indices and slices share it, the operand is whole
  cut,       // the operand dim is looked up: a device serves the indices that fall into its part
  part,      // of a gather whose slices span some of a dim: a device takes its part of each slice
};

// One loop, and the dims that it runs over (-1: none). `slices` is a gather's result, a scatter's
// updates; a scatter's results are laid out as its operands.
struct IndexLoop {
  IndexMethod method = IndexMethod::batch;
  int64_t operand = -1, indices = -1, slices = -1;
};

enum class IndexArray : uint8_t { operand, indices, slices };
int64_t dim_of(const IndexLoop& loop, IndexArray array);

// A gather or scatter as a nest of loops, at its global sizes.
struct IndexNest {
  SliceDims dims;
  Dims operand, indices, slices;  // sizes of the three arrays
  Dims window;                    // size of a slice along each operand dim
  std::vector<IndexLoop> loops;
  bool sums_batches = false;  // `batch` loops leave partial results (scatter), not whole slices
};
// `by_position`: with loops of IndexMethod::parallel, which takes looking at the indices.
IndexNest gather_nest(const Node& node, bool by_position = true);
// `sums`: partial results can be combined, so that slices may be dealt out.
IndexNest scatter_nest(const Node& node, bool sums, bool by_position = true);

// The dims of the three arrays as factors: of an operand dim that is looked up position by position
// (`parallel` loops) that of the indices' dim where `by_position`; `dealt`: of slices that share no
// dim of the operand. Dims without a loop must be whole.
struct IndexFactors {
  std::vector<Factor> factors;
  std::vector<int64_t> operand, indices, slices;
};
IndexFactors index_factors(const IndexNest& nest, bool by_position, const Factor& dealt = {});
// `dims` of an array whose factors run over a dim of a loop of this method.
std::vector<int64_t> dims_of(const IndexNest& nest, IndexMethod method, IndexArray array,
                             std::vector<int64_t> dims);

// How the loops of a nest are spread over devices: digits per loop, over one device order.
struct IndexFactorSharding {
  DeviceOrder order = nullptr;
  std::vector<Digits> loops;
  Digits manual;  // of the region, on every array

  Digits of(const IndexNest& nest, IndexMethod method) const;  // of all loops of a method
  // Digits of a dim of an array: those of a parallel loop first, then those of its other loop.
  Digits dim(const IndexNest& nest, IndexArray array, int64_t d) const;
  Sharding layout(const IndexNest& nest, IndexArray array) const;
  // Digits along which a gather's result (a scatter's results) are partial.
  Digits partial(const IndexNest& nest) const;
};

// Whether devices find what they need: no digit twice, one parallel loop per dim, and where a dim
// has digits of two loops, the shards of both lie inside those of the first.
bool is_valid(const IndexNest& nest, const IndexFactorSharding& spread);

// An array that a gather or scatter reads or makes: what it costs depends on how it is held
// (wanted) against the layout that the spread gives it.
struct IndexValue {
  IndexArray array = IndexArray::operand;
  Shape shape;
  Sharding sharding;  // of an input as it is held, of a result as it is wanted
  bool is_result = false;
  bool costs = true;  // false: made anew in any layout, such as a splat
};

// What the choice of a spread looks at.
struct IndexProblem {
  const IndexNest* nest = nullptr;
  std::vector<IndexValue> values;
  Combiner combiner = Combiner::sum;   // of partial results
  DeviceOrder manual_order = nullptr;  // of the region's manual digits; nullptr: there are none
  Digits manual;
};

// The spread that sends the fewest bytes, then takes the fewest collectives, then does the least
// work per device: each loop takes its digits, the rest goes to others. Found by trying the layouts
// of the values one after the other, in every order, and then single digits elsewhere. Digits are
// only put where some value has or wants them. Tables that devices hold parts of, and updates of
// which each holds some, are gathered only where everything else sends many times the bytes.
IndexFactorSharding choose_index_factor_sharding(const IndexProblem& problem);

}  // namespace gspmd
