// Ops that loops cannot take in, such as windows, cumulative sums and sorts, run tile by tile of
// rows together with the loops around them, where what is between them would go to memory.

#include <algorithm>
#include <map>
#include <set>

#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "ops/common/loop_lowering.h"
#include "ops/control/row_tiles.h"
#include "passes/fuse/fuse_steps.h"
#include "passes/graph/alias.h"

namespace gspmd {
namespace {

constexpr int64_t kLeastBetween = 1 << 20;  // bytes between the ops of a group
constexpr double kMostWork = 8;             // additions for each byte: more is no matter of memory
constexpr size_t kMostMembers = 256, kMostMoved = 64;
constexpr int64_t kMostConstant = 64;  // elements of constants that are copied into groups

class RowTileFuser {
 public:
  explicit RowTileFuser(Computation& computation)
      : c_(computation), position_(node_positions(computation)) {}

  bool run() {
    std::vector<Node*> seeds;
    for (const auto& node : c_.nodes())
      if (is_seed(*node)) seeds.push_back(node.get());
    bool changed = false;
    for (Node* seed : seeds)
      if (!tried_.contains(seed)) changed |= fuse_from(seed);
    for (const auto& [from, to] : replacements_) c_.replace_uses(from, to);
    if (!changed) return false;
    c_.remove_dead();
    c_.sort();
    return true;
  }

 private:
  using Members = std::map<int64_t, Node*>;  // by position

  // What loops do not take in, or only at other places than its own, of values that may be between.
  static bool is_seed(const Node& node) {
    if (node.op().lower == nullptr || node.shape.bytes() < kLeastBetween / 2) return false;
    if (!node.is(Opcode::fusion)) return !is_alias(node);
    const auto& body = node.called.at(0)->nodes();
    return node.attrs.fusion_kind == "kCustom" ||
           std::any_of(body.begin(), body.end(),
                       [](const auto& inner) { return loop_view(*inner) != LoopView::none; });
  }

  const RowUse& use_of(Node* node) {
    const auto [at, fresh] = uses_.try_emplace(node);
    if (!fresh) return at->second;
    double bytes = static_cast<double>(node->shape.bytes());
    for (const Node* operand : node->operands())
      bytes += static_cast<double>(operand->shape.bytes());
    const bool runs = node->op().lower != nullptr || is_alias(*node);
    if (runs && arithmetic_of(*node) <= kMostWork * bytes) at->second = row_use(*node);
    return at->second;
  }

  // --- Groups

  static bool is_constant(const Node& node) {
    return !node.attrs.literal.empty() && node.shape.elements_count() <= kMostConstant;
  }
  int64_t position(const Node* node) const {
    return made_.contains(node) ? INT64_MAX : position_.at(node);
  }

  // A node and the elements of its tuple, of which there is none outside then.
  void add_whole(Node* node, Members& to) const {
    if (node->is(Opcode::get_tuple_element)) node = node->operand(0);
    to[position(node)] = node;
    if (!node->shape.is_tuple) return;
    for (Node* user : node->users()) to[position(user)] = user;
  }

  // Whether a value can be made when nothing from position `first` on has run. `moved`: what there
  // would be to run for that.
  bool stands_before(int64_t first, Node* node, std::set<Node*>& moved) const {
    if (position(node) < first || node->is(Opcode::parameter) || moved.contains(node)) return true;
    if (made_.contains(node) || taken_.contains(node) || moved.size() >= kMostMoved) return false;
    moved.insert(node);
    return std::all_of(node->operands().begin(), node->operands().end(),
                       [&](Node* operand) { return stands_before(first, operand, moved); });
  }

  // Whether all of it goes through the same rows, and begins when nothing of it has run.
  bool holds(const Members& members, std::set<Node*>& moved) {
    if (members.size() > kMostMembers) return false;
    const int64_t first = members.begin()->first;
    int64_t rows = -1;
    for (const auto& [at, node] : members) {
      const RowUse& use = use_of(node);
      if (use.depth == 0 || node->is(Opcode::tuple) || taken_.contains(node)) return false;
      if (node->shape.is_tuple && !is_taken_apart(*node)) return false;
      for (const Shape& leaf : leaf_shapes(node->shape)) {
        if (leaf.dims.empty() || (rows >= 0 && leaf.dims[0] != rows)) return false;
        rows = leaf.dims[0];
      }
      for (size_t i = 0; i < node->operands().size(); ++i) {
        Node* operand = node->operands()[i];
        const bool is_inside = members.contains(position(operand));
        if (is_inside && !use.rows[i]) return false;
        if (!is_inside && !stands_before(first, operand, moved)) return false;
      }
    }
    return std::none_of(moved.begin(), moved.end(),
                        [&](const Node* node) { return members.contains(position(node)); });
  }
  static bool is_taken_apart(const Node& tuple) {
    const auto& users = tuple.users();
    return !tuple.is_root() && std::all_of(users.begin(), users.end(), [](const Node* user) {
      return user->is(Opcode::get_tuple_element) && !user->shape.is_tuple;
    });
  }

