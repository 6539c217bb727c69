#pragma once

// What convolutions of groups and the gradients of their kernels have in common.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/base/shape.h"
#include "kernels/group_planes.h"

namespace gspmd {

constexpr int64_t kGroupFloats = 40 << 10;        // of a block: they stay in the second-level cache
constexpr int64_t kMostGroupFloats = 1024 << 10;  // of one that is too large for it

// Whether types and sizes are those that the loops take, and that the library has no faster one.
bool is_of_groups(const ConvolutionSpec& spec);

// The axis's `low`, `high` and `phases`.
void set_shifts(GroupAxis& axis, const std::vector<int64_t>& shifts);

// Groups that are laid out together, neighbours.
struct GroupGroups {
  int64_t count = 1, together = 1;
  int64_t blocks() const { return ceil_div(count, together); }
};
// So many that lines of memory are read and written whole where features are contiguous.
int64_t groups_together(int64_t groups, int64_t in, int64_t out);

// f(TypeTag<T>{}) with the type that stores `dtype`.
template <class F>
void visit_group_type(DType dtype, F&& f) {
  if (dtype == DType::f32) return f(TypeTag<float>{});
  dtype == DType::bf16 ? f(TypeTag<bfloat16>{}) : f(TypeTag<float16>{});
}

}  // namespace gspmd
