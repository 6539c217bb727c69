#pragma once

// What differs between the instruction sets in which machine code of loops is written.

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
  int register_folds;  // folds of a pass whose lanes stay in registers, not in the frame
  int32_t
      single_bytes;  // of a single element in the frame: a lane where operands broadcast, else all
  int32_t frame_bytes;  // on the stack

  int32_t vector_bytes() const { return 4 * lanes; }
  // Of a fold: element i goes to lane i % 64, as in the interpreter.
  int fold_vectors() const { return 64 / lanes; }
};

inline constexpr LoopCodeTarget kAvx512Code{
    LoopTarget::avx512, VectorForm::evex, true, 16, 32, 4, 4, 8192};
// Its frame holds as many single elements. It is no whole number of 4096 bytes: stores to the lanes
// of folds, which stand at the end, would hold up loads of single elements, at the begin, on
// processors that compare low bits first.
inline constexpr LoopCodeTarget kAvx2Code{
    LoopTarget::avx2, VectorForm::vex, false, 8, 16, 0, 32, 38912};

}  // namespace gspmd
