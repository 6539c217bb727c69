#pragma once

#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd::detail {

// The root of a module's entry, copied into `to` with what it calls; its parameters replaced.
Node* copy_entry(const Computation& entry, Computation& to, const std::vector<Node*>& arguments);

}  // namespace gspmd::detail
