// Ops that work element by element.
#include "stablehlo/lowering.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// --- Pretty forms

// A word in front, "LT, %a, %b, TOTALORDER".
void read_compare(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  const auto word = [&](std::string_view attribute) {
    Attribute value;
    value.kind = AttributeKind::word;
    value.position = cursor.position();
    value.text = cursor.word("a word of a comparison");
    op.set(attribute, std::move(value));
  };
  word("comparison_direction");
  cursor.expect(",", "behind the direction of a comparison");
  op.operands.push_back(reader.read_use());
  cursor.expect(",", "between the operands of a comparison");
  op.operands.push_back(reader.read_use());
  if (cursor.accept(",")) word("compare_type");
  reader.read_dictionary(op);
  reader.read_types(op);
}

void read_operands(OpReader& reader, Op& op) {
  reader.read_uses(op.operands);
  reader.read_dictionary(op);
}

// ": tensor<4xi1>, tensor<4xf32>": of the predicate and the result.
void read_select(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  read_operands(reader, op);
  cursor.expect(":", "before the types of select");
  if (cursor.peek() == '(') return reader.read_function_type(op);
  const Type* const pred = reader.types().read(cursor);
  cursor.expect(",", "between the types of predicate and result");
  const Type* const result = reader.types().read(cursor);
  op.operand_types = {pred, result, result};
  op.operand_types.resize(op.operands.size(), result);
  op.result_types = {result};
}

// ": tensor<complex<f32>>": of the result alone.
void read_complex(OpReader& reader, Op& op) {
  read_operands(reader, op);
  reader.read_types(op);
  for (const Type*& type : op.operand_types) {
    if (!is_complex(type->shape.dtype)) continue;
    Shape part = type->shape;
    part.dtype = part.dtype == DType::c64 ? DType::f32 : DType::f64;
    type = reader.types().of(std::move(part));
  }
}

// --- HLO

Node* lower_unary(OpLowering& op) {
  op.need_operands(1, 1);
  op.find("result_accuracy");
  return op.emit(op.opcode(), op.operands(), {}, op.result_like(op.operand(0)->shape));
}

Node* lower_binary(OpLowering& op) {
  op.need_operands(2, 2);
  return op.emit(op.opcode(), op.operands());
}

// To i1 it is != 0; from complex numbers the real part.
Node* lower_convert(OpLowering& op) {
  op.need_operands(1, 1);
  Node* x = op.operand(0);
  const Shape declared = op.result_like(x->shape);
  if (declared.dtype == DType::pred && x->shape.dtype != DType::pred) {
    Node* const zero = op.implicit(hlo::scalar(op.computation(), x->shape.dtype, 0));
    Node* const zeros = x->rank() == 0 ? zero : op.implicit(hlo::broadcast(zero, x->dims(), {}));
    return hlo::compare(x, zeros, Direction::ne);
  }
  return op.emit(Opcode::convert, {x}, {}, declared);
}

// Of real numbers the operand itself, and zeros.
Node* lower_part(OpLowering& op) {
  op.need_operands(1, 1);
  return op.emit(op.opcode(), op.operands());
}

Node* lower_compare(OpLowering& op) {
  constexpr std::pair<std::string_view, Direction> kDirections[] = {
      {"EQ", Direction::eq}, {"NE", Direction::ne}, {"GE", Direction::ge},
      {"GT", Direction::gt}, {"LE", Direction::le}, {"LT", Direction::lt}};
  op.need_operands(2, 2);
  Attributes attrs;
  const std::string direction = op.word("comparison_direction");
  bool known = false;
  for (const auto& [text, value] : kDirections)
    if (text == direction) {
      attrs.direction = value;
      known = true;
    }
  if (!known) op.fail("comparison_direction {} is none of EQ, NE, GE, GT, LE, LT", direction);
  const DType dtype = op.operand(0)->shape.dtype;
  const std::string type = op.word("compare_type", "NOTYPE");
  const std::string own = is_floating(dtype) || is_complex(dtype) ? "FLOAT"
                          : is_signed_integer(dtype)              ? "SIGNED"
                                                                  : "UNSIGNED";
  if (type != "NOTYPE" && type != own) {
    if (type != "TOTALORDER" || !is_floating(dtype))
      op.fail("compare_type {} does not fit {}; {} does", type, to_string(op.operand(0)->shape),
              own);
    attrs.compare_type = type;
  }
  return op.emit(Opcode::compare, op.operands(), std::move(attrs));
}

Node* lower_select(OpLowering& op) {
  op.need_operands(3, 3);
  Node* pred = op.operand(0);
  const Dims& dims = op.operand(1)->dims();
  if (pred->rank() == 0 && !dims.empty()) pred = op.implicit(hlo::broadcast(pred, dims, {}));
  return op.emit(Opcode::select, {pred, op.operand(1), op.operand(2)});
}

Node* lower_clamp(OpLowering& op) {
  op.need_operands(3, 3);
  const Dims& dims = op.operand(1)->dims();
  std::vector<Node*> operands = op.operands();
  for (const size_t i : {0, 2})
    if (operands[i]->rank() == 0 && !dims.empty())
      operands[i] = op.implicit(hlo::broadcast(operands[i], dims, {}));
  return op.emit(Opcode::clamp, std::move(operands));
}

