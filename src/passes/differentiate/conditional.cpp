// The gradient of a conditional: each branch gives what its derivatives read beside its results,
// and zeros for what the others keep; a second conditional runs the pull-back of the branch taken.

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"
#include "passes/differentiate/region_values.h"
#include "passes/differentiate/residuals.h"

namespace gspmd {
namespace {

// A leaf of an operand; branches often read the same one.
struct Input {
  Node* operand = nullptr;
  size_t leaf = 0;
  bool operator==(const Input&) const = default;
};

struct Branch {
  Node* operand = nullptr;
  PulledBack body;
  Residuals residuals;
  std::vector<HandedValue> handed;  // of what is kept
  std::vector<Input> wanted;
  size_t first_kept = 0;  // among what all branches keep
};

class ConditionalGradient {
 public:
  ConditionalGradient(Node& conditional, const Activity& activity,
                      const std::vector<Node*>& cotangents)
      : conditional_(conditional), outer_(conditional.parent()) {
    for (size_t i = 0; i < cotangents.size(); ++i)
      if (cotangents[i] != nullptr) given_.push_back(i);
    for (size_t k = 0; k < conditional.called.size(); ++k)
      add_branch(*conditional.called[k], conditional.operand(static_cast<int64_t>(k) + 1),
                 activity);
  }
  ConditionalGradient(const ConditionalGradient&) = delete;
  ConditionalGradient& operator=(const ConditionalGradient&) = delete;
  ~ConditionalGradient() {
    for (const Branch& branch : branches_)
      outer_.module().remove_computation(branch.body.form.computation);
  }

  // The results' leaves, then what the branches keep.
  Node* emit_forward() {
    std::vector<Node*> operands{conditional_.operand(0)};
    std::vector<Computation*> called;
    for (size_t k = 0; k < branches_.size(); ++k) {
      operands.push_back(branches_[k].operand);
      called.push_back(forward_branch(k));
    }
    const Shape shape = called[0]->root()->shape;
    return emit(outer_, Opcode::conditional, std::move(operands), {}, shape, std::move(called));
  }

  // Cotangents and who they are of.
  std::vector<std::pair<Input, Node*>> emit_backward(Node* forward,
                                                     const std::vector<Node*>& cotangents) {
    std::vector<Node*> operands{conditional_.operand(0)};
    std::vector<Computation*> called;
    for (const Branch& branch : branches_) {
      std::vector<Node*> values;
      for (const size_t i : given_) values.push_back(cotangents[i]);
      const auto first = static_cast<int64_t>(results() + branch.first_kept);
      for (size_t i = 0; i < branch.residuals.kept.size(); ++i)
        values.push_back(hlo::get_tuple_element(forward, first + static_cast<int64_t>(i)));
      const std::vector<Node*> inputs = hlo::leaves(branch.operand);
      for (const size_t i : branch.residuals.parameters) values.push_back(inputs[i]);
      operands.push_back(hlo::tuple(outer_, std::move(values)));
      called.push_back(backward_branch(branch, operands.back()->shape));
    }
    const Shape shape = called[0]->root()->shape;
    Node* const backward =
        emit(outer_, Opcode::conditional, std::move(operands), {}, shape, std::move(called));
    std::vector<std::pair<Input, Node*>> result;
    for (size_t i = 0; i < wanted_.size(); ++i)
      result.emplace_back(wanted_[i], hlo::get_tuple_element(backward, static_cast<int64_t>(i)));
    return result;
  }

  bool wants_any() const { return !wanted_.empty(); }

 private:
  size_t results() const { return branches_[0].body.form.results.size(); }

