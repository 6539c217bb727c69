#pragma once

#include <vector>

#include "passes/fuse/fuse_steps.h"

namespace gspmd {

constexpr size_t kMostInLoop = 96;  // nodes of a group

// A group while nodes come to it.
struct OpenLoopGroup {
  LoopGroup body;
  Dims domain;
  Dims reduced;        // dims that its reductions fold; empty = none yet
  bool joins = false;  // is in pieces, which have no reductions
};

// A reduction of the last dim, what is computed of its results and the loops that read rows and
// these again become one loop, which reads each row once. `group_of`: of each node, or -1. No path
// may lead from a group back to it, and none does then.
void join_rows(const LoopGraph& graph, std::vector<OpenLoopGroup>& groups,
               std::vector<int64_t>& group_of);

}  // namespace gspmd
