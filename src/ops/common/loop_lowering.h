#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/kernels/loop_program.h"

namespace gspmd {

// The loop op of an elementwise or reducing node; nullopt where loops have none.
std::optional<LoopOp> loop_op(const Node& node);

// The dims of the steps in which a loop computes a node, each reading operands of these dims at its
// own place: the node's, or those of what it folds. nullptr: it is neither elementwise nor a fold.
const Dims* loop_steps(const Node& node);

// What a node is that computes nothing: a slice, a reshape by which only dims of size 1 come or go,
// or what puts values together, which a loop writes by pieces.
enum class LoopView : uint8_t { none, slice, unit_reshape, join };
LoopView loop_view(const Node& node);

// Of each dim some indices: `count` from `first` on, `step` apart.
struct LoopBox {
  Dims first, count, step;
};

// Where a box is cut: its first `at` indices of a dim from the rest or, where `classes` is more
// than 1, by index modulo that.
struct LoopCut {
  size_t dim = 0;
  int64_t at = 0, classes = 1;
};

// Turns elementwise nodes, broadcasts, iotas, reductions, transposes, slices, concatenations and
// pads into one loop program over `space`. Each node is computed under an embedding: which index
// each of its dims has at each step. Leaves are `inputs`: operands of the kernel, by number.
class LoopLowering {
 public:
  LoopLowering(Dims space, std::vector<bool> reduced, std::map<const Node*, int64_t> inputs);
  // Over a box of the space, which becomes a piece of the results.
  LoopLowering(Dims space, LoopBox box, std::vector<bool> reduced,
               std::map<const Node*, int64_t> inputs);

  // The program whose results are `outputs`; nullopt where some node does not fit. Values are
  // numbered in the order of `nodes`, operands first.
  std::optional<LoopProgram> lower(const std::vector<const Node*>& nodes,
                                   const std::vector<const Node*>& outputs);
  // Behind nullopt: how to cut the box so that each step of a part reads one operand of a
  // concatenation or pad; nullopt: that is not the reason.
  const std::optional<LoopCut>& cut() const { return cut_; }

 private:
  // scale * i + start at index i of a dim of the space; dim -1: of any.
  struct Place {
    int64_t dim = -1, scale = 0, start = 0;
    auto operator<=>(const Place&) const = default;
  };
  using Embedding = std::vector<Place>;
  struct Reading {
    int64_t operand;
    Embedding embedding;
  };
  bool demand(const Node& node, const Embedding& embedding);
  bool demand_operands(const Node& node, const Embedding& embedding);
  std::optional<std::vector<Reading>> readings(const Node& node, const Embedding& embedding);
  std::optional<Embedding> reshaped(const Node& node, const Embedding& embedding) const;
  std::optional<Embedding> operand_embedding(const Node& node, int64_t operand,
                                             const Embedding& embedding) const;
  std::optional<std::vector<Reading>> concatenated(const Node& node, const Embedding& embedding);
  std::optional<std::vector<Reading>> padded(const Node& node, const Embedding& embedding);
  int64_t last(const Place& place) const;
  void cut_before(const Place& place, int64_t index);
  std::optional<Embedding> place_of_output(const Node& node) const;
  LoopOutput output(const Node& node) const;
  bool emit(const Node& node, const Embedding& embedding);
  LoopValue iota(const Node& node, const Place& place) const;
  void keep_nans(int x);
  void put_here(const Node& node, const Embedding& embedding);
  int value_of(const Node& node, const Embedding& embedding) const;
  LoopValue input(const Node& node, int64_t number, const Embedding& embedding) const;

  Dims space_, kept_dims_;
  LoopBox box_;
  std::optional<LoopCut> cut_;
  LoopProgram program_;
  Embedding whole_, kept_;
  std::map<const Node*, int64_t> inputs_;
  std::map<const Node*, std::set<Embedding>> demanded_;
  std::map<std::pair<const Node*, Embedding>, int> values_;
};

// Kernels of single nodes and of fusions. An empty `run` = the reference kernel has to do.
PreparedKernel lower_loop_node(const Node& node);  // elementwise, broadcast, iota, reduce
PreparedKernel lower_loop_fusion(const Node& node);
// Whether what a fused computation does is a loop or a few pieces of one.
bool is_loop_program(const Computation& fused);

}  // namespace gspmd
