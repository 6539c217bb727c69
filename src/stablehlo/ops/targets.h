#pragma once

#include <string_view>

#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {

// What a custom call of this target is, where it is one of the ops that older programs and shape
// polymorphism write so; nullptr: custom code.
const OpRow* find_target(std::string_view target);

// The op as that of another row, on the same operands; `attributes`: a dictionary of more of them.
// nullptr where the row says so: the op is its own then, or nothing where it has set results.
Node* lower_as(OpLowering& op, const OpRow& row, const Attribute* attributes);

// --- Targets by family
std::span<const OpRow> chlo_targets();
std::span<const OpRow> dynamic_targets();
std::span<const OpRow> check_targets();

}  // namespace gspmd::stablehlo
