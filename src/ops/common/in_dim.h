#pragma once

#include "gspmd/ops/builders.h"

namespace gspmd {

// What the partitioning of several families does along one dim, and with tuples.

// The elements [start, limit) of a dim, and `size` of them from a start that is computed, s32[].
Node* slice_in_dim(Node* x, int64_t dim, int64_t start, int64_t limit);
Node* dynamic_slice_in_dim(Node* x, int64_t dim, Node* start, int64_t size);
// Places along a dim of a value of these dims, counted from `first`: s32.
Node* places_in_dim(const Dims& dims, int64_t dim, Node* first);
Dims dims_except(int64_t rank, int64_t dim);
// The elements of a tuple; an array alone.
std::vector<Node*> elements_of(Node* value);

}  // namespace gspmd
