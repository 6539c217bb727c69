#include "passes/differentiate/forward.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"
#include "ops/control/control.h"
#include "passes/differentiate/leaf_form.h"
#include "passes/differentiate/markers.h"
#include "passes/differentiate/reverse.h"

namespace gspmd {

Forward::Forward(Computation& c, std::span<Node* const> inputs, std::span<Node* const> tangents)
    : c_(c), inputs_(inputs), activity_(c, inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) tangents_[inputs[i]] = {tangents[i]};
}

Node* Forward::tangent(const Node* node, size_t leaf) const {
  for (auto at = opened_.find(node); at != opened_.end(); at = opened_.find(node))
    node = at->second;
  const auto found = tangents_.find(node);
  return found == tangents_.end() ? nullptr : found->second.at(leaf);
}

// An op of which integers only are read, as argmax, is on no way: it needs no derivative.
std::unordered_set<const Node*> Forward::on_the_way(std::span<const Node* const> results) const {
  std::unordered_set<const Node*> found;
  std::vector<const Node*> open(results.begin(), results.end());
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    if (!activity_.any(node) || !found.insert(node).second) continue;
    open.insert(open.end(), node->operands().begin(), node->operands().end());
  }
  return found;
}

void Forward::open_calls(std::span<Node* const> results) {
  while (true) {
    const std::unordered_set<const Node*> needed = on_the_way(results);
    bool changed = false;
    for (Node* node : activity_.nodes()) {
      if (needed.count(node) == 0 || opened_.count(node) != 0) continue;
      Node* const value = at_node(*node, [&] {
        // What is made again in a backward part is there once in a forward one.
        return marker_of(*node) == Marker::checkpoint
                   ? inline_computation(*node->called[0], c_, node->operands())
                   : opened(*node);
      });
      if (value == nullptr) continue;
      c_.replace_uses(node, value);
      node->frontend_attributes[kReplaced] = "true";
      opened_.emplace(node, value);
      changed = true;
    }
    if (!changed) return;
    c_.sort();
    activity_ = Activity(c_, inputs_);
  }
}

void Forward::run(std::span<Node* const> results) {
  open_calls(results);
  std::vector<const Node*> read(results.begin(), results.end());
  for (const auto& [call, value] : opened_) read.push_back(value);
  const std::unordered_set<const Node*> needed = on_the_way(read);
  for (Node* node : activity_.nodes())
    if (tangents_.count(node) == 0 && needed.count(node) != 0 && opened_.count(node) == 0)
      at_node(*node, [&] { visit(*node); });
  if (replaced_) c_.sort();
}

std::vector<Node*> Forward::tangents_of_operands(const Node& node) const {
  std::vector<Node*> tangents;
  for (const Node* operand : node.operands())
    for (int64_t leaf = 0; leaf < leaf_count(operand->shape); ++leaf)
      tangents.push_back(tangent(operand, static_cast<size_t>(leaf)));
  return tangents;
}

void Forward::visit(Node& node) {
  const EmissionScope scope(node.metadata, node.backward);
  std::vector<Node*> tangents = push_forward(node);
  if (is_annotation(node) && tangents.at(0) != nullptr)
    tangents[0] = annotated_like(tangents[0], node);
  tangents_[&node] = std::move(tangents);
}

