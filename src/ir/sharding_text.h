#pragma once

#include <string>
#include <string_view>

#include "gspmd/mesh/sharding.h"

namespace gspmd {

// Shardings that completion left only to keep equal broadcasts of scalars apart are no annotations:
// a later completion drops them. Text marks them by this op_name in the sharding's metadata, nodes
// by this frontend attribute.
inline constexpr std::string_view kCsePreventionName = "_sharding_propagation_cse_prevention";
inline constexpr const char* kCsePreventionAttribute = "gspmd.cse_prevention";

struct ShardingTextError {
  size_t offset;  // in the text
  std::string message;
};

// The sharding of a value of this shape: one element per tuple leaf, each with its leaf's rank; one
// sharding on a tuple holds for every leaf, as XLA's reader has it. Throws ShardingTextError.
Sharding sharding_of(std::string_view text, const Shape& shape);

}  // namespace gspmd
