#include "gspmd/ops/builders.h"

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "ops/common/numeric.h"

namespace gspmd {
namespace {

struct EmissionState {
  Metadata metadata;
  bool backward = false;
};
thread_local EmissionState emission;

void check_operands(const Computation& c, Opcode opcode, const std::vector<Node*>& operands) {
  const OpInfo& info = op_info(opcode);
  const auto count = static_cast<int>(operands.size());
  if (count < info.operands.least || (info.operands.most >= 0 && count > info.operands.most))
    user_error(
        "{}: {} operands are given, it takes {}{}", opcode_name(opcode), count, info.operands.least,
        info.operands.most < 0                     ? " or more"
        : info.operands.most > info.operands.least ? fmt::format(" to {}", info.operands.most)
                                                   : "");
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == nullptr) user_error("{}: operand {} is null", opcode_name(opcode), i);
    if (&operands[i]->parent() != &c)
      user_error(
          "{}: operand {} (\"{}\") belongs to computation {}, the op to {}; pass it as a parameter",
          opcode_name(opcode), i, operands[i]->name(), operands[i]->parent().name(), c.name());
  }
}

void check_parameter_number(const Computation& c, int64_t number) {
  const auto count = static_cast<int64_t>(c.parameters().size());
  if (number < 0 || number > count + 65536)
    user_error("parameter: number {} in computation {}, which has {} so far; count from 0", number,
               c.name(), count);
  if (number < count && c.parameters()[static_cast<size_t>(number)] != nullptr)
    user_error("parameter: number {} of computation {} is there already", number, c.name());
}

Node* checked_append(Computation& c, Opcode opcode, std::vector<Node*>&& operands,
                     Attributes&& attrs, Shape&& declared, std::vector<Computation*>&& called,
                     std::string&& name) {
  check_operands(c, opcode, operands);
  if (opcode == Opcode::parameter) check_parameter_number(c, attrs.index);
  Node* const node =
      c.append(opcode, std::move(declared), std::move(operands), std::move(attrs), std::move(name));
  node->called = std::move(called);
  node->metadata = emission.metadata;
  node->backward = emission.backward;
  try {
    node->shape = at_node(*node, [&] { return node->op().infer(*node); });
  } catch (...) {
    c.remove_last(node);
    throw;
  }
  return node;
}

Computation& home(const Node* node, Opcode opcode) {
  if (node == nullptr) user_error("{}: an operand is null", opcode_name(opcode));
  return node->parent();
}

}  // namespace

Node* emit(Computation& c, Opcode opcode, std::vector<Node*> operands, Attributes attrs,
           Shape declared, std::vector<Computation*> called) {
  return checked_append(c, opcode, std::move(operands), std::move(attrs), std::move(declared),
                        std::move(called), {});
}

EmissionScope::EmissionScope(Metadata metadata)
    : EmissionScope(std::move(metadata), emission.backward) {}

EmissionScope::EmissionScope(Metadata metadata, bool backward)
    : saved_metadata_(std::move(emission.metadata)), saved_backward_(emission.backward) {
  emission = {std::move(metadata), backward};
}

EmissionScope::~EmissionScope() { emission = {std::move(saved_metadata_), saved_backward_}; }

