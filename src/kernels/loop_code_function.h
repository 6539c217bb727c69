#pragma once

#include <memory>
#include <vector>

#include "kernels/loop_code_passes.h"

namespace gspmd {

// Writes functions of (rdi: table of registers, rsi: elements of the tile), one after another.
class FunctionWriter {
 public:
  explicit FunctionWriter(const std::vector<LoopRegister>& registers);
  ~FunctionWriter();

  // Sections [begin, end) of a schedule as a function; the place where it starts.
  size_t write(const LoopSchedule& schedule, size_t begin, size_t end);
  // More values at once than registers and frame hold: the code is of no use.
  bool failed() const;
  std::vector<uint8_t> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gspmd
