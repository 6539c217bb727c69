#pragma once

#include <set>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// Transposes around a product become its strides: the dot and they turn into one kOutput fusion.
bool fuse_dots(Computation& computation);

// A set of nodes that become one loop: `members` give results, `clones` are computed again because
// that is cheaper than reading them. Both as positions in the computation's node list, ascending.
struct LoopGroup {
  std::set<int64_t> members, clones;
  bool contains(int64_t position) const {
    return members.count(position) + clones.count(position) > 0;
  }
};

// The nodes of a computation as loop fusion sees them.
struct LoopGraph {
  std::vector<Node*> nodes;    // by position
  std::vector<bool> fusible;   // elementwise or reducing, of element types loops have
  std::vector<bool> absorbed;  // broadcast, iota, scalar constant: copied into each reader
  std::vector<Dims> domain;    // of fusible nodes: the dims they loop over
  std::vector<std::vector<int64_t>> reads;  // what a node reads, absorbed nodes looked through
};
LoopGraph loop_graph(const Computation& computation);

// Groups nodes over the same dims, so that no path leaves a group and comes back; then lets readers
// compute again what costs less than the memory between them.
std::vector<LoopGroup> group_loops(const LoopGraph& graph);
bool fuse_loops(Computation& computation);

}  // namespace gspmd
