#include "ir/parse_shape.h"

#include <algorithm>
#include <charconv>

namespace gspmd {
namespace {

// Deeper tuples than any program has; keeps the recursion here and in Shape's functions short.
constexpr int kMaxTupleDepth = 64;
// Elements and bytes of one array: sums and products of a few sizes then fit into 64 bits.
constexpr int64_t kMaxSize = (int64_t{1} << 62) - 1;

// A dim, or its bound behind "<=".
void parse_dim(Lexer& lexer, std::string_view dtype, Shape& shape) {
  const size_t at = lexer.position();
  if (lexer.peek() == '?')
    lexer.fail(at, "{}: a dim of unknown size is not supported; give a size, or a bound: <=8",
               dtype);
  const bool dynamic = lexer.accept("<=");
  const int64_t dim = lexer.integer("a dim");
  if (dim < 0) lexer.fail(at, "{}: dim {} is negative", dtype, dim);
  if (dynamic) shape.dynamic_dims.resize(shape.dims.size(), false);
  shape.dims.push_back(dim);
  if (dynamic || !shape.dynamic_dims.empty()) shape.dynamic_dims.push_back(dynamic);
}

// The order of dims in "{1,0:T(8,128)}" is empty or names each of `rank` dims once.
void check_layout(Lexer& lexer, size_t position, std::string_view layout, const Shape& shape) {
  const std::string_view order = layout.substr(1, layout.find_first_of(":}") - 1);
  if (order.find_first_not_of(' ') == std::string_view::npos) return;
  std::vector<bool> seen(shape.dims.size(), false);
  size_t count = 0;
  for (const char* at = order.data(); at < order.data() + order.size(); ++at) {
    while (*at == ' ') ++at;
    int64_t dim = -1;
    const auto [end, error] = std::from_chars(at, order.data() + order.size(), dim);
    const bool known = error == std::errc{} && dim >= 0 && dim < shape.rank();
    if (!known || seen[static_cast<size_t>(dim)]) break;
    seen[static_cast<size_t>(dim)] = true;
    ++count;
    at = end;
    while (at < order.data() + order.size() && *at == ' ') ++at;
    if (at < order.data() + order.size() && *at != ',') break;
  }
  if (count != shape.dims.size() ||
      std::count(order.begin(), order.end(), ',') + 1 != static_cast<int64_t>(count))
    lexer.fail(position, "the layout {} does not order the {} dims of {}; name each once", layout,
               shape.dims.size(), to_string(shape));
}

// Whether the braces at the cursor are a layout: empty right behind the shape, or they start with a
// colon or a dim that is not a name ("{ 0 = ..."); other braces open a computation.
bool sees_layout(Lexer& lexer, LayoutPlace place) {
  const bool adjacent = lexer.adjacent() == '{';
  if (lexer.peek() != '{' || (place == LayoutPlace::adjacent && !adjacent)) return false;
  const size_t start = lexer.position();
  lexer.expect("{", "before a layout");
  const char next = lexer.peek();
  const bool dim = next >= '0' && next <= '9';
  const char behind = dim ? lexer.token_after_name() : '\0';
  lexer.seek(start);
  if (next == '}') return adjacent;
  return next == ':' || (dim && (adjacent || behind == ',' || behind == '}' || behind == ':'));
}

void parse_layout(Lexer& lexer, Shape& shape, LayoutPlace place) {
  if (!sees_layout(lexer, place)) return;
  const size_t start = lexer.position();
  shape.layout = tidy(lexer.raw_value("a layout"));
  check_layout(lexer, start, *shape.layout, shape);
}

Shape parse_array_shape(Lexer& lexer, LayoutPlace place) {
  const size_t start = lexer.position();
  const std::string_view name = lexer.word("a type such as f32[2,3]");
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype)
    lexer.fail(start,
               "\"{}\" is not an element type; known are pred, s1 to s64, u1 to u64, f16, bf16, "
               "f32, f64, the f4 and f8 types, c64, c128, token and opaque",
               name);
  lexer.expect("[", "after the element type");
  Shape shape(*dtype, {});
  while (!lexer.accept("]")) {
    if (!shape.dims.empty()) lexer.expect(",", "between dims");
    parse_dim(lexer, name, shape);
  }
  if (dtype_size(*dtype) == 0 && !shape.dims.empty())
    lexer.fail(start, "{}: a {} has no dims; write {}[]", to_string(shape), name, name);
  if (shape.elements_count() > kMaxSize || shape.bytes() > kMaxSize)
    lexer.fail(start, "{}: more bytes than 64 bits can count", to_string(shape));
  parse_layout(lexer, shape, place);
  return shape;
}

Shape parse_nested(Lexer& lexer, LayoutPlace place, int depth) {
  if (lexer.peek() != '(') return parse_array_shape(lexer, place);
  if (depth == kMaxTupleDepth)
    lexer.fail(lexer.position(), "tuple types nested more than {} deep are not supported",
               kMaxTupleDepth);
  lexer.expect("(", "before a tuple type");
  std::vector<Shape> elements;
  while (!lexer.accept(")")) {
    if (!elements.empty()) lexer.expect(",", "between tuple elements");
    elements.push_back(parse_nested(lexer, place, depth + 1));
  }
  return Shape::tuple(std::move(elements));
}

}  // namespace

bool sees_array_shape(Lexer& lexer) { return lexer.peek() != '%' && lexer.after_name() == '['; }

bool sees_shape(Lexer& lexer) { return lexer.peek() == '(' || sees_array_shape(lexer); }

Shape parse_shape(Lexer& lexer, LayoutPlace place) { return parse_nested(lexer, place, 0); }

void put_shape(std::string& text, const Shape& shape, bool layouts) {
  if (shape.is_tuple) {
    text += "(";
    for (size_t i = 0; i < shape.elements.size(); ++i) {
      if (i) text += ", ";
      put_shape(text, shape.elements[i], layouts);
    }
    text += ")";
    return;
  }
  text += dtype_name(shape.dtype);
  text += "[";
  for (size_t i = 0; i < shape.dims.size(); ++i) {
    if (i) text += ",";
    if (i < shape.dynamic_dims.size() && shape.dynamic_dims[i]) text += "<=";
    text += std::to_string(shape.dims[i]);
  }
  text += "]";
  if (layouts) text += shape.layout;
}

std::string shape_text(const Shape& shape, bool layouts) {
  std::string text;
  put_shape(text, shape, layouts);
  return text;
}

}  // namespace gspmd
