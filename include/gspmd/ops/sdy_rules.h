#pragma once

// What Shardy's propagation knows of an op.

#include <optional>
#include <set>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"
#include "gspmd/mesh/sdy_rule.h"

namespace gspmd {

// From which round of op priorities on an op is heard (docs/spec/completion.md 10.4).
enum class SdyRound : uint8_t {
  pass_through,   // costs nothing to follow: elementwise, reshape, transpose
  dynamic_slice,  // the same from operands to results only
  broadcast,      // from its result first, from its operand last
  other,
};

// How propagation treats an op beside its rule.
struct SdyTraits {
  bool elementwise = false;          // its operands never take more than its results have
  SdyRound round = SdyRound::other;  // from which on it is heard
};

// An operand as the text of the op had it: nodes that a reader made beside the op (frontend
// attribute mlir.implicit) are looked through.
struct SdyOperand {
  Node* node = nullptr;       // the value that the text named
  std::vector<int64_t> dims;  // dim of the node's operand for each dim of `node`; -1: it has none
};
// `operand`: its number, from 0 to the number of operands less 1.
GSPMD_API SdyOperand sdy_operand(const Node& node, int64_t operand);

// Where the dims of the operand of a reshape that a reader made under a broadcast are in the result
// of that; -1 - dim: a dim of size 1 that grows to that dim, and is not in the reshape's result.
// nullopt: the node does not say so of each dim.
GSPMD_API std::optional<Dims> sdy_broadcast_dims(const Node& reshape);

// What an all-to-all exchanges whose text splits its operand along another dim than it joins along:
// HLO has one dim for both, so a reader moves the parts to the dim where they are joined.
struct SdyAllToAll {
  Node* operand = nullptr;  // of the text
  int64_t split_dim = 0;    // of the operand; it is joined along the node's own dim
};
// nullopt: the node is no such all-to-all.
GSPMD_API std::optional<SdyAllToAll> sdy_all_to_all(const Node& node);

// The factor rule of an op, for operands as sdy_operand gives them and the leaves of its result:
// the user's where the node has one, else that of docs/spec/completion.md 10.3. nullopt: nothing
// passes through it. UserError: the user's rule does not fit. `conservative`: factors along which
// data would move are dropped or blocked.
GSPMD_API std::optional<SdyRule> sdy_rule(const Node& node, bool conservative);
// By opcode, and of custom-calls by target.
GSPMD_API SdyTraits sdy_traits(const Node& node);
// Whether the node is constant, iota, or of `constants` alone by ops that cost nothing to repeat:
// each reader has its own.
GSPMD_API bool is_sdy_constant(const Node& node, const std::set<const Node*>& constants);
// Whether it is the broadcast of a scalar, of which each reader has its own as well.
GSPMD_API bool is_sdy_scalar_broadcast(const Node& node);

}  // namespace gspmd
