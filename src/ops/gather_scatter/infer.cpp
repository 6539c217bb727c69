#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/gather_scatter/gather_scatter.h"

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

}  // namespace gspmd
