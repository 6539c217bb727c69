// The gradient of a loop with a known number of steps: the loop keeps, step by step, what its
// derivatives read; a second loop runs the steps' pull-backs from the last to the first.

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/counted_loop.h"
#include "ops/common/gradient.h"
#include "passes/differentiate/region_values.h"
#include "passes/differentiate/residuals.h"
#include "passes/graph/trip_count.h"

namespace gspmd {
namespace {

// Which leaves of the state need a cotangent, in any step, when those in `given` have one after the
// last.
std::vector<bool> reached_state(const Computation& body, std::vector<bool> given,
                                const std::vector<bool>& active) {
  ScratchLeafForm form(body);
  // By leaf of the state: which leaves depend on it after a step.
  std::vector<std::vector<size_t>> next(active.size());
  for (size_t i = 0; i < active.size(); ++i) {
    if (!active[i]) continue;
    const Activity from_here(*form.computation, std::span(&form.parameters[i], 1));
    for (size_t j = 0; j < given.size(); ++j)
      if (from_here.of(form.results[j])) next[i].push_back(j);
  }
  bool grown = true;
  while (grown) {
    grown = false;
    for (size_t i = 0; i < active.size(); ++i) {
      if (given[i] ||
          std::none_of(next[i].begin(), next[i].end(), [&](size_t j) { return given[j]; }))
        continue;
      given[i] = grown = true;
    }
  }
  return given;
}

std::vector<size_t> indices_of(const std::vector<bool>& flags) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < flags.size(); ++i)
    if (flags[i]) indices.push_back(i);
  return indices;
}

class LoopGradient {
 public:
  LoopGradient(Node& loop, int64_t trips, const std::vector<bool>& wanted)
      : loop_(loop),
        outer_(loop.parent()),
        trips_(trips),
        initial_(hlo::leaves(loop.operand(0))),
        body_(pull_back_body(*loop.called.at(1), indices_of(wanted), indices_of(wanted))) {
    std::vector<bool> invariant;
    for (size_t i = 0; i < initial_.size(); ++i)
      invariant.push_back(body_.form.results[i] == body_.form.parameters[i]);
    residuals_ = residuals_of(body_, invariant, true);
    for (const Node* value : residuals_.kept) handed_.emplace_back(*value);
  }
  LoopGradient(const LoopGradient&) = delete;
  LoopGradient& operator=(const LoopGradient&) = delete;
  ~LoopGradient() { outer_.module().remove_computation(body_.form.computation); }

  // The loop that keeps the residuals: its step, the leaves of the state, and what it kept.
  Node* emit_forward() {
    std::vector<Node*> state = initial_;
    for (const HandedValue& value : handed_) {
      Shape all = value.shape();
      all.dims.insert(all.dims.begin(), trips_);
      state.push_back(hlo::splat(outer_, all, 0));
    }
    return emit_loop(outer_, loop_.called[1]->name(), trips_, std::move(state),
                     [&](Computation& body, const std::vector<Node*>& now, Node* step) {
                       return forward_step(body, now, step);
                     });
  }

  // The cotangents of the loop's first state, leaf by leaf, given those of its last.
  std::vector<Node*> emit_backward(Node* forward, const std::vector<Node*>& cotangents) {
    std::vector<Node*> state;
    for (const size_t i : body_.wanted)
      state.push_back(cotangents[i] != nullptr ? cotangents[i] : zeros_like(*initial_[i]));
    for (size_t i = 0; i < residuals_.kept.size(); ++i)
      state.push_back(
          hlo::get_tuple_element(forward, static_cast<int64_t>(1 + initial_.size() + i)));
    for (const size_t i : residuals_.parameters) state.push_back(initial_[i]);
    const std::vector<Node*> last =
        state_after_loop(outer_, loop_.called[1]->name() + "_gradient", trips_, std::move(state),
                         [&](Computation& body, const std::vector<Node*>& now, Node* step) {
                           return backward_step(body, now, step);
                         });
    std::vector<Node*> result(initial_.size());
    for (size_t i = 0; i < body_.wanted.size(); ++i) result[body_.wanted[i]] = last[i];
    return result;
  }

 private:
  std::vector<Node*> forward_step(Computation& body, const std::vector<Node*>& now, Node* step) {
    Twins twins;
    for (size_t i = 0; i < initial_.size(); ++i) twins.emplace(body_.form.parameters[i], now[i]);
    std::vector<Node*> roots = body_.form.results;
    roots.insert(roots.end(), residuals_.kept.begin(), residuals_.kept.end());
    add_effects(*body_.form.computation, roots);
    copy_needed(roots, body, twins);
    std::vector<Node*> next;
    for (const Node* result : body_.form.results) next.push_back(twins.at(result));
    for (size_t i = 0; i < residuals_.kept.size(); ++i)
      next.push_back(write_step(now[initial_.size() + i],
                                handed_[i].hand(twins.at(residuals_.kept[i])), step));
    return next;
  }

  std::vector<Node*> backward_step(Computation& body, const std::vector<Node*>& now, Node* step) {
    Node* const last = hlo::scalar(body, DType::s32, static_cast<double>(trips_ - 1));
    Node* const at = hlo::subtract(last, step);
    Twins twins;
    size_t next_value = 0;
    for (Node* cotangent : body_.cotangents) twins.emplace(cotangent, now[next_value++]);
    for (size_t i = 0; i < residuals_.kept.size(); ++i)
      twins.emplace(residuals_.kept[i],
                    handed_[i].take(read_step(now[next_value++], handed_[i].shape(), at)));
    for (const size_t i : residuals_.parameters)
      twins.emplace(body_.form.parameters[i], now[next_value++]);
    copy_needed(body_.gradients, body, twins);
    std::vector<Node*> next = now;
    for (size_t i = 0; i < body_.gradients.size(); ++i) next[i] = twins.at(body_.gradients[i]);
    return next;
  }

  Node& loop_;
  Computation& outer_;
  int64_t trips_;
  std::vector<Node*> initial_;
  PulledBack body_;
  Residuals residuals_;
  std::vector<HandedValue> handed_;  // of what is kept
};

}  // namespace

void Reverse::visit_loop(Node& loop, const std::vector<Node*>& cotangents) {
  const std::optional<int64_t> trips = trip_count(loop);
  if (!trips)
    user_error(
        "while: {} has no gradient: how many steps it takes is not known before it runs, so they "
        "cannot be kept; use scan(), or fori_loop() with a constant number of steps",
        described(loop));
  if (*trips < 1) return give_operands(loop, cotangents);
  std::vector<bool> given, active;
  for (size_t i = 0; i < cotangents.size(); ++i) {
    given.push_back(cotangents[i] != nullptr);
    active.push_back(activity_.of(&loop, i));
  }
  const std::vector<bool> wanted = reached_state(*loop.called.at(1), given, active);
  LoopGradient gradient(loop, *trips, wanted);
  Node* forward = nullptr;
  {
    const EmissionScope scope(loop.metadata, loop.backward);
    const size_t first = c_.nodes().size();
    forward = gradient.emit_forward();
    replace(loop, forward, 1);
    take_forward(first);
  }
  give_operands(loop, gradient.emit_backward(forward, cotangents));
}

}  // namespace gspmd
