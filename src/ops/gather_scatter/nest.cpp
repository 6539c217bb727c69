#include "ops/gather_scatter/nest.h"

#include <algorithm>
#include <optional>

#include "gspmd/base/error.h"
#include "ops/common/check.h"

namespace gspmd {
namespace {

constexpr int kMostNodes = 64;  // through how many nodes a value is followed
constexpr int64_t kMostElements = 65'536;

// The one node that runs a computation; nullptr where there are several.
const Node* caller_of(const Computation& computation) {
  const Node* caller = nullptr;
  for (const auto& other : computation.module().computations())
    for (const auto& node : other->nodes())
      for (const Computation* called : node->called) {
        if (called != &computation) continue;
        if (caller) return nullptr;
        caller = node.get();
      }
  return caller;
}

// Element `index` of a tuple: the value itself where it can be found.
const Node* element_of(const Node* tuple, int64_t index, int steps);

// What an argument of a call or branch is outside.
const Node* argument(const Node& parameter) {
  const Node* caller = caller_of(parameter.parent());
  if (!caller) return nullptr;
  if (caller->is(Opcode::call)) return caller->operand(parameter.attrs.index);
  if (!caller->is(Opcode::conditional)) return nullptr;
  for (size_t b = 0; b < caller->called.size() && b + 1 < caller->operands().size(); ++b)
    if (caller->called[b] == &parameter.parent()) return caller->operands()[b + 1];
  return nullptr;
}

// A loop hands element `index` on unchanged.
bool is_invariant(const Node& loop, int64_t index) {
  const Node* root = loop.called.at(1)->root();
  if (!root->is(Opcode::tuple) || index >= static_cast<int64_t>(root->operands().size()))
    return false;
  const Node* next = root->operand(index);
  return next->is(Opcode::get_tuple_element) && next->attrs.index == index &&
         next->operand(0)->is(Opcode::parameter);
}

const Node* element_of(const Node* tuple, int64_t index, int steps) {
  for (; tuple && steps > 0; --steps) {
    if (tuple->is(Opcode::tuple))
      return index < static_cast<int64_t>(tuple->operands().size()) ? tuple->operand(index)
                                                                    : nullptr;
    const Node* loop = tuple->is(Opcode::while_) ? tuple : nullptr;
    if (tuple->is(Opcode::parameter)) {
      const Node* caller = caller_of(tuple->parent());
      if (caller && caller->is(Opcode::while_)) loop = caller;
    }
    if (loop) {
      if (!is_invariant(*loop, index)) return nullptr;
      tuple = loop->operand(0);
    } else if (tuple->is(Opcode::optimization_barrier) || tuple->is(Opcode::copy)) {
      tuple = tuple->operand(0);
    } else {
      tuple = tuple->is(Opcode::parameter) ? argument(*tuple) : nullptr;
    }
  }
  return nullptr;
}

// The node that a value is a copy of.
const Node* source_of(const Node& value) {
  const Node* at = &value;
  for (int steps = kMostNodes; steps > 0; --steps) {
    const Node* next = nullptr;
    if (at->is(Opcode::copy))
      next = at->operand(0);
    else if (at->is(Opcode::parameter))
      next = argument(*at);
    else if (at->is(Opcode::get_tuple_element))
      next = element_of(at->operand(0), at->attrs.index, steps);
    if (!next || next->shape.is_tuple) return at;
    at = next;
  }
  return at;
}

int64_t counting_dim_of_literal(const Node& constant) {
  const Shape& shape = constant.shape;
  if (constant.attrs.literal.empty()) return -1;
  if (!is_integer(shape.dtype) || shape.elements_count() > kMostElements) return -1;
  const Dims strides = row_major_strides(shape.dims);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const int64_t size = shape.dims[static_cast<size_t>(d)];
    if (size <= 1) continue;
    bool counts = true;
    for (int64_t i = 0; i < shape.elements_count() && counts; ++i)
      counts = constant.attrs.literal.at(i) ==
               static_cast<double>(i / strides[static_cast<size_t>(d)] % size);
    if (counts) return d;
  }
  return -1;
}

// The dim along which indices count 0, 1, 2, ...; -1 where they do not.
int64_t counting_dim(const Node& indices, int steps) {
  if (steps == 0) return -1;
  const Node& source = *source_of(indices);
  if (source.is(Opcode::iota)) return source.attrs.index;
  if (source.is(Opcode::broadcast)) {
    const int64_t dim = counting_dim(*source.operand(0), steps - 1);
    return dim < 0 ? -1 : source.attrs.dimensions.at(static_cast<size_t>(dim));
  }
  return source.is(Opcode::constant) ? counting_dim_of_literal(source) : -1;
}

// For each of `components` components of index vectors along `vector_dim` the batch dim of the
// indices whose position it is, or -1: indices that look up position i at position i. Seen through
// copies, concatenations, broadcasts, constants, and values that loops and branches hand on.
std::vector<int64_t> counting_components(const Node& indices, int64_t vector_dim,
                                         size_t components) {
  std::vector<int64_t> result(components, -1);
  const auto set = [&](const Node& part, size_t begin, size_t count) {
    const int64_t dim = counting_dim(part, kMostNodes);
    for (size_t i = begin; i < std::min(components, begin + count); ++i)
      if (dim != vector_dim) result[i] = dim;
  };
  const Node& source = *source_of(indices);
  if (!source.is(Opcode::concatenate) || source.attrs.dimensions.at(0) != vector_dim) {
    set(source, 0, components);
    return result;
  }
  size_t begin = 0;
  for (const Node* part : source.operands()) {
    const auto count = static_cast<size_t>(part->dim(vector_dim));
    set(*part, begin, count);
    begin += count;
  }
  return result;
}

constexpr int64_t kNone = -1;
constexpr int64_t kMostPositions = int64_t(1) << 31;  // a device's offset along a dim is an s32

size_t at(int64_t d) { return static_cast<size_t>(d); }

// The dim of the slices that runs over dim `d` of the indices.
int64_t slices_dim_of(const SliceDims& dims, int64_t d) {
  const auto found = std::find(dims.batch_indices.begin(), dims.batch_indices.end(), d);
  if (found == dims.batch_indices.end())
    internal_error("gather: dim {} of the indices has no slices", d);
  return dims.batch_result[static_cast<size_t>(found - dims.batch_indices.begin())];
}

// Whether the positions 0 .. size-1 are numbers of the type, so that counting does not wrap around.
bool can_count(DType type, int64_t size) {
  const int64_t bits = 8 * dtype_size(type) - (is_signed_integer(type) ? 1 : 0);
  return bits > 32 || size <= (int64_t(1) << bits);
}

void add_batch_loops(IndexNest& nest, bool dealt_out) {
  const SliceDims& dims = nest.dims;
  for (size_t i = 0; i < dims.batch_indices.size(); ++i) {
    const int64_t b = dims.batch_indices[i];
    const auto shared = std::find(dims.indices_batching.begin(), dims.indices_batching.end(), b);
    if (shared != dims.indices_batching.end()) {
      const int64_t d =
          dims.operand_batching[static_cast<size_t>(shared - dims.indices_batching.begin())];
      nest.loops.push_back({IndexMethod::batching, d, b, dims.batch_result[i]});
    } else if (dealt_out) {
      nest.loops.push_back({IndexMethod::batch, kNone, b, dims.batch_result[i]});
    }
  }
}

// Slices of one element whose index counts along a dim of the same size.
void add_parallel_loops(IndexNest& nest, const Node& indices) {
  const SliceDims& dims = nest.dims;
  const std::vector<int64_t> counted =
      counting_components(indices, dims.index_vector_dim, dims.index_to_operand.size());
  for (size_t i = 0; i < counted.size(); ++i) {
    const int64_t d = dims.index_to_operand[i], b = counted[i];
    if (b < 0 || nest.window[at(d)] != 1 || nest.operand[at(d)] != nest.indices[at(b)]) continue;
    if (nest.operand[at(d)] < 2 || nest.operand[at(d)] >= kMostPositions ||
        contains(dims.indices_batching, b) || !can_count(indices.shape.dtype, nest.operand[at(d)]))
      continue;
    nest.loops.push_back({IndexMethod::parallel, d, b, slices_dim_of(dims, b)});
  }
}

void add_operand_loops(IndexNest& nest) {
  const SliceDims& dims = nest.dims;
  for (int64_t d = 0; d < std::ssize(nest.operand); ++d) {
    if (contains(dims.operand_batching, d)) continue;
    const auto kept = std::find(dims.window_operand.begin(), dims.window_operand.end(), d);
    const bool spans =
        kept != dims.window_operand.end() && nest.window[at(d)] == nest.operand[at(d)];
    if (spans)
      nest.loops.push_back(
          {IndexMethod::window, d, kNone,
           dims.window_result[static_cast<size_t>(kept - dims.window_operand.begin())]});
    else if (nest.operand[at(d)] < kMostPositions)
      nest.loops.push_back({IndexMethod::cut, d, kNone, kNone});
  }
}

IndexNest make_nest(SliceDims dims, const Node& operand, const Node& indices, const Dims& slices,
                    bool dealt_out, bool by_position) {
  IndexNest nest;
  nest.dims = std::move(dims);
  nest.operand = operand.dims();
  nest.indices = indices.dims();
  nest.slices = slices;
  nest.window.assign(nest.operand.size(), 1);
  for (size_t i = 0; i < nest.dims.window_operand.size(); ++i)
    nest.window[at(nest.dims.window_operand[i])] = slices[at(nest.dims.window_result[i])];
  add_batch_loops(nest, dealt_out);
  if (by_position) add_parallel_loops(nest, indices);
  add_operand_loops(nest);
  return nest;
}

}  // namespace

