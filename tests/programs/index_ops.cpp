// Gather, scatter, dynamic-slice and dynamic-update-slice, in bounds and out of them.

#include <cmath>

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

Node* dynamic_part(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  std::vector<Node*> starts;
  Dims sizes = x->dims();
  for (int64_t& size : sizes) {
    const bool whole = b.draws.chance(40);
    starts.push_back(whole && b.draws.chance(70) ? b.scalar(DType::s32, 0) : b.index());
    if (!whole) size = b.draws.between(1, size);
  }
  const double bound = b.bound(x);
  if (b.draws.chance(50)) return b.add(hlo::dynamic_slice(x, starts, sizes), bound);
  Node* part = b.of_shape(Shape(x->shape.dtype, sizes));
  std::vector<Node*> operands{x, part};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return b.add(emit(b.c, Opcode::dynamic_update_slice, operands), std::max(bound, b.bound(part)));
}

// Whole numbers of any value, mostly within 0 .. most.
Node* indices(Builder& b, Dims dims, int64_t most) {
  static const std::vector<DType> all{DType::s32, DType::s32, DType::u8, DType::u32};
  Node* x = b.of_shape(Shape(b.draws.one_of(all), std::move(dims)));
  if (b.draws.chance(75))
    x = hlo::binary(Opcode::remainder, x,
                    hlo::splat(b.c, x->shape, double(most + b.draws.between(1, 2))));
  return x;
}

struct Lookup {
  GatherDims gather;
  Dims slice_sizes, index_dims;
};

// Which dims of x are looked up, batched, or passed through.
Lookup lookup(Builder& b, Node* x) {
  Lookup l;
  GatherDims& g = l.gather;
  Dims batch_sizes;
  for (int64_t d = 0; d < x->rank(); ++d) {
    const int64_t role = b.draws.below(8);
    int64_t size = x->dim(d);
    if (role == 0) {
      g.operand_batching_dims.push_back(d);
      batch_sizes.push_back(x->dim(d));
      size = 1;
    } else if (role < 5 || (d + 1 == x->rank() && g.start_index_map.empty())) {
      g.start_index_map.push_back(d);
      size = b.draws.chance(60) ? 1 : b.draws.between(1, size);
      if (size == 1 && b.draws.chance(80)) g.collapsed_slice_dims.push_back(d);
    } else if (b.draws.chance(20)) {
      size = b.draws.between(1, size);
    }
    l.slice_sizes.push_back(size);
  }
  if (g.start_index_map.size() > 1 && b.draws.chance(40))
    std::swap(g.start_index_map[0], g.start_index_map[1]);
  Dims dims = b.sizes(b.draws.between(batch_sizes.empty() ? 1 : 0, batch_sizes.size() > 1 ? 1 : 2));
  // Batching dims at random places among the dims of the indices.
  for (const int64_t size : batch_sizes) {
    const int64_t at = b.draws.below(int64_t(dims.size()) + 1);
    for (int64_t& earlier : g.start_indices_batching_dims) earlier += earlier >= at;
    dims.insert(dims.begin() + at, size);
    g.start_indices_batching_dims.push_back(at);
  }
  const bool is_vector = g.start_index_map.size() != 1 || b.draws.chance(60);
  g.index_vector_dim = is_vector ? b.draws.below(int64_t(dims.size()) + 1) : int64_t(dims.size());
  l.index_dims = dims;
  if (is_vector) {
    l.index_dims.insert(l.index_dims.begin() + g.index_vector_dim,
                        int64_t(g.start_index_map.size()));
    for (int64_t& d : g.start_indices_batching_dims) d += d >= g.index_vector_dim;
  }
  const auto windows = static_cast<int64_t>(x->dims().size() - g.collapsed_slice_dims.size() -
                                            g.operand_batching_dims.size());
  const auto batches = static_cast<int64_t>(dims.size());
  Dims places = b.shuffled(windows + batches);
  if (b.draws.chance(60)) {  // windows behind the batch
    for (int64_t i = 0; i < windows; ++i) g.offset_dims.push_back(batches + i);
  } else {
    g.offset_dims.assign(places.begin(), places.begin() + windows);
    std::sort(g.offset_dims.begin(), g.offset_dims.end());
  }
  return l;
}

