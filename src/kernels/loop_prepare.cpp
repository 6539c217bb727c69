#include <algorithm>
#include <cstdlib>

#include "gspmd/base/error.h"
#include "kernels/loop_code.h"
#include "kernels/loop_once.h"
#include "kernels/loop_plan.h"
#include "kernels/loop_short_rows.h"

namespace gspmd {
namespace {

constexpr int64_t kTurnElements = 16384;  // of all pieces before the first goes on

std::optional<PlannedLoop> planned_for(const LoopProgram& program, const LoopOptions& options) {
  if (!runs_loop_target(options.target))
    user_error("prepare_loop: this machine does not run the machine code that is asked for");
  const LoopCodeTarget* const target =
      options.machine_code ? loop_code_target(options.target) : nullptr;
  std::optional<PlannedLoop> planned;
  if (target != nullptr) planned = plan_loop(program, target);
  if (planned) return planned;
  planned = plan_loop(program, nullptr);
  if (planned) count_interpreted_loop();
  return planned;
}

}  // namespace

bool joins_blocks(const LoopProgram& program) {
  const auto is_reduce = [](LoopOp op) { return op >= LoopOp::reduce_sum; };
  // Dims of size 1 aside, whether an operand's elements lie side by side along the last, or are
  // one.
  const auto lies_so = [&](const LoopValue& x) {
    size_t last = program.dims.size();
    while (last > 1 && program.dims[last - 1] == 1) --last;
    return x.op == LoopOp::operand && last > 0 &&
           (x.strides[last - 1] == 0 || x.strides[last - 1] == 1);
  };
  std::vector<bool> varies, follows;
  for (const LoopValue& x : program.values) {
    bool any = x.op == LoopOp::iota, after = is_reduce(x.op);
    if (after && (x.op != LoopOp::reduce_sum || !is_floating(x.dtype))) return false;
    for (size_t d = 0; x.op == LoopOp::operand && d < x.strides.size(); ++d)
      any |= x.strides[d] != 0 && program.dims[d] != 1;
    const auto each_input = [&](auto&& visit) {
      for (const int input : {x.a, x.b, x.c})
        if (input >= 0) visit(static_cast<size_t>(input));
    };
    each_input([&](size_t i) { any = any || varies[i], after = after || follows[i]; });
    bool alone = true;
    if (after && !is_reduce(x.op))
      each_input([&](size_t i) {
        alone = alone && (follows[i] || !varies[i] || lies_so(program.values[i]));
      });
    if (!alone) return false;
    varies.push_back(any);
    follows.push_back(after);
  }
  return std::all_of(program.outputs.begin(), program.outputs.end(), [&](const LoopOutput& o) {
    return !o.reduced || follows[static_cast<size_t>(o.value)];
  });
}

size_t other_half(const LoopProgram& program, size_t output) {
  const LoopOutput& one = program.outputs[output];
  for (size_t i = output + 1; i < program.outputs.size() && !one.strides.empty(); ++i) {
    const LoopOutput& other = program.outputs[i];
    const auto dtype = [&](const LoopOutput& o) {
      return program.values[static_cast<size_t>(o.value)].dtype;
    };
    const bool fits =
        other.result == one.result && other.strides == one.strides && dtype(other) == dtype(one);
    if (fits && std::abs(other.offset - one.offset) == 1) return i;
  }
  return output;
}

PreparedKernel prepare_loop(const LoopProgram& program, const LoopOptions& options) {
  if (PreparedKernel short_rows = prepare_short_rows(program, options); short_rows.run)
    return short_rows;
  std::optional<PlannedLoop> planned = planned_for(program, options);
  PreparedKernel kernel;
  if (!planned) return kernel;
  kernel.cost = planned->cost;
  const auto plan = std::make_shared<const LoopPlan>(std::move(planned->plan));
  if (const std::optional<LoopOnce> once = LoopOnce::of(*plan))
    kernel.run = [once = *once, plan](const KernelArgs& args) { once.run(args); };
  else
    kernel.run = [plan](const KernelArgs& args) { run_loop(*plan, args); };
  kernel.parts = plan->parts;
  if (plan->blocks > 0) {
    kernel.prepare_parts = loop_parts(planned->elements, plan->block_units());
    kernel.shared_bytes = plan->shared_bytes;
    kernel.prepare = [plan, parts = kernel.prepare_parts](const KernelArgs& args) {
      run_loop_blocks(*plan, args, parts);
    };
  }
  kernel.scratch_bytes = loop_scratch_bytes(*plan);
  return kernel;
}

PreparedKernel prepare_loop_pieces(const std::vector<LoopProgram>& pieces,
                                   const LoopOptions& options) {
  if (pieces.size() == 1) return prepare_loop(pieces[0], options);
  PreparedKernel kernel;
  const auto plans = std::make_shared<std::vector<LoopPlan>>();
  int64_t elements = 0;
  for (const LoopProgram& piece : pieces) {
    std::optional<PlannedLoop> planned = planned_for(piece, options);
    if (!planned || planned->plan.blocks > 0) return {};
    kernel.cost += planned->cost;
    kernel.scratch_bytes = std::max(kernel.scratch_bytes, loop_scratch_bytes(planned->plan));
    elements += planned->plan.kept_count * planned->plan.rows * planned->plan.inner;
    plans->push_back(std::move(planned->plan));
  }
  kernel.parts = loop_parts(elements, kMostLoopParts);
  const int64_t turns = ceil_div(elements, kernel.parts * kTurnElements);
  for (LoopPlan& plan : *plans) plan.parts = kernel.parts * turns;
  kernel.run = [plans, turns](const KernelArgs& args) {
    KernelArgs turn = args;
    for (turn.part = args.part * turns; turn.part < (args.part + 1) * turns; ++turn.part)
      for (const LoopPlan& plan : *plans) run_loop(plan, turn);
  };
  return kernel;
}

}  // namespace gspmd