  // `moved`: what has to run before it, though it stands behind its first. Neighbours are tried in
  // order, so that what one reads is a member before it, and again while there are more members.
  Members grown_from(Node* seed, std::set<Node*>& moved) {
    Members members, near;
    add_whole(seed, members);
    if (!holds(members, moved)) return {};
    const auto add_near = [&](const Members& of) {
      for (const auto& [at, node] : of)
        for (const auto* all : {&node->operands(), &node->users()})
          for (Node* next : *all)
            if (!made_.contains(next) && !next->is(Opcode::parameter) && !is_constant(*next))
              near[position(next)] = next;
    };
    add_near(members);
    for (bool grows = true; grows;) {
      grows = false;
      for (auto next = near.begin(); next != near.end(); ++next) {
        if (members.contains(next->first)) continue;
        Members more = members;
        std::set<Node*> before;
        add_whole(next->second, more);
        if (!holds(more, before)) continue;
        members = std::move(more);
        moved = std::move(before);
        add_near(members);
        grows = true;
      }
    }
    return members;
  }

  // --- Fusions

  bool is_result(const Node& node, const Members& members) const {
    const auto& users = node.users();
    return node.is_root() || std::any_of(users.begin(), users.end(), [&](const Node* user) {
             return !members.contains(position(user));
           });
  }
  // Itself, or as what has its storage.
  bool is_read_outside(const Node& node, const Members& members) const {
    const auto& users = node.users();
    return is_result(node, members) ||
           std::any_of(users.begin(), users.end(), [&](const Node* user) {
             return is_alias(*user) && is_read_outside(*user, members);
           });
  }

  // Whether what is between the members is much beside what they read and give.
  bool is_worth_it(const Members& members) const {
    int64_t between = 0, around = 0;
    std::set<const Node*> read;
    for (const auto& [at, node] : members) {
      for (const Node* operand : node->operands())
        if (!members.contains(position(operand)) && read.insert(operand).second)
          around += operand->shape.bytes();
      if (is_alias(*node) && !node->is(Opcode::get_tuple_element)) continue;
      if (node->shape.is_tuple) continue;
      (is_read_outside(*node, members) ? around : between) += node->shape.bytes();
    }
    return between >= kLeastBetween && between >= around / 4;
  }

  bool fuse_from(Node* seed) {
    std::set<Node*> moved;
    const Members members = grown_from(seed, moved);
    for (const auto& [at, node] : members) tried_.insert(node);
    if (members.size() < 2 || !is_worth_it(members)) return false;
    Computation* fused = c_.module().add_computation(c_.module().unique_name("fused_rows"));
    std::map<const Node*, Node*> copies;
    std::vector<Node*> inputs, given, results;
    for (const auto& [at, node] : members) {
      std::vector<Node*> operands;
      for (Node* operand : node->operands()) {
        Node*& copy = copies[operand];
        if (copy == nullptr && is_constant(*operand)) copy = copy_into(*fused, *operand, {});
        if (copy == nullptr) {
          inputs.push_back(operand);
          copy = add_parameter(*fused, inputs);
        }
        operands.push_back(copy);
      }
      copies[node] = copy_into(*fused, *node, std::move(operands));
      if (node->shape.is_tuple || !is_result(*node, members)) continue;
      given.push_back(node);
      results.push_back(copies[node]);
    }
    fused->set_root(results.size() == 1 ? results[0] : hlo::tuple(*fused, results));
    Node* const fusion = append_fusion(c_, *fused, inputs, "kCustom", *given.back());
    if (!lower_row_tiles(*fusion).run) {
      c_.remove_last(fusion);
      c_.module().remove_computation(fused);
      return false;
    }
    made_.insert(fusion);
    for (size_t i = 0; i < given.size(); ++i) replace(*given[i], fusion, given.size(), i);
    for (const auto& [at, node] : members) taken_.insert(node);
    taken_.insert(moved.begin(), moved.end());
    return true;
  }

  void replace(Node& node, Node* fusion, size_t count, size_t i) {
    Node* value = fusion;
    if (count > 1) {
      value = hlo::get_tuple_element(fusion, static_cast<int64_t>(i));
      made_.insert(value);
      value->metadata = node.metadata;
      value->backward = fusion->backward;
    }
    replacements_.emplace_back(&node, value);
  }

  Computation& c_;
  const NodeMap<int64_t> position_;
  std::map<const Node*, RowUse> uses_;
  std::set<const Node*> tried_;         // members of groups, fused or not
  std::set<const Node*> taken_, made_;  // of those that are, and what stands for them
  std::vector<std::pair<Node*, Node*>> replacements_;
};

}  // namespace

bool fuse_row_tiles(Computation& computation) { return RowTileFuser(computation).run(); }

}  // namespace gspmd
