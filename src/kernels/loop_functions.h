#pragma once

#include <cstddef>
#include <cstdint>

#include "gspmd/kernels/loop_program.h"

namespace gspmd {

// n elements of one value. Bit i of `scalars` says that input i is one element, not n. `out` may be
// the very same memory as an input.
using LoopFunction = void (*)(std::byte* out, const std::byte* a, const std::byte* b,
                              const std::byte* c, int64_t n, uint32_t scalars);

// Whether there are loops that compute with numbers of this type: is_loop_dtype without the types
// whose numbers programs read into wider ones.
bool has_loop_functions(DType dtype);

// The loop of `op` on inputs of type `input` (of a select: its values) giving `result`, compiled
// for this machine's instruction set; nullptr where there is none. reduce_*: folds n elements of a
// into out[0], in an order fixed by n.
LoopFunction find_loop_function(LoopOp op, DType input, DType result);

// Combines kFoldRows rows of n elements, `step` elements apart, in their order into `sum`, where
// `starts` from the first of them: several rows at once keep as many reads of memory under way, and
// what is combined in registers.
constexpr int64_t kFoldRows = 8;
using FoldRows = void (*)(std::byte* sum, const std::byte* rows, int64_t step, int64_t n,
                          bool starts);
// Of `reduce` on rows of type `input`, bf16 combined in f32; nullptr where there is none (f16).
FoldRows find_fold_rows(LoopOp reduce, DType input);

// Combines the n elements of kTurnedLines lines, lane by lane: element e of line l is at
// e * kTurnedLines + l of `turned`, which is overwritten. Each line in the order of a fold.
constexpr int64_t kTurnedLines = 16;
using FoldTurned = void (*)(std::byte* results, std::byte* turned, int64_t n);
// Of `reduce` on lines of type `input`; nullptr where there is none (16-bit floats).
FoldTurned find_fold_turned(LoopOp reduce, DType input);

// The elementwise function that combines two partial results of a reduce.
LoopOp combining_op(LoopOp reduce);

// Fills with the element at `a`.
LoopFunction spread_function(int64_t element_size);

}  // namespace gspmd
