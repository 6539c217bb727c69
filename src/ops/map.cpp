#include "gspmd/base/error.h"
#include "ops/check.h"
#include "ops/factors.h"
#include "ops/rows.h"
#include "ops/scalar_program.h"

namespace gspmd {
namespace {

// One scalar of each operand gives one scalar of the result.
Shape infer_map(const Node& node) {
  check_operand_count(node, 1, -1);
  const Computation& callee = called_computation(node, 0, 1);
  const Shape& first = array_operand(node, 0);
  std::vector<Shape> scalars;
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    check_same_dims(node, 0, i);
    scalars.emplace_back(node.operand(i)->shape.dtype, Dims{});
  }
  check_parameters(node, callee, scalars);
  const Shape& result = callee.root()->shape;
  if (result.is_tuple || result.rank() != 0)
    user_error("map: computation {} returns {}, it has to return a scalar", callee.name(),
               to_string(result));
  return Shape(result.dtype, first.dims);
}

Value evaluate_map(const EvalContext& context) {
  const Array result(context.node.shape);
  ScalarProgram program(*context.node.called[0], context.call);
  const int64_t size = dtype_size(result.dtype());
  for (int64_t i = 0; i < result.size(); ++i) {
    for (size_t o = 0; o < context.operands.size(); ++o) {
      const Array& x = context.operands[o].array;
      program.set(o, x.bytes().data() + i * dtype_size(x.dtype()));
    }
    program.run();
    program.take(0, result.bytes().data() + i * size);
  }
  return {result, {}, false};
}

std::vector<OpInfo> build_rows() {
  OpInfo info;
  info.opcode = Opcode::map;
  info.min_operands = 1;
  info.max_operands = -1;
  info.infer = infer_map;
  info.factors = pointwise_factors;
  info.evaluate = evaluate_map;
  return {info};
}

}  // namespace

std::span<const OpInfo> map_rows() {
  static const std::vector<OpInfo> rows = build_rows();
  return rows;
}

}  // namespace gspmd
