#pragma once

#include <string>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/passes/complete/propagate.h"

namespace gspmd {

// Of a completed module: a result that takes over a parameter's storage gets the parameter's
// sharding where it is open to completion (or the module is a traced one), else the parameter gets
// the result's where that is open. Where neither is and their shards differ in shape, a must-alias
// is a UserError; may-aliases are dropped, and returned in words.
std::vector<std::string> agree_aliases(Module& module, const PropagateOptions& options);

}  // namespace gspmd
