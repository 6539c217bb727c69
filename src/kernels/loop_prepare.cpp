#include <algorithm>
#include <cstdlib>

#include "gspmd/base/error.h"
#include "kernels/loop_code.h"
#include "kernels/loop_plan.h"

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

bool adds_floats(const LoopProgram& program) {
  return std::all_of(program.values.begin(), program.values.end(), [](const LoopValue& x) {
    return x.op < LoopOp::reduce_sum || (x.op == LoopOp::reduce_sum && is_floating(x.dtype));
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
  std::optional<PlannedLoop> planned = planned_for(program, options);
  PreparedKernel kernel;
  if (!planned) return kernel;
  kernel.cost = planned->cost;
  const auto plan = std::make_shared<const LoopPlan>(std::move(planned->plan));
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
