#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Reduce-scatters of which each reads only the one before it, along other dims or further along the
// same one: a value that is summed over several digits and tiled over several dims. They become
// one over the groups together, of the value with all tiles of a device side by side: the same
// bytes in one step instead of several. Whether anything changed.
bool merge_reduce_scatters(Module& module);

}  // namespace gspmd