int64_t dim_of(const IndexLoop& loop, IndexArray array) {
  if (array == IndexArray::operand && loop.method == IndexMethod::part) return -1;  // it is whole
  return array == IndexArray::operand   ? loop.operand
         : array == IndexArray::indices ? loop.indices
                                        : loop.slices;
}

IndexNest gather_nest(const Node& node, bool by_position) {
  IndexNest nest = make_nest(gather_slice_dims(node), *node.operand(0), *node.operand(1),
                             node.dims(), true, by_position);
  for (size_t i = 0; i < nest.dims.window_operand.size(); ++i) {
    const int64_t d = nest.dims.window_operand[i];
    if (nest.window[at(d)] > 1 && nest.window[at(d)] < nest.operand[at(d)] &&
        nest.operand[at(d)] < kMostPositions)
      nest.loops.push_back({IndexMethod::part, d, kNone, nest.dims.window_result[i]});
  }
  return nest;
}

IndexNest scatter_nest(const Node& node, bool sums, bool by_position) {
  const auto inputs = static_cast<int64_t>(node.operands().size()) / 2;
  IndexNest nest = make_nest(scatter_slice_dims(node), *node.operand(0), *node.operand(inputs),
                             node.operand(inputs + 1)->dims(), sums, by_position);
  nest.sums_batches = true;
  return nest;
}

