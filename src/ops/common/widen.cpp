#include "ops/common/widen.h"

#include <algorithm>
#include <cmath>

#include "base/narrow.h"
#include "ops/common/numeric.h"

namespace gspmd {
namespace {

Shape widened_shape(const Shape& shape) {
  Shape wide = shape;
  if (!wide.is_tuple) wide.dtype = widened_type(shape.dtype);
  for (Shape& element : wide.elements) element = widened_shape(element);
  return wide;
}

Value widened_value(const Value& value) {
  if (!value.is_tuple) return {widened(value.array), {}, false};
  std::vector<Value> elements;
  for (const Value& element : value.elements) elements.push_back(widened_value(element));
  return Value::tuple(std::move(elements));
}

// Back to the types of `shape`.
Value narrowed_value(const Value& value, const Shape& shape) {
  if (!value.is_tuple)
    return is_narrow(shape.dtype) ? Value{narrowed(value.array, shape.dtype), {}, false} : value;
  std::vector<Value> elements;
  for (size_t i = 0; i < value.elements.size(); ++i)
    elements.push_back(narrowed_value(value.elements[i], shape.elements[i]));
  return Value::tuple(std::move(elements));
}

// Ops that look at the bits of an integer see no more of them than the narrow type has; the
// arithmetic shift finds copies of the highest one above them, of unsigned numbers too.
bool reads_bits(Opcode opcode) {
  return opcode == Opcode::shift_right_logical || opcode == Opcode::shift_right_arithmetic ||
         opcode == Opcode::popcnt || opcode == Opcode::count_leading_zeros;
}

Array widened_bits(const Array& array, bool copy_sign) {
  const int bits = narrow_bits(array.dtype());
  const int sign = copy_sign ? 1 << (bits - 1) : 0;
  const Array wide(Shape(widened_type(array.dtype()), array.dims()));
  const std::span<std::byte> from = array.bytes();
  const std::span<std::byte> to = wide.bytes();
  for (size_t i = 0; i < from.size(); ++i) {
    const int low = static_cast<uint8_t>(from[i]) & ((1 << bits) - 1);
    to[i] = std::byte(static_cast<uint8_t>((low ^ sign) - sign));
  }
  return wide;
}

}  // namespace

Array converted(const Array& array, const Array& result) {
  visit_number(array.dtype(), [&](auto from) {
    using From = typename decltype(from)::type;
    visit_number(result.dtype(), [&](auto to) {
      using To = typename decltype(to)::type;
      const std::span<const From> in = array.data<From>();
      const std::span<To> out = result.data<To>();
      for (size_t i = 0; i < in.size(); ++i) out[i] = convert_element<To>(in[i]);
    });
  });
  return result;
}

Array product_operand(const Array& array, DType result) {
  if (!is_integer(result) || !is_floating(array.dtype())) return array;
  return converted(array, Array(result, array.dims()));
}

bool has_narrow(const Shape& shape) {
  if (!shape.is_tuple) return is_narrow(shape.dtype);
  return std::any_of(shape.elements.begin(), shape.elements.end(), has_narrow);
}

DType widened_type(DType dtype) {
  if (!is_narrow(dtype)) return dtype;
  if (is_floating(dtype)) return DType::f32;
  return is_signed_integer(dtype) ? DType::s8 : DType::u8;
}

Array widened(const Array& array) {
  const DType dtype = array.dtype();
  if (!is_narrow(dtype)) return array;
  const Array wide(Shape(widened_type(dtype), array.dims()));
  const std::span<const std::byte> in = array.bytes();
  visit_dtype(wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> out = wide.data<T>();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] =
          static_cast<T>(static_cast<float>(narrow_to_double(dtype, static_cast<uint8_t>(in[i]))));
  });
  return wide;
}

Array narrowed(const Array& array, DType dtype) {
  const Array narrow(Shape(dtype, array.dims()));
  const std::span<std::byte> out = narrow.bytes();
  const bool integer = is_integer(dtype);
  const int mask = (1 << narrow_bits(dtype)) - 1;
  visit_dtype(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> in = array.data<T>();
    for (size_t i = 0; i < out.size(); ++i) {
      if constexpr (std::is_integral_v<T>)
        out[i] = integer ? std::byte(static_cast<uint8_t>(in[i]) & mask)
                         : std::byte(narrow_from_double(dtype, static_cast<double>(in[i])));
      else
        out[i] = std::byte(narrow_from_double(dtype, static_cast<double>(in[i])));
    }
  });
  return narrow;
}

Value evaluate_widened(const EvalContext& context, Value (*kernel)(const EvalContext& context)) {
  const Node& node = context.node;
  Module scratch("widened");
  Computation* const body = scratch.add_computation("widened");
  std::vector<Node*> parameters;
  std::vector<Value> operands;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const Shape& shape = node.operands()[i]->shape;
    Attributes attrs;
    attrs.index = static_cast<int64_t>(i);
    parameters.push_back(body->append(Opcode::parameter, widened_shape(shape), {}, attrs));
    const bool bits = i == 0 && reads_bits(node.opcode()) && has_narrow(shape);
    const bool copy_sign = node.is(Opcode::shift_right_arithmetic);
    operands.push_back(bits ? Value{widened_bits(context.operands[i].array, copy_sign), {}, false}
                            : widened_value(context.operands[i]));
  }
  Node* const wide =
      body->append(node.opcode(), widened_shape(node.shape), parameters, node.attrs, node.name());
  wide->called = node.called;
  const CallComputation call = [&](const Computation& callee, std::span<const Value> arguments) {
    std::vector<Value> narrow;
    for (size_t i = 0; i < arguments.size(); ++i)
      narrow.push_back(narrowed_value(arguments[i], callee.parameters()[i]->shape));
    return widened_value(context.call(callee, narrow));
  };
  Value result = narrowed_value(kernel({*wide, operands, call}), node.shape);
  if (node.is(Opcode::count_leading_zeros) && has_narrow(node.shape)) {
    const int extra = 8 - narrow_bits(node.shape.dtype);
    for (std::byte& count : result.array.bytes())
      count =
          std::byte((static_cast<int>(count) - extra) & ((1 << narrow_bits(node.shape.dtype)) - 1));
  }
  return result;
}

Value evaluate_any_width(const EvalContext& context, Value (*kernel)(const EvalContext& context)) {
  bool narrow = has_narrow(context.node.shape);
  for (const Node* operand : context.node.operands()) narrow = narrow || has_narrow(operand->shape);
  return narrow ? evaluate_widened(context, kernel) : kernel(context);
}

}  // namespace gspmd