namespace hlo {

Node* parameter(Computation& c, int64_t number, Shape shape, std::string name) {
  Attributes attrs;
  attrs.index = number;
  return checked_append(c, Opcode::parameter, {}, std::move(attrs), std::move(shape), {},
                        std::move(name));
}

Node* constant(Computation& c, Array literal) {
  Attributes attrs;
  attrs.literal = std::move(literal);
  const Shape shape = attrs.literal.shape();
  return emit(c, Opcode::constant, {}, std::move(attrs), shape);
}

Node* scalar(Computation& c, DType dtype, double value) {
  if (dtype == DType::token || dtype == DType::opaque)
    user_error("constant: {} has no number; use a number type", dtype_name(dtype));
  return constant(c, Array::full(Shape(dtype, {}), value));
}

Node* splat(Computation& c, const Shape& shape, double value) {
  Node* const one = scalar(c, shape.dtype, value);
  return shape.rank() == 0 ? one : broadcast(one, shape.dims, {});
}

Node* iota(Computation& c, Shape shape, int64_t dimension) {
  Attributes attrs;
  attrs.index = dimension;
  return emit(c, Opcode::iota, {}, std::move(attrs), std::move(shape));
}

Node* tuple(Computation& c, std::vector<Node*> elements) {
  return emit(c, Opcode::tuple, std::move(elements));
}

Node* get_tuple_element(Node* tuple, int64_t index) {
  Attributes attrs;
  attrs.index = index;
  return emit(home(tuple, Opcode::get_tuple_element), Opcode::get_tuple_element, {tuple},
              std::move(attrs));
}

namespace {

void collect_leaves(Node* value, std::vector<Node*>& leaves) {
  if (!value->shape.is_tuple) {
    leaves.push_back(value);
    return;
  }
  for (size_t i = 0; i < value->shape.elements.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    collect_leaves(
        value->is(Opcode::tuple) ? value->operand(index) : get_tuple_element(value, index), leaves);
  }
}

Node* next_from_leaves(Computation& c, const Shape& shape, std::span<Node* const> leaves,
                       size_t& next) {
  if (!shape.is_tuple) return leaves[next++];
  std::vector<Node*> elements;
  for (const Shape& element : shape.elements)
    elements.push_back(next_from_leaves(c, element, leaves, next));
  return tuple(c, std::move(elements));
}

}  // namespace

std::vector<Node*> leaves(Node* value) {
  std::vector<Node*> result;
  collect_leaves(value, result);
  return result;
}

Node* from_leaves(Computation& c, const Shape& shape, std::span<Node* const> leaves) {
  size_t next = 0;
  return next_from_leaves(c, shape, leaves, next);
}

std::vector<Node*> optimization_barrier(std::vector<Node*> values) {
  if (values.empty()) return values;
  Computation& c = home(values[0], Opcode::optimization_barrier);
  return leaves(emit(c, Opcode::optimization_barrier, {tuple(c, std::move(values))}));
}

Node* convert(Node* x, DType dtype) {
  Computation& c = home(x, Opcode::convert);
  if (!x->shape.is_tuple && x->shape.dtype == dtype) return x;
  return emit(c, Opcode::convert, {x}, {}, Shape(dtype, x->shape.dims));
}

Node* reshape(Node* x, Dims dims) {
  Computation& c = home(x, Opcode::reshape);
  return emit(c, Opcode::reshape, {x}, {}, Shape(x->shape.dtype, std::move(dims)));
}

Node* broadcast(Node* x, Dims dims, Dims dimensions) {
  Computation& c = home(x, Opcode::broadcast);
  Attributes attrs;
  attrs.dimensions = std::move(dimensions);
  return emit(c, Opcode::broadcast, {x}, std::move(attrs), Shape(x->shape.dtype, std::move(dims)));
}

Node* transpose(Node* x, Dims permutation) {
  Attributes attrs;
  attrs.dimensions = std::move(permutation);
  return emit(home(x, Opcode::transpose), Opcode::transpose, {x}, std::move(attrs));
}

Node* concatenate(std::vector<Node*> xs, int64_t dim) {
  if (xs.empty()) user_error("concatenate: no operands; give at least one");
  Computation& c = home(xs[0], Opcode::concatenate);
  Attributes attrs;
  attrs.dimensions = {dim};
  return emit(c, Opcode::concatenate, std::move(xs), std::move(attrs));
}

Node* pad(Node* x, Node* value, std::vector<PaddingDim> padding) {
  Attributes attrs;
  attrs.padding = std::move(padding);
  return emit(home(x, Opcode::pad), Opcode::pad, {x, value}, std::move(attrs));
}

Node* slice(Node* x, Dims starts, Dims limits, Dims strides) {
  Attributes attrs;
  attrs.starts = std::move(starts);
  attrs.limits = std::move(limits);
  attrs.strides = std::move(strides);
  return emit(home(x, Opcode::slice), Opcode::slice, {x}, std::move(attrs));
}

Node* dynamic_slice(Node* x, std::vector<Node*> starts, Dims sizes) {
  Attributes attrs;
  attrs.slice_sizes = std::move(sizes);
  starts.insert(starts.begin(), x);
  return emit(home(x, Opcode::dynamic_slice), Opcode::dynamic_slice, std::move(starts),
              std::move(attrs));
}

Node* dynamic_update_slice(Node* x, Node* update, std::vector<Node*> starts) {
  starts.insert(starts.begin(), {x, update});
  return emit(home(x, Opcode::dynamic_update_slice), Opcode::dynamic_update_slice,
              std::move(starts));
}

Node* select(Node* pred, Node* on_true, Node* on_false) {
  return emit(home(on_true, Opcode::select), Opcode::select, {pred, on_true, on_false});
}

Node* compare(Node* a, Node* b, Direction direction) {
  Attributes attrs;
  attrs.direction = direction;
  return emit(home(a, Opcode::compare), Opcode::compare, {a, b}, std::move(attrs));
}

Node* unary(Opcode opcode, Node* x) { return emit(home(x, opcode), opcode, {x}); }

Node* binary(Opcode opcode, Node* a, Node* b) { return emit(home(a, opcode), opcode, {a, b}); }

Node* add(Node* a, Node* b) { return binary(Opcode::add, a, b); }
Node* subtract(Node* a, Node* b) { return binary(Opcode::subtract, a, b); }
Node* multiply(Node* a, Node* b) { return binary(Opcode::multiply, a, b); }
Node* divide(Node* a, Node* b) { return binary(Opcode::divide, a, b); }
Node* remainder(Node* a, Node* b) { return binary(Opcode::remainder, a, b); }

Node* dot(Node* lhs, Node* rhs, DotDims dims) {
  Computation& c = home(lhs, Opcode::dot);
  Attributes attrs;
  attrs.dot = std::move(dims);
  return emit(c, Opcode::dot, {lhs, rhs}, std::move(attrs), Shape(lhs->shape.dtype, {}));
}

Node* gather(Node* operand, Node* indices, GatherDims dims, Dims slice_sizes) {
  Attributes attrs;
  attrs.gather = std::move(dims);
  attrs.slice_sizes = std::move(slice_sizes);
  return emit(home(operand, Opcode::gather), Opcode::gather, {operand, indices}, std::move(attrs));
}

Node* scatter(Node* operand, Node* indices, Node* updates, ScatterDims dims,
              Computation* combiner) {
  Attributes attrs;
  attrs.scatter = std::move(dims);
  return emit(home(operand, Opcode::scatter), Opcode::scatter, {operand, indices, updates},
              std::move(attrs), {}, {combiner});
}

Node* reduce(Node* x, Node* init, Dims dims, Computation* combiner) {
  Attributes attrs;
  attrs.dimensions = std::move(dims);
  return emit(home(x, Opcode::reduce), Opcode::reduce, {x, init}, std::move(attrs), {}, {combiner});
}

namespace {

Node* reduce_with(Node* x, Dims dims, Combiner combiner) {
  Computation& c = home(x, Opcode::reduce);
  const DType dtype = x->shape.dtype;
  Node* const init = scalar(c, dtype, combiner_identity(combiner, dtype));
  Computation* const to_apply = binary_computation(c.module(), combiner_opcode(combiner), dtype);
  return reduce(x, init, std::move(dims), to_apply);
}

}  // namespace

Node* reduce_sum(Node* x, Dims dims) { return reduce_with(x, std::move(dims), Combiner::sum); }
Node* reduce_max(Node* x, Dims dims) { return reduce_with(x, std::move(dims), Combiner::max); }

}  // namespace hlo
}  // namespace gspmd
