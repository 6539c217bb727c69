#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Whether a node's value is its operands' storage: reshape, tuple, get-tuple-element, ...
bool is_alias(const Node& node);

}  // namespace gspmd
