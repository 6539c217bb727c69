// Constants and ops that move elements.
#include <algorithm>
#include <numeric>

#include "stablehlo/lowering.h"
#include "stablehlo/ops/shape_ops.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// Literals of one value are held as broadcasts beyond this.
constexpr int64_t kMostSplatBytes = int64_t{1} << 24;

// --- Pretty forms

// "{..} dense<..> : tensor<..>", or "() <{value = ..}> {..} : () -> T".
void read_constant(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  if (cursor.accept("(")) {
    cursor.expect(")", "behind the operands of a constant");
    if (cursor.accept("<")) {
      reader.attributes().read_dictionary(cursor, op.attributes, true);
      cursor.expect(">", "behind the properties");
    }
    reader.read_dictionary(op);
    cursor.expect(":", "before the type of a constant");
    return reader.read_function_type(op);
  }
  reader.read_dictionary(op);
  const size_t at = cursor.position();
  Attribute value = reader.attributes().read(cursor);
  if (value.kind != AttributeKind::dense) cursor.fail(at, "a constant is dense<..> : tensor<..>");
  op.result_types = {value.type};
  op.set("value", std::move(value));
}

// "%a [0:2, 4:8:2] : FT".
void read_slice(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  op.operands.push_back(reader.read_use());
  Attribute starts, limits, strides;
  for (Attribute* list : {&starts, &limits, &strides}) {
    list->kind = AttributeKind::integers;
    list->position = cursor.position();
  }
  cursor.expect("[", "before the ranges of a slice");
  while (!cursor.accept("]")) {
    if (!starts.integers.empty()) cursor.expect(",", "between the ranges of a slice");
    starts.integers.push_back(cursor.integer("the start of a slice"));
    cursor.expect(":", "between start and limit of a slice");
    limits.integers.push_back(cursor.integer("the limit of a slice"));
    strides.integers.push_back(cursor.accept(":") ? cursor.integer("the stride of a slice") : 1);
  }
  op.set("start_indices", std::move(starts));
  op.set("limit_indices", std::move(limits));
  op.set("strides", std::move(strides));
  reader.read_dictionary(op);
  reader.read_types(op);
}

// "%t[0] : FT".
void read_element(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  op.operands.push_back(reader.read_use());
  Attribute index;
  index.kind = AttributeKind::integer;
  cursor.expect("[", "before the index of an element");
  index.integer = cursor.integer("the index of an element");
  cursor.expect("]", "behind the index of an element");
  op.set("index", std::move(index));
  reader.read_dictionary(op);
  reader.read_types(op);
}

// "%a, %b : tuple<A, B>".
void read_tuple(OpReader& reader, Op& op) {
  reader.read_uses(op.operands);
  reader.read_dictionary(op);
  Cursor& cursor = reader.cursor();
  cursor.expect(":", "before the type of a tuple");
  const size_t at = cursor.position();
  const Type* const type = reader.types().read(cursor);
  op.result_types = {type};
  if (!type->shape.is_tuple || type->shape.elements.size() != op.operands.size())
    cursor.fail(at, "{} operands for {}", op.operands.size(), type->text);
  for (const Shape& element : type->shape.elements)
    op.operand_types.push_back(reader.types().of(element));
}

// --- HLO

Node* lower_constant(OpLowering& op) {
  const Attribute& value = op.attribute("value");
  if (value.kind != AttributeKind::dense) op.fail("the attribute value is no literal");
  const Shape shape(value.type->shape.dtype, value.type->shape.dims);
  if (!value.is_splat) return hlo::constant(op.computation(), value.array);
  if (shape.bytes() > kMostSplatBytes)
    return hlo::broadcast(op.implicit(hlo::constant(op.computation(), value.array)), shape.dims,
                          {});
  Array array(shape);
  const std::span<std::byte> from = value.array.bytes(), to = array.bytes();
  for (size_t at = 0; at + from.size() <= to.size(); at += from.size())
    std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
  return hlo::constant(op.computation(), std::move(array));
}

Node* lower_iota(OpLowering& op) {
  if (!op.is_static()) op.fail("the result has an open size: export with static shapes");
  return hlo::iota(op.computation(), op.result(), op.integer("iota_dimension"));
}

