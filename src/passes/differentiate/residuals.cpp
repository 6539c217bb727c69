#include "passes/differentiate/residuals.h"

#include <algorithm>
#include <optional>

#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"
#include "ops/control/control.h"
#include "passes/differentiate/least_stored.h"

namespace gspmd {

PulledBack pull_back_body(const Computation& body, std::vector<size_t> wanted,
                          std::vector<size_t> given) {
  PulledBack result;
  result.form = leaf_form(body, body.module());
  Computation& c = *result.form.computation;
  for (const std::unique_ptr<Node>& node : c.nodes()) result.forward.insert(node.get());
  std::vector<Seed> seeds;
  for (const size_t i : given) {
    Node* const value = result.form.results[i];
    result.cotangents.push_back(add_parameter(c, value->shape, "cotangent"));
    seeds.push_back({value, result.cotangents.back()});
  }
  std::vector<Node*> inputs;
  for (const size_t i : wanted) inputs.push_back(result.form.parameters[i]);
  // A result that is replaced below is found again by its copy.
  std::vector<Node*> roots = result.form.results;
  Node* const root = hlo::tuple(c, roots);
  c.set_root(root);
  result.forward.insert(root);
  Reverse reverse(c, std::move(seeds), inputs);
  result.gradients = reverse.run();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (result.gradients[i] == nullptr) result.gradients[i] = zeros_like(*inputs[i]);
  result.form.results = root->operands();
  result.forward.insert(reverse.emitted_forward().begin(), reverse.emitted_forward().end());
  result.wanted = std::move(wanted);
  result.given = std::move(given);
  return result;
}

namespace {

bool is_scalar_integer(const Node& node) {
  return !node.shape.is_tuple && node.rank() == 0 && is_integer(node.shape.dtype);
}

// A cheap form of another value that is no larger.
bool is_view(const Node& node) {
  return node.op().has(kDataMovement) && node.operands().size() == 1 && !node.shape.is_tuple &&
         !node.operand(0)->shape.is_tuple && node.operand(0)->shape.bytes() <= node.shape.bytes();
}

class ResidualSearch {
 public:
  ResidualSearch(const PulledBack& body, const std::vector<bool>& free, bool recompute,
                 const std::function<bool(const Node&)>& saved)
      : body_(body), saved_(saved), cotangents_(body.cotangents.begin(), body.cotangents.end()) {
    const std::vector<Node*>& parameters = body.form.parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      numbers_.emplace(parameters[i], i);
      if (free[i]) free_.insert(parameters[i]);
    }
    for (const std::unique_ptr<Node>& node : body.form.computation->nodes())
      if (body.forward.count(node.get()) != 0 && made_again(*node, recompute))
        again_.insert(node.get());
  }

  Residuals run() {
    collect();
    if (saved_ || result_.kept.empty()) return std::move(result_);
    // What is cheap to make again from less is not stored.
    const std::vector<Node*> least =
        least_stored({std::move(result_.kept), [&](const Node& node) { return is_there(node); },
                      [&](const Node& node) { return is_cheap(node); }});
    least_ = std::unordered_set<const Node*>(least.begin(), least.end());
    result_ = {};
    collect();
    return std::move(result_);
  }

 private:
  void collect() {
    std::vector<Node*> stack = body_.gradients;
    std::unordered_set<const Node*> seen;
    while (!stack.empty()) {
      Node* const node = stack.back();
      stack.pop_back();
      if (!seen.insert(node).second || cotangents_.count(node) != 0) continue;
      if (free_.count(node) != 0)
        result_.parameters.push_back(numbers_.at(node));
      else if (is_kept(*node))
        result_.kept.push_back(node);
      else
        stack.insert(stack.end(), node->operands().begin(), node->operands().end());
    }
  }

  // Whether it takes nothing but what is known where the backward part runs.
  bool is_there(const Node& node) const {
    return free_.count(&node) != 0 || (again_.count(&node) != 0 && !node.is(Opcode::parameter));
  }

  bool is_cheap(const Node& node) const {
    if (node.is(Opcode::parameter) || node.shape.is_tuple || body_.forward.count(&node) == 0)
      return false;
    const OpInfo& op = node.op();
    if (op.has(kSideEffect) || op.has(kCollective) || op.evaluate == nullptr) return false;
    if (op.has(kElementwise) || is_annotation(node)) return true;
    return op.has(kDataMovement) && node.operands().size() == 1;
  }

  bool made_again(const Node& node, bool recompute) const {
    if (node.is(Opcode::parameter))
      return recompute && (free_.count(&node) != 0 || is_scalar_integer(node));
    if (saved_ && saved_(node)) return true;
    if (node.op().has(kSideEffect)) return false;
    return std::all_of(node.operands().begin(), node.operands().end(),
                       [&](const Node* operand) { return again_.count(operand) != 0; });
  }

  bool is_kept(const Node& node) const {
    if (body_.forward.count(&node) == 0) return false;
    if (saved_ && saved_(node)) return true;
    if (node.is(Opcode::parameter)) return true;
    if (least_) return least_->count(&node) != 0;
    if (again_.count(&node) != 0 || node.shape.is_tuple) return false;
    return !is_view(node);
  }

  const PulledBack& body_;
  const std::function<bool(const Node&)>& saved_;
  std::unordered_set<const Node*> cotangents_, free_, again_;
  std::unordered_map<const Node*, size_t> numbers_;
  std::optional<std::unordered_set<const Node*>> least_;  // what is stored; not known: as is wanted
  Residuals result_;
};

}  // namespace

Residuals residuals_of(const PulledBack& body, const std::vector<bool>& free, bool recompute,
                       const std::function<bool(const Node&)>& saved) {
  return ResidualSearch(body, free, recompute, saved).run();
}

}  // namespace gspmd
