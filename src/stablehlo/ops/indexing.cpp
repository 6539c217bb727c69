// Gather and scatter.
#include "stablehlo/ops/indexing.h"

#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {
namespace {

Node* lower_gather(OpLowering& op) {
  op.need_operands(2, 2);
  return emit_gather(op, op.integers("slice_sizes"));
}

Node* lower_scatter(OpLowering& op) {
  Attributes attrs;
  ScatterDims dims;
  for (const NamedAttribute& field : op.fields(op.attribute("scatter_dimension_numbers"))) {
    const Dims values = op.integers_of(field.value, field.name);
    if (field.name == "update_window_dims")
      dims.update_window_dims = values;
    else if (field.name == "inserted_window_dims")
      dims.inserted_window_dims = values;
    else if (field.name == "input_batching_dims")
      dims.input_batching_dims = values;
    else if (field.name == "scatter_indices_batching_dims")
      dims.scatter_indices_batching_dims = values;
    else if (field.name == "scatter_dims_to_operand_dims")
      dims.scatter_dims_to_operand_dims = values;
    else if (field.name == "index_vector_dim" && values.size() == 1)
      dims.index_vector_dim = values[0];
    else
      op.fail("scatter_dimension_numbers has no {}", field.name);
  }
  attrs.scatter = std::move(dims);
  attrs.indices_are_sorted = op.flag("indices_are_sorted", false);
  attrs.unique_indices = op.flag("unique_indices", false);
  Computation* const body = op.body(0, "region");
  return op.emit(Opcode::scatter, op.operands(), std::move(attrs), {}, {body});
}

// clang-format off
const OpRow kIndexingRows[] = {
    {"stablehlo.gather", lower_gather, Opcode::gather},
    {"stablehlo.scatter", lower_scatter, Opcode::scatter},
};
// clang-format on

}  // namespace

Node* emit_gather(OpLowering& op, Dims slice_sizes) {
  Attributes attrs;
  GatherDims dims;
  for (const NamedAttribute& field : op.fields(op.attribute("dimension_numbers"))) {
    const Dims values = op.integers_of(field.value, field.name);
    if (field.name == "offset_dims")
      dims.offset_dims = values;
    else if (field.name == "collapsed_slice_dims")
      dims.collapsed_slice_dims = values;
    else if (field.name == "operand_batching_dims")
      dims.operand_batching_dims = values;
    else if (field.name == "start_indices_batching_dims")
      dims.start_indices_batching_dims = values;
    else if (field.name == "start_index_map")
      dims.start_index_map = values;
    else if (field.name == "index_vector_dim" && values.size() == 1)
      dims.index_vector_dim = values[0];
    else
      op.fail("dimension_numbers has no {}", field.name);
  }
  attrs.gather = std::move(dims);
  attrs.slice_sizes = std::move(slice_sizes);
  attrs.indices_are_sorted = op.flag("indices_are_sorted", false);
  return op.emit(Opcode::gather, {op.operand(0), op.operand(1)}, std::move(attrs));
}

std::span<const OpRow> indexing_rows() { return kIndexingRows; }

}  // namespace gspmd::stablehlo
