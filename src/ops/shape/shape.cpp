#include "ops/shape/shape.h"

#include "ops/common/batch.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/loop_lowering.h"
#include "ops/common/widen.h"
#include "ops/rows.h"
#include "ops/shape/lower.h"

namespace gspmd {
namespace {

constexpr uint32_t kMoves = kDataMovement | kIntegerPreserving;

#define GSPMD_ASPECTS(op) \
  .infer = infer_##op, .factors = op##_factors, .evaluate = evaluate_##op, .gradient = op##_gradient
constexpr CompletionRules kAsFirstOperand{.speakers = Speakers::first};

// A loop over elements where it has one, else strided copies.
PreparedKernel lower_any_broadcast(const Node& node) {
  PreparedKernel kernel = lower_loop_node(node);
  return kernel.run ? std::move(kernel) : lower_broadcast(node);
}

const OpInfo kShapeRows[] = {
    {.opcode = Opcode::reshape,
     .traits = kMoves | kLinear | kAlias,
     .operands = {1, 1},
     GSPMD_ASPECTS(reshape),
     .completion = {.forward = reshape_forward, .suggestions = reshape_suggestions, .level = 0},
     .partition = partition_reshape,
     .batch = batch_as_it_is},
    {.opcode = Opcode::broadcast,
     .traits = kMoves | kLinear,
     .operands = {1, 1},
     GSPMD_ASPECTS(broadcast),
     .completion = {.forward = broadcast_forward,
                    .suggestions = broadcast_suggestions,
                    .speakers = Speakers::first,
                    .level = 2,
                    .forward_level = 3},
     .lower = lower_any_broadcast,
     .batch = batch_with_dimensions},
    {.opcode = Opcode::transpose,
     .traits = kMoves | kLinear,
     .operands = {1, 1},
     GSPMD_ASPECTS(transpose),
     .completion = {.speakers = Speakers::first, .level = 0},
     .lower = lower_transpose,
     .batch = batch_with_dimensions},
    {.opcode = Opcode::reverse,
     .traits = kMoves | kLinear | kFirstLeads,
     .operands = {1, 1},
     GSPMD_ASPECTS(reverse),
     .completion = {reverse_forward, reverse_suggestions, in_spmd_only},
     .partition = partition_reverse,
     .lower = lower_reverse},
    {.opcode = Opcode::concatenate,
     .traits = kMoves | kLinear,
     .operands = {1, -1},
     GSPMD_ASPECTS(concatenate),
     .completion = {.forward = concatenate_forward,
                    .suggestions = concatenate_suggestions,
                    .speakers = Speakers::all,
                    .level = 0},
     .partition = partition_concatenate,
     .lower = lower_concatenate},
    {.opcode = Opcode::pad,
     .traits = kMoves | kLinear | kFirstLeads,
     .operands = {2, 2},
     GSPMD_ASPECTS(pad),
     .completion = kAsFirstOperand,
     .on_part = pad_on_part,
     .lower = lower_pad},
    {.opcode = Opcode::slice,
     .traits = kMoves | kLinear | kFirstLeads,
     .operands = {1, 1},
     GSPMD_ASPECTS(slice),
     .completion = kAsFirstOperand,
     .partition = partition_slice,
     .on_part = slice_on_part,
     .lower = lower_slice},
    {.opcode = Opcode::dynamic_slice,
     .traits = kMoves | kPlacedOnAll,
     .operands = {1, -1},
     GSPMD_ASPECTS(dynamic_slice),
     .completion = {.suggestions = dynamic_start_suggestions,
                    .speakers = Speakers::first,
                    .level = 0,
                    .backward_level = 1},
     .partition = partition_dynamic_slice,
     .on_part = slice_sizes_on_part,
     .lower = lower_dynamic_slice,
     .batch = batch_dynamic_slice},
    {.opcode = Opcode::dynamic_update_slice,
     .traits = kMoves | kPlacedOnAll | kWritesFirst,
     .operands = {2, -1},
     GSPMD_ASPECTS(dynamic_update_slice),
     .completion = {.forward = dynamic_update_slice_forward,
                    .suggestions = dynamic_start_suggestions,
                    .speakers = Speakers::first_two,
                    .level = 0,
                    .backward_level = 1},
     .partition = partition_dynamic_update_slice,
     .lower = lower_dynamic_update_slice,
     .batch = batch_dynamic_update_slice},
    {.opcode = Opcode::iota,
     .traits = kConstantLike | kIntegerPreserving | kPlacedAnywhere,
     .infer = infer_iota,
     .factors = iota_factors,
     .evaluate = any_width<evaluate_iota>,
     .gradient = iota_gradient,
     .partition = partition_iota,
     .lower = lower_loop_node},
};
#undef GSPMD_ASPECTS

}  // namespace

std::span<const OpInfo> shape_rows() { return kShapeRows; }

}  // namespace gspmd
