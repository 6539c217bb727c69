#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Whether the node is an asynchronous call of one collective and nothing else, ended by its
// async-done: what the pass `schedule` makes of kinds that have no start of their own.
bool begins_collective(const Node& node);

}  // namespace gspmd
