#pragma once

#include <optional>

#include "kernels/loop_plan.h"

namespace gspmd {

// A loop of one tile without reductions: what a run does is to set the registers and to make a few
// calls. Small programs run such loops; the tables of a frame would be most of what they touch.
class LoopOnce {
 public:
  // nullopt: the plan has more than one tile, reductions, more registers or calls than there is
  // room for, or elements that do not lie side by side.
  static std::optional<LoopOnce> of(const LoopPlan& plan);
  void run(const KernelArgs& args) const;  // what the whole loop does

 private:
  static constexpr int kMostRegisters = 16, kMostCalls = 6;

  struct Register {
    enum Kind : uint8_t { fixed, operand, result, scratch } kind = fixed;
    int16_t value = 0;  // which register
    int32_t index = 0;  // which operand or result
    int64_t bytes = 0;  // behind its beginning; fixed: the address
  };
  struct Call {
    LoopCodeFunction code = nullptr;  // nullptr: the other function
    LoopFunction function = nullptr;  // nullptr: bytes are copied
    int16_t out = 0, a = 0, b = 0, c = 0;
    uint32_t scalars = 0;
    int64_t n = 0;  // elements; copied: bytes
  };

  bool add(Register::Kind kind, int value, int64_t index, int64_t bytes);
  bool add_stream(const LoopStream& stream, int value);
  bool add_call(const LoopPlan& plan, const LoopInstruction& in, int64_t n, int& next_register);
  bool set_registers(const LoopPlan& plan);

  int count_ = 0, calls_count_ = 0;
  Register registers_[kMostRegisters];
  Call calls_[kMostCalls];
};

}  // namespace gspmd
