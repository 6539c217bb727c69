// Products of sparse matrices as JAX calls them on the CPU, and buffers that nothing has filled.

#include <complex>
#include <string_view>

#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/element_ops.h"
#include "ops/common/factors.h"
#include "ops/library/library.h"

namespace gspmd::library {
namespace {

constexpr std::string_view kSparseTarget = "cpu_csr_sparse_dense_ffi";
constexpr std::string_view kBufferTarget = "AllocateBuffer";

Shape declared_result(const Node& node) {
  for (const Shape& leaf : leaf_shapes(node.shape)) checked_size(node, leaf);
  return node.shape;
}

// What is wrong with the call, or "": elements [e], where each row begins [m + 1], columns [e], and
// a dense [n] or [n, k]; the result is [m] or [m, k].
std::string sparse_problem(const Node& node) {
  if (node.operands().size() != 4 || node.shape.is_tuple)
    return fmt::format("{} operands; it has elements, starts of rows, columns and a dense array",
                       node.operands().size());
  for (const Node* operand : node.operands())
    if (operand->shape.is_tuple) return "an operand is a tuple";
  const Shape &elements = node.operand(0)->shape, &starts = node.operand(1)->shape;
  const Shape &columns = node.operand(2)->shape, &dense = node.operand(3)->shape;
  if (elements.rank() != 1 || starts.rank() != 1 || columns.rank() != 1 ||
      columns.dims != elements.dims || starts.dims[0] < 1)
    return fmt::format("elements {}, starts of rows {} and columns {}; all have one dim",
                       to_string(elements), to_string(starts), to_string(columns));
  const bool indexed =
      starts.dtype == columns.dtype && (starts.dtype == DType::s32 || starts.dtype == DType::s64);
  if (!indexed || elements.dtype != dense.dtype || elements.dtype != node.shape.dtype)
    return fmt::format(
        "elements {}, starts of rows {}, dense {}; elements are of one type, indices "
        "s32 or s64",
        to_string(elements), to_string(starts), to_string(dense));
  Dims dims = dense.dims;
  if (dims.empty() || dims.size() > 2) return fmt::format("dense {}", to_string(dense));
  dims[0] = starts.dims[0] - 1;
  if (node.dims() != dims)
    return fmt::format("its result is {}; {} rows of {} make {}", to_string(node.shape), dims[0],
                       to_string(dense), to_string(Shape(dense.dtype, dims)));
  return "";
}

// The dense array's columns pass; elements of a row are anywhere.
FactorRule sparse_factors(const Node& node) {
  FactorRule rule = whole_factors(node);
  if (!sparse_problem(node).empty() || node.rank() != 2) return rule;
  rule.scalars_start = false;
  const int64_t factor = add_factor(rule, node.dim(1));
  rule.operands[3][1] = rule.results[0][1] = factor;
  return rule;
}

struct SparseSizes {
  int64_t rows, width, inner, elements;
};

template <class T, class I>
void multiply_sparse(const EvalContext& context, const SparseSizes& sizes, const Array& result) {
  const auto elements = context.operands[0].array.data<T>();
  const auto starts = context.operands[1].array.data<I>();
  const auto columns = context.operands[2].array.data<I>();
  const auto dense = context.operands[3].array.data<T>();
  const auto out = result.data<T>();  // arrays begin as zeros
  for (int64_t row = 0; row < sizes.rows; ++row) {
    const auto first = static_cast<int64_t>(starts[static_cast<size_t>(row)]);
    const auto last = static_cast<int64_t>(starts[static_cast<size_t>(row + 1)]);
    if (first < 0 || last < first || last > sizes.elements)
      user_error("custom-call: \"{}\": row {} has elements {} to {} of {}", context.node.name(),
                 row, first, last, sizes.elements);
    for (int64_t e = first; e < last; ++e) {
      const auto column = static_cast<int64_t>(columns[static_cast<size_t>(e)]);
      if (column < 0 || column >= sizes.inner)
        user_error("custom-call: \"{}\": element {} is in column {} of {}", context.node.name(), e,
                   column, sizes.inner);
      const T element = elements[static_cast<size_t>(e)];
      for (int64_t k = 0; k < sizes.width; ++k) {
        T& sum = out[static_cast<size_t>(row * sizes.width + k)];
        const T factor = dense[static_cast<size_t>(column * sizes.width + k)];
        sum = add_elements(sum, multiply_elements(element, factor));
      }
    }
  }
}

template <class T>
void multiply_sparse(const EvalContext& context, const SparseSizes& sizes, const Array& result) {
  if (context.node.operand(1)->shape.dtype == DType::s64)
    multiply_sparse<T, int64_t>(context, sizes, result);
  else
    multiply_sparse<T, int32_t>(context, sizes, result);
}

Value evaluate_sparse(const EvalContext& context) {
  const Node& node = context.node;
  const std::string problem = sparse_problem(node);
  if (!problem.empty())
    user_error("custom-call: \"{}\" of target \"{}\" cannot run: {}", node.name(), kSparseTarget,
               problem);
  const Shape& dense = context.operands[3].array.shape();
  const SparseSizes sizes{context.operands[1].array.size() - 1,
                          dense.rank() == 2 ? dense.dims[1] : 1, dense.dims[0],
                          context.operands[0].array.size()};
  const Array result(Shape(dense.dtype, node.dims()));
  switch (dense.dtype) {
    case DType::f32:
      multiply_sparse<float>(context, sizes, result);
      break;
    case DType::f64:
      multiply_sparse<double>(context, sizes, result);
      break;
    case DType::s32:
      multiply_sparse<int32_t>(context, sizes, result);
      break;
    case DType::c64:
      multiply_sparse<std::complex<float>>(context, sizes, result);
      break;
    case DType::c128:
      multiply_sparse<std::complex<double>>(context, sizes, result);
      break;
    default:
      user_error(
          "custom-call: \"{}\" of target \"{}\" cannot run: elements are {}; use f32, f64, "
          "s32, c64 or c128",
          node.name(), kSparseTarget, dtype_name(dense.dtype));
  }
  return pack(node.shape, {&result, 1});
}

Value evaluate_buffer(const EvalContext& context) {
  std::vector<Array> leaves;  // arrays begin as zeros
  for (const Shape& leaf : leaf_shapes(context.node.shape))
    leaves.emplace_back(Shape(leaf.dtype, leaf.dims));
  return pack(context.node.shape, leaves);
}

const OpInfo kSparseRow{.opcode = Opcode::custom_call,
                        .traits = kMadeAsOne,
                        .operands = {1, -1},
                        .infer = declared_result,
                        .factors = sparse_factors,
                        .evaluate = evaluate_sparse,
                        .completion = kBatchCompletion,
                        .on_part = constraints_on_part,
                        .batch = batch_in_loop};

const OpInfo kBufferRow{.opcode = Opcode::custom_call,
                        .traits = kMadeAsOne,
                        .operands = {0, 0},
                        .infer = declared_result,
                        .factors = whole_factors,
                        .evaluate = evaluate_buffer,
                        .completion = kBatchCompletion,
                        .batch = batch_in_loop};

}  // namespace

const OpInfo* sparse_row(const Node& custom_call) {
  return *custom_call.attrs.custom_call_target == kSparseTarget ? &kSparseRow : nullptr;
}

const OpInfo* buffer_row(const Node& custom_call) {
  const bool empty =
      *custom_call.attrs.custom_call_target == kBufferTarget && custom_call.operands().empty();
  return empty ? &kBufferRow : nullptr;
}

}  // namespace gspmd::library
