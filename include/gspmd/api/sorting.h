#pragma once

// Sorting.

#include <utility>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// How sort() and argsort() order.
struct SortOptions {
  int64_t axis = -1;        // the dim sorted along
  bool descending = false;  // the greatest first; equals stay in order
  bool stable = true;       // equals stay in order
  int64_t num_keys = 1;     // of several tensors: how many of the first decide
};
// The elements in order. Numbers or pred that are not complex; NaN is greater than all, -0 equals
// 0.
GSPMD_API Tensor sort(Operand x, const SortOptions& options = {});
// Tensors of equal dims sorted alike: by the first, where that is equal by the second, and so on
// for num_keys of them. As jax.lax.sort.
GSPMD_API std::vector<Tensor> sort(std::vector<Tensor> tensors, const SortOptions& options = {},
                                   Site site = Site::here());
// The places, s32, of the elements in order: take_along_axis(x, argsort(x), axis) is sort(x).
GSPMD_API Tensor argsort(Operand x, const SortOptions& options = {});

// Along which dim top_k() looks, and for what.
struct TopKOptions {
  int64_t axis = -1;    // the dim looked along
  bool largest = true;  // false: the least elements
};
// The k largest elements, in order, and their places, s32; the first of equals. As jax.lax.top_k.
GSPMD_API std::pair<Tensor, Tensor> top_k(Operand x, int64_t k, const TopKOptions& options = {});

}  // namespace gspmd
