#include "ops/common/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"

namespace gspmd {

std::string braces(const Dims& dims) { return fmt::format("{{{}}}", fmt::join(dims, ",")); }

bool contains(const Dims& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void check_product_types(const Node& node) {
  enum Kind : uint8_t { pred, integer, floating, complex };
  const auto kind = [](DType t) {
    return is_complex(t) ? complex : is_floating(t) ? floating : is_integer(t) ? integer : pred;
  };
  const Shape& lhs = array_operand(node, 0);
  const Shape& rhs = array_operand(node, 1);
  const DType result = declared_array(node).dtype;
  const Kind needed = std::max(kind(lhs.dtype), kind(rhs.dtype));
  const auto is_wider = [&](DType t) {
    return kind(t) == kind(result) && dtype_size(t) > dtype_size(result);
  };
  const bool narrows = kind(result) != floating && (is_wider(lhs.dtype) || is_wider(rhs.dtype));
  const bool truncates = kind(result) == integer && needed == floating;
  if ((kind(result) < needed && !truncates) || narrows)
    user_error("{}: {} and {} cannot give elements of {}; use a type that holds both",
               opcode_name(node.opcode()), to_string(lhs), to_string(rhs), dtype_name(result));
}

void check_operand_count(const Node& node, int64_t min, int64_t max) {
  const auto count = static_cast<int64_t>(node.operands().size());
  if (count >= min && (max < 0 || count <= max)) return;
  const std::string wanted = max < 0      ? fmt::format("at least {}", min)
                             : min == max ? fmt::format("{}", min)
                                          : fmt::format("{} to {}", min, max);
  user_error("{}: {} operands are given, it takes {}", opcode_name(node.opcode()), count, wanted);
}

const Shape& array_operand(const Node& node, int64_t i) {
  if (i < 0 || i >= static_cast<int64_t>(node.operands().size()))
    user_error("{}: operand {} is missing, there are {}", opcode_name(node.opcode()), i,
               node.operands().size());
  const Shape& shape = node.operand(i)->shape;
  if (shape.is_tuple)
    user_error("{}: operand {} is the tuple {}; take an element of it with get-tuple-element",
               opcode_name(node.opcode()), i, to_string(shape));
  return shape;
}

const Shape& scalar_operand(const Node& node, int64_t i) {
  const Shape& shape = array_operand(node, i);
  if (shape.rank() != 0)
    user_error("{}: operand {} is {}, it has to be a scalar", opcode_name(node.opcode()), i,
               to_string(shape));
  return shape;
}

const Shape& declared_array(const Node& node) {
  if (node.shape.is_tuple)
    user_error("{}: the result is declared as the tuple {}, it is an array",
               opcode_name(node.opcode()), to_string(node.shape));
  for (const int64_t d : node.shape.dims)
    if (d < 0)
      user_error("{}: the declared shape {} has the negative size {}", opcode_name(node.opcode()),
                 to_string(node.shape), d);
  return node.shape;
}

Shape checked_size(const Node& node, Shape shape) {
  for (const int64_t d : shape.dims)
    if (d < 0)
      user_error("{}: the result {} would have the negative size {}", opcode_name(node.opcode()),
                 to_string(shape), d);
  constexpr int64_t kTooMany = std::numeric_limits<int64_t>::max();
  if (shape.elements_count() == kTooMany || shape.bytes() == kTooMany)
    user_error("{}: the result {} has more bytes than can be addressed", opcode_name(node.opcode()),
               to_string(shape));
  return shape;
}

void check_dim_list(const Node& node, std::string_view attribute, const Dims& list, int64_t rank) {
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (const int64_t d : list) {
    if (d < 0 || d >= rank)
      user_error("{}: {}={} names dim {}, which is outside the {} dims there are",
                 opcode_name(node.opcode()), attribute, braces(list), d, rank);
    if (seen[static_cast<size_t>(d)])
      user_error("{}: {}={} names dim {} twice", opcode_name(node.opcode()), attribute,
                 braces(list), d);
    seen[static_cast<size_t>(d)] = true;
  }
}

int64_t named_dim(const Node& node, const Shape& shape) {
  const Dims& dims = node.attrs.dimensions;
  if (dims.size() != 1)
    user_error("{}: dimensions={} has to name one dim", opcode_name(node.opcode()), braces(dims));
  check_dim_list(node, "dimensions", dims, shape.rank());
  return dims[0];
}

void check_ascending(const Node& node, std::string_view attribute, const Dims& list) {
  if (!std::is_sorted(list.begin(), list.end()))
    user_error("{}: {}={} has to be in ascending order", opcode_name(node.opcode()), attribute,
               braces(list));
}

void check_same_dims(const Node& node, int64_t a, int64_t b) {
  const Shape& x = array_operand(node, a);
  const Shape& y = array_operand(node, b);
  if (x.dims != y.dims)
    user_error("{}: operands {} and {} differ in dims; reshape or broadcast one of them first",
               opcode_name(node.opcode()), to_string(x), to_string(y));
}

void check_same_dtype(const Node& node, int64_t a, int64_t b) {
  const Shape& x = array_operand(node, a);
  const Shape& y = array_operand(node, b);
  if (x.dtype != y.dtype)
    user_error("{}: operands {} and {} differ in element type; convert one of them first",
               opcode_name(node.opcode()), to_string(x), to_string(y));
}

const Computation& called_computation(const Node& node, int64_t index, int64_t count) {
  if (static_cast<int64_t>(node.called.size()) != count)
    user_error("{}: {} computations are called, it calls {}", opcode_name(node.opcode()),
               node.called.size(), count);
  const Computation* const callee = node.called[static_cast<size_t>(index)];
  if (callee == nullptr || callee->root() == nullptr)
    user_error("{}: the called computation has no root", opcode_name(node.opcode()));
  for (const Node* parameter : callee->parameters())
    if (parameter == nullptr)
      user_error("{}: a parameter number of computation {} is not used by any parameter",
                 opcode_name(node.opcode()), callee->name());
  return *callee;
}

void check_parameters(const Node& node, const Computation& callee,
                      const std::vector<Shape>& shapes) {
  if (callee.parameters().size() != shapes.size())
    user_error("{}: computation {} has {} parameters, it is called with {} values",
               opcode_name(node.opcode()), callee.name(), callee.parameters().size(),
               shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i)
    if (!(callee.parameters()[i]->shape == shapes[i]))
      user_error("{}: parameter {} of computation {} is {}, it is called with {}",
                 opcode_name(node.opcode()), i, callee.name(),
                 to_string(callee.parameters()[i]->shape), to_string(shapes[i]));
}

namespace {

// A known combiner in more precision than the values: it is read as the same combiner of theirs,
// whose results are rounded once.
bool combines_in_wider_floats(const Computation& callee, DType type) {
  const Shape& root = callee.root()->shape;
  return recognize_combiner(callee).has_value() && is_floating(root.dtype) && is_floating(type) &&
         dtype_size(root.dtype) > dtype_size(type);
}

}  // namespace

void check_combiner_computation(const Node& node, const std::vector<DType>& types) {
  const Computation& callee = called_computation(node, 0, 1);
  if (types.size() == 1 && combines_in_wider_floats(callee, types[0])) return;
  std::vector<Shape> parameters;
  for (size_t i = 0; i < 2 * types.size(); ++i)
    parameters.emplace_back(types[i % types.size()], Dims{});
  check_parameters(node, callee, parameters);
  const Shape wanted = arrays_of(types, {});
  if (!(callee.root()->shape == wanted))
    user_error("{}: computation {} returns {}, it has to return {}", opcode_name(node.opcode()),
               callee.name(), to_string(callee.root()->shape), to_string(wanted));
}

std::vector<DType> check_inputs_and_starts(const Node& node) {
  check_operand_count(node, 2, -1);
  const auto count = static_cast<int64_t>(node.operands().size());
  if (count % 2 != 0)
    user_error("{}: {} operands; it takes n inputs and then n initial values",
               opcode_name(node.opcode()), count);
  std::vector<DType> types;
  for (int64_t i = 0; i < count / 2; ++i) {
    check_same_dims(node, 0, i);
    scalar_operand(node, count / 2 + i);
    check_same_dtype(node, i, count / 2 + i);
    types.push_back(node.operand(i)->shape.dtype);
  }
  check_combiner_computation(node, types);
  return types;
}

Shape arrays_of(const std::vector<DType>& types, const Dims& dims) {
  std::vector<Shape> shapes;
  for (const DType type : types) shapes.emplace_back(type, dims);
  return tuple_unless_one(std::move(shapes));
}

Shape tuple_unless_one(std::vector<Shape> shapes) {
  if (shapes.size() == 1) return std::move(shapes.front());
  return Shape::tuple(std::move(shapes));
}

}  // namespace gspmd
