#include "ops/gather_scatter/gather_scatter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/kernels/indexed_slices.h"
#include "gspmd/ops/builders.h"
#include "ops/common/check.h"
#include "ops/common/combine_values.h"
#include "ops/common/factors.h"
#include "ops/common/loops.h"
#include "ops/common/widen.h"
#include "ops/gather_scatter/batch.h"
#include "ops/gather_scatter/form.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

// The attributes that gather and scatter share, by their names in each.
struct IndexAttributes {
  const char* window_name;
  const Dims& window;
  const char* dropped_name;
  const Dims& dropped;
  const char* map_name;
  const Dims& map;
  const Dims& operand_batching;
  const Dims& indices_batching;
  int64_t index_vector_dim;
};

void check_index_vector(const Node& node, const Shape& indices, const IndexAttributes& attrs) {
  if (!is_integer(indices.dtype))
    user_error("{}: the indices are {}; they have to be integers", opcode_name(node.opcode()),
               to_string(indices));
  if (attrs.index_vector_dim < 0 || attrs.index_vector_dim > indices.rank())
    user_error("{}: index_vector_dim={} is outside 0 .. {} of indices {}",
               opcode_name(node.opcode()), attrs.index_vector_dim, indices.rank(),
               to_string(indices));
  const int64_t components = attrs.index_vector_dim == indices.rank()
                                 ? 1
                                 : indices.dims[static_cast<size_t>(attrs.index_vector_dim)];
  if (static_cast<int64_t>(attrs.map.size()) != components)
    user_error("{}: {}={} has {} entries, the index vectors of {} have {} components",
               opcode_name(node.opcode()), attrs.map_name, braces(attrs.map), attrs.map.size(),
               to_string(indices), components);
}

void check_batching(const Node& node, const Shape& operand, const Shape& indices,
                    const IndexAttributes& attrs) {
  check_dim_list(node, "operand batching dims ", attrs.operand_batching, operand.rank());
  check_dim_list(node, "indices batching dims ", attrs.indices_batching, indices.rank());
  if (attrs.operand_batching.size() != attrs.indices_batching.size())
    user_error("{}: {} batching dims of the operand, {} of the indices; they have to pair up",
               opcode_name(node.opcode()), attrs.operand_batching.size(),
               attrs.indices_batching.size());
  if (contains(attrs.indices_batching, attrs.index_vector_dim))
    user_error("{}: dim {} of the indices cannot be both a batching dim and the index vector",
               opcode_name(node.opcode()), attrs.index_vector_dim);
  for (size_t i = 0; i < attrs.operand_batching.size(); ++i) {
    const int64_t a = attrs.operand_batching[i];
    const int64_t b = attrs.indices_batching[i];
    if (operand.dims[static_cast<size_t>(a)] != indices.dims[static_cast<size_t>(b)])
      user_error("{}: batching dims {} of {} and {} of {} differ in size",
                 opcode_name(node.opcode()), a, to_string(operand), b, to_string(indices));
  }
}

void check_index_attributes(const Node& node, const Shape& operand, const Shape& indices,
                            int64_t result_rank, const IndexAttributes& attrs) {
  check_index_vector(node, indices, attrs);
  check_dim_list(node, attrs.window_name, attrs.window, result_rank);
  check_ascending(node, attrs.window_name, attrs.window);
  check_dim_list(node, attrs.dropped_name, attrs.dropped, operand.rank());
  check_ascending(node, attrs.dropped_name, attrs.dropped);
  check_dim_list(node, attrs.map_name, attrs.map, operand.rank());
  check_batching(node, operand, indices, attrs);
  check_ascending(node, "operand batching dims ", attrs.operand_batching);
  for (const int64_t d : attrs.operand_batching)
    if (contains(attrs.dropped, d) || contains(attrs.map, d))
      user_error("{}: batching dim {} of the operand is also in {} or {}",
                 opcode_name(node.opcode()), d, attrs.dropped_name, attrs.map_name);
  const auto kept = operand.rank() - static_cast<int64_t>(attrs.dropped.size()) -
                    static_cast<int64_t>(attrs.operand_batching.size());
  if (static_cast<int64_t>(attrs.window.size()) != kept)
    user_error("{}: {}={} has {} entries, {} dims of operand {} remain inside a slice",
               opcode_name(node.opcode()), attrs.window_name, braces(attrs.window),
               attrs.window.size(), kept, to_string(operand));
}

int64_t index_batch_rank(const Shape& indices, int64_t index_vector_dim) {
  return indices.rank() - (index_vector_dim == indices.rank() ? 0 : 1);
}

}  // namespace

