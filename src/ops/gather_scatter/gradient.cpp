#include "ops/common/gradient.h"

#include <algorithm>
#include <cmath>

#include "gspmd/ops/builders.h"
#include "ops/common/check.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace gspmd {
namespace {

// The largest start that each component of an index vector may have, at the indices' shape.
Node* largest_starts(Node* indices, const SliceDims& slices, const Dims& operand,
                     const Dims& window) {
  Computation& c = indices->parent();
  const DType dtype = indices->shape.dtype;
  const bool is_signed = is_signed_integer(dtype);
  const double most =
      std::ldexp(1.0, static_cast<int>(8 * dtype_size(dtype)) - (is_signed ? 1 : 0)) - 1;
  Array limits(dtype, {static_cast<int64_t>(slices.index_to_operand.size())});
  bool equal = true;
  for (int64_t i = 0; i < limits.size(); ++i) {
    const auto d = static_cast<size_t>(slices.index_to_operand[static_cast<size_t>(i)]);
    limits.set(i, std::min(static_cast<double>(operand[d] - window[d]), most));
    equal = equal && limits.at(i) == limits.at(0);
  }
  if (limits.size() == 0) return zeros_like(*indices);
  if (equal) return hlo::splat(c, indices->shape, limits.at(0));
  return hlo::broadcast(hlo::constant(c, limits), indices->dims(), {slices.index_vector_dim});
}

// Sizes of a slice in the operand's dims, from those of the sliced array.
Dims window_sizes(const SliceDims& slices, int64_t operand_rank, const Dims& sliced) {
  Dims sizes(static_cast<size_t>(operand_rank), 1);
  for (size_t i = 0; i < slices.window_operand.size(); ++i)
    sizes[static_cast<size_t>(slices.window_operand[i])] =
        sliced[static_cast<size_t>(slices.window_result[i])];
  return sizes;
}

// A gather moves starts inside, a scatter would drop them: the starts are moved first.
std::vector<Node*> gather(Node& y, Node* c) {
  Node* const operand = y.operand(0);
  Node* const indices = y.operand(1);
  const SliceDims slices = gather_slice_dims(y);
  const GatherDims& from = y.attrs.gather;
  Node* const limits = largest_starts(indices, slices, operand->dims(), y.attrs.slice_sizes);
  Node* const inside = emit(y.parent(), Opcode::clamp, {zeros_like(*indices), indices, limits});
  ScatterDims dims;
  dims.update_window_dims = from.offset_dims;
  dims.inserted_window_dims = from.collapsed_slice_dims;
  dims.scatter_dims_to_operand_dims = from.start_index_map;
  dims.input_batching_dims = from.operand_batching_dims;
  dims.scatter_indices_batching_dims = from.start_indices_batching_dims;
  dims.index_vector_dim = from.index_vector_dim;
  Computation* const add = binary_computation(y.parent().module(), Opcode::add, y.shape.dtype);
  return {hlo::scatter(zeros_like(*operand), inside, c, dims, add), nullptr};
}

// Whether each element of the updates was added: its slice lies inside the operand.
Node* kept_updates(Node& y, const SliceDims& slices, const Dims& window) {
  Node* const indices = y.operand(1);
  Node* const updates = y.operand(2);
  Node* const limits = largest_starts(indices, slices, y.dims(), window);
  Node* inside =
      hlo::binary(Opcode::and_, hlo::compare(indices, zeros_like(*indices), Direction::ge),
                  hlo::compare(indices, limits, Direction::le));
  if (slices.index_vector_dim < indices->rank()) {
    Computation* const both = binary_computation(y.parent().module(), Opcode::and_, DType::pred);
    inside = hlo::reduce(inside, hlo::scalar(y.parent(), DType::pred, 1), {slices.index_vector_dim},
                         both);
  }
  return hlo::broadcast(inside, updates->dims(), slices.batch_result);
}

std::vector<Node*> scatter(Node& y, Node* c) {
  if (recognize_combiner(*y.called[0]) != Combiner::sum)
    user_error("scatter: \"{}\" has no gradient: its combiner {} is not a sum", y.name(),
               y.called[0]->name());
  const SliceDims slices = scatter_slice_dims(y);
  const ScatterDims& from = y.attrs.scatter;
  Node* const updates = y.operand(2);
  GatherDims dims;
  dims.offset_dims = from.update_window_dims;
  dims.collapsed_slice_dims = from.inserted_window_dims;
  dims.start_index_map = from.scatter_dims_to_operand_dims;
  dims.operand_batching_dims = from.input_batching_dims;
  dims.start_indices_batching_dims = from.scatter_indices_batching_dims;
  dims.index_vector_dim = from.index_vector_dim;
  const Dims window = window_sizes(slices, y.rank(), updates->dims());
  Node* const taken = hlo::gather(c, y.operand(1), dims, window);
  Node* const kept = kept_updates(y, slices, window);
  return {c, nullptr, hlo::select(kept, taken, zeros_like(*updates))};
}

}  // namespace

std::vector<Node*> gather_gradient(Node& node, Node* cotangent) {
  return floats_only<gather>(node, cotangent);
}

std::vector<Node*> scatter_gradient(Node& node, Node* cotangent) {
  if (node.shape.is_tuple)
    user_error(
        "scatter: \"{}\" has no gradient: it updates {} arrays together; scatter them one by one",
        node.name(), node.operands().size() / 2);
  return floats_only<scatter>(node, cotangent);
}

}  // namespace gspmd
