#pragma once

#include <optional>
#include <span>

#include "gspmd/ir/op.h"

namespace gspmd {

// A local rewrite of one opcode: a node that computes the same bits (an old one, or new ones
// appended to the computation), or nullptr where the rule does not apply.
struct SimplifyRule {
  Opcode opcode;
  Node* (*rewrite)(Node& node);
};

std::span<const SimplifyRule> shape_rules();       // data movement, tuples, conversions
std::span<const SimplifyRule> arithmetic_rules();  // identities of elementwise ops
std::span<const SimplifyRule> collective_rules();  // groups of one device
Node* fold_constants(Node& node);                  // any elementwise op on small constants

// The scalar node that every element of `node` is equal to (itself, when it is a scalar): looks
// through broadcasts and reshapes. nullptr when there is none.
Node* splat_source(Node* node);
// Its value when it is a constant.
std::optional<double> splat_value(Node* node);

}  // namespace gspmd
