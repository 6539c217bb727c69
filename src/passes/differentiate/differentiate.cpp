#include "gspmd/passes/differentiate/differentiate.h"

#include <unordered_map>
#include <unordered_set>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

bool is_annotation(const Node& node) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
}

bool stops_gradient(const Node& node) { return node.frontend_attributes.count(kStopGradient) != 0; }

bool carries_gradient(const Node& node) {
  return !node.shape.is_tuple && is_floating(node.shape.dtype) && !stops_gradient(node);
}

std::string describe(const Node& node) {
  std::string text = fmt::format("{} {}", node.name(), to_string(node.shape));
  if (!node.metadata.op_name.empty()) text += fmt::format(", {}", node.metadata.op_name);
  if (const std::string source = source_line(node.metadata); !source.empty())
    text += fmt::format(" ({})", source);
  return text;
}

void check_loss(const Node& loss) {
  if (loss.shape.is_tuple || loss.rank() != 0 || !is_floating(loss.shape.dtype))
    user_error("differentiate: the loss {} is not a floating scalar; reduce it with a sum or mean",
               describe(loss));
}

void check_input(const Node& input, const Node& loss) {
  if (&input.parent() != &loss.parent())
    user_error("differentiate: input {} is not in the computation of the loss", describe(input));
  if (input.shape.is_tuple || !is_floating(input.shape.dtype))
    user_error("differentiate: input {} is not a floating array", describe(input));
}

// Reverse accumulation over one computation.
class Differentiation {
 public:
  Differentiation(Node* loss, std::span<Node* const> inputs) : loss_(loss), inputs_(inputs) {}

  std::vector<Node*> run() {
    list_active_nodes();
    if (!active_.empty() && active_.back() == loss_) {
      const EmissionScope scope(loss_->metadata, true);
      contributions_[loss_].push_back(hlo::scalar(loss_->parent(), loss_->shape.dtype, 1));
    }
    for (size_t i = active_.size(); i-- > 0;) at_node(*active_[i], [&] { visit(*active_[i]); });
    std::vector<Node*> gradients;
    for (Node* input : inputs_) gradients.push_back(gradient_of(*input));
    return gradients;
  }

 private:
  // Nodes that depend on an input, up to the loss, operands first.
  void list_active_nodes() {
    const std::unordered_set<const Node*> inputs(inputs_.begin(), inputs_.end());
    for (const std::unique_ptr<Node>& node : loss_->parent().nodes()) {
      bool active = inputs.count(node.get()) != 0;
      // A tuple or an integer on the way is caught when its reader is differentiated.
      if (!active && carries_gradient(*node))
        for (const Node* operand : node->operands()) active = active || is_active(operand);
      if (!active) continue;
      set_.insert(node.get());
      active_.push_back(node.get());
      if (node.get() == loss_) break;
    }
  }

  bool is_active(const Node* node) const { return set_.count(node) != 0; }

  // Gives the node's cotangent to its operands.
  void visit(Node& node) {
    Node* cotangent = total(node);
    if (!cotangent) return;
    bool wanted = false;
    for (const Node* operand : node.operands()) wanted = wanted || is_active(operand);
    if (!wanted) return;
    const EmissionScope scope(node.metadata, true);
    if (is_annotation(node)) {
      contributions_[node.operand(0)].push_back(cotangent);
      return;
    }
    if (!node.op().gradient)
      user_error(
          "{}: has no gradient, but the loss depends on {} through it; use stop_gradient() or "
          "another operation",
          opcode_name(node.opcode()), describe(node));
    const std::vector<Node*> gradients = node.op().gradient(node, cotangent);
    for (size_t i = 0; i < gradients.size() && i < node.operands().size(); ++i)
      if (gradients[i] && is_active(node.operands()[i]))
        contributions_[node.operands()[i]].push_back(gradients[i]);
  }

  // The sum of what the readers gave, last reader first, one after the other: partial sums of dots
  // then add directly. Carries the annotation of an annotated value.
  Node* total(Node& node) {
    const auto found = totals_.find(&node);
    if (found != totals_.end()) return found->second;
    const auto given = contributions_.find(&node);
    if (given == contributions_.end()) return nullptr;
    const EmissionScope scope(node.metadata, true);
    Node* sum = given->second.front();
    for (size_t i = 1; i < given->second.size(); ++i)
      sum = hlo::binary(Opcode::add, sum, given->second[i]);
    if (is_annotation(node)) {
      Node* annotated = emit(node.parent(), Opcode::custom_call, {sum}, node.attrs, node.shape);
      annotated->sharding = node.sharding;
      annotated->frontend_attributes = node.frontend_attributes;
      sum = annotated;
    }
    totals_[&node] = sum;
    return sum;
  }

  Node* gradient_of(Node& input) {
    if (Node* sum = total(input)) return sum;
    const EmissionScope scope(input.metadata, true);
    return hlo::splat(input.parent(), input.shape, 0);
  }

  Node* loss_;
  std::span<Node* const> inputs_;
  std::vector<Node*> active_;
  std::unordered_set<const Node*> set_;
  std::unordered_map<const Node*, std::vector<Node*>> contributions_;
  std::unordered_map<const Node*, Node*> totals_;
};

}  // namespace

std::vector<Node*> differentiate(Node* loss, std::span<Node* const> inputs) {
  at_node(*loss, [&] { check_loss(*loss); });
  for (const Node* input : inputs) at_node(*input, [&] { check_input(*input, *loss); });
  return Differentiation(loss, inputs).run();
}

}  // namespace gspmd
