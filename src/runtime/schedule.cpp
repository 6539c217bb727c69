#include "runtime/schedule.h"

#include <algorithm>
#include <limits>

namespace gspmd {
namespace {

constexpr double kSplitCost = 3000;  // nanoseconds

// A range of bytes that somebody read or wrote since the last barrier.
struct Access {
  int64_t space = 0;  // 0: arena; 2i+1: parameter i; 2i+2: result i; -1-i: constant i
  int64_t begin = 0, end = 0;
  bool write = false, split = false;
};

Access access_of(const Program& program, int64_t argument, bool write, bool split) {
  const Slot& slot = program.arguments[static_cast<size_t>(argument)];
  Access access{0, slot.offset, slot.offset + slot.bytes, write, split};
  if (slot.kind == BufferPlace::parameter) access.space = 2 * slot.index + 1;
  if (slot.kind == BufferPlace::output) {
    const int64_t donor = program.donor[static_cast<size_t>(slot.index)];
    access.space = donor >= 0 ? 2 * donor + 1 : 2 * slot.index + 2;
  }
  if (slot.kind == BufferPlace::constant) access.space = -1 - slot.index;
  return access;
}

constexpr int64_t kShared = std::numeric_limits<int64_t>::min();  // what parts of a kernel share

bool conflict(const Access& a, const Access& b) {
  if (a.space != b.space || a.end <= b.begin || b.end <= a.begin) return false;
  return (a.write || b.write) && (a.split || b.split);
}

void schedule_segment(const Program& program, const Block::Item& segment, TeamSchedule& out) {
  std::vector<Access> since;  // segments start and end with a barrier
  for (int64_t i = segment.first; i < segment.last; ++i) {
    const Step& step = program.steps[static_cast<size_t>(i)];
    StepSchedule& schedule = out.steps[static_cast<size_t>(i)];
    schedule.split = step.kernel.parts > 1 && step.kernel.cost > kSplitCost;
    std::vector<Access> own;
    for (int64_t a = 0; a < step.operands + step.results; ++a) {
      own.push_back(
          access_of(program, step.first_argument + a, a >= step.operands, schedule.split));
    }
    schedule.barrier_between = schedule.split && step.kernel.prepare;
    if (step.kernel.prepare)
      own.push_back({kShared, 0, step.kernel.shared_bytes, true, schedule.split});
    for (const Access& before : since) {
      schedule.barrier_before |=
          std::any_of(own.begin(), own.end(), [&](const Access& x) { return conflict(before, x); });
    }
    if (schedule.barrier_before || schedule.barrier_between) since.clear();
    since.insert(since.end(), own.begin(), own.end());
  }
}

void schedule_shared(const Program& program, const Block::Item& segment, std::vector<char>& waits) {
  std::vector<Access> since;
  for (int64_t i = segment.first; i < segment.last; ++i) {
    const Step& step = program.steps[static_cast<size_t>(i)];
    std::vector<Access> own;
    for (int64_t a = 0; a < step.operands + step.results; ++a)
      own.push_back(access_of(program, step.first_argument + a, a >= step.operands, true));
    const bool waits_here = std::any_of(since.begin(), since.end(), [&](const Access& before) {
      return std::any_of(own.begin(), own.end(),
                         [&](const Access& x) { return conflict(before, x); });
    });
    waits[static_cast<size_t>(i)] = waits_here ? 1 : 0;
    if (waits_here) since.clear();
    since.insert(since.end(), own.begin(), own.end());
  }
}

// Whether the first worker does all of the block.
bool schedule_block(const Program& program, const Block& block, TeamSchedule& out) {
  bool alone = true;
  for (const Block::Item& item : block.items) {
    const auto index = static_cast<size_t>(item.first);
    switch (item.kind) {
      case Block::Item::loop: {
        const LoopStep& loop = *program.loops[index];
        const bool condition = schedule_block(program, loop.condition, out);
        const bool body = schedule_block(program, loop.body, out);
        out.loops_alone[index] = static_cast<char>(condition && body);
        alone &= condition && body;
        break;
      }
      case Block::Item::branch: {
        char& all = out.branches_alone[index] = 1;
        for (const Block& inner : program.branches[index]->blocks)
          all &= static_cast<char>(schedule_block(program, inner, out));
        alone &= all != 0;
        break;
      }
      case Block::Item::segment:
        schedule_segment(program, item, out);
        for (int64_t i = item.first; i < item.last; ++i)
          alone &= !out.steps[static_cast<size_t>(i)].split;
        break;
      case Block::Item::collective:
      case Block::Item::start:
        alone = false;
        break;
    }
  }
  return alone;
}

}  // namespace

std::vector<char> waits_of_shared(const Program& program) {
  std::vector<char> waits(program.steps.size());
  for (const Block::Item& item : program.main.items)
    if (item.shared) schedule_shared(program, item, waits);
  return waits;
}

TeamSchedule schedule_steps(const Program& program) {
  TeamSchedule schedule{std::vector<StepSchedule>(program.steps.size()),
                        std::vector<char>(program.loops.size()),
                        std::vector<char>(program.branches.size())};
  schedule_block(program, program.main, schedule);
  return schedule;
}

}  // namespace gspmd
