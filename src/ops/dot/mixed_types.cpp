// Products of two types have no kernel: operands are widened, which changes no number.

#include "gspmd/ops/builders.h"
#include "ops/dot/dot.h"

namespace gspmd {

bool widen_mixed_products(Computation& c) {
  std::vector<Node*> dots;
  for (const auto& node : c.nodes())
    if (node->is(Opcode::dot) && node->operand(0)->shape.dtype != node->operand(1)->shape.dtype &&
        is_floating(node->operand(0)->shape.dtype) && is_floating(node->operand(1)->shape.dtype))
      dots.push_back(node.get());
  for (Node* dot : dots) {
    const EmissionScope scope(dot->metadata, dot->backward);
    const bool has_f64 =
        dot->operand(0)->shape.dtype == DType::f64 || dot->operand(1)->shape.dtype == DType::f64;
    const DType wide = has_f64 ? DType::f64 : DType::f32;
    for (const int64_t side : {0, 1})
      if (dot->operand(side)->shape.dtype != wide)
        dot->set_operand(side, hlo::convert(dot->operand(side), wide));
  }
  if (!dots.empty()) c.sort();
  return !dots.empty();
}

}  // namespace gspmd
