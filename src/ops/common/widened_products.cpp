#include "ops/common/widened_products.h"

#include <cmath>
#include <optional>

#include "gspmd/ops/builders.h"
#include "ops/dot/dot.h"

namespace gspmd {
namespace {

bool has_float_kernel(Opcode opcode, DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 ||
         (dtype == DType::f16 && opcode == Opcode::dot);
}

bool is_narrow_integer(DType dtype) { return is_integer(dtype) && dtype_size(dtype) <= 2; }

// The greatest size that a number of the type has.
double greatest_size(DType dtype) {
  return std::ldexp(1.0,
                    static_cast<int>(8 * dtype_size(dtype)) - (is_signed_integer(dtype) ? 1 : 0));
}

double summands_of(const Node& product) {
  double summands = 1;
  if (product.is(Opcode::dot)) {
    for (const DotLoop& loop : dot_loops(product))
      if (loop.out < 0) summands *= static_cast<double>(size_of(product, loop));
    return summands;
  }
  const ConvDims& conv = *product.attrs.conv;
  const Node& kernel = *product.operand(1);
  summands = static_cast<double>(kernel.dim(conv.kernel_input_feature));
  for (const int64_t d : conv.kernel_spatial) summands *= static_cast<double>(kernel.dim(d));
  return summands;
}

// The type to compute in; nullopt: as it is.
std::optional<DType> wider_type(const Node& product) {
  const DType a = product.operand(0)->shape.dtype, b = product.operand(1)->shape.dtype;
  const DType result = product.shape.dtype;
  if (is_floating(a) && is_floating(b) && is_floating(result)) {
    if (a == b && has_float_kernel(product.opcode(), a)) return std::nullopt;
    const bool doubles = a == DType::f64 || b == DType::f64 || result == DType::f64;
    return doubles ? DType::f64 : DType::f32;
  }
  if (!is_narrow_integer(a) || !is_narrow_integer(b) || !is_integer(result)) return std::nullopt;
  const double most = summands_of(product) * greatest_size(a) * greatest_size(b);
  if (most <= std::ldexp(1.0, 24)) return DType::f32;
  if (most < std::ldexp(1.0, 31)) return DType::f64;
  return std::nullopt;  // sums may wrap around
}

Node* widened(Computation& c, Node& product, DType wide) {
  const EmissionScope scope(product.metadata, product.backward);
  std::vector<Node*> operands;
  for (const int64_t side : {0, 1}) {
    Node* operand = product.operand(side);
    operands.push_back(operand->shape.dtype == wide ? operand : hlo::convert(operand, wide));
  }
  const DType result = product.shape.dtype;
  Node* made = emit(c, product.opcode(), std::move(operands), product.attrs,
                    Shape(wide, product.dims()));
  if (is_integer(result) && result != DType::s32) made = hlo::convert(made, DType::s32);
  return made->shape.dtype == result ? made : hlo::convert(made, result);
}

}  // namespace

bool widen_products(Computation& c) {
  std::vector<std::pair<Node*, DType>> products;
  for (const auto& node : c.nodes()) {
    if (!node->is(Opcode::dot) && !node->is(Opcode::convolution)) continue;
    if (const std::optional<DType> wide = wider_type(*node))
      products.emplace_back(node.get(), *wide);
  }
  for (const auto& [product, wide] : products) c.replace_uses(product, widened(c, *product, wide));
  if (products.empty()) return false;
  c.remove_dead();
  c.sort();
  return true;
}

}  // namespace gspmd
