// Ops that move elements: reshape, transpose, broadcast, slice, pad, concatenate, reverse.

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

Node* transposed(Builder& b, Node* x) {
  if (x->rank() < 2) return nullptr;
  return b.add(hlo::transpose(x, b.shuffled(x->rank())), b.bound(x));
}

// Prime factors in order, joined at random places: any two shapes of one element count.
Node* any_reshape(Builder& b, Node* x) {
  Dims primes;
  for (int64_t rest = x->shape.elements_count(), p = 2; rest > 1;) {
    if (rest % p == 0) {
      primes.insert(primes.begin() + b.draws.below(int64_t(primes.size()) + 1), p);
      rest /= p;
    } else {
      ++p;
    }
  }
  Dims dims;
  for (const int64_t p : primes)
    if (dims.empty() || (dims.size() < 4 && b.draws.chance(50)))
      dims.push_back(p);
    else
      dims[static_cast<size_t>(b.draws.below(int64_t(dims.size())))] *= p;
  if (b.draws.chance(30) && dims.size() < 4)
    dims.insert(dims.begin() + b.draws.below(int64_t(dims.size()) + 1), 1);
  return b.add(hlo::reshape(x, dims), b.bound(x));
}

// Neighbours merged, or one dim split.
Node* regrouped(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  Dims dims = x->dims();
  const auto at = static_cast<size_t>(b.draws.below(x->rank()));
  if (b.draws.chance(50) && at + 1 < dims.size()) {
    dims[at] *= dims[at + 1];
    dims.erase(dims.begin() + int64_t(at) + 1);
  } else if (dims.size() < 4) {
    for (const int64_t part : {4, 2, 3})
      if (dims[at] % part == 0 && dims[at] > part) {
        dims[at] /= part;
        dims.insert(dims.begin() + int64_t(at) + b.draws.below(2), part);
        break;
      }
  }
  return b.add(hlo::reshape(x, dims), b.bound(x));
}

Node* broadcasted(Builder& b, Node* x) {
  if (x->rank() > 2) return nullptr;
  const int64_t rank = x->rank() + b.draws.between(1, 2);
  const Dims order = b.shuffled(rank);
  Dims dimensions(order.begin(), order.begin() + x->rank());
  if (b.draws.chance(80)) std::sort(dimensions.begin(), dimensions.end());
  Dims dims = b.sizes(rank);
  for (size_t i = 0; i < dimensions.size(); ++i)
    dims[static_cast<size_t>(dimensions[i])] = x->dim(static_cast<int64_t>(i));
  return b.add(hlo::broadcast(x, dims, dimensions), b.bound(x));
}

Node* sliced(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  Dims starts(x->dims().size(), 0), limits = x->dims(), strides(starts.size(), 1);
  for (const int64_t d : b.some_of(x->rank(), 60)) {
    const auto i = static_cast<size_t>(d);
    starts[i] = b.draws.below(limits[i]);
    limits[i] -= b.draws.below(limits[i] - starts[i]);
    if (b.draws.chance(40)) strides[i] = b.draws.between(2, 3);
  }
  return b.add(hlo::slice(x, starts, limits, strides), b.bound(x));
}

Node* padded(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  std::vector<PaddingDim> padding(x->dims().size());
  for (const int64_t d : b.some_of(x->rank(), 50)) {
    const int64_t size = x->dim(d), interior = b.draws.chance(30) ? b.draws.between(1, 2) : 0;
    const int64_t whole = size + (size - 1) * interior;
    const int64_t low = b.draws.between(-std::min<int64_t>(2, whole - 1), 3);
    const int64_t high =
        b.draws.between(-std::min<int64_t>(2, whole - 1 + std::min<int64_t>(low, 0)), 3);
    padding[static_cast<size_t>(d)] = {low, high, interior};
  }
  Node* value = b.draws.chance(60) ? b.scalar(x->shape.dtype, 1) : nullptr;
  for (Node* v : b.values())
    if (value == nullptr && v->rank() == 0 && v->shape.dtype == x->shape.dtype) value = v;
  if (value == nullptr) value = b.scalar(x->shape.dtype, 0);
  const double bound = std::max(b.bound(x), b.bound(value));
  return b.add(hlo::pad(x, value, padding), bound);
}

Node* concatenated(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  const int64_t dim = b.draws.below(x->rank());
  std::vector<Node*> parts{x};
  double bound = b.bound(x);
  const auto fits = [&](Node* v) {
    if (v->shape.dtype != x->shape.dtype || v->rank() != x->rank()) return false;
    for (int64_t d = 0; d < x->rank(); ++d)
      if (d != dim && v->dim(d) != x->dim(d)) return false;
    return true;
  };
  for (Node* v : b.values())
    if (parts.size() < 4 && fits(v) && b.draws.chance(50)) {
      parts.insert(parts.begin() + b.draws.below(int64_t(parts.size()) + 1), v);
      bound = std::max(bound, b.bound(v));
    }
  return b.add(hlo::concatenate(parts, dim), bound);
}

Node* cut(Node* x, int64_t dim, int64_t from, int64_t to) {
  Dims starts(x->dims().size(), 0), limits = x->dims();
  starts[static_cast<size_t>(dim)] = from;
  limits[static_cast<size_t>(dim)] = to;
  return hlo::slice(x, starts, limits, Dims(starts.size(), 1));
}

// x rotated along a dim, or with its ends wrapped round it: how frameworks write roll and periodic
// padding.
Node* rotated(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  const int64_t dim = b.draws.below(x->rank()), size = x->dim(dim);
  if (size < 2) return nullptr;
  const int64_t at = b.draws.between(1, size - 1);
  std::vector<Node*> parts{cut(x, dim, at, size)};
  if (b.draws.chance(40)) parts.push_back(x);
  parts.push_back(cut(x, dim, 0, b.draws.chance(70) ? at : b.draws.between(1, at)));
  return b.add(hlo::concatenate(parts, dim), b.bound(x));
}

Node* reversed(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  Attributes attrs;
  attrs.dimensions = b.some_of(x->rank(), 50);
  if (attrs.dimensions.empty()) attrs.dimensions = {b.draws.below(x->rank())};
  return b.add(emit(b.c, Opcode::reverse, {x}, attrs), b.bound(x));
}

Node* counted(Builder& b, Node*) {
  static const std::vector<DType> all{DType::s32, DType::f32, DType::u8, DType::bf16};
  const Shape shape(b.draws.one_of(all), b.sizes(b.draws.between(1, 3)));
  return b.add(hlo::iota(b.c, shape, b.draws.below(shape.rank())), 9);
}

Node* constant(Builder& b, Node*) {
  static const std::vector<DType> all{DType::s32, DType::f32, DType::pred, DType::s8};
  const Shape shape(b.draws.one_of(all), b.sizes(b.draws.between(0, 2)));
  Array literal(shape);
  for (int64_t i = 0; i < literal.size(); ++i)
    literal.set(i, double(shape.dtype == DType::pred ? b.draws.below(2) : b.draws.between(-4, 4)));
  return b.add(hlo::constant(b.c, literal), 4);
}

}  // namespace

std::vector<Family> shape_families() {
  return {{3, transposed}, {2, any_reshape}, {4, regrouped},    {3, broadcasted},
          {3, sliced},     {3, padded},      {3, concatenated}, {2, rotated},
          {2, reversed},   {1, counted},     {1, constant}};
}

}  // namespace gspmd::testing
