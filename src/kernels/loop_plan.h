#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "gspmd/kernels/loop_program.h"
#include "kernels/loop_code_memory.h"
#include "kernels/loop_functions.h"

namespace gspmd {

// Where a value's pointer moves with the loops: an operand, an iota (its "address" is a number) or
// an output. Strides in elements along the kept outer dims, the reduced outer dims and the inner
// dim.
struct LoopStream {
  int value = -1;
  int64_t index = 0;  // operand or result number; unused for iota
  enum Kind : uint8_t { operand, iota, output } kind = operand;
  // How an operand or iota reaches the functions: `direct` pointers need no work per element;
  // `gather` copies the tile's elements into the value's register first, of an output from there
  // afterwards.
  enum Access : uint8_t { direct, gather } access = direct;
  int64_t element_size = 4;
  DType dtype = DType::f32;
  Dims kept, reduced;
  int64_t row = 0;  // where the plan goes by rows
  int64_t inner = 0;
  int64_t offset = 0;  // elements before the first
};

using LoopCodeFunction = void (*)(std::byte* const* registers, int64_t n);

struct LoopInstruction {
  enum Kind : uint8_t { compute, load, fold, accumulate, store, code } kind = compute;
  LoopOp op = LoopOp::copy;                       // compute; fold, accumulate: the reduce
  DType input = DType::f32, result = DType::f32;  // of `function`, of what is stored
  LoopFunction function = nullptr;  // compute: the op; fold: of a tile; accumulate: elementwise
  LoopFunction combine = nullptr;   // fold: of two partial results
  LoopCodeFunction code_function = nullptr;  // code: of registers and the elements of the tile
  // Registers = value numbers; load, store: out = stream. Store: b points into the result, for
  // code; c, if any, holds the elements between those of a.
  int out = -1, a = -1, b = -1, c = -1;
  uint32_t scalars = 0;
  bool wide = true;  // over the tile, else one element
};

// What a register is for machine code.
struct LoopRegister {
  enum Kind : uint8_t { computed, memory, constant } kind = computed;
  DType dtype = DType::f32;
  bool wide = false;
  uint32_t bits = 0;  // of a constant: a lane
  // Of f32 (mark_bf16): whether its numbers are numbers of bf16, and whether no NaN among them has
  // a bit that bf16 has not.
  bool is_bf16 = false, short_nan = false;
};

// A loop program made ready: dims merged and sorted into kept outer, reduced outer and inner,
// values levelled (uniform, per row, per element) and given registers.
struct LoopPlan {
  Dims kept, reduced;  // outer dims
  int64_t inner = 1;
  bool inner_reduced = false;
  // The inner dim is all dims flattened; streams that are not dense gather with `flat_dims`.
  bool flat = false;
  Dims flat_dims;
  // The inner dim is short, and machine code goes through `rows` of them, the innermost of the
  // other dims, in tiles of rows.
  bool by_rows = false;
  int64_t rows = 1;
  int64_t tile = 1, tiles = 1;  // of the inner dim or of rows
  int64_t kept_count = 1, reduced_count = 1;

  int64_t registers = 0;  // number of values
  std::vector<LoopStream> streams;
  std::vector<LoopInstruction> prologue, body, post;
  std::vector<std::pair<int, Array>> constants;
  struct Slot {
    int value;
    int64_t offset;
  };
  std::vector<Slot> slots;  // offsets into the scratch after the pointer tables
  // Registers that point into operands or outputs and move with the loops; uniform ones are set
  // once.
  struct Pointer {
    int value;
    int stream;
    int64_t element_size, inner_bytes;
  };
  std::vector<Pointer> pointers;
  std::vector<std::pair<int, int>> fixed;  // (value, stream)
  // Registers that code moves from row to row; behind the registers stand a count of rows and these
  // bytes.
  struct RowStep {
    int value;
    int64_t bytes;
  };
  std::vector<RowStep> row_steps;
  struct Fold {
    int value;
    int init;
    int64_t element_size;
    LoopFunction combine;
    // A sum of floats has more accumulators behind the first: every kSumBlock steps one is added to
    // the next and starts anew, so that no long sum takes up small numbers one by one.
    int levels = 1;
    int64_t level_bytes = 0;
    int64_t shared_offset = 0;  // of the sums of blocks
  };
  std::vector<Fold> folds;  // accumulators to start from init
  // Where few rows are kept, blocks of kSumBlock steps of the reduced dims are a first stage, which
  // leaves their sums behind each other; 0: there is none.
  int64_t blocks = 0;
  int64_t slot_bytes = 0, shared_bytes = 0;
  int64_t parts = 1;
  std::shared_ptr<const CodeMemory> code;  // what `code` instructions run
  int64_t units() const { return kept_count * (inner_reduced ? 1 : tiles); }
  int64_t block_units() const { return kept_count * blocks * tiles; }
  int64_t tiled() const { return by_rows ? rows : inner; }

  int register_of(const LoopInstruction& in) const {
    return in.kind == LoopInstruction::load ? streams[static_cast<size_t>(in.out)].value : in.out;
  }
  int64_t new_slot(int64_t bytes) {
    const int64_t at = slot_bytes;
    slot_bytes += ceil_div(bytes, 64) * 64;
    if (bytes >= 1024) slot_bytes += 192;  // tiles a page apart would fight for the same cache sets
    return at;
  }
};

constexpr int64_t kSumBlock = 128;
constexpr int64_t kLoopPartElements = 32768;
constexpr int64_t kMostLoopParts = 8;

// Of a kernel that goes through `elements` in so many independent units.
inline int64_t loop_parts(int64_t elements, int64_t units) {
  return std::min(units, std::clamp<int64_t>(elements / kLoopPartElements, 1, kMostLoopParts));
}

struct LoopCodeTarget;

// The plan of a program as machine code or, with nullptr, for the interpreter, and what running it
// costs in nanoseconds, roughly; nullopt where it cannot be run in this form.
struct PlannedLoop {
  LoopPlan plan;
  double cost = 0;
  int64_t elements = 1;
};
std::optional<PlannedLoop> plan_loop(const LoopProgram& program, const LoopCodeTarget* target);
// Whether sums of blocks may be joined apart from the loop: all its reductions are sums of floats,
// which begin anew every kSumBlock steps, and what follows reads only these, single elements and
// operands as they lie.
bool joins_blocks(const LoopProgram& program);
// A later output whose elements stand in turn with those of this one; itself: there is none.
size_t other_half(const LoopProgram& program, size_t output);
void run_loop(const LoopPlan& plan, const KernelArgs& args);
// One of `parts` parts of the first stage of a plan with blocks.
void run_loop_blocks(const LoopPlan& plan, const KernelArgs& args, int64_t parts);
int64_t loop_scratch_bytes(const LoopPlan& plan);

}  // namespace gspmd