Node* lower_broadcast_in_dim(OpLowering& op) {
  op.need_operands(1, 1);
  if (!op.is_static()) op.fail("the result has an open size: export with static shapes");
  return broadcast_in_dim(op, op.operand(0), op.result().dims, op.integers("broadcast_dimensions"));
}

// New leading dims.
Node* lower_broadcast(OpLowering& op) {
  op.need_operands(1, 1);
  Dims dims = op.integers("broadcast_sizes");
  const auto added = static_cast<int64_t>(dims.size());
  dims.insert(dims.end(), op.operand(0)->dims().begin(), op.operand(0)->dims().end());
  Dims places(static_cast<size_t>(op.operand(0)->rank()));
  std::iota(places.begin(), places.end(), added);
  return hlo::broadcast(op.operand(0), std::move(dims), std::move(places));
}

// One open size follows from the others.
Node* lower_reshape(OpLowering& op) {
  op.need_operands(1, 1);
  Dims dims = op.result().dims;
  if (!op.is_static()) {
    int64_t known = 1, open = 0;
    for (const int64_t size : dims) {
      open += size == kUnknown;
      if (size != kUnknown) known = saturating_multiply(known, size);
    }
    const int64_t count = op.operand(0)->shape.elements_count();
    if (open != 1 || known == 0 || count % known != 0)
      op.fail("the sizes of the result do not follow from {}: export with static shapes",
              to_string(op.operand(0)->shape));
    std::replace(dims.begin(), dims.end(), kUnknown, count / known);
  }
  return op.emit(Opcode::reshape, op.operands(), {}, Shape(op.result().dtype, dims));
}

Node* lower_bitcast_convert(OpLowering& op) {
  op.need_operands(1, 1);
  Shape declared = op.result_like(op.operand(0)->shape);
  return op.emit(Opcode::bitcast_convert, op.operands(), {}, std::move(declared));
}

Node* lower_with_dimensions(OpLowering& op, std::string_view attribute) {
  op.need_operands(1, 1);
  Attributes attrs;
  attrs.dimensions = op.integers(attribute);
  return op.emit(op.opcode(), op.operands(), std::move(attrs));
}

Node* lower_transpose(OpLowering& op) { return lower_with_dimensions(op, "permutation"); }
Node* lower_reverse(OpLowering& op) { return lower_with_dimensions(op, "dimensions"); }

Node* lower_concatenate(OpLowering& op) {
  Attributes attrs;
  attrs.dimensions = {op.integer("dimension")};
  return op.emit(Opcode::concatenate, op.operands(), std::move(attrs));
}

Node* lower_slice(OpLowering& op) {
  op.need_operands(1, 1);
  Attributes attrs;
  attrs.starts = op.integers("start_indices");
  attrs.limits = op.integers("limit_indices");
  attrs.strides = op.integers("strides");
  return op.emit(Opcode::slice, op.operands(), std::move(attrs));
}

Node* lower_pad(OpLowering& op) {
  op.need_operands(2, 2);
  const Dims low = op.integers("edge_padding_low"), high = op.integers("edge_padding_high"),
             interior = op.integers("interior_padding");
  const auto rank = static_cast<size_t>(op.operand(0)->rank());
  if (low.size() != rank || high.size() != rank || interior.size() != rank)
    op.fail("{}, {} and {} amounts of padding for the {} dims of {}", low.size(), high.size(),
            interior.size(), rank, to_string(op.operand(0)->shape));
  Attributes attrs;
  for (size_t d = 0; d < rank; ++d) attrs.padding.push_back({low[d], high[d], interior[d]});
  return op.emit(Opcode::pad, op.operands(), std::move(attrs));
}

Node* lower_dynamic_slice(OpLowering& op) {
  Attributes attrs;
  attrs.slice_sizes = op.integers("slice_sizes");
  return op.emit(Opcode::dynamic_slice, op.operands(), std::move(attrs));
}

Node* lower_dynamic_update_slice(OpLowering& op) {
  return op.emit(Opcode::dynamic_update_slice, op.operands());
}