Shape infer_gather(const Node& node) {
  check_operand_count(node, 2);
  const Shape& operand = array_operand(node, 0);
  const Shape& indices = array_operand(node, 1);
  const GatherDims& dims = node.attrs.gather;
  const Dims& sizes = node.attrs.slice_sizes;
  const int64_t rank = index_batch_rank(indices, dims.index_vector_dim) +
                       static_cast<int64_t>(dims.offset_dims.size());
  check_index_attributes(
      node, operand, indices, rank,
      {"offset_dims", dims.offset_dims, "collapsed_slice_dims", dims.collapsed_slice_dims,
       "start_index_map", dims.start_index_map, dims.operand_batching_dims,
       dims.start_indices_batching_dims, dims.index_vector_dim});
  if (sizes.size() != operand.dims.size())
    user_error("gather: slice_sizes={} has {} entries, operand {} has {} dims", braces(sizes),
               sizes.size(), to_string(operand), operand.rank());
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (sizes[d] < 0 || sizes[d] > operand.dims[d])
      user_error("gather: slice size {} of dim {} is outside 0 .. {} of operand {}", sizes[d], d,
                 operand.dims[d], to_string(operand));
    if (contains(dims.collapsed_slice_dims, dim) && sizes[d] != 1)
      user_error("gather: collapsed dim {} has slice size {}; only size 1 can be collapsed", d,
                 sizes[d]);
    if (contains(dims.operand_batching_dims, dim) && sizes[d] > 1)
      user_error("gather: batching dim {} has slice size {}, it has to be 1", d, sizes[d]);
  }
  Shape result(operand.dtype, Dims(static_cast<size_t>(rank)));
  size_t window = 0;
  size_t batch = 0;
  Dims window_sizes;
  Dims batch_sizes;
  for (int64_t d = 0; d < operand.rank(); ++d)
    if (!contains(dims.collapsed_slice_dims, d) && !contains(dims.operand_batching_dims, d))
      window_sizes.push_back(sizes[static_cast<size_t>(d)]);
  for (int64_t d = 0; d < indices.rank(); ++d)
    if (d != dims.index_vector_dim) batch_sizes.push_back(indices.dims[static_cast<size_t>(d)]);
  for (int64_t d = 0; d < rank; ++d)
    result.dims[static_cast<size_t>(d)] =
        contains(dims.offset_dims, d) ? window_sizes[window++] : batch_sizes[batch++];
  return checked_size(node, std::move(result));
}

Shape infer_scatter(const Node& node) {
  check_operand_count(node, 3, -1);
  const auto count = static_cast<int64_t>(node.operands().size());
  if (count % 2 == 0)
    user_error("scatter: {} operands; it takes n operands, the indices and n updates", count);
  const int64_t inputs = count / 2;
  const ScatterDims& dims = node.attrs.scatter;
  const Shape& indices = array_operand(node, inputs);
  const Shape& operand = array_operand(node, 0);
  const Shape& updates = array_operand(node, inputs + 1);
  check_index_attributes(
      node, operand, indices, updates.rank(),
      {"update_window_dims", dims.update_window_dims, "inserted_window_dims",
       dims.inserted_window_dims, "scatter_dims_to_operand_dims", dims.scatter_dims_to_operand_dims,
       dims.input_batching_dims, dims.scatter_indices_batching_dims, dims.index_vector_dim});
  const int64_t wanted = index_batch_rank(indices, dims.index_vector_dim) +
                         static_cast<int64_t>(dims.update_window_dims.size());
  if (updates.rank() != wanted)
    user_error("scatter: updates {} have {} dims, indices {} and the window need {}",
               to_string(updates), updates.rank(), to_string(indices), wanted);
  const SliceDims slices = scatter_slice_dims(node);
  for (size_t i = 0; i < slices.window_result.size(); ++i) {
    const int64_t u = slices.window_result[i];
    const int64_t o = slices.window_operand[i];
    if (updates.dims[static_cast<size_t>(u)] > operand.dims[static_cast<size_t>(o)])
      user_error("scatter: window dim {} of updates {} is larger than dim {} of operand {}", u,
                 to_string(updates), o, to_string(operand));
  }
  for (size_t i = 0; i < slices.batch_result.size(); ++i) {
    const int64_t u = slices.batch_result[i];
    const int64_t s = slices.batch_indices[i];
    if (updates.dims[static_cast<size_t>(u)] != indices.dims[static_cast<size_t>(s)])
      user_error("scatter: dim {} of updates {} and dim {} of indices {} differ in size", u,
                 to_string(updates), s, to_string(indices));
  }
  std::vector<DType> types;
  std::vector<Shape> results;
  for (int64_t i = 0; i < inputs; ++i) {
    check_same_dims(node, 0, i);
    check_same_dims(node, inputs + 1, inputs + 1 + i);
    check_same_dtype(node, i, inputs + 1 + i);
    types.push_back(node.operand(i)->shape.dtype);
    results.emplace_back(types.back(), operand.dims);
  }
  check_combiner_computation(node, types);
  return tuple_unless_one(std::move(results));
}

