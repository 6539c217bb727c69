#include "ir/parse_shape.h"

#include <limits>

namespace gspmd {
namespace {

// Deeper tuples than any program has; keeps the recursion here and in Shape's functions short.
constexpr int kMaxDepth = 64;

Shape parse_array_shape(Lexer& lexer) {
  const size_t start = lexer.position();
  const std::string_view name = lexer.name("a type such as f32[2,3]");
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype)
    lexer.fail(start,
               "\"{}\" is not an element type; known are pred, s8 to s64, u8 to u64, f16, bf16, "
               "f32, f64, c64, c128 and token",
               name);
  lexer.expect("[", "after the element type");
  Shape shape(*dtype, {});
  while (!lexer.accept("]")) {
    if (!shape.dims.empty()) lexer.expect(",", "between dims");
    const size_t at = lexer.position();
    if (lexer.peek() == '<' || lexer.peek() == '?')
      lexer.fail(at, "{}: dynamic dims are not supported; give the size as a number", name);
    const int64_t dim = lexer.integer("a dim");
    if (dim < 0) lexer.fail(at, "{}: dim {} is negative", name, dim);
    shape.dims.push_back(dim);
  }
  if (shape.bytes() == std::numeric_limits<int64_t>::max())
    lexer.fail(start, "{}: more bytes than 64 bits can count", to_string(shape));
  // A layout follows directly; a brace after a blank opens a computation.
  if (lexer.adjacent() == '{') shape.layout = lexer.raw_value("a layout");
  return shape;
}

Shape parse_nested(Lexer& lexer, int depth) {
  if (lexer.peek() != '(') return parse_array_shape(lexer);
  if (depth == kMaxDepth)
    lexer.fail(lexer.position(), "tuple types nested more than {} deep are not supported",
               kMaxDepth);
  lexer.expect("(", "before a tuple type");
  std::vector<Shape> elements;
  while (!lexer.accept(")")) {
    if (!elements.empty()) lexer.expect(",", "between tuple elements");
    elements.push_back(parse_nested(lexer, depth + 1));
  }
  return Shape::tuple(std::move(elements));
}

}  // namespace

bool sees_shape(Lexer& lexer) {
  if (lexer.peek() == '(') return true;
  return lexer.peek() != '%' && lexer.after_name() == '[';
}

Shape parse_shape(Lexer& lexer) { return parse_nested(lexer, 0); }

std::string shape_text(const Shape& shape) {
  if (!shape.is_tuple) return to_string(shape) + shape.layout;
  std::string text = "(";
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    if (i) text += ", ";
    text += shape_text(shape.elements[i]);
  }
  text += ")";
  return text;
}

}  // namespace gspmd
