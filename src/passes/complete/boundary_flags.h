#pragma once

#include <cstddef>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/passes/complete/propagate.h"

namespace gspmd {

// Which results and parameters of the entry completion may lay out: no flag (none), one for all, or
// one each.
struct BoundaryFlags {
  std::vector<bool> results, parameters;
};

// As PropagateOptions::allow_output and allow_parameters say.
BoundaryFlags boundary_flags(const Module& module, const PropagateOptions& options);

bool is_open_at(const std::vector<bool>& flags, size_t i);

// How many flags a boundary can have. A tuple that is the only parameter has one per element.
size_t output_count(const Computation& entry);
size_t parameter_count(const Computation& entry);
bool is_single_tuple(const Computation& entry);

}  // namespace gspmd
