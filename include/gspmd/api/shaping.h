#pragma once

// Tensors from nothing, and the same elements in another arrangement.

#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"
#include "gspmd/ir/padding.h"

namespace gspmd {

// --- values from nothing; UserError outside a trace
GSPMD_API Tensor constant(const Array& array,
                          Site site = Site::here());  // a hidden parameter of the program
GSPMD_API Tensor full(Shape shape, double value, Site site = Site::here());
GSPMD_API Tensor zeros(Shape shape, Site site = Site::here());
GSPMD_API Tensor ones(Shape shape, Site site = Site::here());
GSPMD_API Tensor zeros_like(Operand x);
// 0, 1, 2, ... along `axis`, equal along the other dims.
GSPMD_API Tensor iota(Shape shape, int64_t axis, Site site = Site::here());

// --- the same elements in another arrangement
GSPMD_API Tensor reshape(Operand x, Dims dims);  // one dim may be -1: what remains
GSPMD_API Tensor
transpose(Operand x, std::vector<int64_t> permutation =
                         {});  // result dim i is operand dim permutation[i]; default: reversed
GSPMD_API Tensor broadcast_to(Operand x, Dims dims);    // numpy's rule
GSPMD_API Tensor expand_dims(Operand x, int64_t axis);  // a new dim of size 1 before `axis`
GSPMD_API Tensor squeeze(Operand x, int64_t axis);      // drops a dim of size 1

// Elements starts[i], starts[i]+strides[i], ... < limits[i] of every dim; no strides: all 1.
GSPMD_API Tensor slice(Operand x, Dims starts, Dims limits, Dims strides = {});
// Elements [start, limit) of one dim; negative numbers count from the end.
GSPMD_API Tensor slice_dim(Operand x, int64_t axis, int64_t start, int64_t limit);
// The parts one behind the other along `axis`; their other dims are equal.
GSPMD_API Tensor concatenate(std::vector<Tensor> parts, int64_t axis, Site site = Site::here());
// `value` before, behind and between elements, as HLO's pad; amounts per dim.
GSPMD_API Tensor pad(Operand x, std::vector<PaddingDim> padding, double value = 0);

// 1 where the new last dim's index equals the element, else 0: [b,s] -> [b,s,depth].
GSPMD_API Tensor one_hot(Operand indices, int64_t depth, DType dtype = DType::f32);

}  // namespace gspmd
