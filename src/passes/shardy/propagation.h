#pragma once

#include "passes/shardy/program.h"

namespace gspmd {

// Which propagation runs over a program.
struct SdyPropagation {
  bool aggressive = true;
  bool op_priorities = true;
  bool user_priorities = true;
  bool conservative = false;
  bool origins = false;  // slots note where their axes came from
};

// Completes the slots' shardings (docs/spec/completion.md 10.4). Returns whether any changed.
bool propagate_program(SdyProgram& program, const SdyPropagation& how);

// What the op says along each factor in round `round` of op priorities; -1: no rounds.
std::vector<SdyDirection> sdy_directions(const SdyOp& op, int round);

}  // namespace gspmd