namespace {

// Where the slices of a gather or a scatter lie, at the sizes of one node.
class Slices {
 public:
  Slices(SliceDims dims, const Array& indices, const Dims& operand, const Dims& result)
      : dims_(std::move(dims)),
        operand_(operand),
        operand_strides_(row_major_strides(operand)),
        result_strides_(row_major_strides(result)),
        index_strides_(row_major_strides(indices.dims())) {
    for (const int64_t d : dims_.batch_result) counts_.push_back(result[static_cast<size_t>(d)]);
    window_.assign(operand.size(), 1);
    for (size_t i = 0; i < dims_.window_result.size(); ++i)
      window_[static_cast<size_t>(dims_.window_operand[i])] =
          result[static_cast<size_t>(dims_.window_result[i])];
  }

  // Calls body(operand offset, result offset) for every element of every slice, slice by slice.
  // `start_of(index element, operand dim size, window size)` gives a start, nullopt drops the
  // slice.
  template <class StartOf, class Body>
  void for_each(StartOf&& start_of, Body&& body) const {
    const Dims batch_result = picked(result_strides_, dims_.batch_result);
    const Dims batch_indices = picked(index_strides_, dims_.batch_indices);
    const Dims window_operand = picked(operand_strides_, dims_.window_operand);
    const Dims window_result = picked(result_strides_, dims_.window_result);
    const Dims window = picked(window_, dims_.window_operand);
    const Dims batching = batching_strides();
    for_each_offset<3>(
        counts_, {batch_result, batch_indices, batching}, {0, 0, 0},
        [&](const std::array<int64_t, 3>& slice) {
          int64_t origin = slice[2];
          const int64_t component = component_stride();
          for (size_t i = 0; i < dims_.index_to_operand.size(); ++i) {
            const auto d = static_cast<size_t>(dims_.index_to_operand[i]);
            const std::optional<int64_t> start =
                start_of(slice[1] + static_cast<int64_t>(i) * component, operand_[d], window_[d]);
            if (!start) return;
            origin += *start * operand_strides_[d];
          }
          for_each_offset<2>(window, {window_operand, window_result}, {origin, slice[0]},
                             [&](const std::array<int64_t, 2>& at) { body(at[0], at[1]); });
        });
  }

 private:
  static Dims picked(const Dims& from, const Dims& which) {
    Dims values;
    for (const int64_t d : which) values.push_back(from[static_cast<size_t>(d)]);
    return values;
  }
  int64_t component_stride() const {
    const auto d = static_cast<size_t>(dims_.index_vector_dim);
    return d < index_strides_.size() ? index_strides_[d] : 0;
  }
  // A step along a batching dim of the indices also moves the slice's origin in the operand.
  Dims batching_strides() const {
    Dims strides(dims_.batch_indices.size(), 0);
    for (size_t i = 0; i < dims_.indices_batching.size(); ++i)
      for (size_t b = 0; b < strides.size(); ++b)
        if (dims_.batch_indices[b] == dims_.indices_batching[i])
          strides[b] = operand_strides_[static_cast<size_t>(dims_.operand_batching[i])];
    return strides;
  }

  SliceDims dims_;
  Dims operand_, operand_strides_, result_strides_, index_strides_;
  Dims counts_;  // of slices
  Dims window_;  // size of a slice in each operand dim
};

// The start of a scatter's window where it lies inside, else nullopt: such a slice is dropped
// whole.
std::optional<int64_t> inner_start(const Array& indices, int64_t element, int64_t dim,
                                   int64_t size) {
  const int64_t start = index_at(indices, element);
  if (start < 0 || start > dim - size) return std::nullopt;
  return start;
}

}  // namespace

Value evaluate_gather(const EvalContext& context) {
  const Array& operand = context.operands[0].array;
  const Array& indices = context.operands[1].array;
  const Array result(context.node.shape);
  if (result.size() == 0) return {result, {}, false};
  const auto size = static_cast<size_t>(dtype_size(result.dtype()));
  const std::byte* const in = operand.bytes().data();
  std::byte* const out = result.bytes().data();
  const Slices slices(gather_slice_dims(context.node), indices, operand.dims(), result.dims());
  slices.for_each(
      [&](int64_t element, int64_t dim, int64_t window) -> std::optional<int64_t> {
        return clamped_start(indices, element, dim, window);
      },
      [&](int64_t from, int64_t to) {
        std::memcpy(out + static_cast<size_t>(to) * size, in + static_cast<size_t>(from) * size,
                    size);
      });
  return {result, {}, false};
}

