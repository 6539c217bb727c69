// Checks of test programs: that values are what is expected.
#include "stablehlo/ops/check.h"

#include <cmath>

#include "base/narrow.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ops/debug_calls.h"
#include "stablehlo/lowering.h"
#include "stablehlo/ops/targets.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// "%a, dense<..> : T".
void read_against_literal(OpReader& reader, Op& op) {
  op.operands.push_back(reader.read_use());
  reader.cursor().expect(",", "between the value and what is expected");
  Attribute value = reader.attributes().read(reader.cursor());
  if (value.kind != AttributeKind::dense)
    reader.cursor().fail(value.position, "what is expected is dense<..> : tensor<..>");
  op.operand_types = {value.type};
  op.set("value", std::move(value));
  reader.read_dictionary(op);
}

void read_close(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  do {
    if (cursor.peek() == '%') {
      op.operands.push_back(reader.read_use());
      continue;
    }
    const std::string_view key = cursor.word("an attribute");
    cursor.expect("=", "behind the name of an attribute");
    op.set(key, reader.read_value());
  } while (cursor.accept(","));
  reader.read_dictionary(op);
  cursor.expect(":", "before the types of an op");
  reader.read_type_list(op.operand_types);
  if (op.operand_types.size() == 1)
    op.operand_types.resize(op.operands.size(), op.operand_types[0]);
}

Node* splat_like(Node* x, double value) {
  return hlo::splat(x->parent(), Shape(x->shape.dtype, x->dims()), value);
}

Node* both_hold(Node* a, Node* b) { return hlo::binary(Opcode::and_, a, b); }
Node* either(Node* a, Node* b) { return hlo::binary(Opcode::or_, a, b); }

// Equal, or both no number.
Node* are_same(Node* a, Node* b) {
  Node* const equal = hlo::compare(a, b, Direction::eq);
  if (!is_floating(a->shape.dtype)) return equal;
  return either(equal,
                both_hold(hlo::compare(a, a, Direction::ne), hlo::compare(b, b, Direction::ne)));
}

// The bits of floats as integers in the order of the numbers.
Node* ordered_bits(Node* x) {
  const DType dtype = x->shape.dtype;
  const DType integer = dtype_size(dtype) == 8   ? DType::s64
                        : dtype_size(dtype) == 4 ? DType::s32
                        : dtype_size(dtype) == 2 ? DType::s16
                                                 : DType::s8;
  Node* const bits = emit(x->parent(), Opcode::bitcast_convert, {x}, {}, Shape(integer, x->dims()));
  Node* const wide = hlo::convert(bits, DType::s64);
  const double lowest = -std::ldexp(1.0, static_cast<int>(8 * dtype_size(integer)) - 1);
  return hlo::select(hlo::compare(wide, splat_like(wide, 0), Direction::lt),
                     hlo::subtract(splat_like(wide, lowest), wide), wide);
}

using Near = Node* (*)(const OpLowering& op, Node* a, Node* b);

// How many numbers of their type lie between a and b.
Node* steps_between(Node* a, Node* b) {
  return hlo::unary(Opcode::abs, hlo::subtract(ordered_bits(a), ordered_bits(b)));
}

Node* within_steps(const OpLowering& op, Node* a, Node* b) {
  const auto most = static_cast<double>(op.integer("max_ulp_difference", 3));
  Node* const steps = steps_between(a, b);
  Node* const are_numbers =
      both_hold(hlo::compare(a, a, Direction::eq), hlo::compare(b, b, Direction::eq));
  return either(are_same(a, b), both_hold(are_numbers, hlo::compare(steps, splat_like(steps, most),
                                                                    Direction::le)));
}

Node* within_tolerance(const OpLowering& op, Node* a, Node* b) {
  if (is_narrow(a->shape.dtype)) {
    a = hlo::convert(a, DType::f32);
    b = hlo::convert(b, DType::f32);
  }
  const double most = op.find("tolerance") != nullptr ? op.real("tolerance") : 1e-4;
  Node* const distance = hlo::unary(Opcode::abs, hlo::subtract(a, b));
  return either(are_same(a, b), hlo::compare(distance, splat_like(distance, most), Direction::le));
}

Node* over_all(OpLowering& op, Node* each, Opcode opcode) {
  if (each->rank() == 0) return each;
  Computation* const combine = binary_computation(op.lowering().module(), opcode, DType::pred);
  Dims dims;
  for (int64_t d = 0; d < each->rank(); ++d) dims.push_back(d);
  Node* const start = hlo::scalar(op.computation(), DType::pred, opcode == Opcode::and_ ? 1 : 0);
  return hlo::reduce(each, start, dims, combine);
}

