// CHLO's ops: HLO's of that name, or what they are made of.
#include <algorithm>
#include <limits>

#include "stablehlo/lowering.h"
#include "stablehlo/ops/functions.h"
#include "stablehlo/ops/shape_ops.h"
#include "stablehlo/ops/targets.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// --- Pretty forms

// "(%a, k = 8) : T -> (T, T)".
void read_top_k(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  cursor.expect("(", "before the operand");
  op.operands.push_back(reader.read_use());
  while (cursor.accept(",")) {
    const std::string_view key = cursor.word("an attribute");
    cursor.expect("=", "behind the name of an attribute");
    op.set(key, reader.read_value());
  }
  cursor.expect(")", "behind the operand");
  reader.read_dictionary(op);
  reader.read_types(op);
}

// "(%x) inits (%i) dimension=0 attributes {..} {^bb0(..): ..} : FT".
void read_scan(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  cursor.expect("(", "before the operands");
  reader.read_uses(op.operands);
  cursor.expect(")", "behind the operands");
  cursor.expect_word("inits", "behind the operands of a scan");
  cursor.expect("(", "before the initial values");
  const size_t inputs = op.operands.size();
  reader.read_uses(op.operands);
  cursor.expect(")", "behind the initial values");
  Attribute carries;
  carries.kind = AttributeKind::integer;
  carries.integer = static_cast<int64_t>(op.operands.size() - inputs);
  op.set("num_carries", std::move(carries));
  cursor.expect_word("dimension", "behind the initial values");
  cursor.expect("=", "behind dimension");
  op.set("dimension", reader.read_value());
  if (cursor.accept_word("attributes")) reader.read_dictionary(op);
  reader.read_region(op.regions.emplace_back());
  reader.read_types(op);
}

void read_chlo_constant(OpReader& reader, Op& op) {
  reader.read_dictionary(op);
  Attribute value = reader.attributes().read(reader.cursor());
  if (value.kind != AttributeKind::dense)
    reader.cursor().fail(value.position, "a constant is dense<..> : tensor<..>");
  op.result_types = {value.type};
  op.set("value", std::move(value));
}

// --- HLO

// Computed in f32 where the numbers have fewer bits.
template <Node* (*function)(Node*)>
Node* in_wide(OpLowering& op) {
  op.need_operands(1, 1);
  Node* const x = op.operand(0);
  const DType dtype = x->shape.dtype;
  if (!is_floating(dtype)) op.fail("{} is no floating point number", to_string(x->shape));
  if (dtype == DType::f32 || dtype == DType::f64) return function(x);
  return hlo::convert(function(hlo::convert(x, DType::f32)), dtype);
}

Node* wide_binary(OpLowering& op, Node* x, Node* y, Node* (*function)(Node*, Node*)) {
  const DType dtype = x->shape.dtype;
  if (!is_floating(dtype) || y->shape.dtype != dtype)
    op.fail("{} and {} are no floating point numbers of one type", to_string(x->shape),
            to_string(y->shape));
  if (dtype == DType::f32 || dtype == DType::f64) return function(x, y);
  return hlo::convert(function(hlo::convert(x, DType::f32), hlo::convert(y, DType::f32)), dtype);
}

template <Node* (*function)(Node*, Node*)>
Node* in_wide_binary(OpLowering& op) {
  op.need_operands(2, 2);
  return wide_binary(op, op.operand(0), op.operand(1), function);
}

Node* lower_chlo_unary(OpLowering& op) {
  op.need_operands(1, 1);
  return op.emit(op.opcode(), op.operands());
}

Node* lower_atan(OpLowering& op) {
  op.need_operands(1, 1);
  Node* const x = op.operand(0);
  return hlo::binary(Opcode::atan2, x, constant_like(x, 1));
}

Node* lower_square(OpLowering& op) {
  op.need_operands(1, 1);
  return hlo::multiply(op.operand(0), op.operand(0));
}

Node* lower_conj(OpLowering& op) {
  op.need_operands(1, 1);
  Node* const x = op.operand(0);
  if (!is_complex(x->shape.dtype)) return x;
  return hlo::binary(Opcode::complex, hlo::unary(Opcode::real, x),
                     hlo::unary(Opcode::negate, hlo::unary(Opcode::imag, x)));
}

// Infinite of a sign, or of any.
template <int sign>
Node* lower_is_infinite(OpLowering& op) {
  op.need_operands(1, 1);
  Node* x = op.operand(0);
  if (sign == 0) x = hlo::unary(Opcode::abs, x);
  const double infinity = std::numeric_limits<double>::infinity();
  return hlo::compare(x, constant_like(x, sign < 0 ? -infinity : infinity), Direction::eq);
}

Node* lower_chlo_constant(OpLowering& op) {
  const Attribute& value = op.attribute("value");
  if (value.kind != AttributeKind::dense) op.fail("the attribute value is no literal");
  Node* const node = hlo::constant(op.computation(), value.array);
  return value.is_splat ? hlo::broadcast(node, value.type->shape.dims, {}) : node;
}

