#include "runtime/schedule.h"

#include <algorithm>
#include <limits>

#include "runtime/claims.h"

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
    schedule.split =
        std::max(step.kernel.parts, step.kernel.prepare_parts) > 1 && step.kernel.cost > kSplitCost;
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

// Common memory that a segment may ask for: one without collectives has all kernels of a model.
constexpr int64_t kMostCommonBytes = int64_t{64} << 20;

// The stages of a segment; its bytes.
int64_t place_segment(Program& program, Block::Item& segment, const SharedValues& values) {
  std::vector<Access> written;
  int64_t bytes = 0;
  for (int64_t i = segment.first; i < segment.last; ++i) {
    Step& step = program.steps[static_cast<size_t>(i)];
    const CommonStage& stage = step.kernel.common;
    const Replicas* same = nullptr;
    if (stage.prepare && !step.is_copy && step.operands == std::ssize(step.node->operands()))
      same = values.same(step.node->operand(static_cast<size_t>(stage.operand)));
    const Access read = access_of(program, step.first_argument + stage.operand, false, true);
    const bool is_there = std::none_of(written.begin(), written.end(),
                                       [&](const Access& w) { return conflict(w, read); });
    if (same != nullptr && is_there) {
      CommonPlace place;
      int64_t end = bytes;
      for (int64_t d = 0; d < std::ssize(*same); ++d) {
        const int64_t first = (*same)[static_cast<size_t>(d)];
        place.offset.push_back(first == d ? end : place.offset[static_cast<size_t>(first)]);
        if (first != d) continue;
        place.holders.push_back(d);
        end = saturating_add(end, stage.bytes);
      }
      const int64_t holders = std::ssize(place.holders);
      if (holders < std::ssize(*same) && end <= kMostCommonBytes &&
          holders * stage.parts <= Claims::kMost) {
        step.common = std::move(place);
        segment.common = true;
        bytes = end;
      }
    }
    for (int64_t a = step.operands; a < step.operands + step.results; ++a)
      written.push_back(access_of(program, step.first_argument + a, true, true));
  }
  return bytes;
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

void place_common_stages(Program& program, const SharedValues& values) {
  for (Block::Item& item : program.main.items)
    if (item.kind == Block::Item::segment && !item.shared)
      program.common_bytes = std::max(program.common_bytes, place_segment(program, item, values));
}

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
