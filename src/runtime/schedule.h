#pragma once

#include "runtime/program.h"

namespace gspmd {

// How the workers of one device share its steps, where there are fewer devices than workers.
struct StepSchedule {
  bool barrier_before =
      false;           // something it touches was touched by other workers since the last barrier
  bool split = false;  // parts over all workers; else all on the first
  bool barrier_between = false;  // of a split kernel that prepares what its parts share
};
std::vector<StepSchedule> schedule_steps(const Program& program);

}  // namespace gspmd
