#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/kernels/loop_program.h"

namespace gspmd {

// The loop op of an elementwise or reducing node; nullopt where loops have none.
std::optional<LoopOp> loop_op(const Node& node);

// Turns elementwise nodes, broadcasts, iotas, reductions and transposes into one loop program over
// `space`. Each node is computed under an embedding: which dim of the space each of its dims is
// (-1 for a dim of size 1). Leaves are `inputs`: operands of the kernel, by number.
class LoopLowering {
 public:
  LoopLowering(Dims space, std::vector<bool> reduced, std::map<const Node*, int64_t> inputs);

  // The program whose results are `outputs`; nullopt where some node does not fit. Values are
  // numbered in the order of `nodes`, operands first.
  std::optional<LoopProgram> lower(const std::vector<const Node*>& nodes,
                                   const std::vector<const Node*>& outputs);

 private:
  using Embedding = std::vector<int64_t>;
  bool demand(const Node& node, const Embedding& embedding);
  bool demand_operands(const Node& node, const Embedding& embedding);
  std::optional<Embedding> operand_embedding(const Node& node, int64_t operand,
                                             const Embedding& embedding) const;
  bool emit(const Node& node, const Embedding& embedding);
  void put_here(const Node& node, const Embedding& embedding);
  int value_of(const Node& node, const Embedding& embedding) const;
  LoopValue input(const Node& node, int64_t number, const Embedding& embedding) const;

  LoopProgram program_;
  Embedding whole_, kept_;
  std::map<const Node*, int64_t> inputs_;
  std::map<const Node*, std::set<Embedding>> demanded_;
  std::map<std::pair<const Node*, Embedding>, int> values_;
};

// Kernels of single nodes and of fusions. An empty `run` = the reference kernel has to do.
PreparedKernel lower_loop_node(const Node& node);  // elementwise, broadcast, iota, reduce
PreparedKernel lower_loop_fusion(const Node& node);

}  // namespace gspmd
