#pragma once

// Loops and branches as functions of functions, on trees of tensors.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/function_checks.h"
#include "gspmd/api/operand.h"
#include "gspmd/api/tree.h"
#include "gspmd/base/export.h"
#include "gspmd/base/owned.h"

namespace gspmd {

// A tree without leaves: the stacked inputs or outputs of a scan that has none.
struct Nothing {};

template <>
struct detail::TreeNode<Nothing> {
  template <class Leaf>
  using rebind = Nothing;
  using leaf = Tensor;
  template <class Tree, class F>
  static void visit(Tree&, const std::string&, F&) {}
  template <class Out, class F>
  static void map(const Nothing&, Out&, const std::string&, F&) {}
};

// How scan() runs.
struct ScanOptions {
  bool reverse = false;  // from the last slice to the first; outputs stay in the slices' order
  int64_t unroll = 1;    // steps in one iteration of the loop, 1 or more
  int64_t length = -1;   // number of steps; -1: that of the inputs
};

namespace detail {

using PathLeaves = std::vector<std::pair<std::string, Tensor>>;  // with their paths

// A tree like `tree` of other leaves, in order.
template <class Tree>
Tree with_leaves(const Tree& tree, const late_t<std::vector<Tensor>, Tree>& leaves,
                 size_t first = 0) {
  return map_tree(tree, [&](const std::string&, const Tensor&) { return leaves.at(first++); });
}

// The body of a loop with a known number of steps, from its first to its last line.
class GSPMD_API LoopTrace {
 public:
  // The body's parameters are the number of the step, the carries and a slice of each input.
  // UserError: inputs of different lengths, a length that is not theirs, a wrong option.
  LoopTrace(const char* op, const PathLeaves& init, const PathLeaves& xs,
            const ScanOptions& options, Site site);
  LoopTrace(const LoopTrace&) = delete;
  LoopTrace& operator=(const LoopTrace&) = delete;
  ~LoopTrace();  // closes the body where it was left by an exception

  // --- Inside of the body
  // s32[], counted from `first` in the order in which the steps run.
  Tensor step(int64_t first = 0) const;
  const std::vector<Tensor>& carries() const;
  const std::vector<Tensor>& slices() const;

  // Closes the body and emits the loop: the last carries, then the stacked outputs. UserError: a
  // carry that comes back with another shape, dtype or place in its tree.
  std::vector<Tensor> finish(const PathLeaves& carries, const PathLeaves& ys);

 private:
  struct Impl;
  Owned<Impl> impl_;
};

// A loop that runs as long as a condition holds.
class GSPMD_API WhileTrace {
 public:
  WhileTrace(const PathLeaves& init, Site site);  // opens the condition
  WhileTrace(const WhileTrace&) = delete;
  WhileTrace& operator=(const WhileTrace&) = delete;
  ~WhileTrace();

  const std::vector<Tensor>& carries() const;  // of the condition, or the body, that is open
  void begin_body(const Tensor& condition);    // closes the condition and opens the body
  std::vector<Tensor> finish(const PathLeaves& carries);  // the last carries

 private:
  struct Impl;
  Owned<Impl> impl_;
};

// One of several branches by a selector.
class GSPMD_API BranchTrace {
 public:
  BranchTrace(const char* op, Operand selector, size_t branches, Site site);
  BranchTrace(const BranchTrace&) = delete;
  BranchTrace& operator=(const BranchTrace&) = delete;
  ~BranchTrace();

  void begin();                         // opens the next branch
  void end(const PathLeaves& results);  // closes it; UserError: results unlike those of the first
  std::vector<Tensor> finish();         // the results of the branch that is taken