Node* lower_get_dimension_size(OpLowering& op) {
  op.need_operands(1, 1);
  const int64_t dim = op.integer("dimension");
  const Shape& shape = op.operand(0)->shape;
  if (dim < 0 || dim >= shape.rank())
    op.fail("dim {} of {}, which has {}", dim, to_string(shape), shape.rank());
  const auto at = static_cast<size_t>(dim);
  if (at < shape.dynamic_dims.size() && shape.dynamic_dims[at]) {
    Attributes attrs;
    attrs.dimensions = {dim};
    return op.emit(Opcode::get_dimension_size, op.operands(), std::move(attrs));
  }
  if (shape.dims[at] > INT32_MAX) op.fail("the size {} is no i32", shape.dims[at]);
  return hlo::constant(op.computation(), Array::scalar(static_cast<int32_t>(shape.dims[at])));
}

Node* lower_set_dimension_size(OpLowering& op) {
  op.need_operands(2, 2);
  Attributes attrs;
  attrs.dimensions = {op.integer("dimension")};
  return op.emit(Opcode::set_dimension_size, op.operands(), std::move(attrs),
                 op.result_like(op.operand(0)->shape));
}

Node* lower_tuple(OpLowering& op) { return op.emit(Opcode::tuple, op.operands()); }

Node* lower_element(OpLowering& op) {
  op.need_operands(1, 1);
  return hlo::get_tuple_element(op.operand(0), op.integer("index"));
}

// Index i of a result is index[..] of the operand's dim.
Node* lower_torch_index_select(OpLowering& op) {
  op.need_operands(2, 2);
  Node* const x = op.operand(0);
  Node* const index = op.operand(1);
  const int64_t dim = op.integer("dim"), batch = op.integer("batch_dims");
  if (dim < 0 || dim >= x->rank() || batch < 0 || batch > dim || batch > index->rank())
    op.fail("dim {} and batch_dims {} do not fit {} and {}", dim, batch, to_string(x->shape),
            to_string(index->shape));
  GatherDims dims;
  Dims sizes = x->dims();
  for (int64_t d = 0; d < x->rank(); ++d) {
    const auto at = static_cast<size_t>(d);
    if (d < batch) {
      dims.operand_batching_dims.push_back(d);
      dims.start_indices_batching_dims.push_back(d);
    } else if (d == dim) {
      dims.collapsed_slice_dims.push_back(d);
    } else {
      dims.offset_dims.push_back(d < dim ? d : d - 1 + index->rank() - batch);
    }
    if (d < batch || d == dim) sizes[at] = 1;
  }
  dims.start_index_map = {dim};
  dims.index_vector_dim = index->rank();
  return hlo::gather(x, index, std::move(dims), std::move(sizes));
}

constexpr KeyName kIotaName[] = {{"dim", "iota_dimension"}};
constexpr KeyName kInDimName[] = {{"dims", "broadcast_dimensions"}};
constexpr KeyName kSizes[] = {{"sizes", "broadcast_sizes"}};
constexpr KeyName kPermutation[] = {{"dims", "permutation"}};
constexpr KeyName kDimensions[] = {{"dims", "dimensions"}};
constexpr KeyName kDimension[] = {{"dim", "dimension"}};
constexpr KeyName kSliceSizes[] = {{"sizes", "slice_sizes"}};
constexpr KeyName kPadding[] = {
    {"low", "edge_padding_low"}, {"high", "edge_padding_high"}, {"interior", "interior_padding"}};