namespace {

// The factor that `position` looks up in place of an operand dim, kNone where it cannot: two dims
// of the operand would be one.
int64_t factor_looked_up(const IndexNest& nest, const IndexLoop& position,
                         const IndexFactors& known) {
  const auto is_rival = [&](const IndexLoop& l) {
    return l.method == IndexMethod::parallel && l.indices == position.indices;
  };
  const int64_t factor = known.indices[at(position.indices)];
  const bool rivals = std::count_if(nest.loops.begin(), nest.loops.end(), is_rival) > 1;
  return rivals || std::count(known.operand.begin(), known.operand.end(), factor) ? kNone : factor;
}

}  // namespace

IndexFactors index_factors(const IndexNest& nest, bool by_position, const Factor& dealt) {
  IndexFactors made;
  made.operand.assign(nest.operand.size(), kNone);
  made.indices.assign(nest.indices.size(), kNone);
  made.slices.assign(nest.slices.size(), kNone);
  const auto add = [&](int64_t size, FactorKind kind, Combiner combiner = Combiner::sum) {
    made.factors.push_back({size, kind, combiner});
    return std::ssize(made.factors) - 1;
  };
  for (const IndexLoop& loop : nest.loops) {
    if (loop.method == IndexMethod::cut || loop.method == IndexMethod::part) continue;
    const bool deals = loop.method == IndexMethod::batch;
    int64_t factor = kNone;
    if (loop.method != IndexMethod::parallel)
      factor = add(nest.slices[at(loop.slices)], deals ? dealt.kind : FactorKind::pass,
                   deals ? dealt.combiner : Combiner::sum);
    else if (by_position)
      factor = factor_looked_up(nest, loop, made);
    if (factor == kNone) continue;
    made.factors[at(factor)].kind = deals ? dealt.kind : FactorKind::pass;
    if (loop.operand >= 0) made.operand[at(loop.operand)] = factor;
    if (loop.indices >= 0) made.indices[at(loop.indices)] = factor;
    if (loop.slices >= 0) made.slices[at(loop.slices)] = factor;
  }
  const auto block = [&](std::vector<int64_t>& dims, const Dims& sizes) {
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] == kNone) dims[d] = add(sizes[d], FactorKind::blocked);
  };
  block(made.operand, nest.operand);
  block(made.indices, nest.indices);
  block(made.slices, nest.slices);
  return made;
}

