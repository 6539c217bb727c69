// Reductions and dots.

#include <cmath>

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

Node* reduced(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  const DType dtype = x->shape.dtype;
  Dims dims = b.some_of(x->rank(), 50);
  if (dims.empty()) dims = {b.draws.below(x->rank())};
  double count = 1;
  for (const int64_t d : dims) count *= double(x->dim(d));
  std::vector<Opcode> fits;
  if (dtype == DType::pred) fits = {Opcode::and_, Opcode::or_};
  if (dtype != DType::pred) fits = {Opcode::add, Opcode::add, Opcode::add};
  if (is_number(dtype)) fits.insert(fits.end(), {Opcode::maximum, Opcode::minimum});
  if (is_integer(dtype)) fits.insert(fits.end(), {Opcode::multiply, Opcode::or_, Opcode::xor_});
  const Opcode opcode = b.draws.one_of(fits);
  double bound = b.bound(x);
  if (opcode == Opcode::add) {
    x = b.fitting(x, largest(dtype) / (count + 1));
    bound = b.bound(x) * (count + 1);
  }
  bound = std::max(bound, 7.0);
  double start = 0;
  if (dtype == DType::pred)
    start = opcode == Opcode::and_;
  else if (opcode == Opcode::multiply)
    start = 1;
  else if (opcode == Opcode::maximum)
    start = is_unsigned_integer(dtype) ? 0 : -7;
  else if (opcode == Opcode::minimum)
    start = 7;
  if (opcode == Opcode::add && b.draws.chance(25)) start = 3;
  return b.add(hlo::reduce(x, b.scalar(dtype, start), dims, b.combiner(opcode, dtype)), bound);
}

// (value, index) pairs: the larger value, of equal ones the smaller index, or that which comes
// last.
Computation* larger_pair(Module& module, DType dtype, bool smaller_index) {
  Computation* c = module.add_computation("larger_pair");
  Node* parts[4];
  for (int64_t i = 0; i < 4; ++i)
    parts[i] = hlo::parameter(*c, i, Shape(i % 2 ? DType::s32 : dtype, {}));
  Node* first = hlo::compare(parts[0], parts[2], Direction::gt);
  Node* same = hlo::compare(parts[0], parts[2], Direction::eq);
  Node* earlier = hlo::compare(parts[1], parts[3], Direction::lt);
  Node* keeps = hlo::binary(Opcode::or_, first, hlo::binary(Opcode::and_, same, earlier));
  if (!smaller_index) keeps = first;
  c->set_root(hlo::tuple(
      *c, {hlo::select(keeps, parts[0], parts[2]), hlo::select(keeps, parts[1], parts[3])}));
  return c;
}

Node* largest_at(Builder& b, Node* x) {
  if (x->rank() == 0 || !is_integer(x->shape.dtype) || is_unsigned_integer(x->shape.dtype))
    return nullptr;
  const int64_t dim = b.draws.below(x->rank());
  Node* at = hlo::iota(b.c, Shape(DType::s32, x->dims()), dim);
  Attributes attrs;
  attrs.dimensions = {dim};
  if (b.draws.chance(20) && x->rank() > 1) attrs.dimensions = {0, 1};
  const double bound = b.bound(x);
  const DType dtype = x->shape.dtype;
  const double start = b.draws.chance(50) ? -100 : 1;
  Node* pair = emit(b.c, Opcode::reduce, {x, at, b.scalar(dtype, start), b.index()}, attrs, {},
                    {larger_pair(b.c.module(), dtype, b.draws.chance(50))});
  Node* index = b.add(hlo::get_tuple_element(pair, 1));
  if (b.draws.chance(40)) return index;
  return b.add(hlo::get_tuple_element(pair, 0), std::max(bound, 100.0));
}

// x times a value that shares some of its dims; made where there is none.
Node* contracted(Builder& b, Node* x) {
  if (x->rank() == 0 || !is_number(x->shape.dtype)) return nullptr;
  const DType dtype = x->shape.dtype;
  DotDims dims;
  Dims other;
  double count = 1;
  const Dims order = b.shuffled(x->rank());
  std::vector<std::pair<int64_t, int>> of_other;  // (dim of x or size, role)
  for (const int64_t d : order) {
    const int64_t role = b.draws.below(dims.lhs_contracting.empty() ? 3 : 5);
    if (role == 0 && x->rank() > 1) of_other.emplace_back(d, 0);
    if (role == 1 || role == 2) {
      of_other.emplace_back(d, 1);
      dims.lhs_contracting.push_back(d);
      count *= double(x->dim(d));
    }
    if (of_other.size() == 3) break;
  }
  while (of_other.size() < 3 && b.draws.chance(60)) of_other.emplace_back(b.size(), 2);
  if (of_other.empty()) return nullptr;
  dims.lhs_contracting.clear();
  const Dims places = b.shuffled(int64_t(of_other.size()));
  for (const int64_t place : places) {
    const auto [value, role] = of_other[static_cast<size_t>(place)];
    const auto at = static_cast<int64_t>(other.size());
    other.push_back(role == 2 ? value : x->dim(value));
    if (role == 0) {
      dims.lhs_batch.push_back(value);
      dims.rhs_batch.push_back(at);
    } else if (role == 1) {
      dims.lhs_contracting.push_back(value);
      dims.rhs_contracting.push_back(at);
    }
  }
  const double limit = largest(dtype);
  Node* y =
      b.fitting(b.of_shape(Shape(dtype, other)), std::max(1.0, std::min(100.0, limit / count)));
  x = b.fitting(x, std::max(1.0, limit / (count * std::max(b.bound(y), 1.0))));
  const double bound = count * b.bound(x) * b.bound(y);
  if (bound > limit && is_floating(dtype)) return nullptr;
  return b.add(hlo::dot(x, y, dims), bound);
}

// x times itself, some dims contracted: one value in two layouts.
Node* squared(Builder& b, Node* x) {
  if (x->rank() == 0 || x->rank() > 2 || !is_number(x->shape.dtype)) return nullptr;
  const int64_t d = b.draws.below(x->rank());
  const double count = double(x->dim(d)), limit = largest(x->shape.dtype);
  x = b.fitting(x, std::max(1.0, std::sqrt(limit / count) - 1));
  const double bound = count * b.bound(x) * b.bound(x);
  if (bound > limit && is_floating(x->shape.dtype)) return nullptr;
  return b.add(hlo::dot(x, x, {{}, {}, {d}, {d}}), bound);
}

}  // namespace

std::vector<Family> sum_families() {
  return {{5, reduced}, {1, largest_at}, {6, contracted}, {1, squared}};
}

}  // namespace gspmd::testing
