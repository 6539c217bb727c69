#pragma once

#include <algorithm>
#include <vector>

#include "base/sorted_set.h"
#include "gspmd/ir/module.h"
#include "ir/node_marks.h"

namespace gspmd {

// Transposes around a product become its strides: the dot and they turn into one kOutput fusion.
bool fuse_dots(Computation& computation);

// Products whose results only loops and other products read, row by row, become one kCustom fusion
// with these: attention, whose scores are never in memory.
bool fuse_row_blocks(Computation& computation);

// Sums of two pads between elements, which stand in turn in the result, become a kCustom fusion.
bool fuse_interleaves(Computation& computation);

// Ops that no loop takes in, and what is before and behind them, become one kCustom fusion where
// all of it goes row by row and what is between would go to memory.
bool fuse_row_tiles(Computation& computation);

// The last transpose above the dot to which it can be written directly; the dot itself where there
// is none.
Node* written_as(Node* dot);
// Where a dot reads the operand from: through transposes that nothing but products needs.
Node* read_from(Node* operand);
// Copies the view ops from `source` up to `node`, reading `parameter` in place of the source.
Node* copy_chain(Computation& fused, const Node& node, const Node& source, Node* parameter);
// Copies the view ops behind `dot` up to `root`, reading `copy`.
Node* copy_views(Computation& fused, const Node& dot, Node* root, Node* copy);

// A node of a computation that is to be fused, on other operands.
Node* copy_into(Computation& fused, const Node& node, std::vector<Node*> operands);
// The parameter of a fused computation that stands for what is read last of `inputs`.
Node* add_parameter(Computation& fused, const std::vector<Node*>& inputs);
// The fusion that gives what the root of `fused` is; `model` tells its name and where it is from.
Node* append_fusion(Computation& computation, Computation& fused, std::vector<Node*> inputs,
                    const char* kind, const Node& model);

// Nodes, as positions in the computation's node list.
using PositionSet = SortedSet<int64_t>;

// A set of nodes that become one loop: `members` give results, `clones` are computed again because
// that is cheaper than reading them.
struct LoopGroup {
  PositionSet members, clones;
  bool contains(int64_t position) const {
    return members.contains(position) || clones.contains(position);
  }
};

// The nodes of a computation as loop fusion sees them.
struct LoopGraph {
  explicit LoopGraph(const Computation& computation) : position_of(node_positions(computation)) {}

  NodeMap<int64_t> position_of;
  std::vector<Node*> nodes;    // by position
  std::vector<bool> fusible;   // elementwise, reducing or put together, of types loops have
  std::vector<bool> absorbed;  // broadcast, iota, scalar constant, view: copied into each reader
  std::vector<bool> joins;     // concatenations and pads: a loop in pieces
  std::vector<Dims> domain;    // of fusible nodes: the dims they loop over
  std::vector<Dims> folded;    // and which of them they combine; none: elementwise
  std::vector<std::vector<int64_t>> reads;  // what a node reads, absorbed nodes looked through
  // Of these what it reads at other places than its own, so that it has to be in memory.
  std::vector<std::vector<int64_t>> apart;
  bool reads_apart(int64_t position, int64_t read) const {
    const std::vector<int64_t>& all = apart[static_cast<size_t>(position)];
    return std::binary_search(all.begin(), all.end(), read);
  }
  bool folds(int64_t position) const { return !folded[static_cast<size_t>(position)].empty(); }
};
// `views`: slices, concatenations and pads too.
LoopGraph loop_graph(const Computation& computation, bool views);

// Groups nodes over the same dims, so that no path leaves a group and comes back; then lets readers
// compute again what costs less than the memory between them.
std::vector<LoopGroup> group_loops(const LoopGraph& graph);
bool fuse_loops(Computation& computation);

}  // namespace gspmd