std::vector<int64_t> dims_of(const IndexNest& nest, IndexMethod method, IndexArray array,
                             std::vector<int64_t> dims) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (std::none_of(nest.loops.begin(), nest.loops.end(), [&](const IndexLoop& loop) {
          return loop.method == method && dim_of(loop, array) == static_cast<int64_t>(d);
        }))
      dims[d] = kNone;
  return dims;
}

Digits IndexFactorSharding::of(const IndexNest& nest, IndexMethod method) const {
  Digits result;
  for (size_t l = 0; l < loops.size(); ++l)
    if (nest.loops[l].method == method)
      result.insert(result.end(), loops[l].begin(), loops[l].end());
  return result;
}

Digits IndexFactorSharding::dim(const IndexNest& nest, IndexArray array, int64_t d) const {
  Digits first, then;
  for (size_t l = 0; l < loops.size(); ++l) {
    if (loops[l].empty() || dim_of(nest.loops[l], array) != d) continue;
    (nest.loops[l].method == IndexMethod::parallel ? first : then) = loops[l];
  }
  return concat(std::move(first), then);
}

Sharding IndexFactorSharding::layout(const IndexNest& nest, IndexArray array) const {
  const size_t rank = (array == IndexArray::operand   ? nest.operand
                       : array == IndexArray::indices ? nest.indices
                                                      : nest.slices)
                          .size();
  if (!order) return Sharding::replicated();
  std::vector<Digits> dims;
  for (size_t d = 0; d < rank; ++d) dims.push_back(dim(nest, array, static_cast<int64_t>(d)));
  return Sharding::tiled(order, std::move(dims), manual);
}

Digits IndexFactorSharding::partial(const IndexNest& nest) const {
  return of(nest, nest.sums_batches ? IndexMethod::batch : IndexMethod::cut);
}

namespace {

// Shards over `outer` and `inner` tiles lie inside the shards over `outer` tiles alone.
bool nests(int64_t size, const Digits& outer, const Digits& inner) {
  if (outer.empty() || inner.empty()) return true;
  const int64_t parts = tile_count(outer), finer = tile_count(inner);
  return ceil_div(size, parts) == finer * ceil_div(size, parts * finer);
}

}  // namespace

bool is_valid(const IndexNest& nest, const IndexFactorSharding& spread) {
  Digits used = spread.manual;
  for (const Digits& digits : spread.loops)
    for (const Digit& digit : digits) {
      if (!disjoint({digit}, used)) return false;
      used.push_back(digit);
    }
  for (size_t p = 0; p < nest.loops.size(); ++p) {
    if (nest.loops[p].method == IndexMethod::part && !spread.loops[p].empty())
      for (size_t l = 0; l < nest.loops.size(); ++l)
        if (l != p && nest.loops[l].operand == nest.loops[p].operand && !spread.loops[l].empty())
          return false;
    if (nest.loops[p].method != IndexMethod::parallel || spread.loops[p].empty()) continue;
    for (size_t l = 0; l < nest.loops.size(); ++l) {
      if (l == p || spread.loops[l].empty()) continue;
      const bool same_operand = nest.loops[l].operand == nest.loops[p].operand;
      const bool same_indices = nest.loops[l].indices == nest.loops[p].indices;
      if (!same_operand && !same_indices) continue;
      if (nest.loops[l].method == IndexMethod::parallel) return false;
      if (!nests(nest.operand[at(nest.loops[p].operand)], spread.loops[p], spread.loops[l]))
        return false;
    }
  }
  return true;
}

}  // namespace gspmd
