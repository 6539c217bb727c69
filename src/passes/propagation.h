#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/passes/propagate.h"
#include "passes/improve_sharding.h"

namespace gspmd {

// The state of one completion run over a module. Phases and orders follow semantics.md 2.2 and 2.3.
class Propagation {
 public:
  Propagation(Module& module, const PropagateOptions& options);
  bool run();

 private:
  enum Flag : uint8_t { kGiven = 1, kDoneFromOperands = 2, kDoneFromUsers = 4 };

  // Set-up and end (propagate.cpp).
  void convert_sharding_ops();
  void collect_groups();
  void group_donated();
  void tie_related_nodes();
  void mark_given();
  void align_shard_as_groups();
  void restore_boundary();

  // Fixed point (propagation.cpp).
  void run_to_fixed_point(int level);
  bool sweep_groups(int level);
  bool sweep_computation(Computation& computation, int level);
  bool infer_from_operands(Node& node, int level);
  bool infer_dot_like(Node& node, const FactorRule& rule, int level);
  bool infer_from_users(Node& node, int level);
  std::optional<Sharding> suggestion_of_user(const Node& user, int64_t operand, int level);
  std::optional<Sharding> look_ahead(Node& node);
  bool improve(Node& node, const Sharding& candidate, const Node& via, int level, bool reshard_freely);
  bool improve_leaf(Node& node, int64_t leaf, const Shape& shape, const Sharding& candidate,
                    const ImproveOptions& options, std::optional<Sharding>& current) const;
  void record_origins(Node& node, const Node& via);
  void copy_to_related(Node& node);
  void wake_neighbours(const Node& node);

  bool may_receive(const Node& node) const;
  const FactorRule* rule(const Node& node);
  uint8_t& flags(const Node& node) { return flags_.at(static_cast<size_t>(node.id())); }
  bool given(const Node& node) const {
    return (flags_.at(static_cast<size_t>(node.id())) & kGiven) != 0;
  }

  Module& module_;
  PropagateOptions options_;
  std::vector<uint8_t> flags_;                                // by node id
  std::vector<std::unique_ptr<FactorRule>> rules_;            // by node id, made on demand
  std::map<int64_t, std::vector<Node*>> related_;             // by node id: must stay equal
  std::map<int64_t, std::vector<Node*>> groups_;              // by shard group id
  std::map<int64_t, bool> group_is_as_;
  std::vector<Computation*> computations_;                    // those that completion visits
  std::map<const Computation*, std::vector<Node*>> orders_;
  std::optional<Sharding> saved_root_;
  std::vector<std::optional<Sharding>> saved_parameters_;
  bool changed_ = false;
};

// Post-order from the roots as the field does it: the last operand's subtree first.
std::vector<Node*> post_order(const Computation& computation);

}  // namespace gspmd
