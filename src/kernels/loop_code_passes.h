#pragma once

// In which passes over a tile machine code computes what.

#include <optional>
#include <vector>

#include "kernels/loop_plan.h"

namespace gspmd {

// What a pass does with a vector of one value, in the order in which it does it.
struct LoopItem {
  enum Kind : uint8_t { compute, iota, fold, accumulate, keep, store } kind = compute;
  int value = -1;                       // what is computed, kept or stored
  const LoopInstruction* in = nullptr;  // nullptr for keep and iota
};

// Between passes single elements are computed: first what has no machine code, by its function.
struct LoopSection {
  std::vector<const LoopInstruction*> interpreted;
  std::vector<LoopItem> narrow;  // single elements; stores of them stand in the last section
  std::vector<LoopItem> pass;
  bool needs_break() const { return !interpreted.empty(); }
};

struct LoopSchedule {
  std::vector<LoopSection> sections;
  std::vector<const LoopInstruction*> loads;  // before all
  std::vector<bool> kept;                     // per register: has a tile or an element of memory
};

// Whether there is machine code for it; of a store, where it goes to elements side by side.
bool has_code(const LoopInstruction& in);
bool is_code_dtype(DType dtype);
// Counting up along the tile, as lanes.
bool is_lane_iota(const LoopPlan& plan, const LoopInstruction& in);

// `outside`: registers that are read where the list has ended. nullopt where the list has a form
// that is left to the interpreter.
std::optional<LoopSchedule> schedule_passes(const LoopPlan& plan,
                                            const std::vector<LoopInstruction>& list,
                                            const std::vector<LoopRegister>& registers,
                                            const std::vector<bool>& outside);

}  // namespace gspmd
