#pragma once

#include <optional>
#include <vector>

#include "gspmd/ir/op.h"

namespace gspmd {

// What the rules of completion share (docs/spec/completion.md 4 to 6).

// The same value with these dims whole, or with all others whole.
Sharding whole_on(const Sharding& s, const Dims& dims, int64_t rank);
Sharding whole_except(const Sharding& s, const Dims& dims, int64_t rank);

// The sharding of a value whose dim d is factor `to_dims[d]`, as one whose dim d is `from_dims[d]`
// suggests it: digits of factors that both have, and what is manual. The rest becomes replication.
Sharding carry_sharding(const std::vector<int64_t>& from_dims, const Sharding& from,
                        const std::vector<int64_t>& to_dims);

// The device that holds the first part of a reversed dim holds the last part of the operand: the
// same digits over an order that counts backwards there. O(devices); whole beyond 2^20 of them.
Sharding reversed_tiles(const Sharding& s, const Dims& dims);

// Manual over tiled over single-device over replicated; among tiled ones more tiles.
bool more_specific(const Sharding& a, const Sharding& b);

// Whether a neighbour may take this sharding over: everything but single-device and unknown ones.
// Of a tuple: some leaf.
bool propagates(const Sharding& sharding);
bool propagates(const std::optional<Sharding>& sharding);
// All of a value is manual: one leaf, or every leaf of a tuple.
bool is_all_manual(const std::optional<Sharding>& sharding);

// The sharding of one leaf of a node; nullptr where it has none.
const Sharding* leaf_sharding(const Node& node, int64_t leaf);
// As leaf_sharding, where it is tiled (replicated included); else nullptr.
const Sharding* tiled_leaf(const Node& node, int64_t leaf = 0);

// The aggressiveness level from which on completion passes through an op.
int completion_level(const Node& node);
// Whether a result of this op may take a layout that needs a reshard, where it has one reader.
bool reshards_freely(const Node& node);
// The op acts on more than its result, so that completion may not copy replication onto it.
bool has_effects(const Node& node);
// Ops that take element by element, whatever else they do (all-reduce, map, rng, ...).
bool is_pointwise(const Node& node);
// Result and operand have one shape but for the element types.
bool same_dims(const Shape& a, const Shape& b);
// The operand that decides for ops that take one layout: the first for those that read it first,
// else the one with the most specific sharding; nullptr where there is none that propagates.
const Node* representative_operand(const Node& node);

// The loop nest as completion sees it.
FactorRule completion_nest(const Node& node, CompletionMode mode);

// What the operands suggest for the result, by the op's rules.
std::vector<ShardingProposal> proposals_of_operands(const Node& node, CompletionMode mode);
// What a reader says of an operand, by its rules. Whether completion may pass there (level, manual
// borders, who may be tiled) is not asked here.
std::vector<OperandSuggestion> suggestions_of_reader(const Node& reader, int64_t operand,
                                                     CompletionMode mode);

}  // namespace gspmd
