#pragma once

#include <optional>

#include "gspmd/ir/module.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Dims of a value laid over storage with any strides (elements).
struct ViewDims {
  Dims dims, strides;
};

// A transpose or a reshape: what views are made of.
bool is_view_op(const Node& node);

// The value of `node` as a view of the storage of `source`, reached through transposes and
// reshapes; nullopt where something else lies between or strides cannot say it.
std::optional<ViewDims> view_from(const Node& node, const Node& source);
// The value of `source` as it lies in the storage of `node`, which is made of it by transposes and
// reshapes: where to write `source` so that `node` results.
std::optional<ViewDims> view_into(const Node& source, const Node& node);

PreparedKernel lower_dot(const Node& node);
// Of a kOutput fusion: transposes and reshapes around one dot, all of them strides.
PreparedKernel lower_dot_fusion(const Node& node);

}  // namespace gspmd
