#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// A slice of a padded value becomes a pad of the value, its padding cut by what the slice leaves
// out: a stencil that pads once and slices shifted windows then exchanges halos of the value
// instead of realigning shards of the padded one. For slices with stride 1 of a completed module,
// along dims that are split. Whether anything changed.
bool merge_pads(Module& module);
// Whether there is such a slice: if not, it changes nothing.
bool may_merge_pads(const Module& module);

}  // namespace gspmd