namespace {

std::vector<Node*> slice_of(const std::vector<Node*>& all, size_t first, size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

// The derivative is the transpose of the gradient: what a stand-in for the result's cotangent gives
// to the operands is linear in it, and is pulled back along the operands' tangents.
std::vector<Node*> Forward::push_forward(Node& node) {
  const std::vector<Node*> tangents = tangents_of_operands(node);
  if (node.is(Opcode::tuple)) return tangents;
  const auto leaves = static_cast<size_t>(leaf_count(node.shape));
  if (node.is(Opcode::get_tuple_element)) {
    const int64_t first = first_leaf(node.operand(0)->shape, node.attrs.index);
    return slice_of(tangents, static_cast<size_t>(first), leaves);
  }
  if (node.is(Opcode::while_)) return push_loop(node);
  if (node.is(Opcode::conditional)) return push_conditional(node);
  const Marker marker = marker_of(node);
  if (marker == Marker::custom_jvp) return push_custom_jvp(node);
  const OpInfo& op = node.op();
  if (op.leaf_gradient == nullptr && (op.gradient == nullptr || node.shape.is_tuple))
    user_error(
        "{}: has no derivative, but the result depends on {} through it; use stop_gradient() or "
        "another operation",
        opcode_name(node.opcode()), described(node));
  const size_t first = c_.nodes().size();
  std::vector<Node*> stand_ins, inputs;
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  for (size_t i = 0; i < leaves; ++i) {
    stand_ins.push_back(activity_.of(&node, i) ? hlo::splat(c_, shapes[i], 0) : nullptr);
    if (stand_ins.back() != nullptr) inputs.push_back(stand_ins.back());
  }
  const std::vector<Node*> given = marker == Marker::custom_vjp
                                       ? gradient_of_custom_vjp(node, stand_ins)
                                   : op.leaf_gradient != nullptr ? op.leaf_gradient(node, stand_ins)
                                                                 : op.gradient(node, stand_ins[0]);
  std::vector<Seed> seeds;
  for (size_t i = 0; i < std::min(given.size(), tangents.size()); ++i)
    if (given[i] != nullptr && tangents[i] != nullptr) seeds.push_back({given[i], tangents[i]});
  const std::vector<Node*> results =
      Reverse(c_, std::move(seeds), inputs, first, node.backward).run();
  std::vector<Node*> pushed(leaves);
  size_t next = 0;
  for (size_t i = 0; i < leaves; ++i)
    if (stand_ins[i] != nullptr) pushed[i] = results[next++];
  return pushed;
}

namespace {

// A body that takes and returns tangents behind its own leaves.
struct Pushed {
  LeafForm form;
  std::vector<Node*> tangents;  // parameters
  std::vector<Node*> results;   // tangents of the results, of those asked for; zeros where none
};

Pushed push_body(const Computation& body, const std::vector<size_t>& active,
                 const std::vector<size_t>& asked) {
  Pushed pushed;
  pushed.form = leaf_form(body, body.module());
  Computation& c = *pushed.form.computation;
  Node* const root = hlo::tuple(c, pushed.form.results);
  c.set_root(root);
  std::vector<Node*> inputs;
  for (const size_t i : active) {
    inputs.push_back(pushed.form.parameters[i]);
    pushed.tangents.push_back(add_parameter(c, inputs.back()->shape, "tangent"));
  }
  Forward forward(c, inputs, pushed.tangents);
  forward.run(pushed.form.results);
  pushed.form.results = root->operands();
  for (const size_t i : asked) {
    Node* const result = root->operand(static_cast<int64_t>(i));
    Node* const tangent = forward.tangent(result);
    pushed.results.push_back(tangent != nullptr ? tangent : zeros_like(*result));
  }
  return pushed;
}

// `c` gets one tuple parameter: the leaves of the form, then the tangents. What the roots come to.
std::vector<Node*> put_on_tuple(Computation& c, const Shape& state, const Pushed& pushed,
                                const std::vector<Node*>& roots) {
  const std::vector<Node*> now = hlo::leaves(add_parameter(c, state, "state"));
  Twins twins;
  size_t next = 0;
  for (const Node* parameter : pushed.form.parameters) twins.emplace(parameter, now[next++]);
  for (const Node* tangent : pushed.tangents) twins.emplace(tangent, now[next++]);
  std::vector<Node*> all = roots;
  add_effects(*pushed.form.computation, all);
  copy_needed(all, c, twins);
  std::vector<Node*> values;
  for (const Node* root : roots) values.push_back(twins.at(root));
  return values;
}

std::vector<Node*> joined(std::vector<Node*> a, const std::vector<Node*>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

// `value` has the node's leaves, then the tangents of those in `active`, and takes its place.
std::vector<Node*> Forward::replaced(Node& node, Node* value, const std::vector<size_t>& active) {
  replaced_ = true;
  const auto leaves = static_cast<size_t>(leaf_count(node.shape));
  std::vector<Node*> tangents(leaves);
  for (size_t i = 0; i < active.size(); ++i)
    tangents[active[i]] = hlo::get_tuple_element(value, static_cast<int64_t>(leaves + i));
  const Node* const read = replace_by_elements(node, value, 0);
  std::vector<Node*> known = tangents;
  known.resize(static_cast<size_t>(leaf_count(read->shape)));
  tangents_[read] = std::move(known);
  return tangents;
}

std::vector<Node*> Forward::push_loop(Node& loop) {
  Module& module = c_.module();
  std::vector<size_t> active;
  for (int64_t i = 0; i < leaf_count(loop.shape); ++i)
    if (activity_.of(&loop, static_cast<size_t>(i))) active.push_back(static_cast<size_t>(i));
  const Pushed body = push_body(*loop.called.at(1), active, active);
  const Pushed test = push_body(*loop.called.at(0), {}, {});

  const std::vector<Node*> given = tangents_of_operands(loop);
  std::vector<Node*> state = hlo::leaves(loop.operand(0));
  for (const size_t i : active)
    state.push_back(given[i] != nullptr ? given[i] : zeros_like(*state[i]));
  Node* const initial = hlo::tuple(c_, std::move(state));
  Computation* const condition = module.add_computation(loop.called[0]->name());
  condition->set_root(put_on_tuple(*condition, initial->shape, test, test.form.results)[0]);
  Computation* const next = module.add_computation(loop.called[1]->name());
  next->set_root(hlo::tuple(
      *next, put_on_tuple(*next, initial->shape, body, joined(body.form.results, body.results))));
  Node* const pushed =
      emit(c_, loop.opcode(), {initial}, loop.attrs, initial->shape, {condition, next});
  module.remove_computation(body.form.computation);
  module.remove_computation(test.form.computation);
  return replaced(loop, pushed, active);
}

std::vector<Node*> Forward::push_conditional(Node& conditional) {
  Module& module = c_.module();
  std::vector<size_t> asked;
  const auto leaves = static_cast<size_t>(leaf_count(conditional.shape));
  for (size_t i = 0; i < leaves; ++i)
    if (activity_.of(&conditional, i)) asked.push_back(i);
  std::vector<Node*> operands{conditional.operand(0)};
  std::vector<Computation*> called;
  for (size_t k = 0; k < conditional.called.size(); ++k) {
    Node* const operand = conditional.operand(static_cast<int64_t>(k) + 1);
    std::vector<Node*> values = hlo::leaves(operand);
    std::vector<size_t> active;
    const size_t count = values.size();
    for (size_t i = 0; i < count; ++i) {
      if (tangent(operand, i) == nullptr) continue;
      active.push_back(i);
      values.push_back(tangent(operand, i));
    }
    const Pushed branch = push_body(*conditional.called[k], active, asked);
    operands.push_back(hlo::tuple(c_, std::move(values)));
    called.push_back(module.add_computation(conditional.called[k]->name()));
    Computation& c = *called.back();
    c.set_root(hlo::tuple(c, put_on_tuple(c, operands.back()->shape, branch,
                                          joined(branch.form.results, branch.results))));
    module.remove_computation(branch.form.computation);
  }
  const Shape shape = called[0]->root()->shape;
  Node* const pushed = emit(c_, conditional.opcode(), std::move(operands), conditional.attrs, shape,
                            std::move(called));
  return replaced(conditional, pushed, asked);
}

}  // namespace gspmd