// Whether all elements are as expected, a scalar.
bool is_small_float(DType dtype) {
  return is_floating(dtype) && is_narrow(dtype) && narrow_bits(dtype) < 8;
}

Node* lower_comparison(OpLowering& op, Near near) {
  Node* a = op.operand(0);
  Node* b = nullptr;
  if (const Attribute* const value = op.find("value")) {
    b = hlo::constant(op.computation(), value->array);
    if (value->is_splat) b = hlo::broadcast(b, value->type->shape.dims, {});
  } else {
    op.need_operands(2, 2);
    b = op.operand(1);
  }
  if (!(a->shape == b->shape))
    op.fail("{} and {} differ in type", to_string(a->shape), to_string(b->shape));
  std::vector<std::pair<Node*, Node*>> parts = {{a, b}};
  if (is_complex(a->shape.dtype))
    parts = {{hlo::unary(Opcode::real, a), hlo::unary(Opcode::real, b)},
             {hlo::unary(Opcode::imag, a), hlo::unary(Opcode::imag, b)}};
  const auto least = static_cast<double>(op.integer("min_ulp_difference", 0));
  Node* same = nullptr;
  Node* somewhere = nullptr;  // elements as far apart as the largest distance has to be
  for (auto [x, y] : parts) {
    if (is_small_float(x->shape.dtype)) {  // has no integers of its width
      x = hlo::convert(x, DType::f32);
      y = hlo::convert(y, DType::f32);
    }
    const bool is_inexact = near != nullptr && is_floating(x->shape.dtype);
    Node* const part = is_inexact ? near(op, x, y) : are_same(x, y);
    same = same == nullptr ? part : both_hold(same, part);
    if (is_inexact && least > 0) {
      Node* const steps = steps_between(x, y);
      Node* const far = hlo::compare(steps, splat_like(steps, least), Direction::ge);
      somewhere = somewhere == nullptr ? far : either(somewhere, far);
    }
  }
  op.find("max_ulp_difference");
  op.find("tolerance");
  op.find("has_side_effect");
  Node* holds = over_all(op, same, Opcode::and_);
  if (somewhere != nullptr) holds = both_hold(holds, over_all(op, somewhere, Opcode::or_));
  return holds;
}

Node* lower_check(OpLowering& op, Near near, const char* relation) {
  Node* const check = emit_check(op, lower_comparison(op, near),
                                 fmt::format("the value is not {} what is expected", relation));
  op.set_results({});
  return check;
}

Node* lower_equal(OpLowering& op) { return lower_check(op, nullptr, "equal to"); }
Node* lower_close(OpLowering& op) { return lower_check(op, within_steps, "close to"); }
Node* lower_almost(OpLowering& op) { return lower_check(op, within_tolerance, "almost"); }
// Of older programs: the comparison itself is what the program returns.
Node* lower_eq(OpLowering& op) { return lower_comparison(op, within_tolerance); }
Node* refuse_serialized(OpLowering& op) {
  op.fail(
      "what a probe of an interpreter wrote is not at hand; take the check out and compare what "
      "run --outputs writes");
}

// clang-format off
const OpRow kCheckRows[] = {
    {"check.expect_eq", lower_equal, Opcode::custom_call, read_close},
    {"check.expect_eq_const", lower_equal, Opcode::custom_call, read_against_literal},
    {"check.expect_almost_eq", lower_almost, Opcode::custom_call, read_close},
    {"check.expect_almost_eq_const", lower_almost, Opcode::custom_call, read_against_literal},
    {"check.expect_close", lower_close, Opcode::custom_call, read_close},
    {"check.expect_serialized_eq", refuse_serialized, Opcode::custom_call},
};
const OpRow kCheckTargets[] = {
    {"check.expect_eq", lower_equal, Opcode::custom_call},
    {"check.expect_almost_eq", lower_almost, Opcode::custom_call},
    {"check.expect_close", lower_close, Opcode::custom_call},
    {"check.eq", lower_eq, Opcode::custom_call},
};
// clang-format on

}  // namespace

Node* emit_check(OpLowering& op, Node* holds, const std::string& what) {
  Attributes attrs;
  attrs.custom_call_target = kDebugCheck;
  DebugConfig config;
  config.format = fmt::format("line {}: {}", op.lowering().site_of(op.op().position).line, what);
  attrs.other["backend_config"] = debug_config_text(config);
  return op.emit(Opcode::custom_call, {over_all(op, holds, Opcode::and_)}, std::move(attrs),
                 Shape(DType::pred, {}));
}

std::span<const OpRow> check_rows() { return kCheckRows; }
std::span<const OpRow> check_targets() { return kCheckTargets; }

}  // namespace gspmd::stablehlo