Node* lower_constant_like(OpLowering& op) {
  op.need_operands(1, 1);
  const Attribute& value = op.attribute("value");
  const double number = value.kind == AttributeKind::dense ? value.array.at(0) : op.real("value");
  return constant_like(op.operand(0), number);
}

Node* lower_next_after(OpLowering& op) {
  op.need_operands(2, 2);
  if (!is_floating(op.operand(0)->shape.dtype))
    op.fail("the operands are no floating point numbers");
  return next_after(op.operand(0), op.operand(1));
}

Node* lower_mulhi(OpLowering& op) {
  op.need_operands(2, 2);
  if (!is_integer(op.operand(0)->shape.dtype) || is_narrow(op.operand(0)->shape.dtype))
    op.fail("the operands are no integers of 8 to 64 bits");
  return op.emit(Opcode::mulhi, {op.operand(0), op.operand(1)});
}

Node* lower_top_k(OpLowering& op) {
  op.need_operands(1, 1);
  Attributes attrs;
  attrs.scalar.edit().k = op.integer("k");
  attrs.scalar.edit().largest = op.flag("largest", true);
  op.flag("is_stable", true);
  return op.emit(Opcode::topk, op.operands(), std::move(attrs));
}

Node* lower_ragged_dot(OpLowering& op) {
  op.need_operands(3, 3);
  Attributes attrs;
  for (const NamedAttribute& field : op.fields(op.attribute("ragged_dot_dimension_numbers"))) {
    const Dims values = op.integers_of(field.value, field.name);
    if (field.name == "lhs_batching_dimensions")
      attrs.dot.edit().lhs_batch = values;
    else if (field.name == "rhs_batching_dimensions")
      attrs.dot.edit().rhs_batch = values;
    else if (field.name == "lhs_contracting_dimensions")
      attrs.dot.edit().lhs_contracting = values;
    else if (field.name == "rhs_contracting_dimensions")
      attrs.dot.edit().rhs_contracting = values;
    else if (field.name == "lhs_ragged_dimensions")
      attrs.ragged.edit().lhs_ragged = values;
    else if (field.name == "rhs_group_dimensions")
      attrs.ragged.edit().rhs_group = values;
    else
      op.fail("ragged_dot_dimension_numbers has no {}", field.name);
  }
  op.find("precision_config");
  if (attrs.ragged->lhs_ragged.size() != 1)
    op.fail("{} ragged dims; one is needed", attrs.ragged->lhs_ragged.size());
  return op.emit(Opcode::ragged_dot, op.operands(), std::move(attrs), Shape(op.result().dtype, {}));
}

Node* lower_scan(OpLowering& op) {
  Attributes attrs;
  attrs.dimensions = {op.integer("dimension")};
  attrs.scalar.edit().is_reverse = op.flag("is_reverse", false);
  if (op.find("is_associative"))
    attrs.scalar.edit().is_associative = op.flag("is_associative", false);
  const Dims segments = op.maybe_integers("operandSegmentSizes").value_or(Dims{});
  attrs.scalar.edit().num_carries =
      segments.size() == 2 ? segments[1]
                           : op.integer("num_carries", static_cast<int64_t>(op.count() / 2));
  op.maybe_integers("resultSegmentSizes");
  Computation* const body = op.body(0, "scan");
  std::vector<Shape> results;
  for (size_t i = 0; i < op.result_count(); ++i) results.push_back(op.result(i));
  return op.emit(Opcode::scan, op.operands(), std::move(attrs),
                 results.size() == 1 ? results[0] : Shape::tuple(results), {body});
}

// "chlo.broadcast_add": NumPy's broadcasting, then the op.
Node* lower_broadcasting(OpLowering& op) {
  const bool selects = op.opcode() == Opcode::select;
  op.need_operands(selects ? 3 : 2, selects ? 3 : 2);
  const std::vector<Node*> operands =
      broadcast_together(op, op.operands(), op.maybe_integers("broadcast_dimensions"));
  const std::string_view name = op.op().name.substr(std::string_view("chlo.broadcast_").size());
  if (name == "next_after") return next_after(operands[0], operands[1]);
  if (name == "zeta") return wide_binary(op, operands[0], operands[1], zeta);
  if (name == "polygamma") return wide_binary(op, operands[0], operands[1], polygamma);
  Attributes attrs;
  if (op.opcode() == Opcode::compare) {
    constexpr std::pair<std::string_view, Direction> kDirections[] = {
        {"EQ", Direction::eq}, {"NE", Direction::ne}, {"GE", Direction::ge},
        {"GT", Direction::gt}, {"LE", Direction::le}, {"LT", Direction::lt}};
    const std::string direction = op.word("comparison_direction");
    for (const auto& [text, value] : kDirections)
      if (text == direction) attrs.direction = value;
    if (op.word("compare_type", "NOTYPE") == "TOTALORDER") attrs.compare_type = "TOTALORDER";
  }
  return op.emit(op.opcode(), operands, std::move(attrs));
}