namespace {

// Of one operand, whose combiner is a known one.
Value scatter_known(const EvalContext& context) {
  const Array result = context.operands[0].array.clone();
  const Array& indices = context.operands[1].array;
  const Array& updates = context.operands[2].array;
  const Combiner combiner = *recognize_combiner(*context.node.called[0]);
  const Slices slices(scatter_slice_dims(context.node), indices, result.dims(), updates.dims());
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = AccumulatorOf<T>;
    const std::span<T> out = result.data<T>();
    const std::span<const T> in = updates.data<T>();
    std::vector<Wrapped<A>> sums;
    for (const T value : out) sums.push_back({convert_element<A>(value)});
    slices.for_each([&](int64_t element, int64_t dim,
                        int64_t window) { return inner_start(indices, element, dim, window); },
                    [&](int64_t to, int64_t from) {
                      A& sum = sums[static_cast<size_t>(to)].value;
                      sum =
                          combine(combiner, sum, convert_element<A>(in[static_cast<size_t>(from)]));
                    });
    for (size_t i = 0; i < out.size(); ++i) out[i] = convert_element<T>(sums[i].value);
  });
  return {result, {}, false};
}

}  // namespace

Value evaluate_scatter(const EvalContext& context) {
  const Node& node = context.node;
  const size_t inputs = node.operands().size() / 2;
  const Array& indices = context.operands[inputs].array;
  std::vector<Array> results;
  std::vector<Array> updates;
  for (size_t i = 0; i < inputs; ++i) {
    results.push_back(context.operands[i].array.clone());
    updates.push_back(context.operands[inputs + 1 + i].array);
  }
  if (updates[0].size() == 0) return pack(node.shape, results);
  if (inputs == 1 && recognize_combiner(*node.called[0]))
    return evaluate_any_width(context, scatter_known);
  const Slices slices(scatter_slice_dims(node), indices, results[0].dims(), updates[0].dims());
  CalledCombiner combiner(context.call, *node.called[0], results, updates);
  slices.for_each([&](int64_t element, int64_t dim,
                      int64_t window) { return inner_start(indices, element, dim, window); },
                  [&](int64_t to, int64_t from) { combiner.combine(to, from); });
  return pack(node.shape, results);
}

namespace {

Dims picked(const Dims& from, const Dims& which) {
  Dims values;
  for (const int64_t d : which) values.push_back(from[static_cast<size_t>(d)]);
  return values;
}

// `sliced` is the operand of a gather or scatter; `dense` the gather's result or the updates.
IndexedSlices indexed_slices(const SliceDims& dims, const Node& sliced, const Node& indices,
                             const Shape& dense) {
  const Dims sliced_strides = row_major_strides(sliced.dims());
  const Dims dense_strides = row_major_strides(dense.dims);
  const Dims index_strides = row_major_strides(indices.dims());
  IndexedSlices s;
  s.dtype = sliced.shape.dtype;
  s.index_dtype = indices.shape.dtype;
  s.counts = picked(dense.dims, dims.batch_result);
  s.batch = picked(dense_strides, dims.batch_result);
  s.batch_indices = picked(index_strides, dims.batch_indices);
  s.batch_origin.assign(s.counts.size(), 0);
  for (size_t i = 0; i < dims.indices_batching.size(); ++i) {
    for (size_t b = 0; b < s.counts.size(); ++b) {
      if (dims.batch_indices[b] != dims.indices_batching[i]) continue;
      s.batch_origin[b] = sliced_strides[static_cast<size_t>(dims.operand_batching[i])];
    }
  }
  s.window = {dtype_size(s.dtype), picked(dense.dims, dims.window_result),
              picked(sliced_strides, dims.window_operand),
              picked(dense_strides, dims.window_result)};
  Dims window(sliced.dims().size(), 1);
  for (size_t i = 0; i < dims.window_operand.size(); ++i) {
    window[static_cast<size_t>(dims.window_operand[i])] = s.window.dims[i];
  }
  const auto vector = static_cast<size_t>(dims.index_vector_dim);
  const int64_t step = vector < index_strides.size() ? index_strides[vector] : 0;
  for (size_t i = 0; i < dims.index_to_operand.size(); ++i) {
    const auto d = static_cast<size_t>(dims.index_to_operand[i]);
    s.components.push_back(
        {static_cast<int64_t>(i) * step, sliced_strides[d], sliced.dims()[d] - window[d]});
  }
  return s;
}

bool movable(DType dtype) { return dtype_size(dtype) >= 1 && dtype_size(dtype) <= 8; }

}  // namespace

