#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Training and gradient of batch normalisation written out as the sums and elementwise ops that they
// are, in f32 at least, as the field does before completion: shardings then pass through them, each
// device sums its part, and the features' sums are all-reduced instead of gathering the input. Those
// in manual regions stay. Whether there were any.
bool expand_batch_norms(Module& module);

}  // namespace gspmd
