#include "gspmd/passes/prepare/check_numbers.h"

#include <cmath>
#include <unordered_map>

#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/debug_calls.h"

namespace gspmd {
namespace {

bool runs_what_it_calls(const Node& node) {
  return node.is(Opcode::while_) || node.is(Opcode::conditional) || node.is(Opcode::call);
}

bool is_floating_array(const Node& node) {
  return !node.shape.is_tuple && is_floating(node.shape.dtype);
}

bool is_finite_constant(const Node& node) {
  if (!node.is(Opcode::constant) || node.attrs.literal.empty()) return false;
  for (int64_t i = 0; i < node.attrs.literal.size(); ++i)
    if (!std::isfinite(node.attrs.literal.at(i))) return false;
  return true;
}

// Initial values of reductions are often infinite, and say nothing about the numbers reduced.
bool is_initial_value(const Node& reader, const Node& operand) {
  return operand.is(Opcode::constant) && operand.rank() == 0 && !reader.called.empty();
}

// The operation that made a value; nullptr where it made no new numbers.
const Node* maker_of(const Node& node) {
  const Node* maker = &node;
  while (maker->is(Opcode::get_tuple_element)) maker = maker->operand(0);
  if (runs_what_it_calls(*maker) || maker->operands().empty() || maker->is(Opcode::tuple) ||
      maker->is(Opcode::custom_call) || maker->is(Opcode::optimization_barrier) ||
      maker->op().has(kDataMovement))
    return nullptr;
  return maker;
}

// Copies computations with the checks in them.
class Checker {
 public:
  explicit Checker(Module& module) : module_(module) {}

  Computation* copy(const Computation& from) {
    if (const auto made = copies_.find(&from); made != copies_.end()) return made->second;
    std::unordered_map<const Node*, Node*> twins;
    std::unordered_map<const Node*, Node*> flags;  // whether all elements are finite, pred[]
    Computation* const to = module_.add_computation(from.name());
    for (const std::unique_ptr<Node>& node : from.nodes()) {
      Node*& twin = twins[node.get()];
      std::vector<Node*> operands;
      for (const Node* operand : node->operands()) operands.push_back(twins.at(operand));
      twin =
          to->append(node->opcode(), node->shape, std::move(operands), node->attrs, node->name());
      copy_annotations(*node, *twin);
      for (Computation* inner : node->called)
        twin->called.push_back(runs_what_it_calls(*node) ? copy(*inner) : inner);
      check(*node, twins, flags);
    }
    to->set_root(twins.at(from.root()));
    return copies_[&from] = to;
  }

 private:
  void check(const Node& node, const std::unordered_map<const Node*, Node*>& twins,
             std::unordered_map<const Node*, Node*>& flags) {
    if (!is_floating_array(node)) return;
    const Node* const maker = maker_of(node);
    if (maker == nullptr) return;
    Node* const value = twins.at(&node);
    const EmissionScope scope(maker->metadata, maker->backward);
    std::vector<Node*> operands{value};
    for (const Node* operand : maker->operands())
      if (is_floating_array(*operand) && !is_finite_constant(*operand) &&
          !is_initial_value(*maker, *operand))
        operands.push_back(flag(*operand, *twins.at(operand), flags));
    Attributes attrs;
    attrs.custom_call_target = kCheckNumbers;
    attrs.other["backend_config"] = debug_config_text(
        {DebugSpeakers::every_device, "",
         std::string(opcode_name(maker->opcode())) + " \"" +
             (maker->metadata.op_name.empty() ? maker->name() : *maker->metadata.op_name) + "\""});
    attrs.other["custom_call_has_side_effect"] = "true";
    emit(value->parent(), Opcode::custom_call, std::move(operands), std::move(attrs),
         Shape(DType::pred, {}));
  }

  Node* flag(const Node& of, Node& x, std::unordered_map<const Node*, Node*>& flags) {
    Node*& all = flags[&of];
    if (all != nullptr) return all;
    all = hlo::unary(Opcode::is_finite, &x);
    if (x.rank() == 0) return all;
    Dims dims;
    for (int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    all = hlo::reduce(all, hlo::scalar(x.parent(), DType::pred, 1), std::move(dims),
                      binary_computation(module_, Opcode::and_, DType::pred));
    return all;
  }

  Module& module_;
  std::unordered_map<const Computation*, Computation*> copies_;
};

}  // namespace

void insert_number_checks(Module& module) {
  module.set_entry(Checker(module).copy(*module.entry()));
  module.remove_unreachable();
  module.sort_computations();
}

}  // namespace gspmd
