#pragma once

#include <vector>

#include "gspmd/ir/op.h"

namespace gspmd {

// For each of `components` components of index vectors along `vector_dim` the batch dim of the
// indices whose position it is, or -1: indices that look up position i at position i. Seen through
// copies, concatenations, broadcasts, constants, and values that loops and branches hand on.
std::vector<int64_t> counting_components(const Node& indices, int64_t vector_dim,
                                         size_t components);

}  // namespace gspmd