// clang-format off
const OpRow kChloRows[] = {
    {"chlo.erf", lower_chlo_unary, Opcode::erf},
    {"chlo.acos", lower_chlo_unary, Opcode::acos},
    {"chlo.acosh", lower_chlo_unary, Opcode::acosh},
    {"chlo.asin", lower_chlo_unary, Opcode::asin},
    {"chlo.asinh", lower_chlo_unary, Opcode::asinh},
    {"chlo.atanh", lower_chlo_unary, Opcode::atanh},
    {"chlo.cosh", lower_chlo_unary, Opcode::cosh},
    {"chlo.sinh", lower_chlo_unary, Opcode::sinh},
    {"chlo.tan", lower_chlo_unary, Opcode::tan},
    {"chlo.atan", lower_atan},
    {"chlo.square", lower_square},
    {"chlo.conj", lower_conj},
    {"chlo.erfc", in_wide<erfc>},
    {"chlo.erf_inv", in_wide<erf_inv>},
    {"chlo.lgamma", in_wide<lgamma>},
    {"chlo.digamma", in_wide<digamma>},
    {"chlo.bessel_i1e", in_wide<bessel_i1e>},
    {"chlo.zeta", in_wide_binary<zeta>},
    {"chlo.polygamma", in_wide_binary<polygamma>},
    {"chlo.next_after", lower_next_after},
    {"chlo.mulhi", lower_mulhi},
    {"chlo.is_inf", lower_is_infinite<0>},
    {"chlo.is_pos_inf", lower_is_infinite<1>},
    {"chlo.is_neg_inf", lower_is_infinite<-1>},
    {"chlo.constant", lower_chlo_constant, Opcode::constant, read_chlo_constant},
    {"chlo.constant_like", lower_constant_like},
    {"chlo.top_k", lower_top_k, Opcode::topk, read_top_k},
    {"mhlo.topk", lower_top_k, Opcode::topk, read_top_k},
    {"chlo.ragged_dot", lower_ragged_dot, Opcode::ragged_dot},
    {"chlo.scan", lower_scan, Opcode::scan, read_scan},
    {"chlo.broadcast_add", lower_broadcasting, Opcode::add},
    {"chlo.broadcast_and", lower_broadcasting, Opcode::and_},
    {"chlo.broadcast_atan2", lower_broadcasting, Opcode::atan2},
    {"chlo.broadcast_compare", lower_broadcasting, Opcode::compare},
    {"chlo.broadcast_complex", lower_broadcasting, Opcode::complex},
    {"chlo.broadcast_divide", lower_broadcasting, Opcode::divide},
    {"chlo.broadcast_maximum", lower_broadcasting, Opcode::maximum},
    {"chlo.broadcast_minimum", lower_broadcasting, Opcode::minimum},
    {"chlo.broadcast_multiply", lower_broadcasting, Opcode::multiply},
    {"chlo.broadcast_next_after", lower_broadcasting},
    {"chlo.broadcast_or", lower_broadcasting, Opcode::or_},
    {"chlo.broadcast_polygamma", lower_broadcasting},
    {"chlo.broadcast_power", lower_broadcasting, Opcode::power},
    {"chlo.broadcast_remainder", lower_broadcasting, Opcode::remainder},
    {"chlo.broadcast_select", lower_broadcasting, Opcode::select},
    {"chlo.broadcast_shift_left", lower_broadcasting, Opcode::shift_left},
    {"chlo.broadcast_shift_right_arithmetic", lower_broadcasting, Opcode::shift_right_arithmetic},
    {"chlo.broadcast_shift_right_logical", lower_broadcasting, Opcode::shift_right_logical},
    {"chlo.broadcast_subtract", lower_broadcasting, Opcode::subtract},
    {"chlo.broadcast_xor", lower_broadcasting, Opcode::xor_},
    {"chlo.broadcast_zeta", lower_broadcasting},
};
const OpRow kChloTargets[] = {
    {"mhlo.erf", lower_chlo_unary, Opcode::erf},
    {"mhlo.tan", lower_chlo_unary, Opcode::tan},
    {"mhlo.acos", lower_chlo_unary, Opcode::acos},
    {"mhlo.acosh", lower_chlo_unary, Opcode::acosh},
    {"mhlo.asin", lower_chlo_unary, Opcode::asin},
    {"mhlo.asinh", lower_chlo_unary, Opcode::asinh},
    {"mhlo.atanh", lower_chlo_unary, Opcode::atanh},
    {"mhlo.cosh", lower_chlo_unary, Opcode::cosh},
    {"mhlo.sinh", lower_chlo_unary, Opcode::sinh},
    {"mhlo.topk", lower_top_k, Opcode::topk},
};
// clang-format on

}  // namespace

std::span<const OpRow> chlo_rows() { return kChloRows; }
std::span<const OpRow> chlo_targets() { return kChloTargets; }

}  // namespace gspmd::stablehlo
