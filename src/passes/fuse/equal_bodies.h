#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Whether two computations compute the same in the same order: ops, shapes, attributes and what is
// called, whatever their nodes are named and laid out as.
bool equal_bodies(const Computation& a, const Computation& b);

}  // namespace gspmd
