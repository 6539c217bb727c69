#include "ir/parse_literal.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace gspmd {
namespace {

// Appends one element's bytes. The text bounds how much is appended.
using Bytes = std::vector<std::byte>;

template <class T>
void push(Bytes& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <class T>
T read_int(Lexer& lexer, DType dtype) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.number(fmt::format("{} literal", dtype_name(dtype)));
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range || (std::is_unsigned_v<T> && text.front() == '-'))
    lexer.fail(start, "constant: {} does not fit into {}", text, dtype_name(dtype));
  if (error != std::errc{} || end != text.data() + text.size())
    lexer.fail(start, "constant: \"{}\" is no {} value", text, dtype_name(dtype));
  return value;
}

// "1.5", "-inf", "nan", "0x1.8p3"; nullopt when it is none of these.
template <class T>
std::optional<T> to_float(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  if (text.empty() || text.front() == '-' || text.front() == '+') return std::nullopt;
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  T value{};
  if (text == "inf" || text == "nan") {
    value =
        text == "inf" ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
  } else {
    const std::string_view digits = hex ? text.substr(2) : text;
    const auto format = hex ? std::chars_format::hex : std::chars_format::general;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
    if (error == std::errc::invalid_argument || end != digits.data() + digits.size())
      return std::nullopt;
    if (error == std::errc::result_out_of_range) {
      // Too small is zero or the nearest subnormal; too large stays infinite and is refused.
      const std::string copy(text);
      if constexpr (std::is_same_v<T, float>)
        value = std::strtof(copy.c_str(), nullptr);
      else
        value = std::strtod(copy.c_str(), nullptr);
    }
    if (!std::isfinite(value)) return negative ? -value : value;
  }
  return negative ? std::copysign(value, T{-1}) : value;
}

template <class T>
T read_float(Lexer& lexer, DType dtype) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.number(fmt::format("{} literal", dtype_name(dtype)));
  const std::optional<T> value = to_float<T>(text);
  if (!value) lexer.fail(start, "constant: \"{}\" is no {} value", text, dtype_name(dtype));
  if (std::isinf(*value) && text.find("inf") == std::string_view::npos)
    lexer.fail(start, "constant: {} does not fit into {}; write inf for infinity", text,
               dtype_name(dtype));
  // XLA may write a NaN's payload: nan(0x400001). All NaNs are one here.
  if (std::isnan(*value) && lexer.accept("(")) {
    lexer.number("a NaN payload");
    lexer.expect(")", "after a NaN payload");
  }
  return *value;
}

void read_pred(Lexer& lexer, Bytes& bytes) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.number("pred literal");
  const bool one = text == "true" || text == "1";
  if (!one && text != "false" && text != "0")
    lexer.fail(start, "constant: \"{}\" is no pred value; use true or false", text);
  push(bytes, one);
}

template <class T>
void read_complex(Lexer& lexer, DType dtype, Bytes& bytes) {
  lexer.expect("(", "before a complex value such as (1, -2)");
  push(bytes, read_float<T>(lexer, dtype));
  lexer.expect(",", "between the parts of a complex value");
  push(bytes, read_float<T>(lexer, dtype));
  lexer.expect(")", "after a complex value");
}

void read_element(Lexer& lexer, DType dtype, Bytes& bytes) {
  if (dtype == DType::c64) return read_complex<float>(lexer, dtype, bytes);
  if (dtype == DType::c128) return read_complex<double>(lexer, dtype, bytes);
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>)
      read_pred(lexer, bytes);
    else if constexpr (std::is_integral_v<T>)
      push(bytes, read_int<T>(lexer, dtype));
    else if constexpr (std::is_same_v<T, double>)
      push(bytes, read_float<double>(lexer, dtype));
    else
      push(bytes, T(read_float<float>(lexer, dtype)));
  });
}

