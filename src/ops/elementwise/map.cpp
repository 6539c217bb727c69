#include "ops/elementwise/map.h"

#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/call_elementwise.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/scalar_program.h"
#include "ops/rows.h"

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

}  // namespace

Node* map_form(Node& node) { return call_elementwise(*node.called[0], node.operands()); }

namespace {

const OpInfo kMapRows[] = {
    {.opcode = Opcode::map,
     .traits = kPointwise | kFirstLeads,
     .operands = {1, -1},
     .infer = infer_map,
     .factors = pointwise_factors,
     .evaluate = evaluate_map,
     .differentiable_form = map_form,
     .completion = kPointwiseCompletion,
     .batch = batch_with_dimensions},
};

}  // namespace

std::span<const OpInfo> map_rows() { return kMapRows; }

}  // namespace gspmd
