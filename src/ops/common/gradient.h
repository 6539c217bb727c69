#pragma once

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"

namespace gspmd {

using GradientFunction = std::vector<Node*> (*)(Node& node, Node* cotangent);

// `gradient` for ops of arrays: no cotangent flows to operands that are not floating point, nor
// from such a result. Complex numbers have none yet.
template <GradientFunction gradient>
std::vector<Node*> floats_only(Node& node, Node* cotangent) {
  std::vector<Node*> none(node.operands().size(), nullptr);
  const auto refuse_complex = [&](const Node& value) {
    if (!value.shape.is_tuple && is_complex(value.shape.dtype))
      user_error("{}: \"{}\" is {}; complex numbers have no gradient", opcode_name(node.opcode()),
                 value.name(), to_string(value.shape));
  };
  refuse_complex(node);
  if (!node.shape.is_tuple && !is_floating(node.shape.dtype)) return none;
  for (const Node* operand : node.operands()) refuse_complex(*operand);
  std::vector<Node*> result = gradient(node, cotangent);
  for (size_t i = 0; i < result.size(); ++i)
    if (!is_floating(node.operands()[i]->shape.dtype)) result[i] = nullptr;
  return result;
}

// The sum of what the readers of a value gave to its cotangent, last reader first, one after the
// other: partial sums of dots then add directly. What was cut out of the value is put together
// without a full-size value for each piece.
Node* sum_of_cotangents(const std::vector<Node*>& given);

Node* zeros_like(const Node& x);
Dims all_dims(int64_t rank);                  // 0, 1, ..., rank - 1
Node* transposed(Node* x, Dims permutation);  // x itself where nothing moves

}  // namespace gspmd
