#include "programs/builder.h"

#include <cmath>

namespace gspmd::testing {

uint64_t Draws::next() {
  state_ += 0x9e3779b97f4a7c15ull;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (z ^ (z >> 31)) >> 1;
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p53;
    case DType::f32:
    case DType::c64:
      return 0x1p24;
    case DType::f16:
      return 0x1p11;
    case DType::bf16:
      return 0x1p8;
    default:
      return 0x1p62;  // integers wrap round, in any order the same
  }
}

bool is_number(DType dtype) { return is_floating(dtype) || is_integer(dtype); }

Node* Builder::add(Node* value, double bound) {
  values_.push_back(value);
  if (bound >= 0) bounds_[value] = bound;
  return value;
}

double Builder::bound(const Node* value) const {
  const auto known = bounds_.find(value);
  if (known != bounds_.end()) return known->second;
  switch (value->shape.dtype) {
    case DType::pred:
      return 1;
    case DType::s8:
      return 128;
    case DType::u8:
      return 255;
    case DType::s16:
    case DType::u16:
      return 0x1p16;
    case DType::s32:
    case DType::u32:
      return 0x1p32;
    default:
      return largest(value->shape.dtype);
  }
}

Node* Builder::pick() {
  const auto count = static_cast<int64_t>(values_.size());
  const int64_t recent = std::min<int64_t>(count, 4);
  const int64_t at = draws.chance(60) ? count - 1 - draws.below(recent) : draws.below(count);
  return values_[static_cast<size_t>(at)];
}

Node* Builder::pick_numbers() {
  for (int tries = 0; tries < 8; ++tries)
    if (Node* x = pick(); is_number(x->shape.dtype)) return x;
  return of_shape(Shape(DType::s32, sizes(draws.between(1, 3))));
}

Node* Builder::fitting(Node* x, double bound) {
  if (x->shape.dtype == DType::pred || this->bound(x) <= bound) return x;
  const DType dtype = x->shape.dtype;
  const double most = std::min(bound, is_integer(dtype) && dtype_size(dtype) == 1 ? 100.0 : 1e9);
  if (is_complex(dtype)) {
    const DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
    Node* real = emit(c, Opcode::real, {x}, {}, Shape(part, x->dims()));
    return emit(c, Opcode::complex, {fitting(real, bound), hlo::splat(c, real->shape, 1)}, {},
                x->shape);
  }
  if (draws.chance(50)) {
    Node* low = scalar(dtype, is_unsigned_integer(dtype) ? 0 : -std::floor(most));
    Node* kept = emit(c, Opcode::clamp, {low, x, scalar(dtype, std::floor(most))});
    bounds_[kept] = most;
    return kept;
  }
  const double modulus = std::floor(std::min(most, 16.0)) + 1;
  Node* kept = hlo::binary(Opcode::remainder, x, hlo::splat(c, x->shape, modulus));
  bounds_[kept] = modulus - 1;
  return kept;
}

Node* Builder::like(Node* x) {
  std::vector<Node*> fits;
  for (Node* v : values_)
    if (v->shape == x->shape) fits.push_back(v);
  if (fits.size() > 1 || draws.chance(30))
    return draws.one_of(fits.empty() ? std::vector{x} : fits);
  return of_shape(x->shape);
}

Node* Builder::of_shape(const Shape& shape) {
  std::vector<Node*> same, convertible, smaller;
  for (Node* v : values_) {
    if (v->shape == shape) same.push_back(v);
    const bool converts =
        v->shape.dtype == shape.dtype || (is_number(v->shape.dtype) && is_number(shape.dtype));
    if (converts && v->dims() == shape.dims) convertible.push_back(v);
    if (converts && v->rank() == 1 && shape.rank() > 1 && v->dim(0) == shape.dims.back())
      smaller.push_back(v);
  }
  if (!same.empty() && draws.chance(80)) return draws.one_of(same);
  const auto converted = [&](Node* v) {
    if (v->shape.dtype == shape.dtype) return v;
    Node* fit = fitting(v, std::min({largest(shape.dtype), largest(v->shape.dtype), 120.0}));
    Node* result = hlo::convert(fit, shape.dtype);
    bounds_[result] = is_unsigned_integer(shape.dtype) ? 0x1p32 : std::min(bound(fit), 120.0);
    return result;
  };
  if (!convertible.empty() && draws.chance(80)) return converted(draws.one_of(convertible));
  if (!smaller.empty() && draws.chance(60)) {
    Node* v = converted(draws.one_of(smaller));
    Node* result = hlo::broadcast(v, shape.dims, {shape.rank() - 1});
    bounds_[result] = bound(v);
    return result;
  }
  if (shape.dtype == DType::pred || shape.rank() == 0 || draws.chance(30)) {
    const double value = double(draws.between(0, 1 + 2 * (shape.dtype != DType::pred)) -
                                (shape.dtype != DType::pred && !is_unsigned_integer(shape.dtype)));
    Node* result = hlo::splat(c, shape, shape.dtype == DType::pred ? draws.below(2) : value);
    bounds_[result] = 4;
    return result;
  }
  Node* result = hlo::iota(c, shape, draws.below(shape.rank()));
  bounds_[result] = 64;
  return result;
}

Node* Builder::index() {
  if (draws.chance(40)) return scalar(DType::s32, double(draws.between(-2, 10)));
  Node* x = pick();
  if (!is_integer(x->shape.dtype)) return scalar(DType::s32, double(draws.between(0, 6)));
  if (x->rank() > 0) {
    Dims starts, limits;
    for (int64_t d = 0; d < x->rank(); ++d) {
      starts.push_back(draws.below(x->dim(d)));
      limits.push_back(starts.back() + 1);
    }
    x = hlo::reshape(hlo::slice(x, starts, limits, Dims(starts.size(), 1)), {});
  }
  if (x->shape.dtype != DType::s32) x = hlo::convert(x, DType::s32);
  if (draws.chance(70))
    x = hlo::binary(Opcode::remainder, x, scalar(DType::s32, double(draws.between(3, 11))));
  return x;
}

Computation* Builder::combiner(Opcode opcode, DType dtype) {
  return binary_computation(c.module(), opcode, dtype);
}

int64_t Builder::size() {
  static const std::vector<int64_t> all{1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9};
  return draws.one_of(all);
}

Dims Builder::sizes(int64_t rank) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(size());
  return dims;
}

Dims Builder::shuffled(int64_t n) {
  Dims order;
  for (int64_t i = 0; i < n; ++i) order.insert(order.begin() + draws.below(i + 1), i);
  return order;
}

Dims Builder::some_of(int64_t n, int64_t percent) {
  Dims list;
  for (int64_t i = 0; i < n; ++i)
    if (draws.chance(percent)) list.push_back(i);
  return list;
}

void Builder::step() {
  static const std::vector<Family> families = [] {
    std::vector<Family> all;
    for (const auto& list :
         {elementwise_families(), shape_families(), sum_families(), window_families(),
          index_families(), order_families(), control_families(), region_families()})
      for (const Family& family : list)
        for (int64_t i = 0; i < family.weight; ++i) all.push_back(family);
    return all;
  }();
  constexpr int64_t kMostElements = 3000;
  for (int tries = 0; tries < 6; ++tries) {
    Node* const x = pick();
    Node* const made = draws.one_of(families).make(*this, x);
    if (made == nullptr || made == x) continue;
    if (made->shape.is_tuple || made->shape.elements_count() > kMostElements) continue;
    if (std::find(values_.begin(), values_.end(), made) == values_.end()) add(made, bound(made));
    return;
  }
}

}  // namespace gspmd::testing
