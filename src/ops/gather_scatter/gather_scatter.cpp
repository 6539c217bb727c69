#include "ops/gather_scatter/gather_scatter.h"

#include "ops/common/check.h"
#include "ops/rows.h"
#include "ops/shape/lower.h"

namespace gspmd {
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

const OpInfo kRows[] = {
    {.opcode = Opcode::gather,
     .traits = kDataMovement | kIntegerPreserving | kFixedLayout,
     .operands = {2, 2},
     .infer = infer_gather,
     .factors = gather_factors,
     .evaluate = evaluate_gather,
     .gradient = gather_gradient,
     .completion = {gather_forward, gather_suggestions},
     .partition = partition_gather,
     .lower = lower_gather},
    {.opcode = Opcode::scatter,
     .traits = kIntegerPreserving | kFixedLayout,
     .operands = {3, -1},
     .infer = infer_scatter,
     .factors = scatter_factors,
     .evaluate = evaluate_scatter,
     .gradient = scatter_gradient,
     .completion = {.forward = scatter_forward,
                    .suggestions = scatter_suggestions,
                    .operands_confer = true},
     .partition = partition_scatter,
     .lower = lower_scatter},
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

std::span<const OpInfo> gather_scatter_rows() { return kRows; }

}  // namespace gspmd
