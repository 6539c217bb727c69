#include "runtime/direct_run.h"

namespace gspmd {
namespace {

constexpr size_t kMostCalls = 64;  // beyond them a run takes so long that nobody sees the rest

}  // namespace

bool DirectRun::add_parts(const Step& step, const Stage& stage, KernelArgs args, int64_t parts) {
  for (args.part = 0; args.part < parts; ++args.part) {
    if (calls_.size() == kMostCalls) return false;
    calls_.push_back({&stage, args, &step});
  }
  return true;
}

bool DirectRun::add(const Step& step, KernelArgs args) {
  if (!step.common.holders.empty()) return false;
  if (step.kernel.prepare && !add_parts(step, step.kernel.prepare, args, step.kernel.prepare_parts))
    return false;
  return add_parts(step, step.kernel.run, args, step.kernel.parts);
}

std::optional<DirectRun> DirectRun::of(const RunState& state, const WorkerMemory& memory) {
  const Program& program = state.program;
  // Memory is watched step by step, and is another at every run.
  if (kGuardBytes > 0 || program.options.poison) return std::nullopt;
  if (has_deadline()) return std::nullopt;  // Worker asks before every part whether it is past
  if (state.pool.size() > 1 || state.remote != nullptr) return std::nullopt;
  DirectRun direct;
  const auto add = [&](int64_t step, int64_t device) {
    const Step& it = program.steps[static_cast<size_t>(step)];
    std::byte* const* const table =
        state.tables[static_cast<size_t>(device)].data() + it.first_argument;
    return direct.add(
        it, {table, table + it.operands, memory.scratch, device, 0, memory.shared, nullptr});
  };
  for (const Block::Item& item : program.main.items) {
    if (item.kind != Block::Item::segment) return std::nullopt;
    if (item.shared && state.shares) {  // each step on the devices that hold its results
      for (int64_t i = item.first; i < item.last; ++i)
        for (const int64_t device : program.steps[static_cast<size_t>(i)].devices)
          if (!add(i, device)) return std::nullopt;
      continue;
    }
    for (int64_t device = state.local.first; device < state.local.last; ++device)
      for (int64_t i = item.first; i < item.last; ++i)
        if (!add(i, device)) return std::nullopt;
  }
  return direct;
}

void DirectRun::run() const {
  const Call* at = calls_.data();
  try {
    for (const Call* const end = at + calls_.size(); at != end; ++at) (*at->stage)(at->args);
  } catch (const std::exception& error) {
    throw located_error(*at->step, at->args.device, error);
  }
}

}  // namespace gspmd
