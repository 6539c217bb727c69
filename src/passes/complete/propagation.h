#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/passes/complete/propagate.h"
#include "ops/common/completion.h"
#include "ops/common/open_dims.h"
#include "passes/complete/improve_sharding.h"

namespace gspmd {

// The state of one completion run over a module; phases and orders: docs/spec/completion.md 2, 3.
class Propagation {
 public:
  Propagation(Module& module, const PropagateOptions& options);
  bool run();
  // Whether the last run took back what it had found for a parameter or the result, and nothing
  // that it heeded is gone.
  bool may_find_more() const { return replicated_boundary_ && !removed_barriers_; }

 private:
  enum Flag : uint8_t { kGiven = 1, kDoneFromOperands = 2, kDoneFromUsers = 4 };

  // Set-up and end (propagate.cpp).
  void check_boundary_flags() const;
  void convert_sharding_ops();
  void collect_groups();
  void group_donated();
  void detach_root();
  void detach_borders();
  void mark_given();
  void withhold_later();
  bool release_next_priority();
  void align_shard_as_groups();
  bool relay_barriers();
  void remove_barriers();
  void restore_boundary();
  bool differs_from(const std::vector<std::optional<Sharding>>& before) const;

  // Nodes of several computations that stand for one value (propagation_calls.cpp).
  void place_channels();
  void link_related_nodes();
  void link(const std::vector<Node*>& nodes);
  void link_argument(const Node& parameter, Node& argument);
  void copy_to_related(Node& node);
  const Node* argument_of(const Node& parameter) const;

  // Fixed point (propagation.cpp).
  bool run_to_fixed_point(int level);
  bool sweep_group_members(Computation& computation, int level);
  bool improve_member(Node& node, const std::vector<Node*>& group, int level);
  bool sweep_computation(Computation& computation, int level);
  // `leaf` of a tuple (-1: all) takes the candidate that came through `via`, where it is an
  // improvement.
  bool improve(Node& node, const Sharding& candidate, const Node& via, int level,
               bool reshard_freely, int64_t leaf = -1);
  bool improve_leaves(Node& node, const Sharding& candidate, const Node& via,
                      const ImproveOptions& options, int64_t leaf);
  std::optional<Sharding> better_leaf(const Node& node, const Shape& shape,
                                      const std::optional<Sharding>& current, Sharding candidate,
                                      const ImproveOptions& options) const;
  void set_sharding(Node& node, Sharding sharding, const Node& via,
                    const std::vector<const Node*>& by_leaf = {});
  void wake_neighbours(const Node& node);
  // What a visit last saw: nothing that it would find anew, where none of this has changed.
  struct Visit {
    int64_t time = -1;  // -1: there was none
    int level = 0;
  };
  void mark_changed(const Node& node);
  // What of an op's rules decides about visits.
  struct OpLevels {
    int8_t speaks = 0;      // completion_level()
    uint8_t begins = 0;     // a bit for each level at which some of its rules begin
    bool is_plain = false;  // whether it looks at its neighbours only
  };
  void read_levels();
  int level_of(const Node& node) const { return levels_[static_cast<size_t>(node.id())].speaks; }
  enum class From : uint8_t { operands, users };
  bool would_find_nothing(const Node& node, From from, const Visit& last, int level) const;
  template <class Infer>
  bool visit(Node& node, From from, Visit& last, int level, Infer&& infer);

  // One node (propagation_rules.cpp).
  bool infer_from_operands(Node& node, int level);
  bool infer_tuple(Node& node);
  // Who wins where two operands disagree: of a product the one that readers agree with
  // (look_ahead), then the larger; of other ops the one that speaks first, unless improve_sharding
  // finds the second better.
  bool weigh(Node& node, const std::vector<ShardingProposal>& proposals, int level);
  bool infer_from_users(Node& node, int level);
  bool infer_from_elements(Node& node, int level);
  bool copy_replication(Node& node, int level);
  bool become_manual(Node& node, const Node& via);
  bool enter_region(Node& node, const Node& via);
  bool refine_open(Node& node, int level, bool from_users);
  bool refine_with_conversion(Node& annotation, Node& conversion, const Sharding& wanted,
                              const Node& via);
  std::optional<Sharding> suggestion_of_user(const Node& user, int64_t operand, int level);
  std::optional<Sharding> look_ahead(Node& node);

  bool may_be_tiled(const Node& node) const;
  CompletionMode mode(int level) const { return {level, options_.spmd}; }
  uint8_t& flags(const Node& node) { return flags_.at(static_cast<size_t>(node.id())); }
  bool given(const Node& node) const {
    return (flags_.at(static_cast<size_t>(node.id())) & kGiven) != 0;
  }

  // Where a user first reads a value.
  int64_t first_position(const Node& user, const Node& value);

  Module& module_;
  PropagateOptions options_;
  // Of users with many operands: where each stands, looked up anew where they have changed.
  std::unordered_map<const Node*, std::unordered_map<const Node*, size_t>> positions_;
  std::vector<uint8_t> flags_;                     // by node id
  std::vector<OpLevels> levels_;                   // by node id
  int64_t time_ = 0;                               // counts changes of shardings
  std::vector<int64_t> changed_;                   // by node id: when its sharding changed,
  std::vector<int64_t> operand_changed_;           // and when one of its operands' did
  std::vector<Visit> from_operands_, from_users_;  // by node id
  // By node id, of nodes without a sharding: nor does any reader after them have one, each the only
  // one of the one before.
  std::vector<uint8_t> leads_nowhere_;
  std::map<int64_t, std::vector<Node*>> related_;  // by node id: must stay equal
  std::map<int64_t, std::vector<Node*>> groups_;   // by shard group id; negative: donated state
  std::map<int64_t, bool> group_is_as_;
  std::map<int64_t, int64_t> group_of_;     // node id -> group
  std::vector<const Node*> binding_;        // shard_as annotations whose operand is of the group
  std::vector<Computation*> computations_;  // those that completion visits, callees first
  // A node in the order of visits, its id beside it: most are passed over by their flags.
  struct Visited {
    Node* node;
    size_t id;
  };
  std::map<const Computation*, std::vector<Visited>> orders_;
  struct Member {  // of a group
    Node* node;
    const std::vector<Node*>* group;
    Visit last = {};
  };
  std::map<const Computation*, std::vector<Member>> members_;  // in the order of visits
  std::map<const Computation*, const Node*> caller_;  // of loop bodies, branches and callees
  // Annotations still to be heard, by priority.
  std::map<int64_t, std::vector<std::pair<Node*, Sharding>>> later_;
  std::optional<Sharding> saved_root_;
  std::vector<std::optional<Sharding>> saved_parameters_;
  bool restructured_ = false;
  bool replicated_boundary_ = false;
  bool removed_barriers_ = false;
};

// Gives manual code its own copy of constants that other code reads too; whether there were any.
bool split_manual_constants(Module& module);
// Takes away what a run with cse_prevention_only left; whether there was any.
bool drop_cse_prevention(Module& module);
// propagate() with cse_prevention_only.
bool propagate_to_scalar_broadcasts(Module& module, PropagateOptions options);

// Post-order from the roots as the field does it: operands first, the first operand's subtree
// first.
std::vector<Node*> post_order(const Computation& computation);

// Brings the origins up to date with the sharding: new digits came through `via` (the node itself:
// the user gave them; for a tuple: from the values it is made of). `by_leaf`: other neighbours for
// some leaves, nullptr for the rest.
void record_origins(Node& node, const Node& via, const std::vector<const Node*>& by_leaf = {});

}  // namespace gspmd
