#pragma once

// Joining collectives.

#include <functional>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// When collectives are joined.
struct CombineOptions {
  int64_t max_bytes = int64_t{256} << 20;  // of one combined collective's values
  // Of what one collective moves; default: its operand on one device.
  std::function<int64_t(const Node& collective)> bytes = {};
};

// Joins independent collectives of one kind, group and combiner into one with a tuple result, when
// no operand depends on another's result. all-reduce, and all-gather / reduce-scatter.
GSPMD_API bool combine_collectives(Module& module, const CombineOptions& options = {});

}  // namespace gspmd