// clang-format off
const OpRow kShapeRows[] = {
    {"stablehlo.constant", lower_constant, Opcode::constant, read_constant},
    {"sdy.constant", lower_constant, Opcode::constant, read_constant},
    {"stablehlo.iota", lower_iota, Opcode::iota, nullptr, kIotaName},
    {"stablehlo.broadcast_in_dim", lower_broadcast_in_dim, Opcode::broadcast, nullptr, kInDimName},
    {"stablehlo.broadcast", lower_broadcast, Opcode::broadcast, nullptr, kSizes},
    {"stablehlo.reshape", lower_reshape, Opcode::reshape},
    {"stablehlo.bitcast_convert", lower_bitcast_convert, Opcode::bitcast_convert},
    {"stablehlo.transpose", lower_transpose, Opcode::transpose, nullptr, kPermutation},
    {"stablehlo.reverse", lower_reverse, Opcode::reverse, nullptr, kDimensions},
    {"stablehlo.concatenate", lower_concatenate, Opcode::concatenate, nullptr, kDimension},
    {"stablehlo.slice", lower_slice, Opcode::slice, read_slice},
    {"stablehlo.pad", lower_pad, Opcode::pad, nullptr, kPadding},
    {"stablehlo.dynamic_slice", lower_dynamic_slice, Opcode::dynamic_slice, nullptr, kSliceSizes},
    {"stablehlo.dynamic_update_slice", lower_dynamic_update_slice, Opcode::dynamic_update_slice},
    {"stablehlo.get_dimension_size", lower_get_dimension_size, Opcode::get_dimension_size, nullptr, kDimension},
    {"stablehlo.set_dimension_size", lower_set_dimension_size, Opcode::set_dimension_size, nullptr, kDimension},
    {"stablehlo.tuple", lower_tuple, Opcode::tuple, read_tuple},
    {"stablehlo.get_tuple_element", lower_element, Opcode::get_tuple_element, read_element},
    {"stablehlo.torch_index_select", lower_torch_index_select, Opcode::gather},
};
// clang-format on

}  // namespace

Node* broadcast_in_dim(OpLowering& op, Node* x, const Dims& result, Dims dims) {
  const Dims& from = x->dims();
  if (dims.size() != from.size())
    op.fail("{} dims are named for {}", dims.size(), to_string(x->shape));
  std::vector<bool> taken(result.size(), false);
  Dims kept_sizes, kept;
  std::string said;  // of the reshape: where each dim of the operand goes, -1 - dim: a growing one
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t target = dims[i];
    if (target < 0 || target >= std::ssize(result) || taken[static_cast<size_t>(target)])
      op.fail("dim {} of the operand is to be dim {} of the result's {}, or two are", i, target,
              result.size());
    taken[static_cast<size_t>(target)] = true;
    const int64_t size = result[static_cast<size_t>(target)];
    const bool grows = from[i] == 1 && size != 1;
    said += fmt::format("{}{}", said.empty() ? "" : " ", grows ? -1 - target : target);
    if (grows) continue;
    if (from[i] != size)
      op.fail("dim {} of {} is dim {} of the result, whose size is {}; it has to be equal or 1", i,
              to_string(x->shape), target, size);
    kept_sizes.push_back(from[i]);
    kept.push_back(target);
  }
  if (kept.size() != dims.size()) {
    x = op.implicit(hlo::reshape(x, kept_sizes));
    x->frontend_attributes[kImplicit] = said;
  }
  if (!std::is_sorted(kept.begin(), kept.end())) {
    Dims order(kept.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return kept[static_cast<size_t>(a)] < kept[static_cast<size_t>(b)];
    });
    std::sort(kept.begin(), kept.end());
    x = op.implicit(hlo::transpose(x, order));
  }
  return hlo::broadcast(x, result, std::move(kept));
}

std::vector<Node*> broadcast_together(OpLowering& op, std::vector<Node*> operands,
                                      const std::optional<Dims>& dims) {
  Dims result;
  for (const Node* x : operands)
    if (x->rank() > std::ssize(result)) result.assign(static_cast<size_t>(x->rank()), 1);
  std::vector<Dims> places;
  for (const Node* x : operands) {
    Dims at(static_cast<size_t>(x->rank()));
    std::iota(at.begin(), at.end(), std::ssize(result) - x->rank());
    if (dims && x->rank() < std::ssize(result)) at = *dims;
    if (at.size() != x->dims().size())
      op.fail("broadcast_dimensions names {} dims of {}", at.size(), to_string(x->shape));
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] < 0 || at[i] >= std::ssize(result))
        op.fail("broadcast_dimensions names dim {}", at[i]);
      int64_t& size = result[static_cast<size_t>(at[i])];
      const int64_t own = x->dims()[i];
      if (size != own && size != 1 && own != 1)
        op.fail("sizes {} and {} of one dim do not broadcast", size, own);
      if (own != 1) size = own;
    }
    places.push_back(std::move(at));
  }
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i]->dims() != result)
      operands[i] = broadcast_in_dim(op, operands[i], result, places[i]);
  return operands;
}

std::span<const OpRow> shape_rows() { return kShapeRows; }

}  // namespace gspmd::stablehlo
