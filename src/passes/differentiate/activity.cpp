#include "passes/differentiate/activity.h"

#include <fmt/format.h>

#include <algorithm>

#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "gspmd/passes/differentiate/differentiate.h"
#include "passes/differentiate/leaf_form.h"

namespace gspmd {

bool has_derivative(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

std::string described(const Node& node) {
  std::string text = fmt::format("{} {}", node.name(), to_string(node.shape));
  if (!node.metadata.op_name.empty()) text += fmt::format(", {}", *node.metadata.op_name);
  if (const std::string source = source_line(node.metadata); !source.empty())
    text += fmt::format(" ({})", source);
  return text;
}

namespace {

bool none(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) == flags.end();
}

}  // namespace

Activity::Activity(const Computation& c, std::span<Node* const> inputs, size_t first) {
  for (const Node* input : inputs) leaves_[input] = {true};
  for (size_t i = first; i < c.nodes().size(); ++i) {
    const std::unique_ptr<Node>& node = c.nodes()[i];
    if (leaves_.count(node.get()) == 0) {
      if (!any_operand(*node) || node->frontend_attributes.count(kStopGradient) != 0) continue;
      std::vector<bool> active = after(*node);
      const std::vector<Shape> shapes = leaf_shapes(node->shape);
      for (size_t leaf = 0; leaf < shapes.size(); ++leaf)
        active[leaf] = active[leaf] && has_derivative(shapes[leaf].dtype);
      if (none(active)) continue;
      leaves_.emplace(node.get(), std::move(active));
    }
    nodes_.push_back(node.get());
  }
}

bool Activity::of(const Node* node, size_t leaf) const {
  const auto found = leaves_.find(node);
  return found != leaves_.end() && found->second.at(leaf);
}

bool Activity::any_operand(const Node& node) const {
  return std::any_of(node.operands().begin(), node.operands().end(),
                     [&](const Node* operand) { return any(operand); });
}

std::vector<bool> Activity::of_operands(const Node& node) const {
  std::vector<bool> active;
  for (const Node* operand : node.operands())
    for (int64_t i = 0; i < leaf_count(operand->shape); ++i)
      active.push_back(of(operand, static_cast<size_t>(i)));
  return active;
}

std::vector<bool> Activity::after(const Node& node) const {
  if (node.is(Opcode::tuple)) return of_operands(node);
  if (node.is(Opcode::get_tuple_element)) {
    std::vector<bool> active;
    const int64_t first = first_leaf(node.operand(0)->shape, node.attrs.index);
    for (int64_t i = 0; i < leaf_count(node.shape); ++i)
      active.push_back(of(node.operand(0), static_cast<size_t>(first + i)));
    return active;
  }
  if (node.is(Opcode::while_)) return active_state(*node.called.at(1), of_operands(node));
  return std::vector<bool>(static_cast<size_t>(leaf_count(node.shape)), true);
}

std::vector<bool> active_state(const Computation& body, std::vector<bool> active) {
  // A leaf form of the body: the same leaves are parameters and results.
  ScratchLeafForm form(body);
  while (true) {
    std::vector<Node*> inputs;
    for (size_t i = 0; i < active.size(); ++i)
      if (active[i]) inputs.push_back(form.parameters[i]);
    const Activity inside(*form.computation, inputs);
    bool grown = false;
    for (size_t i = 0; i < active.size(); ++i) {
      if (active[i] || !inside.of(form.results[i])) continue;
      active[i] = true;
      grown = true;
    }
    if (!grown) return active;
  }
}

}  // namespace gspmd
