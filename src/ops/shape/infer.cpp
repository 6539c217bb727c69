#include <fmt/format.h>

#include <limits>

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

void check_list_size(const Node& node, std::string_view attribute, size_t size, int64_t wanted) {
  if (static_cast<int64_t>(size) != wanted)
    user_error("{}: {} has {} entries, {} are needed", opcode_name(node.opcode()), attribute, size,
               wanted);
}

void check_result_dtype(const Node& node, const Shape& operand, const Shape& declared) {
  if (operand.dtype != declared.dtype)
    user_error("{}: operand {} and result {} differ in element type; convert first",
               opcode_name(node.opcode()), to_string(operand), to_string(declared));
}

// low + high + dim + max(dim - 1, 0) * interior, or nullopt where no array has such a size.
std::optional<int64_t> padded_size(int64_t dim, const PaddingDim& padding) {
  constexpr int64_t kWide = int64_t(1) << 60;
  for (const int64_t amount : {dim, padding.low, padding.high, padding.interior})
    if (amount > kWide || amount < -kWide) return std::nullopt;
  int64_t inner = 0;
  int64_t total = 0;
  if (__builtin_mul_overflow(std::max<int64_t>(dim - 1, 0), padding.interior, &inner) ||
      __builtin_add_overflow(dim, inner, &total) ||
      __builtin_add_overflow(total, padding.low, &total) ||
      __builtin_add_overflow(total, padding.high, &total) || total > kWide)
    return std::nullopt;
  return total;
}

// Start indices of a dynamic slice: one integer scalar per dim of the operand.
void check_starts(const Node& node, int64_t first, int64_t rank) {
  check_operand_count(node, first + rank, first + rank);
  for (int64_t i = 0; i < rank; ++i) {
    const Shape& index = scalar_operand(node, first + i);
    if (!is_integer(index.dtype))
      user_error("{}: start index {} is {}; it has to be an integer", opcode_name(node.opcode()), i,
                 to_string(index));
    if (index.dtype != node.operand(first)->shape.dtype)
      user_error("{}: start indices {} and {} differ in element type", opcode_name(node.opcode()),
                 to_string(node.operand(first)->shape), to_string(index));
  }
}

}  // namespace

Shape infer_reshape(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  const Shape declared = checked_size(node, declared_array(node));
  check_result_dtype(node, x, declared);
  if (x.elements_count() != declared.elements_count())
    user_error("reshape: operand {} has {} elements, result {} has {}; a reshape keeps the count",
               to_string(x), x.elements_count(), to_string(declared), declared.elements_count());
  return declared;
}

Shape infer_broadcast(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  const Shape declared = checked_size(node, declared_array(node));
  check_result_dtype(node, x, declared);
  check_list_size(node, "dimensions", node.attrs.dimensions.size(), x.rank());
  check_dim_list(node, "dimensions", node.attrs.dimensions, declared.rank());
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const int64_t target = node.attrs.dimensions[i];
    if (x.dims[i] != declared.dims[static_cast<size_t>(target)])
      user_error(
          "broadcast: dim {} of operand {} is dim {} of result {}; their sizes have to be equal", i,
          to_string(x), target, to_string(declared));
  }
  return declared;
}

Shape infer_transpose(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  check_list_size(node, "dimensions", node.attrs.dimensions.size(), x.rank());
  check_dim_list(node, "dimensions", node.attrs.dimensions, x.rank());
  Dims dims;
  for (const int64_t d : node.attrs.dimensions) dims.push_back(x.dims[static_cast<size_t>(d)]);
  return Shape(x.dtype, std::move(dims));
}

Shape infer_reverse(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  check_dim_list(node, "dimensions", node.attrs.dimensions, x.rank());
  return Shape(x.dtype, x.dims);
}

