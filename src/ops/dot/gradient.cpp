#include "ops/common/gradient.h"

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/dot/dot.h"

namespace gspmd {
namespace {

// One side's dims by role, and where its free dims are in the result.
struct Side {
  Node* node;
  const Dims& batch;
  const Dims& contracting;
  Dims free;
  int64_t first_free_in_result;
};

// Contracts the cotangent with the other side over the other side's free dims. `cotangent_left`:
// the result is [batch, own free, contracting], else [batch, contracting, own free].
Node* cotangent_of(const Side& side, const Side& other, Node* c, bool cotangent_left) {
  const auto batch = static_cast<int64_t>(side.batch.size());
  DotDims dims;
  Dims contracted = all_dims(static_cast<int64_t>(other.free.size()));
  for (int64_t& d : contracted) d += other.first_free_in_result;
  (cotangent_left ? dims.lhs_batch : dims.rhs_batch) = all_dims(batch);
  (cotangent_left ? dims.rhs_batch : dims.lhs_batch) = other.batch;
  (cotangent_left ? dims.lhs_contracting : dims.rhs_contracting) = contracted;
  (cotangent_left ? dims.rhs_contracting : dims.lhs_contracting) = other.free;
  Attributes attrs;
  attrs.dot = std::move(dims);
  std::vector<Node*> operands{c, other.node};
  if (!cotangent_left) std::swap(operands[0], operands[1]);
  Node* const product = emit(c->parent(), Opcode::dot, std::move(operands), std::move(attrs),
                             Shape(c->shape.dtype, {}));
  // Where each of the product's dims belongs on this side: batch, then free and contracting dims;
  // the latter stand in the other side's ascending order.
  Dims paired = other.contracting;
  std::sort(paired.begin(), paired.end());
  Dims contracting;
  for (const int64_t d : paired) {
    const auto at = std::find(other.contracting.begin(), other.contracting.end(), d);
    contracting.push_back(side.contracting[static_cast<size_t>(at - other.contracting.begin())]);
  }
  Dims order = side.batch;
  const Dims& second = cotangent_left ? side.free : contracting;
  const Dims& third = cotangent_left ? contracting : side.free;
  order.insert(order.end(), second.begin(), second.end());
  order.insert(order.end(), third.begin(), third.end());
  Dims permutation(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    permutation[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return hlo::convert(transposed(product, permutation), side.node->shape.dtype);
}

std::vector<Node*> dot_gradient_by(Node& y, Node* c) {
  const DotDims& dims = y.attrs.dot;
  const auto batch = static_cast<int64_t>(dims.lhs_batch.size());
  const Side lhs{y.operand(0), dims.lhs_batch, dims.lhs_contracting,
                 free_dims(y.operand(0)->rank(), dims.lhs_batch, dims.lhs_contracting), batch};
  const Side rhs{y.operand(1), dims.rhs_batch, dims.rhs_contracting,
                 free_dims(y.operand(1)->rank(), dims.rhs_batch, dims.rhs_contracting),
                 batch + static_cast<int64_t>(lhs.free.size())};
  return {cotangent_of(lhs, rhs, c, true), cotangent_of(rhs, lhs, c, false)};
}

}  // namespace

std::vector<Node*> dot_gradient(Node& node, Node* cotangent) {
  return inexact_only<dot_gradient_by>(node, cotangent);
}

}  // namespace gspmd
