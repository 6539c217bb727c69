#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Writes ops whose rows have the aspect `expand` (training and gradient of batch normalisation,
// copies of tuples) as simpler ones, as the field does before completion: shardings then pass
// through them, each device sums its part, and sums are all-reduced instead of gathering the input.
// Those in manual regions stay. Whether there were any.
bool expand_ops(Module& module);

}  // namespace gspmd