// Walks the braces of an array literal, checking each closing brace against the dims.
void read_elements(Lexer& lexer, const Shape& shape, Bytes& bytes) {
  const size_t rank = shape.dims.size();
  std::vector<int64_t> counts;  // elements seen in each open brace
  const auto count_one = [&](size_t at) {
    if (counts.empty()) return;
    if (++counts.back() > shape.dims[counts.size() - 1])
      lexer.fail(at, "constant: more than the {} elements of dim {} of {}",
                 shape.dims[counts.size() - 1], counts.size() - 1, to_string(shape));
  };
  bool comma_wanted = false;
  do {
    const size_t at = lexer.position();
    if (!counts.empty() && lexer.accept("}")) {
      if (counts.back() != shape.dims[counts.size() - 1])
        lexer.fail(at, "constant: {} elements where dim {} of {} has {}", counts.back(),
                   counts.size() - 1, to_string(shape), shape.dims[counts.size() - 1]);
      counts.pop_back();
      comma_wanted = true;
      continue;
    }
    if (comma_wanted) lexer.expect(",", "between elements of a constant");
    const size_t element = lexer.position();
    if (lexer.accept("{")) {
      if (lexer.accept("..."))
        lexer.fail(element,
                   "constant: the elements of {} were left out ({{...}}); print the module "
                   "with large constants",
                   to_string(shape));
      if (counts.size() == rank)
        lexer.fail(element, "constant: {} has {} dims, the braces are deeper", to_string(shape),
                   rank);
      count_one(element);
      counts.push_back(0);
      comma_wanted = false;
      continue;
    }
    if (counts.size() != rank)
      lexer.fail(element, "constant: an element inside {} braces; {} needs {}", counts.size(),
                 to_string(shape), rank);
    count_one(element);
    read_element(lexer, shape.dtype, bytes);
    comma_wanted = true;
  } while (!counts.empty());
}

// An array without elements may be written "{}" whatever its rank.
void read_empty(Lexer& lexer, const Shape& shape) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.raw_value("a constant");
  if (text.find_first_not_of("{}, \t\r\n") != std::string_view::npos)
    lexer.fail(start, "constant: {} has no elements; write {{}}", to_string(shape));
}

}  // namespace

Array parse_literal(Lexer& lexer, const Shape& shape) {
  const size_t start = lexer.position();
  if (shape.is_tuple || shape.dtype == DType::token)
    lexer.fail(start, "constant: {} constants are not supported; build the tuple from its elements",
               to_string(shape));
  if (shape.elements_count() == 0) {
    read_empty(lexer, shape);
    return Array(Shape(shape.dtype, shape.dims));
  }
  Bytes bytes;
  read_elements(lexer, shape, bytes);
  if (static_cast<int64_t>(bytes.size()) != shape.bytes())
    lexer.fail(start, "constant: {} elements given for {}", bytes.size() / dtype_size(shape.dtype),
               to_string(shape));
  Array literal(Shape(shape.dtype, shape.dims));
  std::memcpy(literal.bytes().data(), bytes.data(), bytes.size());
  return literal;
}

namespace {

template <class T>
void print_float(std::string& text, T value) {
  if (std::isnan(value))
    text += std::signbit(value) ? "-nan" : "nan";
  else
    fmt::format_to(std::back_inserter(text), "{}", value);
}

template <class T>
void print_element(std::string& text, const Array& literal, int64_t index) {
  const T value = literal.data<T>()[static_cast<size_t>(index)];
  if constexpr (std::is_same_v<T, bool>)
    text += value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>)
    // Widened, because 8-bit integers would print as characters.
    fmt::format_to(std::back_inserter(text), "{}",
                   static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
  else if constexpr (std::is_same_v<T, double>)
    print_float(text, value);
  else
    print_float(text, static_cast<float>(value));
}

template <class T>
void print_complex(std::string& text, const Array& literal, int64_t index) {
  T parts[2];
  std::memcpy(parts, literal.bytes().data() + static_cast<size_t>(index) * sizeof parts,
              sizeof parts);
  text += "(";
  print_float(text, parts[0]);
  text += ", ";
  print_float(text, parts[1]);
  text += ")";
}

void print_any(std::string& text, const Array& literal, int64_t index) {
  if (literal.dtype() == DType::c64) return print_complex<float>(text, literal, index);
  if (literal.dtype() == DType::c128) return print_complex<double>(text, literal, index);
  visit_dtype(literal.dtype(),
              [&](auto tag) { print_element<typename decltype(tag)::type>(text, literal, index); });
}

}  // namespace

std::string print_literal(const Array& literal) {
  const Dims& dims = literal.dims();
  const int64_t count = literal.size();
  if (count == 0) return "{}";
  std::string text;
  // A brace opens (closes) before (after) an element for each dim whose block begins (ends) there.
  Dims blocks = row_major_strides(dims);
  for (size_t d = 0; d < blocks.size(); ++d) blocks[d] *= dims[d];
  for (int64_t i = 0; i < count; ++i) {
    if (i) text += ", ";
    for (const int64_t block : blocks)
      if (i % block == 0) text += "{";
    print_any(text, literal, i);
    for (const int64_t block : blocks)
      if ((i + 1) % block == 0) text += "}";
  }
  return text;
}

}  // namespace gspmd