  void add_branch(const Computation& called, Node* operand, const Activity& activity) {
    Branch branch;
    branch.operand = operand;
    std::vector<size_t> wanted;
    const auto leaves = static_cast<size_t>(leaf_count(operand->shape));
    for (size_t i = 0; i < leaves; ++i) {
      if (!activity.of(operand, i)) continue;
      wanted.push_back(i);
      branch.wanted.push_back({operand, i});
      if (std::find(wanted_.begin(), wanted_.end(), branch.wanted.back()) == wanted_.end())
        wanted_.push_back(branch.wanted.back());
    }
    branch.body = pull_back_body(called, std::move(wanted), given_);
    branch.residuals = residuals_of(branch.body, std::vector<bool>(leaves, true), false);
    branch.first_kept = kept_.size();
    for (const Node* value : branch.residuals.kept) {
      branch.handed.emplace_back(*value);
      kept_.push_back(branch.handed.back().shape());
    }
    branches_.push_back(std::move(branch));
  }

  Computation* forward_branch(size_t k) {
    const Branch& branch = branches_[k];
    Computation* const c = outer_.module().add_computation(conditional_.called[k]->name());
    const std::vector<Node*> inputs = hlo::leaves(add_parameter(*c, branch.operand->shape, "x"));
    Twins twins;
    for (size_t i = 0; i < inputs.size(); ++i)
      twins.emplace(branch.body.form.parameters[i], inputs[i]);
    std::vector<Node*> roots = branch.body.form.results;
    roots.insert(roots.end(), branch.residuals.kept.begin(), branch.residuals.kept.end());
    add_effects(*branch.body.form.computation, roots);
    copy_needed(roots, *c, twins);
    std::vector<Node*> values;
    for (const Node* result : branch.body.form.results) values.push_back(twins.at(result));
    for (size_t i = 0; i < kept_.size(); ++i) {
      const size_t own = i - branch.first_kept;
      const bool is_own = i >= branch.first_kept && own < branch.residuals.kept.size();
      values.push_back(is_own ? branch.handed[own].hand(twins.at(branch.residuals.kept[own]))
                              : hlo::splat(*c, kept_[i], 0));
    }
    c->set_root(hlo::tuple(*c, std::move(values)));
    return c;
  }

  Computation* backward_branch(const Branch& branch, const Shape& operand) {
    const PulledBack& body = branch.body;
    Computation* const c =
        outer_.module().add_computation(body.form.computation->name() + "_gradient");
    const std::vector<Node*> now = hlo::leaves(add_parameter(*c, operand, "x"));
    Twins twins;
    size_t next = 0;
    for (const Node* cotangent : body.cotangents) twins.emplace(cotangent, now[next++]);
    for (size_t i = 0; i < branch.handed.size(); ++i)
      twins.emplace(branch.residuals.kept[i], branch.handed[i].take(now[next++]));
    for (const size_t i : branch.residuals.parameters)
      twins.emplace(body.form.parameters[i], now[next++]);
    copy_needed(body.gradients, *c, twins);
    std::vector<Node*> values;
    for (const Input& input : wanted_) {
      const auto at = std::find(branch.wanted.begin(), branch.wanted.end(), input);
      const Shape shape = leaf_shapes(input.operand->shape)[input.leaf];
      values.push_back(
          at == branch.wanted.end()
              ? hlo::splat(*c, shape, 0)
              : twins.at(body.gradients[static_cast<size_t>(at - branch.wanted.begin())]));
    }
    c->set_root(hlo::tuple(*c, std::move(values)));
    return c;
  }

  Node& conditional_;
  Computation& outer_;
  std::vector<size_t> given_;  // leaves of the result that have cotangents
  std::vector<Branch> branches_;
  std::vector<Input> wanted_;  // of all branches
  std::vector<Shape> kept_;    // by all branches
};

}  // namespace

void Reverse::visit_conditional(Node& conditional, const std::vector<Node*>& cotangents) {
  ConditionalGradient gradient(conditional, activity_, cotangents);
  if (!gradient.wants_any()) return;
  Node* forward = nullptr;
  {
    const EmissionScope scope(conditional.metadata, conditional.backward);
    const size_t first = c_.nodes().size();
    forward = gradient.emit_forward();
    replace(conditional, forward, 0);
    take_forward(first);
  }
  for (const auto& [input, cotangent] : gradient.emit_backward(forward, cotangents))
    give(*input.operand, input.leaf, cotangent);
}

}  // namespace gspmd
