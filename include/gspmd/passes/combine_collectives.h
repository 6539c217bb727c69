#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

struct CombineOptions {
  int64_t max_bytes = int64_t{256} << 20;  // of one combined collective's operands
};

// Joins independent collectives of one kind, group and combiner into one with a tuple result, when
// no operand depends on another's result. all-reduce, and all-gather / reduce-scatter.
bool combine_collectives(Module& module, const CombineOptions& options = {});

}  // namespace gspmd
