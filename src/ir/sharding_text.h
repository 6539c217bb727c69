#pragma once

#include <string>
#include <string_view>

#include "gspmd/mesh/sharding.h"

namespace gspmd {

struct ShardingTextError {
  size_t offset;  // in the text
  std::string message;
};

// The sharding of a value of this shape: one element per tuple leaf, each with its leaf's rank; one
// sharding on a tuple holds for every leaf, as XLA's reader has it. Throws ShardingTextError.
Sharding sharding_of(std::string_view text, const Shape& shape);

}  // namespace gspmd
