#pragma once

#include <optional>
#include <vector>

#include "gspmd/ir/op.h"

namespace gspmd {

// What the rules of completion share (semantics.md 2.5, 2.6).

// The sharding of a value whose dim d is factor `to_dims[d]`, as one whose dim d is `from_dims[d]`
// suggests it: digits of factors that both have, blocked ones left out, and what is manual. The
// rest becomes replication.
Sharding carry_sharding(const FactorRule& rule, const std::vector<int64_t>& from_dims,
                        const Sharding& from, const std::vector<int64_t>& to_dims);

// Manual over tiled over replicated over one device; among tiled ones more tiles.
bool more_specific(const Sharding& a, const Sharding& b);

// Whether a neighbour may take this sharding over: everything but single-device and unknown ones.
// Of a tuple: some leaf.
bool propagates(const Sharding& sharding);
bool propagates(const std::optional<Sharding>& sharding);

// The sharding of one leaf of a node; nullptr where it has none.
const Sharding* leaf_sharding(const Node& node, int64_t leaf);

}  // namespace gspmd
