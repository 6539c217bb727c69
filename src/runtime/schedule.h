#pragma once

#include <vector>

#include "runtime/program.h"
#include "runtime/shared_values.h"

namespace gspmd {

// How the workers of one device share its steps, where there are fewer devices than workers.
struct StepSchedule {
  bool barrier_before =
      false;           // something it touches was touched by other workers since the last barrier
  bool split = false;  // parts over all workers; else all on the first
  bool barrier_between = false;  // of a split kernel that prepares what its parts share
};
struct TeamSchedule {
  std::vector<StepSchedule> steps;
  // Loops and branches that the first worker of a device goes through alone: nothing inside is
  // split, nor a collective. The others wait behind them.
  std::vector<char> loops_alone, branches_alone;
};
TeamSchedule schedule_steps(const Program& program);

// Of steps of values that devices share: whether all workers meet before it, since it touches what
// they touched since they met.
std::vector<char> waits_of_shared(const Program& program);

// Steps of the main block whose operand is the same on several devices, and there when the segment
// begins, get a place for their common stage.
void place_common_stages(Program& program, const SharedValues& values);

}  // namespace gspmd
