#pragma once

// What differs between the instruction sets in which machine code of loops is written.

#include <algorithm>

#include "gspmd/kernels/loop_program.h"
#include "kernels/loop_encoder.h"

namespace gspmd {

struct LoopCodeTarget {
  LoopTarget name;
  VectorForm form;
  // Whether masks are registers of their own that any instruction takes; else they are vectors of
  // all bits or none, and a tile's tail is read and written by the few instructions that take one.
  bool has_masks;
  int lanes, registers;
  int register_folds;    // folds of a pass whose lanes stay in registers, not in the frame
  int32_t single_bytes;  // of a single element in the frame: one lane where operands broadcast
  int32_t frame_bytes;   // on the stack

  int32_t vector_bytes() const { return 4 * lanes; }
  // Of a fold: element i goes to lane i % 64, as in the interpreter.
  int fold_vectors() const { return 64 / lanes; }
};

// Folds have the eighth part of a frame at its end, and iotas the last 256 bytes.
inline constexpr LoopCodeTarget kAvx512Code{
    LoopTarget::avx512, VectorForm::evex, true, 16, 32, 4, 4, 8192};
inline constexpr LoopCodeTarget kAvx2Code{
    LoopTarget::avx2, VectorForm::vex, false, 8, 16, 0, 32, 16384};

}  // namespace gspmd