 private:
  struct Impl;
  Owned<Impl> impl_;
};

template <class Fn, class... Args>
auto trace_branch(BranchTrace& trace, Fn& fn, const Args&... args) {
  trace.begin();
  auto result = std::invoke(fn, args...);
  trace.end(flatten(result));
  return result;
}

template <class Body, class Carry, class Xs>
auto scan_as(const char* op, Body& body, const Carry& init, const Xs& xs,
             const ScanOptions& options, Site site) {
  LoopTrace loop(op, flatten(init), flatten(xs), options, site);
  auto result =
      std::invoke(body, with_leaves(init, loop.carries()), with_leaves(xs, loop.slices()));
  const auto& [carry, y] = result;
  const auto leaves = loop.finish(flatten(carry), flatten(y));
  const auto carries = static_cast<size_t>(leaf_count_of(init));
  return std::pair{with_leaves(init, leaves), with_leaves(y, leaves, carries)};
}

}  // namespace detail

// Runs `body` once for each slice of the inputs along their dim 0: body(carry, x) gives {the next
// carry, y}. Returns {the last carry, the ys stacked along a new dim 0}. `init`, the carry and its
// next are trees of one structure, shapes and dtypes; `xs` and y any trees of tensors, or Nothing.
// Tensors around the body may be read in it. One HLO while loop; its gradient is a second one that
// reads what the first has kept of each step. As jax.lax.scan.
template <class Body, class Carry, class Xs>
auto scan(Body body, const Carry& init, const Xs& xs, const ScanOptions& options = {},
          Site site = Site::here()) {
  if constexpr (detail::check_scan<Body, Carry, Xs>()) {
    return detail::scan_as("scan", body, init, xs, options, site);
  }
}

// Runs carry = body(i, carry) for i = lower, ..., upper - 1, an s32 scalar; returns the last carry.
// Known bounds: it has a gradient. As jax.lax.fori_loop.
template <class Body, class Carry>
Carry fori_loop(int64_t lower, int64_t upper, Body body, const Carry& init,
                Site site = Site::here()) {
  if constexpr (detail::check_fori_loop<Body, Carry>()) {
    detail::LoopTrace loop("fori_loop", flatten(init), {},
                           {.length = upper < lower ? 0 : upper - lower}, site);
    const Carry carry =
        std::invoke(body, loop.step(lower), detail::with_leaves(init, loop.carries()));
    return detail::with_leaves(init, loop.finish(flatten(carry), {}));
  }
}

// Runs carry = body(carry) as long as condition(carry), a pred scalar, holds; returns the last
// carry. Has no gradient, since how many steps it takes is not known. As jax.lax.while_loop.
template <class Condition, class Body, class Carry>
Carry while_loop(Condition condition, Body body, const Carry& init, Site site = Site::here()) {
  if constexpr (detail::check_while_loop<Condition, Body, Carry>()) {
    detail::WhileTrace loop(flatten(init), site);
    loop.begin_body(std::invoke(condition, detail::with_leaves(init, loop.carries())));
    const Carry carry = std::invoke(body, detail::with_leaves(init, loop.carries()));
    return detail::with_leaves(init, loop.finish(flatten(carry)));
  }
}

// on_true(args...) where `condition`, a pred scalar, holds, else on_false(args...): only the one is
// run. Both return trees of one structure, shapes and dtypes. As jax.lax.cond.
template <class OnTrue, class OnFalse, class... Args>
auto cond(Operand condition, OnTrue on_true, OnFalse on_false, const Args&... args) {
  if constexpr (detail::check_branch<OnTrue, Args...>() &&
                detail::check_branch<OnFalse, Args...>()) {
    detail::BranchTrace trace("cond", condition, 2, condition.site());
    const auto result = detail::trace_branch(trace, on_true, args...);
    detail::trace_branch(trace, on_false, args...);
    return detail::with_leaves(result, trace.finish());
  }
}

// branches[index](args...): only that one is run; an index outside takes the nearest branch. All
// return trees of one structure, shapes and dtypes. As jax.lax.switch.
template <class Branch, class... Args>
auto switch_case(Operand index, std::vector<Branch> branches, const Args&... args) {
  if constexpr (detail::check_branch<Branch, Args...>()) {
    using Result = std::decay_t<std::invoke_result_t<Branch&, const Args&...>>;
    detail::BranchTrace trace("switch_case", index, branches.size(), index.site());
    std::vector<Result> results;
    for (Branch& branch : branches) results.push_back(detail::trace_branch(trace, branch, args...));
    return detail::with_leaves(results.at(0), trace.finish());
  }
}

// f of each slice of the inputs along dim 0, one after the other, stacked. As jax.lax.map.
template <class F, class Xs>
auto map(F f, const Xs& xs, Site site = Site::here()) {
  if constexpr (detail::check_transformed<F, Xs>()) {
    const auto body = [&](Nothing, const Xs& x) { return std::pair{Nothing{}, std::invoke(f, x)}; };
    return detail::scan_as("map", body, Nothing{}, xs, {}, site).second;
  }
}

namespace detail {
GSPMD_API std::vector<Tensor> behind_barrier(const PathLeaves& leaves, Site site);
}  // namespace detail

// The tree as it is; no leaf of it is read before all are computed, and what follows is not merged
// with what is before. As jax.lax.optimization_barrier.
template <class Tree>
Tree optimization_barrier(const Tree& tree, Site site = Site::here()) {
  return detail::with_leaves(tree, detail::behind_barrier(flatten(tree), site));
}

}  // namespace gspmd
