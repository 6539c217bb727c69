#pragma once

#include <vector>

#include "gspmd/moves/reshard.h"
#include "ops/gather_scatter/nest.h"

namespace gspmd {

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
IndexSpread choose_index_spread(const IndexProblem& problem);

}  // namespace gspmd