Shape infer_concatenate(const Node& node) {
  check_operand_count(node, 1, -1);
  const Shape& first = array_operand(node, 0);
  check_list_size(node, "dimensions", node.attrs.dimensions.size(), 1);
  check_dim_list(node, "dimensions", node.attrs.dimensions, first.rank());
  const auto dim = static_cast<size_t>(node.attrs.dimensions[0]);
  Shape result(first.dtype, first.dims);
  for (size_t i = 1; i < node.operands().size(); ++i) {
    const Shape& x = array_operand(node, static_cast<int64_t>(i));
    check_same_dtype(node, 0, static_cast<int64_t>(i));
    Dims dims = x.dims;
    if (dims.size() == first.dims.size()) dims[dim] = first.dims[dim];
    if (dims != first.dims)
      user_error("concatenate: operands {} and {} differ outside dim {}", to_string(first),
                 to_string(x), dim);
    if (__builtin_add_overflow(result.dims[dim], x.dims[dim], &result.dims[dim]))
      user_error("concatenate: dim {} of the result has more than {} elements", dim, kMax);
  }
  return checked_size(node, std::move(result));
}

Shape infer_pad(const Node& node) {
  check_operand_count(node, 2);
  const Shape& x = array_operand(node, 0);
  const Shape& value = scalar_operand(node, 1);
  if (x.dtype != value.dtype)
    user_error("pad: operand {} and padding value {} differ in element type", to_string(x),
               to_string(value));
  check_list_size(node, "padding", node.attrs.padding.size(), x.rank());
  Shape result(x.dtype, x.dims);
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const PaddingDim& padding = node.attrs.padding[d];
    if (padding.interior < 0)
      user_error("pad: interior padding {} of dim {} is negative", padding.interior, d);
    const std::optional<int64_t> size = padded_size(x.dims[d], padding);
    if (!size || *size < 0)
      user_error("pad: dim {} of {} padded by {}_{}_{} has no valid size; pad by less", d,
                 to_string(x), padding.low, padding.high, padding.interior);
    result.dims[d] = *size;
  }
  return checked_size(node, std::move(result));
}

Shape infer_slice(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  const Attributes& attrs = node.attrs;
  check_list_size(node, "slice starts", attrs.starts.size(), x.rank());
  check_list_size(node, "slice limits", attrs.limits.size(), x.rank());
  if (!attrs.strides.empty())
    check_list_size(node, "slice strides", attrs.strides.size(), x.rank());
  Shape result(x.dtype, x.dims);
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const int64_t start = attrs.starts[d];
    const int64_t limit = attrs.limits[d];
    const int64_t stride = attrs.strides.empty() ? 1 : attrs.strides[d];
    if (start < 0 || limit < start || limit > x.dims[d] || stride < 1)
      user_error(
          "slice: [{}:{}:{}] of dim {} of {} needs 0 <= start <= limit <= {} and stride >= 1",
          start, limit, stride, d, to_string(x), x.dims[d]);
    result.dims[d] = limit == start ? 0 : (limit - start - 1) / stride + 1;
  }
  return result;
}

Shape infer_dynamic_slice(const Node& node) {
  const Shape& x = array_operand(node, 0);
  check_starts(node, 1, x.rank());
  check_list_size(node, "dynamic_slice_sizes", node.attrs.slice_sizes.size(), x.rank());
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const int64_t size = node.attrs.slice_sizes[d];
    if (size < 0 || size > x.dims[d])
      user_error("dynamic-slice: size {} of dim {} is outside 0 .. {} of {}", size, d, x.dims[d],
                 to_string(x));
  }
  return Shape(x.dtype, node.attrs.slice_sizes);
}

Shape infer_dynamic_update_slice(const Node& node) {
  const Shape& x = array_operand(node, 0);
  const Shape& update = array_operand(node, 1);
  check_same_dtype(node, 0, 1);
  if (x.rank() != update.rank())
    user_error("dynamic-update-slice: operand {} and update {} differ in rank", to_string(x),
               to_string(update));
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (update.dims[d] > x.dims[d])
      user_error("dynamic-update-slice: dim {} of update {} is larger than that of operand {}", d,
                 to_string(update), to_string(x));
  check_starts(node, 2, x.rank());
  return Shape(x.dtype, x.dims);
}

Shape infer_iota(const Node& node) {
  check_operand_count(node, 0);
  const Shape declared = checked_size(node, declared_array(node));
  if (declared.dtype == DType::pred || declared.dtype == DType::token)
    user_error("iota: {} cannot count; use a number type", to_string(declared));
  if (node.attrs.index < 0 || node.attrs.index >= declared.rank())
    user_error("iota: iota_dimension={} is outside the {} dims of {}", node.attrs.index,
               declared.rank(), to_string(declared));
  return declared;
}

}  // namespace gspmd
