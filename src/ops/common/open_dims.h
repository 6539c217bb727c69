#pragma once

#include <vector>

#include "gspmd/ir/op.h"

namespace gspmd {

// The dims that backend_config="unspecified_dims=[0,1]" of a Sharding op, or of a start or end of a
// manual region, leaves open: one flag per dim of the value, none where nothing is said. UserError
// where the list is malformed or names a dim that the value has not.
std::vector<bool> unspecified_dims(const Node& node);

}  // namespace gspmd
