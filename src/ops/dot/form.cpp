// Products of special operands as a dot of prepared ones.

#include "ops/dot/form.h"

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/common/check.h"
#include "ops/common/gradient.h"
#include "ops/dot/dot.h"

namespace gspmd {
namespace {

Node* product(Node* lhs, Node* rhs, DotDims dims, DType dtype) {
  Attributes attrs;
  attrs.dot = std::move(dims);
  return emit(lhs->parent(), Opcode::dot, {lhs, rhs}, std::move(attrs), Shape(dtype, {}));
}

// One scale for each element.
Node* spread_scales(Node* scales, const Dims& dims) {
  Dims blocks, places;
  for (size_t d = 0; d < dims.size(); ++d) {
    places.push_back(std::ssize(blocks));
    blocks.push_back(scales->dims()[d]);
    blocks.push_back(scales->dims()[d] == 0 ? 0 : dims[d] / scales->dims()[d]);
  }
  return hlo::reshape(hlo::broadcast(scales, blocks, places), dims);
}

// Running sums along the last dim.
Node* running_sums(Node* sizes) {
  Computation& c = sizes->parent();
  Attributes attrs;
  attrs.window.resize(sizes->dims().size());
  const int64_t count = sizes->dims().back();
  attrs.window.edit().back() = {.size = count, .pad_low = count - 1};
  return emit(c, Opcode::reduce_window, {sizes, hlo::scalar(c, sizes->shape.dtype, 0)},
              std::move(attrs), sizes->shape,
              {binary_computation(c.module(), Opcode::add, sizes->shape.dtype)});
}

// The left operand once for each group, zero outside of it; the groups are dim 0.
Node* by_group(Node& node, Node* lhs, int64_t ragged_dim, const Dims& prefix) {
  Node* sizes = hlo::convert(node.operand(2), DType::s64);
  sizes = hlo::binary(Opcode::maximum, sizes, zeros_like(*sizes));
  Node* const ends = running_sums(sizes);
  Dims dims = lhs->dims();
  dims.insert(dims.begin(), sizes->dims().back());
  Dims places;
  if (sizes->rank() > 1)
    for (const int64_t d : prefix) places.push_back(d + 1);
  places.push_back(0);
  Node* const at = hlo::iota(node.parent(), Shape(DType::s64, dims), ragged_dim + 1);
  Node* const end = hlo::broadcast(ends, dims, places);
  Node* const start = hlo::broadcast(hlo::subtract(ends, sizes), dims, places);
  Node* const inside = hlo::binary(Opcode::and_, hlo::compare(at, start, Direction::ge),
                                   hlo::compare(at, end, Direction::lt));
  Dims kept = all_dims(lhs->rank());
  for (int64_t& d : kept) ++d;
  Node* const all = hlo::broadcast(lhs, dims, kept);
  return hlo::select(inside, all, zeros_like(*all));
}

}  // namespace

Node* scaled_dot_form(Node& node) {
  const DType given = node.shape.dtype;
  const DType dtype = dtype_size(given) < 4 ? DType::f32 : given;
  const auto scaled = [&](int64_t i) {
    Node* const x = hlo::convert(node.operand(i), dtype);
    return hlo::multiply(x, spread_scales(hlo::convert(node.operand(i + 2), dtype), x->dims()));
  };
  return hlo::convert(product(scaled(0), scaled(1), *node.attrs.dot, dtype), given);
}

Node* ragged_dot_form(Node& node) {
  DotDims dims = *node.attrs.dot;
  const int64_t ragged = node.attrs.ragged->lhs_ragged.at(0);
  Node* const lhs = node.operand(0);
  Node* const rhs = node.operand(1);
  if (contains(dims.lhs_batch, ragged)) return product(lhs, rhs, dims, node.shape.dtype);
  const bool sums = contains(dims.lhs_contracting, ragged);
  // What the sizes may depend on: batch, free and contracting dims in front of the ragged one.
  Dims order = dims.lhs_batch;
  const Dims free = free_dims(lhs->rank(), dims.lhs_batch, dims.lhs_contracting);
  order.insert(order.end(), free.begin(), free.end());
  order.insert(order.end(), dims.lhs_contracting.begin(), dims.lhs_contracting.end());
  order.erase(std::find(order.begin(), order.end(), ragged), order.end());
  Node* const groups = by_group(node, lhs, ragged, order);
  for (Dims* list : {&dims.lhs_batch, &dims.lhs_contracting})
    for (int64_t& d : *list) ++d;
  if (!sums) {
    dims.lhs_contracting.push_back(0);
    dims.rhs_contracting.push_back(node.attrs.ragged->rhs_group.at(0));
    return product(groups, rhs, dims, node.shape.dtype);
  }
  // The groups are the first of the left free dims; the result has them in front.
  const auto batch = static_cast<int64_t>(dims.lhs_batch.size());
  Node* const result = product(groups, rhs, dims, node.shape.dtype);
  Dims permutation = all_dims(result->rank());
  std::rotate(permutation.begin(), permutation.begin() + batch, permutation.begin() + batch + 1);
  return transposed(result, permutation);
}

}  // namespace gspmd
