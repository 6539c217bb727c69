#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gspmd/ir/op.h"

namespace gspmd::library {

// What a call of the typed interface says beside its operands, in the dictionary of its
// backend_config, "{uplo = 76 : ui8}". true is 1, false 0. nullopt: it does not say `name`, or no
// number.
std::optional<int64_t> setting(const Node& node, std::string_view name);

}  // namespace gspmd::library
