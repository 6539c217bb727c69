#include "ops/scan/scan.h"

#include <cstring>

#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/loops.h"
#include "ops/rows.h"
#include "ops/scan/form.h"

namespace gspmd {
namespace {

Dims without_dim(const Shape& shape, int64_t dim) {
  Dims dims = shape.dims;
  dims.erase(dims.begin() + dim);
  return dims;
}

Dims with_dim(const Shape& slice, int64_t dim, int64_t size) {
  Dims dims = slice.dims;
  dims.insert(dims.begin() + dim, size);
  return dims;
}

Shape infer_scan(const Node& node) {
  const ScanParts parts = scan_parts(node);
  std::vector<Shape> parameters, results;
  for (int64_t i = 0; i < parts.inputs; ++i) {
    const Shape& input = node.operand(i)->shape;
    parameters.emplace_back(input.dtype, without_dim(input, parts.dim));
  }
  for (int64_t i = 0; i < parts.carries; ++i)
    parameters.push_back(array_operand(node, parts.inputs + i));
  const Computation& body = *node.called[0];
  check_parameters(node, body, parameters);
  const std::vector<Shape> returned = scan_results(body.root()->shape);
  if (parts.outputs < 0)
    user_error("scan: computation {} returns {}, it has to return {} carries", body.name(),
               to_string(body.root()->shape), parts.carries);
  for (int64_t i = 0; i < parts.outputs; ++i) {
    const Shape& slice = returned[static_cast<size_t>(i)];
    if (slice.is_tuple || parts.dim > slice.rank())
      user_error("scan: computation {} returns {} as output {}, which cannot have dim {}",
                 body.name(), to_string(slice), i, parts.dim);
    results.push_back(
        checked_size(node, Shape(slice.dtype, with_dim(slice, parts.dim, parts.length))));
  }
  for (int64_t i = 0; i < parts.carries; ++i) {
    const Shape& carry = returned[static_cast<size_t>(parts.outputs + i)];
    if (!(carry == node.operand(parts.inputs + i)->shape))
      user_error("scan: computation {} returns carry {} as {}, it starts as {}", body.name(), i,
                 to_string(carry), to_string(node.operand(parts.inputs + i)->shape));
    results.push_back(carry);
  }
  if (!node.shape.is_tuple) return tuple_unless_one(std::move(results));
  return Shape::tuple(std::move(results));
}

// Copies between element `at` of dim `dim` of `whole` and the slice.
void copy_slice(const Array& whole, const Array& slice, int64_t dim, int64_t at, bool into_slice) {
  const Dims strides = row_major_strides(whole.dims());
  Dims outer = strides;
  outer.erase(outer.begin() + dim);
  const StridedView in_whole{whole, outer, at * strides[static_cast<size_t>(dim)]};
  const StridedView in_slice{slice, row_major_strides(slice.dims()), 0};
  if (into_slice)
    copy_elements(slice.dims(), in_slice, in_whole);
  else
    copy_elements(slice.dims(), in_whole, in_slice);
}

Value evaluate_scan(const EvalContext& context) {
  const Node& node = context.node;
  const ScanParts parts = scan_parts(node);
  std::vector<Array> outputs;
  const std::vector<Shape> shapes = scan_results(node.shape);
  for (int64_t i = 0; i < parts.outputs; ++i) outputs.emplace_back(shapes[static_cast<size_t>(i)]);
  std::vector<Value> carries(context.operands.begin() + parts.inputs, context.operands.end());
  for (int64_t step = 0; step < parts.length; ++step) {
    const int64_t at = node.attrs.scalar->is_reverse ? parts.length - 1 - step : step;
    std::vector<Value> arguments;
    for (int64_t i = 0; i < parts.inputs; ++i) {
      const Array& input = context.operands[static_cast<size_t>(i)].array;
      const Array slice(input.dtype(), without_dim(input.shape(), parts.dim));
      copy_slice(input, slice, parts.dim, at, true);
      arguments.push_back({slice, {}, false});
    }
    arguments.insert(arguments.end(), carries.begin(), carries.end());
    const std::vector<Array> returned = leaves(context.call(*node.called[0], arguments));
    for (size_t i = 0; i < outputs.size(); ++i)
      copy_slice(outputs[i], returned[i], parts.dim, at, false);
    for (size_t i = 0; i < carries.size(); ++i)
      carries[i] = {returned[outputs.size() + i], {}, false};
  }
  std::vector<Array> results = std::move(outputs);
  for (const Value& carry : carries) results.push_back(carry.array);
  return pack(node.shape, results);
}

int64_t scan_flops(const Node& node) {
  int64_t flops = 0;
  for (const Shape& leaf : leaf_shapes(node.shape))
    flops += std::min(leaf.elements_count(), int64_t(1) << 50);
  return flops;
}

const OpInfo kScanRows[] = {
    {.opcode = Opcode::scan,
     .traits = kFixedLayout | kMadeAsOne,
     .operands = {1, -1},
     .infer = infer_scan,
     .factors = scan_factors,
     .evaluate = evaluate_scan,
     .differentiable_form = scan_form,
     .completion = {scan_forward, scan_suggestions},
     .partition = partition_scan,
     .called_on_part = scan_called_on_part,
     .flops = scan_flops,
     .batch = batch_in_loop},
};

}  // namespace

std::vector<Shape> scan_results(const Shape& shape) {
  return shape.is_tuple ? shape.elements : std::vector<Shape>{shape};
}

ScanParts scan_parts(const Node& node) {
  check_operand_count(node, 1, -1);
  const auto count = static_cast<int64_t>(node.operands().size());
  ScanParts parts;
  // Modules that leave the number out have one carry per input.
  parts.carries = node.attrs.scalar->num_carries > 0 ? node.attrs.scalar->num_carries : count / 2;
  parts.inputs = count - parts.carries;
  if (parts.carries > count || parts.inputs < 1)
    user_error(
        "scan: {} operands with num_carries={}; it takes at least one input before the "
        "carries",
        count, parts.carries);
  const Shape& first = array_operand(node, 0);
  const Dims& dims = node.attrs.dimensions;
  if (dims.size() != 1 || dims[0] < 0 || dims[0] >= first.rank())
    user_error("scan: dimensions={} of {}; it scans exactly one dim of its inputs", braces(dims),
               to_string(first));
  parts.dim = dims[0];
  parts.length = first.dims[static_cast<size_t>(parts.dim)];
  for (int64_t i = 0; i < parts.inputs; ++i) {
    const Shape& input = array_operand(node, i);
    if (parts.dim >= input.rank() || input.dims[static_cast<size_t>(parts.dim)] != parts.length)
      user_error("scan: input {} is {}, dim {} has {} elements in input 0", i, to_string(input),
                 parts.dim, parts.length);
  }
  const Computation& body = called_computation(node, 0, 1);
  parts.outputs = static_cast<int64_t>(scan_results(body.root()->shape).size()) - parts.carries;
  return parts;
}

std::span<const OpInfo> scan_rows() { return kScanRows; }

}  // namespace gspmd