int64_t most_of(const Node* x, const GatherDims& g) {
  int64_t most = 1;
  for (const int64_t d : g.start_index_map) most = std::max(most, x->dim(d) - 1);
  return most;
}

Node* gathered(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  const Lookup l = lookup(b, x);
  Node* at = indices(b, l.index_dims, most_of(x, l.gather));
  return b.add(hlo::gather(x, at, l.gather, l.slice_sizes), b.bound(x));
}

Node* scattered(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  const DType dtype = x->shape.dtype;
  const Lookup l = lookup(b, x);
  const GatherDims& g = l.gather;
  ScatterDims s;
  s.update_window_dims = g.offset_dims;
  s.inserted_window_dims = g.collapsed_slice_dims;
  s.scatter_dims_to_operand_dims = g.start_index_map;
  s.input_batching_dims = g.operand_batching_dims;
  s.scatter_indices_batching_dims = g.start_indices_batching_dims;
  s.index_vector_dim = g.index_vector_dim;
  Node* at = indices(b, l.index_dims, most_of(x, g));
  Dims dims = hlo::gather(x, at, g, l.slice_sizes)->dims();  // removed with all that is not read
  std::vector<Opcode> fits{Opcode::add, Opcode::add};
  if (is_number(dtype)) fits.insert(fits.end(), {Opcode::maximum, Opcode::minimum});
  if (is_integer(dtype)) fits.push_back(Opcode::multiply);
  if (dtype == DType::pred) fits = {Opcode::or_, Opcode::and_};
  const Opcode opcode = b.draws.one_of(fits);
  Node* updates = b.of_shape(Shape(dtype, dims));
  double bound = std::max(b.bound(x), b.bound(updates));
  if (opcode == Opcode::add && dtype != DType::pred) {
    const double count = double(Shape(dtype, dims).elements_count());
    if (count * 4 > largest(dtype)) return nullptr;
    x = b.fitting(x, largest(dtype) / 2);
    updates = b.fitting(updates, std::max(1.0, std::floor(largest(dtype) / (2 * count))));
    bound = b.bound(x) + count * b.bound(updates);
  }
  return b.add(hlo::scatter(x, at, updates, s, b.combiner(opcode, dtype)), bound);
}

// Rows overwritten at places that are all different.
Node* overwritten(Builder& b, Node* x) {
  if (x->rank() == 0) return nullptr;
  const DType dtype = x->shape.dtype;
  Module& module = b.c.module();
  Computation* second = module.add_computation("second");
  hlo::parameter(*second, 0, Shape(dtype, {}));
  second->set_root(hlo::parameter(*second, 1, Shape(dtype, {})));
  const int64_t count = b.draws.between(1, x->dim(0));
  Node* at = hlo::iota(b.c, Shape(DType::s32, {count}), 0);
  if (b.draws.chance(50))
    at = hlo::binary(Opcode::subtract, hlo::splat(b.c, at->shape, double(b.draws.between(0, 8))),
                     at);
  Dims dims = x->dims();
  dims[0] = count;
  ScatterDims s;
  for (int64_t d = 1; d < x->rank(); ++d) s.update_window_dims.push_back(d);
  s.inserted_window_dims = {0};
  s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  Node* updates = b.of_shape(Shape(dtype, dims));
  const double bound = std::max(b.bound(x), b.bound(updates));
  return b.add(hlo::scatter(x, at, updates, s, second), bound);
}

}  // namespace

std::vector<Family> index_families() {
  return {{4, dynamic_part}, {5, gathered}, {4, scattered}, {1, overwritten}};
}

}  // namespace gspmd::testing
