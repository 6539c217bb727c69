#include "ops/shape.h"

#include "ops/rows.h"
#include "ops/widen.h"

namespace gspmd {
namespace {

constexpr uint32_t kMoves = kDataMovement | kIntegerPreserving;

#define GSPMD_ASPECTS(op) infer_##op, op##_factors, evaluate_##op, op##_gradient
struct Row {
  Opcode opcode;
  uint32_t traits;
  int min_operands, max_operands;
  decltype(OpInfo::infer) infer;
  decltype(OpInfo::factors) factors;
  decltype(OpInfo::evaluate) evaluate;
  decltype(OpInfo::gradient) gradient;
};

constexpr Row kRows[] = {
    {Opcode::reshape, kMoves | kLinear, 1, 1, GSPMD_ASPECTS(reshape)},
    {Opcode::broadcast, kMoves | kLinear, 1, 1, GSPMD_ASPECTS(broadcast)},
    {Opcode::transpose, kMoves | kLinear, 1, 1, GSPMD_ASPECTS(transpose)},
    {Opcode::reverse, kMoves | kLinear, 1, 1, GSPMD_ASPECTS(reverse)},
    {Opcode::concatenate, kMoves | kLinear, 1, -1, GSPMD_ASPECTS(concatenate)},
    {Opcode::pad, kMoves | kLinear, 2, 2, GSPMD_ASPECTS(pad)},
    {Opcode::slice, kMoves | kLinear, 1, 1, GSPMD_ASPECTS(slice)},
    {Opcode::dynamic_slice, kMoves, 1, -1, GSPMD_ASPECTS(dynamic_slice)},
    {Opcode::dynamic_update_slice, kMoves, 2, -1, GSPMD_ASPECTS(dynamic_update_slice)},
    {Opcode::iota, kConstantLike | kIntegerPreserving, 0, 0, infer_iota, iota_factors,
     any_width<evaluate_iota>, iota_gradient},
};
#undef GSPMD_ASPECTS

std::vector<OpInfo> build_rows() {
  std::vector<OpInfo> rows;
  for (const Row& row : kRows) {
    OpInfo& info = rows.emplace_back();
    info.opcode = row.opcode;
    info.traits = row.traits;
    info.min_operands = row.min_operands;
    info.max_operands = row.max_operands;
    info.infer = row.infer;
    info.factors = row.factors;
    info.evaluate = row.evaluate;
    info.gradient = row.gradient;
  }
  return rows;
}

}  // namespace

std::span<const OpInfo> shape_rows() {
  static const std::vector<OpInfo> rows = build_rows();
  return rows;
}

}  // namespace gspmd