PreparedKernel lower_gather(const Node& node) {
  if (!movable(node.shape.dtype)) return {};
  return prepare_gather(
      indexed_slices(gather_slice_dims(node), *node.operand(0), *node.operand(1), node.shape));
}

// What a scatter of one array does with its updates; nullopt: something of its own.
static std::optional<ScatterCombiner> scatter_combiner(const Computation& computation) {
  if (const std::optional<Combiner> combiner = recognize_combiner(computation))
    return static_cast<ScatterCombiner>(*combiner);
  const Node* handed = computation.root();
  while (handed->is(Opcode::copy)) handed = handed->operand(0);
  if (handed == computation.parameters().at(1)) return ScatterCombiner::update;
  return std::nullopt;
}

PreparedKernel lower_scatter(const Node& node) {
  if (node.operands().size() != 3) return {};
  const std::optional<ScatterCombiner> combiner = scatter_combiner(*node.called.at(0));
  if (!combiner) return {};
  return prepare_scatter(indexed_slices(scatter_slice_dims(node), *node.operand(0),
                                        *node.operand(1), node.operand(2)->shape),
                         *combiner, node.shape.elements_count());
}

namespace {

SliceDims slice_dims(int64_t operand_rank, int64_t result_rank, int64_t indices_rank,
                     const Dims& window, const Dims& dropped, const Dims& batching,
                     const Dims& indices_batching, const Dims& map, int64_t index_vector_dim) {
  SliceDims dims;
  dims.window_result = window;
  for (int64_t d = 0; d < operand_rank; ++d)
    if (!contains(dropped, d) && !contains(batching, d)) dims.window_operand.push_back(d);
  for (int64_t d = 0; d < result_rank; ++d)
    if (!contains(window, d)) dims.batch_result.push_back(d);
  for (int64_t d = 0; d < indices_rank; ++d)
    if (d != index_vector_dim) dims.batch_indices.push_back(d);
  dims.index_to_operand = map;
  dims.operand_batching = batching;
  dims.indices_batching = indices_batching;
  dims.index_vector_dim = index_vector_dim;
  return dims;
}

const OpInfo kGatherScatterRows[] = {
    {.opcode = Opcode::gather,
     .traits = kDataMovement | kIntegerPreserving | kFixedLayout | kPlacedOnAll,
     .operands = {2, 2},
     .infer = infer_gather,
     .factors = gather_factors,
     .evaluate = evaluate_gather,
     .gradient = gather_gradient,
     .completion = {gather_forward, gather_suggestions},
     .partition = partition_gather,
     .on_part = slice_sizes_on_part,
     .lower = lower_gather,
     .batch = batch_gather},
    {.opcode = Opcode::scatter,
     .traits = kIntegerPreserving | kFixedLayout | kPlacedOnAll | kWritesFirst,
     .operands = {3, -1},
     .infer = infer_scatter,
     .factors = scatter_factors,
     .evaluate = evaluate_scatter,
     .gradient = scatter_gradient,
     .differentiable_form = scatter_form,
     .completion = {.forward = scatter_forward,
                    .suggestions = scatter_suggestions,
                    .operands_confer = true},
     .partition = partition_scatter,
     .lower = lower_scatter,
     .batch = batch_scatter},
};

}  // namespace

SliceDims gather_slice_dims(const Node& node) {
  const GatherDims& dims = node.attrs.gather;
  return slice_dims(node.operand(0)->rank(), node.rank(), node.operand(1)->rank(), dims.offset_dims,
                    dims.collapsed_slice_dims, dims.operand_batching_dims,
                    dims.start_indices_batching_dims, dims.start_index_map, dims.index_vector_dim);
}

SliceDims scatter_slice_dims(const Node& node) {
  const ScatterDims& dims = node.attrs.scatter;
  const auto inputs = static_cast<int64_t>(node.operands().size()) / 2;
  return slice_dims(
      node.operand(0)->rank(), node.operand(inputs + 1)->rank(), node.operand(inputs)->rank(),
      dims.update_window_dims, dims.inserted_window_dims, dims.input_batching_dims,
      dims.scatter_indices_batching_dims, dims.scatter_dims_to_operand_dims, dims.index_vector_dim);
}

std::span<const OpInfo> gather_scatter_rows() { return kGatherScatterRows; }

}  // namespace gspmd
