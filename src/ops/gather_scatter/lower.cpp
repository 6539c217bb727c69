#include "ops/shape/lower.h"

#include "gspmd/kernels/indexed_slices.h"
#include "gspmd/ops/builders.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace gspmd {
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

PreparedKernel lower_scatter(const Node& node) {
  const std::optional<Combiner> combiner = recognize_combiner(*node.called.at(0));
  if (node.operands().size() != 3 || !combiner) return {};
  return prepare_scatter(indexed_slices(scatter_slice_dims(node), *node.operand(0),
                                        *node.operand(1), node.operand(2)->shape),
                         static_cast<ScatterCombiner>(*combiner), node.shape.elements_count());
}

}  // namespace gspmd