// "format = e5m10", or both numbers.
Node* lower_reduce_precision(OpLowering& op) {
  op.need_operands(1, 1);
  Attributes attrs;
  if (const Attribute* const format = op.find("format")) {
    const std::string& text = format->text;
    const size_t m = text.find('m');
    const bool fits = format->kind == AttributeKind::word && text.size() >= 4 && text[0] == 'e' &&
                      m != std::string::npos && m > 1 && m + 1 < text.size() && text.size() < 10;
    const auto number = [&](size_t begin, size_t end) {
      int64_t value = 0;
      for (size_t i = begin; i < end; ++i) {
        if (!is_digit(text[i])) op.fail("format {} is no eXmY", text);
        value = 10 * value + (text[i] - '0');
      }
      return value;
    };
    if (!fits) op.fail("format is no eXmY, as e5m10");
    attrs.scalar.edit().exponent_bits = number(1, m);
    attrs.scalar.edit().mantissa_bits = number(m + 1, text.size());
  } else {
    attrs.scalar.edit().exponent_bits = op.integer("exponent_bits");
    attrs.scalar.edit().mantissa_bits = op.integer("mantissa_bits");
  }
  return op.emit(Opcode::reduce_precision, op.operands(), std::move(attrs));
}

Node* lower_map(OpLowering& op) {
  Attributes attrs;
  attrs.dimensions = op.integers("dimensions");
  Computation* const body = op.body(0, "map");
  return op.emit(Opcode::map, op.operands(), std::move(attrs), {}, {body});
}

Node* refuse_quantized(OpLowering& op) {
  op.fail("quantized numbers are not supported; dequantize the program before it is exported");
}

constexpr KeyName kFormat[] = {{"format", "format"}};

// clang-format off
const OpRow kElementwiseRows[] = {
    {"stablehlo.abs", lower_unary, Opcode::abs},
    {"stablehlo.cbrt", lower_unary, Opcode::cbrt},
    {"stablehlo.ceil", lower_unary, Opcode::ceil},
    {"stablehlo.convert", lower_convert, Opcode::convert},
    {"stablehlo.cosine", lower_unary, Opcode::cosine},
    {"stablehlo.count_leading_zeros", lower_unary, Opcode::count_leading_zeros},
    {"stablehlo.exponential", lower_unary, Opcode::exponential},
    {"stablehlo.exponential_minus_one", lower_unary, Opcode::exponential_minus_one},
    {"stablehlo.floor", lower_unary, Opcode::floor},
    {"stablehlo.imag", lower_part, Opcode::imag},
    {"stablehlo.is_finite", lower_part, Opcode::is_finite},
    {"stablehlo.log", lower_unary, Opcode::log},
    {"stablehlo.log_plus_one", lower_unary, Opcode::log_plus_one},
    {"stablehlo.logistic", lower_unary, Opcode::logistic},
    {"stablehlo.negate", lower_unary, Opcode::negate},
    {"stablehlo.not", lower_unary, Opcode::not_},
    {"stablehlo.popcnt", lower_unary, Opcode::popcnt},
    {"mhlo.copy", lower_unary, Opcode::copy},
    {"stablehlo.real", lower_part, Opcode::real},
    {"stablehlo.round_nearest_afz", lower_unary, Opcode::round_nearest_afz},
    {"stablehlo.round_nearest_even", lower_unary, Opcode::round_nearest_even},
    {"stablehlo.rsqrt", lower_unary, Opcode::rsqrt},
    {"stablehlo.sign", lower_unary, Opcode::sign},
    {"stablehlo.sine", lower_unary, Opcode::sine},
    {"stablehlo.sqrt", lower_unary, Opcode::sqrt},
    {"stablehlo.tan", lower_unary, Opcode::tan},
    {"stablehlo.tanh", lower_unary, Opcode::tanh},
    {"stablehlo.add", lower_binary, Opcode::add},
    {"stablehlo.and", lower_binary, Opcode::and_},
    {"stablehlo.atan2", lower_binary, Opcode::atan2},
    {"stablehlo.divide", lower_binary, Opcode::divide},
    {"stablehlo.maximum", lower_binary, Opcode::maximum},
    {"stablehlo.minimum", lower_binary, Opcode::minimum},
    {"stablehlo.multiply", lower_binary, Opcode::multiply},
    {"stablehlo.or", lower_binary, Opcode::or_},
    {"stablehlo.power", lower_binary, Opcode::power},
    {"stablehlo.remainder", lower_binary, Opcode::remainder},
    {"stablehlo.shift_left", lower_binary, Opcode::shift_left},
    {"stablehlo.shift_right_arithmetic", lower_binary, Opcode::shift_right_arithmetic},
    {"stablehlo.shift_right_logical", lower_binary, Opcode::shift_right_logical},
    {"stablehlo.subtract", lower_binary, Opcode::subtract},
    {"stablehlo.xor", lower_binary, Opcode::xor_},
    {"stablehlo.complex", lower_binary, Opcode::complex, read_complex},
    {"stablehlo.compare", lower_compare, Opcode::compare, read_compare},
    {"stablehlo.select", lower_select, Opcode::select, read_select},
    {"stablehlo.clamp", lower_clamp, Opcode::clamp},
    {"stablehlo.reduce_precision", lower_reduce_precision, Opcode::reduce_precision, nullptr, kFormat},
    {"stablehlo.map", lower_map, Opcode::map},
    {"stablehlo.uniform_quantize", refuse_quantized},
    {"stablehlo.uniform_dequantize", refuse_quantized},
};
// clang-format on

}  // namespace

std::span<const OpRow> elementwise_rows() { return kElementwiseRows; }

}  // namespace gspmd::stablehlo
