#include "passes/differentiate/reverse.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"
#include "ops/control/control.h"
#include "passes/differentiate/markers.h"

namespace gspmd {

Reverse::Reverse(Computation& c, std::vector<Seed> seeds, std::span<Node* const> inputs,
                 size_t first, bool backward)
    : c_(c),
      seeds_(std::move(seeds)),
      inputs_(inputs),
      backward_(backward),
      activity_(c, inputs, first) {}

namespace {

// Ops that are differentiated as what they stand for.
bool stands_for_others(const Node& node) {
  if (node.is(Opcode::call) || node.is(Opcode::fusion)) return true;
  if (marker_of(node) == Marker::checkpoint) return saves_everything(node);
  const OpInfo& op = node.op();
  if (op.differentiable_form != nullptr) return true;
  return op.gradient == nullptr && op.leaf_gradient == nullptr && op.expand != nullptr;
}

}  // namespace

// Elements without a derivative, as the places that an argmax gives, need no other form.
bool reads_derivative(const Node& node) {
  if (!node.shape.is_tuple || node.is_root()) return true;
  return std::any_of(node.users().begin(), node.users().end(), [](const Node* user) {
    return !user->is(Opcode::get_tuple_element) || user->shape.is_tuple ||
           has_derivative(user->shape.dtype);
  });
}

Node* opened(Node& node) {
  if (!stands_for_others(node)) return nullptr;
  const EmissionScope scope(node.metadata, node.backward);
  if (node.op().differentiable_form != nullptr)
    return reads_derivative(node) ? node.op().differentiable_form(node) : nullptr;
  if (node.called.empty()) return node.op().expand(node);
  return inline_computation(*node.called.at(0), node.parent(), node.operands());
}

void Reverse::inline_calls() {
  while (true) {
    std::vector<const Node*> values;
    std::vector<Node*> calls;
    for (const Seed& seed : seeds_) values.push_back(seed.value);
    const FlatSet<const Node*> needed = needed_by(values);
    for (Node* node : activity_.nodes())
      if (stands_for_others(*node) && needed.contains(node)) calls.push_back(node);
    bool changed = false;
    for (Node* node : calls) {
      const size_t first = c_.nodes().size();
      Node* const value = at_node(*node, [&] { return opened(*node); });
      take_forward(first);
      if (value == nullptr) continue;
      c_.replace_uses(node, value);
      node->frontend_attributes[kReplaced] = "true";
      for (Seed& seed : seeds_)
        if (seed.value == node) seed.value = value;
      changed = true;
    }
    if (!changed) return;
    c_.sort();
    activity_ = Activity(c_, inputs_);
  }
}

std::vector<Node*> Reverse::run() {
  inline_calls();
  for (const Seed& seed : seeds_)
    if (activity_.of(seed.value)) give(*seed.value, 0, seed.cotangent);
  const std::vector<Node*>& nodes = activity_.nodes();
  for (size_t i = nodes.size(); i-- > 0;) at_node(*nodes[i], [&] { visit(*nodes[i]); });
  std::vector<Node*> gradients;
  for (Node* input : inputs_) gradients.push_back(total(*input, 0));
  if (!emitted_forward_.empty()) c_.sort();
  return gradients;
}

// Gives the node's cotangents to its operands.
void Reverse::visit(Node& node) {
  std::vector<Node*> cotangents(static_cast<size_t>(leaf_count(node.shape)));
  bool any = false;
  for (size_t leaf = 0; leaf < cotangents.size(); ++leaf) {
    cotangents[leaf] = activity_.of(&node, leaf) ? total(node, leaf) : nullptr;
    any = any || cotangents[leaf] != nullptr;
  }
  if (!any || !activity_.any_operand(node)) return;
  const EmissionScope scope(node.metadata, backward_);
  pull_back(node, cotangents);
}

void Reverse::pull_back(Node& node, const std::vector<Node*>& cotangents) {
  if (node.is(Opcode::while_)) return visit_loop(node, cotangents);
  if (node.is(Opcode::conditional)) return visit_conditional(node, cotangents);
  switch (marker_of(node)) {
    case Marker::checkpoint:
      return visit_checkpoint(node, cotangents);
    case Marker::custom_vjp:
      return visit_custom_vjp(node, cotangents);
    case Marker::custom_jvp:
      return visit_custom_jvp(node, cotangents);
    case Marker::none:
      break;
  }
  const OpInfo& op = node.op();
  if (op.leaf_gradient != nullptr) return give_operands(node, op.leaf_gradient(node, cotangents));
  if (op.gradient == nullptr || node.shape.is_tuple)
    user_error(
        "{}: has no gradient, but the result depends on {} through it; use stop_gradient() or "
        "another operation",
        opcode_name(node.opcode()), described(node));
  give_operands(node, op.gradient(node, cotangents[0]));
}

void Reverse::give_operands(Node& node, const std::vector<Node*>& cotangents) {
  size_t next = 0;
  for (Node* operand : node.operands())
    for (int64_t leaf = 0; leaf < leaf_count(operand->shape); ++leaf, ++next)
      if (next < cotangents.size() && cotangents[next] != nullptr)
        give(*operand, static_cast<size_t>(leaf), cotangents[next]);
}

void Reverse::give(Node& node, size_t leaf, Node* cotangent) {
  if (!activity_.of(&node, leaf)) return;
  std::vector<std::vector<Node*>>& given = given_[&node];
  given.resize(static_cast<size_t>(leaf_count(node.shape)));
  given[leaf].push_back(cotangent);
}

// Carries the annotation of an annotated value.
Node* Reverse::total(Node& node, size_t leaf) {
  std::vector<Node*>& totals = totals_[&node];
  totals.resize(static_cast<size_t>(leaf_count(node.shape)));
  if (totals[leaf] != nullptr) return totals[leaf];
  const auto given = given_.find(&node);
  if (given == given_.end() || given->second[leaf].empty()) return nullptr;
  const EmissionScope scope(node.metadata, backward_);
  Node* sum = sum_of_cotangents(given->second[leaf]);
  if (is_annotation(node)) sum = annotated_like(sum, node);
  totals[leaf] = sum;
  return sum;
}

void Reverse::take_forward(size_t first) {
  for (size_t i = first; i < c_.nodes().size(); ++i)
    emitted_forward_.push_back(c_.nodes()[i].get());
}

void Reverse::replace(Node& node, Node* value, int64_t first) {
  Node* const read = replace_by_elements(node, value, first);
  for (Seed& seed : seeds_)
    if (seed.value == &node) seed.value = read;
}

namespace {

// What is said of `node` holds for the leaves of `value` from `first` on.
void carry_annotations(const Node& node, Node& value, int64_t first) {
  if (!node.frontend_attributes.empty())
    value.frontend_attributes.edit().insert(node.frontend_attributes.begin(),
                                            node.frontend_attributes.end());
  if (!node.sharding) return;
  std::vector<Sharding> leaves(static_cast<size_t>(leaf_count(value.shape)), Sharding::unknown());
  for (int64_t i = 0; i < leaf_count(node.shape); ++i)
    leaves[static_cast<size_t>(first + i)] =
        node.sharding->is_tuple() ? node.sharding->elements().at(static_cast<size_t>(i))
                                  : *node.sharding;
  value.sharding = Sharding::tuple(std::move(leaves));
}

}  // namespace

Node* replace_by_elements(Node& node, Node* value, int64_t first) {
  Computation& c = node.parent();
  carry_annotations(node, *value, first);
  node.frontend_attributes[kReplaced] = "true";
  if (!node.shape.is_tuple) {
    Node* const array = hlo::get_tuple_element(value, first);
    c.replace_uses(&node, array);
    return array;
  }
  const std::vector<Node*> readers = node.users();
  bool elements_only = !node.is_root();
  for (const Shape& element : node.shape.elements)
    elements_only = elements_only && !element.is_tuple;
  for (const Node* reader : readers)
    elements_only = elements_only && reader->is(Opcode::get_tuple_element);
  if (!elements_only) {
    std::vector<Node*> leaves;
    for (int64_t i = 0; i < leaf_count(node.shape); ++i)
      leaves.push_back(hlo::get_tuple_element(value, first + i));
    Node* const tuple = hlo::from_leaves(c, node.shape, leaves);
    c.replace_uses(&node, tuple);
    return tuple;
  }
  for (Node* reader : readers) {
    reader->set_operand(0, value);
    reader->attrs.index += first;
  }
  return value;
}

}  // namespace gspmd
