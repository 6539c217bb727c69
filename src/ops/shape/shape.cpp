#include "ops/shape/shape.h"

#include "ops/common/completion_rules.h"
#include "ops/common/loop_lowering.h"
#include "ops/common/widen.h"
#include "ops/rows.h"
#include "ops/shape/lower.h"

namespace gspmd {
namespace {

constexpr uint32_t kMoves = kDataMovement | kIntegerPreserving;

#define GSPMD_ASPECTS(op) \
  .infer = infer_##op, .factors = op##_factors, .evaluate = evaluate_##op, .gradient = op##_gradient
#define GSPMD_COMPLETION(op, from) \
  .completion = {.forward = op##_forward, .backward = op##_backward, .level = from}
constexpr CompletionRules kAsFirstOperand{representative_forward, first_operand_backward};

// A loop over elements where it has one, else strided copies.
PreparedKernel lower_any_broadcast(const Node& node) {
  PreparedKernel kernel = lower_loop_node(node);
  return kernel.run ? std::move(kernel) : lower_broadcast(node);
}

const OpInfo kRows[] = {
    {.opcode = Opcode::reshape,
     .traits = kMoves | kLinear,
     .min_operands = 1,
     .max_operands = 1,
     GSPMD_ASPECTS(reshape),
     GSPMD_COMPLETION(reshape, 0),
     .partition = partition_reshape},
    {.opcode = Opcode::broadcast,
     .traits = kMoves | kLinear,
     .min_operands = 1,
     .max_operands = 1,
     GSPMD_ASPECTS(broadcast),
     GSPMD_COMPLETION(broadcast, 2),
     .lower = lower_any_broadcast},
    {.opcode = Opcode::transpose,
     .traits = kMoves | kLinear,
     .min_operands = 1,
     .max_operands = 1,
     GSPMD_ASPECTS(transpose),
     GSPMD_COMPLETION(transpose, 0),
     .lower = lower_transpose},
    {.opcode = Opcode::reverse,
     .traits = kMoves | kLinear | kFirstLeads,
     .min_operands = 1,
     .max_operands = 1,
     GSPMD_ASPECTS(reverse),
     .completion = {reverse_forward, reverse_backward, in_spmd_only},
     .partition = partition_reverse,
     .lower = lower_reverse},
    {.opcode = Opcode::concatenate,
     .traits = kMoves | kLinear,
     .min_operands = 1,
     .max_operands = -1,
     GSPMD_ASPECTS(concatenate),
     GSPMD_COMPLETION(concatenate, 0),
     .partition = partition_concatenate,
     .lower = lower_concatenate},
    {.opcode = Opcode::pad,
     .traits = kMoves | kLinear | kFirstLeads,
     .min_operands = 2,
     .max_operands = 2,
     GSPMD_ASPECTS(pad),
     .completion = kAsFirstOperand,
     .lower = lower_pad},
    {.opcode = Opcode::slice,
     .traits = kMoves | kLinear | kFirstLeads,
     .min_operands = 1,
     .max_operands = 1,
     GSPMD_ASPECTS(slice),
     .completion = kAsFirstOperand,
     .partition = partition_slice,
     .lower = lower_slice},
    {.opcode = Opcode::dynamic_slice,
     .traits = kMoves,
     .min_operands = 1,
     .max_operands = -1,
     GSPMD_ASPECTS(dynamic_slice),
     GSPMD_COMPLETION(dynamic_slice, 0),
     .partition = partition_dynamic_slice,
     .lower = lower_dynamic_slice},
    {.opcode = Opcode::dynamic_update_slice,
     .traits = kMoves,
     .min_operands = 2,
     .max_operands = -1,
     GSPMD_ASPECTS(dynamic_update_slice),
     GSPMD_COMPLETION(dynamic_update_slice, 0),
     .partition = partition_dynamic_update_slice,
     .lower = lower_dynamic_update_slice},
    {.opcode = Opcode::iota,
     .traits = kConstantLike | kIntegerPreserving,
     .infer = infer_iota,
     .factors = iota_factors,
     .evaluate = any_width<evaluate_iota>,
     .gradient = iota_gradient,
     .completion = kNoCompletion,
     .partition = partition_iota,
     .lower = lower_loop_node},
};
#undef GSPMD_ASPECTS
#undef GSPMD_COMPLETION

}  // namespace

std::span<const OpInfo> shape_rows() { return kRows; }

}  // namespace gspmd
