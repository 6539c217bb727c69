#include "passes/differentiate/leaf_form.h"

#include <unordered_set>

#include "gspmd/ir/effects.h"
#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

Node* copied(const Node& node, Computation& target, const Twins& twins) {
  std::vector<Node*> operands;
  operands.reserve(node.operands().size());
  for (const Node* operand : node.operands()) operands.push_back(twins.at(operand));
  if (node.is(Opcode::get_tuple_element) && operands[0]->is(Opcode::tuple))
    return operands[0]->operand(node.attrs.index);
  Node* const copy =
      target.append(node.opcode(), node.shape, std::move(operands), node.attrs, node.name());
  copy_annotations(node, *copy);
  copy->called = node.called;
  return copy;
}

}  // namespace

void copy_needed(const std::vector<Node*>& roots, Computation& target, Twins& twins) {
  std::unordered_set<const Node*> needed;
  std::vector<const Node*> stack(roots.begin(), roots.end());
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (twins.count(node) != 0 || !needed.insert(node).second) continue;
    stack.insert(stack.end(), node->operands().begin(), node->operands().end());
  }
  if (needed.empty()) return;
  for (const std::unique_ptr<Node>& node : (*needed.begin())->parent().nodes())
    if (needed.count(node.get()) != 0) twins.emplace(node.get(), copied(*node, target, twins));
}

void add_effects(const Computation& c, std::vector<Node*>& roots) {
  for (const std::unique_ptr<Node>& node : c.nodes())
    if (has_side_effect(*node)) roots.push_back(node.get());
}

Node* add_parameter(Computation& c, const Shape& shape, const std::string& name) {
  return hlo::parameter(c, static_cast<int64_t>(c.parameters().size()), shape, name);
}

LeafForm leaf_form(const Computation& source, Module& into) {
  LeafForm form;
  form.computation = into.add_computation(source.name());
  Twins twins;
  for (const Node* parameter : source.parameters()) {
    const size_t first = form.parameters.size();
    for (const Shape& leaf : leaf_shapes(parameter->shape))
      form.parameters.push_back(add_parameter(*form.computation, leaf, parameter->name()));
    twins.emplace(parameter,
                  hlo::from_leaves(*form.computation, parameter->shape,
                                   {form.parameters.begin() + static_cast<std::ptrdiff_t>(first),
                                    form.parameters.end()}));
  }
  for (const std::unique_ptr<Node>& node : source.nodes())
    if (twins.count(node.get()) == 0)
      twins.emplace(node.get(), copied(*node, *form.computation, twins));
  form.results = hlo::leaves(twins.at(source.root()));
  return form;
}

ScratchLeafForm::ScratchLeafForm(const Computation& source) {
  static_cast<LeafForm&>(*this) = leaf_form(source, module);
}

}  // namespace gspmd
