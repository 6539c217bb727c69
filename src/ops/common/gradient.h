#pragma once

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"

namespace gspmd {

using GradientFunction = std::vector<Node*> (*)(Node& node, Node* cotangent);

// `gradient` for ops of arrays: no cotangent flows to operands that are neither floating point nor
// complex, nor from such a result. The cotangent of x + iy is dL/dx - i dL/dy of a real loss L, so
// that a holomorphic op multiplies it by its derivative and a linear one transposes as it is.
template <GradientFunction gradient>
std::vector<Node*> inexact_only(Node& node, Node* cotangent) {
  const auto is_inexact = [](const Node& value) {
    return is_floating(value.shape.dtype) || is_complex(value.shape.dtype);
  };
  if (!node.shape.is_tuple && !is_inexact(node))
    return std::vector<Node*>(node.operands().size(), nullptr);
  std::vector<Node*> result = gradient(node, cotangent);
  for (size_t i = 0; i < result.size(); ++i)
    if (!is_inexact(*node.operands()[i])) result[i] = nullptr;
  return result;
}

// The same of ops that compare: complex numbers have no order, and no gradient here.
template <GradientFunction gradient>
std::vector<Node*> floats_only(Node& node, Node* cotangent) {
  const auto refuse_complex = [&](const Node& value) {
    if (!value.shape.is_tuple && is_complex(value.shape.dtype))
      user_error("{}: \"{}\" is {}; complex numbers have no gradient", opcode_name(node.opcode()),
                 value.name(), to_string(value.shape));
  };
  refuse_complex(node);
  for (const Node* operand : node.operands()) refuse_complex(*operand);
  return inexact_only<gradient>(node, cotangent);
}

// The sum of what the readers of a value gave to its cotangent, last reader first, one after the
// other: partial sums of dots then add directly. What was cut out of the value is put together
// without a full-size value for each piece.
Node* sum_of_cotangents(const std::vector<Node*>& given);

Node* zeros_like(const Node& x);
Dims all_dims(int64_t rank);                  // 0, 1, ..., rank - 1
Node* transposed(Node* x, Dims permutation);  // x itself where nothing moves
// The conjugate of complex numbers; others as they are.
Node* conjugated(Node* x);

}  // namespace gspmd
