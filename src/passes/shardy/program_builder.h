#pragma once

#include <deque>
#include <set>
#include <span>
#include <string>

#include "ir/sdy_names.h"
#include "passes/shardy/program.h"

namespace gspmd {

bool is_call_of(const Node& node, std::string_view target);
// Whether the node's FuncResultSharding says only what a function returns: what reads it is the
// root, the root's tuple, or nothing.
bool is_result_call(const Node& node);
// How many of the last values that a loop carries are values around it that its regions read: they
// are no results of the op in the text.
size_t capture_count(const Node& node);
// The attribute of this name; nullptr: none.
const std::string* attribute(const Node& node, const char* key);

// Makes an SdyProgram of a module.
class SdyProgramBuilder {
 public:
  SdyProgramBuilder(Module& module, const SdyProgramOptions& options);
  SdyProgram build();

 private:
  using Leaves = std::vector<SdyLeaf>;

  struct Border {
    int64_t outside = 0, inside = 0;  // slots
  };

  // --- Slots, values, ops
  int64_t new_slot(const Shape& shape, std::optional<SdySharding> sharding = {});
  int64_t new_value(int64_t slot);
  Leaves new_leaves(const Node& node);
  Leaves leaves_in(const std::vector<int64_t>& slots);
  SdySlot& slot_of(const SdyLeaf& leaf);
  void join_group(SdySlot& slot, const std::string& id);
  void use(std::span<const SdyLeaf> leaves);
  void add_op(SdyOp op);
  // What is read flows into the slot of `target` as through an op that changes nothing.
  void add_edge(const Node& owner, const std::vector<SdyLeaf>& sources, int64_t target);
  void add_source(int64_t edge, const SdyLeaf& source);
  Leaves call_sources(const Node& owner);

  // --- Attributes
  std::vector<std::optional<SdySharding>> shardings_of(const Node& node);
  bool is_heard(const Node& node) const;
  std::vector<SdySharding> parse_list(const Node& node, const std::string& text, size_t count,
                                      const char* what);
  void check(const SdySharding& sharding, const Shape& shape) const;
  void check_of_no_value(const Node& node, const std::vector<SdySharding>& list) const;

  // --- Walk
  void walk_function(Computation& computation, bool is_main);
  // What it returns; the last `captured` of that are no uses.
  Leaves walk(Computation& computation, const std::vector<Leaves>& parameters, size_t captured = 0);
  Leaves visit(Node& node);
  Leaves operand_leaves(const Node& node);
  Leaves visit_op(Node& node);
  Leaves visit_edge(Node& node);
  Leaves visit_call_edge(Node& node, const Leaves& owner);
  Leaves visit_while(Node& node);
  Leaves visit_conditional(Node& node);
  Leaves visit_barrier_of_tuple(Node& node);
  Leaves visit_group(Node& node);
  Border border_slots(const Shape& global, const Shape& local, const SdySharding& outside,
                      const SdyAxes& manual);
  Leaves visit_to_local(Node& node);
  Leaves visit_to_global(Node& node);
  Leaves visit_manual_body(Node& node);
  Leaves visit_call(Node& node);
  // Of a call whose body is part of the caller; `in`: slots of its arguments.
  Leaves visit_inlined(Node& node, const std::vector<int64_t>& in,
                       const std::vector<std::optional<SdySharding>>& out);
  std::vector<Leaves> split(const Computation& computation, const Leaves& leaves) const;
  std::pair<int64_t, SdyAxes> manual_axes(const Node& node,
                                          const std::vector<SdySharding>& shardings);
  void complete_manual(SdySharding& sharding, const SdyAxes& manual) const;

  // Whether data flows into leaf `leaf` of the node: always, or where the module says so.
  const Node* edge_node(const Node& node, int64_t leaf) const;
  bool has_edge(const Node& node, int64_t leaf) const;
  // The slot that data flows into: the leaf's own, or that of the edge that the module has.
  int64_t edge_target(const Node& node, int64_t leaf, int64_t own);

  Module& module_;
  SdyProgramOptions options_;
  SdyProgram program_;
  bool explicit_edges_ = false;
  std::optional<std::pair<int64_t, SdyAxes>> manual_;  // of the body that is walked
  const Computation* manual_body_ = nullptr;           // that body
  std::map<std::string, int64_t> groups_;
  // Dims of a group's first value, and the body of the manual computation that it is in.
  std::map<std::string, std::pair<Dims, const Computation*>> first_of_group_;
  std::deque<Computation*> functions_;  // still to be walked
  std::set<const Computation*> seen_functions_;
  std::map<const Computation*, std::vector<const Node*>> calls_;  // of functions, single pass
  std::map<const Node*, int64_t> edge_slots_;                     // of the module's own edges
  std::vector<std::pair<int64_t, Node*>> call_edges_;  // number of the op, FuncDataFlowEdge node
};

}  // namespace gspmd
