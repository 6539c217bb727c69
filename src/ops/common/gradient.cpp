#include "ops/common/gradient.h"

#include <numeric>

#include "gspmd/ops/builders.h"

namespace gspmd {

Node* zeros_like(const Node& x) { return hlo::splat(x.parent(), x.shape, 0); }

Dims all_dims(int64_t rank) {
  Dims dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Node* transposed(Node* x, Dims permutation) {
  return permutation == all_dims(x->rank()) ? x : hlo::transpose(x, std::move(permutation));
}

Node* conjugated(Node* x) {
  if (!is_complex(x->shape.dtype)) return x;
  Node* const imaginary = hlo::unary(Opcode::negate, hlo::unary(Opcode::imag, x));
  return hlo::binary(Opcode::complex, hlo::unary(Opcode::real, x), imaginary);
}

}  // namespace gspmd
