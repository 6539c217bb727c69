#pragma once

// Fused elementwise loops and reductions.

#include <cstdint>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/base/export.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// What one value of a loop program is.
enum class LoopOp : uint8_t {
  operand,
  constant,
  iota,  // leaves
  copy,
  convert,
  shorten,  // to f32, from which rounding to a shorter type gives what rounding itself gives
  negate,
  abs,
  sign,
  not_,
  popcnt,
  count_leading_zeros,
  exp,
  expm1,
  log,
  log1p,
  tanh,
  logistic,
  sqrt,
  rsqrt,
  sine,
  cosine,
  tan,
  erf,
  cbrt,
  floor,
  ceil,
  round_nearest_afz,
  round_nearest_even,
  is_finite,
  round_to_bf16,
  round_to_f16,  // of a; the last two: f32 numbers to the nearest that the type holds
  add,
  subtract,
  multiply,
  divide,
  remainder,
  maximum,
  minimum,
  power,
  atan2,
  and_,
  or_,
  xor_,
  shift_left,
  shift_right_arithmetic,
  shift_right_logical,  // of a, b
  eq,
  ne,
  ge,
  gt,
  le,
  lt,  // of a, b; pred
  select,
  clamp,  // of a, b, c as HLO orders them
  reduce_sum,
  reduce_product,
  reduce_max,
  reduce_min,
  reduce_and,
  reduce_or,
  reduce_xor,  // of a, starting from b
};

// A value: an op on earlier values. Values that depend on a reduce live in the kept dims only, and
// are broadcast where a value over all dims reads them.
struct LoopValue {
  LoopOp op = LoopOp::operand;  // what computes it
  DType dtype = DType::f32;     // of the result
  int a = -1, b = -1, c = -1;   // indices of earlier values
  int64_t operand = 0;          // operand: which one; iota: along which dim
  // operand: elements per step of each dim, 0 = broadcast; iota: what it counts on per step, where
  // that is not 1 along its dim.
  Dims strides = {};
  int64_t offset = 0;   // operand: which element the first step reads; iota: what it counts from
  Array constant = {};  // one element
};

// One result.
struct LoopOutput {
  int value = 0;         // index of a value
  bool reduced = false;  // stored over the kept dims instead of all
  Dims strides = {};     // of a piece of a result: elements per step of each dim; empty: dense
  int64_t offset = 0;    // of a piece: elements before what the first step writes
  int64_t result = -1;   // which one it is a piece of; -1: its own, the outputs before counted
};

// A loop nest over `dims` in which every step computes `values` in order: elementwise chains,
// broadcasts, reductions over the dims marked in `reduced` and what follows from them. Results are
// dense, row-major, one per output. A result may share storage with an operand of the same element
// size and row-major strides when no value after the output's own reads that operand.
struct LoopProgram {
  Dims dims;                        // of the loop nest, major first
  std::vector<bool> reduced;        // empty = none
  std::vector<LoopValue> values;    // in the order in which a step computes them
  std::vector<LoopOutput> outputs;  // one per result
};

// Whether the element type is one that loops compute with: pred, 32 and 64 bit numbers, and
// shorter ones, which are computed in f32 or s32 and rounded or wrapped after every op; their sums
// once, at the end. Of these, NaNs that a loop moves may become another NaN of the type.
GSPMD_API bool is_loop_dtype(DType dtype);

// Instruction sets of x86-64 for which loops become machine code; `best`: what the machine has.
enum class LoopTarget : uint8_t { best, avx2, avx512 };
GSPMD_API bool runs_loop_target(LoopTarget target);  // whether this machine does

// How a loop is made ready; the results are the same bit for bit.
struct LoopOptions {
  bool machine_code = true;              // where the machine runs it
  LoopTarget target = LoopTarget::best;  // UserError where the machine has not what is asked for
};

// A kernel in one or two passes over memory: as machine code made for the program (x86-64 with
// AVX-512 or AVX2), which holds values in registers; else, or with GSPMD_LOOP_CODE=0 in the
// environment, each value one vector loop over tiles that stay in the first-level cache. Sums are
// taken in an order fixed by the shape. `run` is empty where this form cannot be run: dims of size
// 0, element types beyond is_loop_dtype, a value over all dims that needs a reduction over more
// than one tile.
GSPMD_API PreparedKernel prepare_loop(const LoopProgram& program, const LoopOptions& options = {});

// Loops that each write a piece of the same results, in turn by small parts, so that what several
// read is in a cache. `run` is empty where it is for one of them.
GSPMD_API PreparedKernel prepare_loop_pieces(const std::vector<LoopProgram>& pieces,
                                             const LoopOptions& options = {});

// Kernels that prepare_loop has made in this process.
struct LoopCodeStats {
  int64_t generated = 0;    // as machine code of their own
  int64_t shared = 0;       // as machine code of an equal program
  int64_t interpreted = 0;  // without any
  int64_t bytes = 0;        // of the machine code
};
GSPMD_API LoopCodeStats loop_code_stats();  // of all threads

}  // namespace gspmd
