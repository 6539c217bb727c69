#include "ir/parse_literal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "base/narrow.h"
#include "ir/float_bits.h"
#include "ir/parse_shape.h"

namespace gspmd {
namespace {

// Where elements are written, one behind the other; the one who reads them has made room.
class Bytes {
 public:
  explicit Bytes(std::span<std::byte> room) : room_(room) {}
  size_t size() const { return size_; }
  const std::byte* data() const { return room_.data(); }
  void append(const void* value, size_t bytes) {
    if (bytes > room_.size() - size_) internal_error("constant: {} bytes are full", room_.size());
    std::memcpy(room_.data() + size_, value, bytes);
    size_ += bytes;
  }

 private:
  std::span<std::byte> room_;
  size_t size_ = 0;
};
using OneElement = std::array<std::byte, 16>;  // of any type

template <class T>
void push(Bytes& bytes, T value) {
  bytes.append(&value, sizeof(T));
}

// "-12", "0x1f", "true"; all of it.
template <class T>
std::from_chars_result parse_int(std::string_view text, T& value) {
  if (text == "true" || text == "false") {
    value = text == "true";
    return {text.data() + text.size(), std::errc{}};
  }
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const bool plus = !text.empty() && text.front() == '+';
  text.remove_prefix(hex ? 2 : plus ? 1 : 0);
  if ((hex || plus) && text.starts_with('-')) return {text.data(), std::errc::invalid_argument};
  return std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
}

template <class T>
T read_int(Lexer& lexer, DType dtype) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.number("an integer literal");
  T value{};
  const auto [end, error] = parse_int(text, value);
  if (error == std::errc::result_out_of_range || (std::is_unsigned_v<T> && text.front() == '-'))
    lexer.fail(start, "constant: {} does not fit into {}", text, dtype_name(dtype));
  if (error != std::errc{} || end != text.data() + text.size())
    lexer.fail(start, "constant: \"{}\" is no {} value", text, dtype_name(dtype));
  return value;
}

// "1.5", "-inf", "nan", "0x1.8p3", "true"; nullopt when it is none of these. Too large gives inf.
template <class T>
std::optional<T> to_float(std::string_view text) {
  if (text == "true" || text == "false") return T(text == "true");
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
      // Too small is zero or the nearest subnormal.
      const std::string copy(text);
      if constexpr (std::is_same_v<T, float>)
        value = std::strtof(copy.c_str(), nullptr);
      else
        value = std::strtod(copy.c_str(), nullptr);
    }
    if (std::isnan(value)) return std::nullopt;  // from_chars reads "nan(...)" too
  }
  return negative ? std::copysign(value, T{-1}) : value;
}

struct FloatText {
  size_t position;
  std::string_view text;
  bool is_infinity() const { return text.find("inf") != std::string_view::npos; }
};

template <class T>
T read_number(Lexer& lexer, DType dtype, FloatText& source) {
  source.position = lexer.position();
  source.text = lexer.number("a number");
  const std::optional<T> value = to_float<T>(source.text);
  if (!value)
    lexer.fail(source.position, "constant: \"{}\" is no {} value", source.text, dtype_name(dtype));
  return *value;
}

[[noreturn]] void fail_range(Lexer& lexer, DType dtype, const FloatText& source) {
  lexer.fail(source.position, "constant: {} does not fit into {}{}", source.text, dtype_name(dtype),
             is_narrow(dtype) ? "" : "; write inf for infinity");
}

// Behind "nan": "(0x400001)", its mantissa bits; the bits of a NaN of that sign and payload.
std::optional<uint64_t> read_payload(Lexer& lexer, DType dtype, bool negative) {
  if (!lexer.accept("(")) return std::nullopt;
  const size_t at = lexer.position();
  std::string_view text = lexer.number("a NaN payload");
  if (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X") text.remove_prefix(2);
  uint64_t payload = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), payload, 16);
  if (error != std::errc{} || end != text.data() + text.size())
    lexer.fail(at, "constant: \"{}\" is no NaN payload such as 0x400001", text);
  const std::optional<FloatBits> bits = float_bits(dtype);
  if (bits && (payload == 0 || payload >> bits->mantissa != 0))
    lexer.fail(at, "constant: the NaN payload 0x{:x} does not fit into the {} mantissa bits of {}",
               payload, bits->mantissa, dtype_name(dtype));
  lexer.expect(")", "after a NaN payload");
  if (!bits) return std::nullopt;
  return bits->nan(negative, payload);
}

template <class T>
void push_bits(Bytes& bytes, uint64_t bits) {
  if constexpr (sizeof(T) == 2)
    push(bytes, static_cast<uint16_t>(bits));
  else if constexpr (sizeof(T) == 4)
    push(bytes, static_cast<uint32_t>(bits));
  else
    push(bytes, bits);
}

// T: float16, bfloat16, float, double. The 16-bit types are rounded once, from the exact double.
template <class T>
void read_float(Lexer& lexer, DType dtype, Bytes& bytes) {
  FloatText source;
  T value;
  if constexpr (sizeof(T) == 2)
    value = T(round_to_odd(read_number<double>(lexer, dtype, source)));
  else
    value = read_number<T>(lexer, dtype, source);
  const auto wide =
      static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value);
  if (std::isinf(wide) && !source.is_infinity()) fail_range(lexer, dtype, source);
  if (std::isnan(wide))
    if (const auto bits = read_payload(lexer, dtype, std::signbit(wide)))
      return push_bits<T>(bytes, *bits);
  push(bytes, value);
}

void read_narrow(Lexer& lexer, DType dtype, Bytes& bytes) {
  if (is_integer(dtype)) {
    const size_t start = lexer.position();
    const auto value = static_cast<double>(read_int<int64_t>(lexer, dtype));
    const uint8_t bits = narrow_from_double(dtype, value);
    if (narrow_to_double(dtype, bits) != value)
      lexer.fail(start, "constant: {} does not fit into {}", value, dtype_name(dtype));
    return push(bytes, bits);
  }
  FloatText source;
  const double value = read_number<double>(lexer, dtype, source);
  const uint8_t bits = narrow_from_double(dtype, value);
  const double rounded = narrow_to_double(dtype, bits);
  if (std::isnan(value)) read_payload(lexer, dtype, false);
  if (std::isnan(value) != std::isnan(rounded) || std::isinf(value) != std::isinf(rounded))
    fail_range(lexer, dtype, source);
  push(bytes, bits);
}

void read_pred(Lexer& lexer, Bytes& bytes) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.number("a pred literal");
  const bool one = text == "true" || text == "1";
  if (!one && text != "false" && text != "0")
    lexer.fail(start, "constant: \"{}\" is no pred value; use true or false", text);
  push(bytes, one);
}

// "(1, -2)", or the real part alone.
template <class T>
void read_complex(Lexer& lexer, Bytes& bytes) {
  const DType part = std::is_same_v<T, float> ? DType::f32 : DType::f64;
  if (lexer.peek() != '(') {
    read_float<T>(lexer, part, bytes);
    return push(bytes, T{0});
  }
  lexer.expect("(", "before a complex value such as (1, -2)");
  read_float<T>(lexer, part, bytes);
  lexer.expect(",", "between the parts of a complex value");
  read_float<T>(lexer, part, bytes);
  lexer.expect(")", "after a complex value");
}

void read_element(Lexer& lexer, DType dtype, Bytes& bytes) {
  if (dtype == DType::c64) return read_complex<float>(lexer, bytes);
  if (dtype == DType::c128) return read_complex<double>(lexer, bytes);
  if (is_narrow(dtype)) return read_narrow(lexer, dtype, bytes);
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>)
      read_pred(lexer, bytes);
    else if constexpr (std::is_integral_v<T>)
      push(bytes, read_int<T>(lexer, dtype));
    else
      read_float<T>(lexer, dtype, bytes);
  });
}

// Reads "1, 2.5, " up to `most` elements, as long as each is a plain number with a comma behind it;
// how many it has read.
template <class T>
int64_t read_plain(Lexer& lexer, int64_t most, Bytes& bytes) {
  const char* at = lexer.text().data() + lexer.position();
  const char* const end = lexer.text().data() + lexer.text().size();
  int64_t count = 0;
  for (const char* next = at; count < most; ++count) {
    while (next != end && (*next == ' ' || *next == '\n')) ++next;
    // Words such as nan, and numbers with a plus, are for the one who reads one by one.
    if (next == end || !(*next == '-' || (*next >= '0' && *next <= '9'))) break;
    T value{};
    const auto [behind, error] = std::from_chars(next, end, value);
    if (error != std::errc{} || behind == end || *behind != ',') break;
    if constexpr (std::is_floating_point_v<T>)
      if (!std::isfinite(value)) break;
    push(bytes, value);
    at = next = behind + 1;
  }
  lexer.seek(static_cast<size_t>(at - lexer.text().data()));
  return count;
}

int64_t read_plain(Lexer& lexer, DType dtype, int64_t most, Bytes& bytes) {
  switch (dtype) {
    case DType::f32:
      return read_plain<float>(lexer, most, bytes);
    case DType::f64:
      return read_plain<double>(lexer, most, bytes);
    case DType::s32:
      return read_plain<int32_t>(lexer, most, bytes);
    case DType::s64:
      return read_plain<int64_t>(lexer, most, bytes);
    default:
      return 0;
  }
}

// Walks the braces of an array literal, checking each closing brace against the dims.
class ElementReader {
 public:
  ElementReader(Lexer& lexer, const Shape& shape, std::span<std::byte> room)
      : lexer_(lexer), shape_(shape), bytes_(room) {}

  // The bytes of all elements, which it has written.
  size_t read() {
    bool comma_wanted = false;
    do {
      const size_t at = lexer_.position();
      if (!counts_.empty() && lexer_.accept("}")) {
        close(at);
        comma_wanted = true;
        continue;
      }
      if (comma_wanted) lexer_.expect(",", "between elements of a constant");
      if (comma_wanted && !counts_.empty() && lexer_.peek() == '}') continue;
      const size_t element = lexer_.position();
      if (lexer_.accept("{")) {
        open(element);
        comma_wanted = false;
        continue;
      }
      if (counts_.size() != shape_.dims.size())
        lexer_.fail(element, "constant: an element inside {} braces; {} needs {}", counts_.size(),
                    to_string(shape_), shape_.dims.size());
      // The last one of a row has no comma.
      const int64_t most = counts_.empty() ? 0 : shape_.dims.back() - counts_.back() - 1;
      if (const int64_t plain = read_plain(lexer_, shape_.dtype, most, bytes_)) {
        counts_.back() += plain;
        comma_wanted = false;
        continue;
      }
      count(element);
      read_element(lexer_, shape_.dtype, bytes_);
      comma_wanted = true;
    } while (!counts_.empty());
    return bytes_.size();
  }

 private:
  void count(size_t at) {
    if (counts_.empty()) return;
    if (++counts_.back() > shape_.dims[counts_.size() - 1])
      lexer_.fail(at, "constant: more than the {} elements of dim {} of {}",
                  shape_.dims[counts_.size() - 1], counts_.size() - 1, to_string(shape_));
  }

  void open(size_t at) {
    if (lexer_.accept("..."))
      lexer_.fail(at,
                  "constant: {} has elements left out ({{...}}); only all elements of an array may "
                  "be, print the module with large constants",
                  to_string(shape_));
    if (counts_.size() == shape_.dims.size())
      lexer_.fail(at, "constant: {} has {} dims, the braces are deeper", to_string(shape_),
                  shape_.dims.size());
    count(at);
    counts_.push_back(0);
  }

  void close(size_t at) {
    const size_t dim = counts_.size() - 1;
    if (counts_.back() != shape_.dims[dim])
      lexer_.fail(at, "constant: {} elements where dim {} of {} has {}", counts_.back(), dim,
                  to_string(shape_), shape_.dims[dim]);
    counts_.pop_back();
  }

  Lexer& lexer_;
  const Shape& shape_;
  std::vector<int64_t> counts_;  // elements seen in each open brace
  Bytes bytes_;
};

// An array without elements may be written "{}" whatever its rank.
void read_empty(Lexer& lexer, const Shape& shape) {
  const size_t start = lexer.position();
  const std::string text = tidy(lexer.raw_value("a constant"));
  if (text.find_first_not_of("{}, ") != std::string::npos)
    lexer.fail(start, "constant: {} has no elements; write {{}}", to_string(shape));
}

// "{...}": the elements were left out.
bool read_elided(Lexer& lexer) {
  const size_t start = lexer.position();
  if (lexer.accept("{") && lexer.accept("...") && lexer.accept("}")) return true;
  lexer.seek(start);
  return false;
}

// "f32[2,3] constant(0)": every element has the one value.
Array read_splat(Lexer& lexer, const Shape& shape) {
  // Few characters make it: what they may allocate is bounded.
  constexpr int64_t kMostBytes = int64_t{1} << 28;
  const size_t start = lexer.position();
  OneElement room;
  Bytes element(room);
  read_element(lexer, shape.dtype, element);
  if (shape.bytes() > kMostBytes)
    lexer.fail(start,
               "constant: one value for all elements of {}, which takes {} bytes; up to {} are "
               "filled, broadcast a scalar constant",
               to_string(shape), shape.bytes(), kMostBytes);
  Array literal(Shape(shape.dtype, shape.dims));
  const std::span<std::byte> bytes = literal.bytes();
  for (size_t at = 0; at < bytes.size(); at += element.size())
    std::memcpy(bytes.data() + at, element.data(), element.size());
  return literal;
}

// The shape that may stand before a literal.
void read_prefix(Lexer& lexer, const Shape& shape) {
  if (!sees_array_shape(lexer)) return;
  const size_t start = lexer.position();
  const Shape prefix = parse_shape(lexer, LayoutPlace::adjacent);
  if (!(prefix == shape))
    lexer.fail(start, "constant: elements of {} in a constant of {}", to_string(prefix),
               to_string(shape));
}

void read_leaves(Lexer& lexer, const Shape& shape, std::vector<Array>& leaves) {
  if (!shape.is_tuple) {
    leaves.push_back(parse_literal(lexer, shape));
    return;
  }
  lexer.expect("(", "before the elements of a tuple constant");
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    if (i) lexer.expect(",", "between the elements of a tuple constant");
    read_leaves(lexer, shape.elements[i], leaves);
  }
  lexer.expect(")", "after the elements of a tuple constant");
}

}  // namespace

Array parse_literal(Lexer& lexer, const Shape& shape) {
  read_prefix(lexer, shape);
  const size_t start = lexer.position();
  if (shape.is_tuple || dtype_size(shape.dtype) == 0)
    lexer.fail(start, "constant: {} has no value that can be written", to_string(shape));
  if (shape.elements_count() == 0) {
    if (lexer.peek() == '{') {
      read_empty(lexer, shape);
    } else {  // a value for all of its elements
      OneElement room;
      Bytes unused(room);
      read_element(lexer, shape.dtype, unused);
    }
    return Array(Shape(shape.dtype, shape.dims));
  }
  if (shape.rank() > 0 && read_elided(lexer)) return {};
  if (shape.rank() > 0 && lexer.peek() != '{') return read_splat(lexer, shape);
  // Room for what is declared where the text is long enough for it, an element taking a digit and a
  // comma; else for what it may have, which is found to be too few.
  const auto most = static_cast<int64_t>((lexer.text().size() - start) / 2 + 1);
  const bool fits = shape.elements_count() <= most;
  Array literal(fits ? Shape(shape.dtype, shape.dims) : Shape(shape.dtype, {most}));
  const size_t bytes = ElementReader(lexer, shape, literal.bytes()).read();
  if (static_cast<int64_t>(bytes) != shape.bytes())
    lexer.fail(start, "constant: {} elements given for {}",
               static_cast<int64_t>(bytes) / dtype_size(shape.dtype), to_string(shape));
  return literal;
}

std::vector<Array> parse_tuple_literal(Lexer& lexer, const Shape& shape) {
  std::vector<Array> leaves;
  // A tuple's shape may stand before it too: "(f32[], s32[]) (1, 2)".
  const size_t start = lexer.position();
  bool prefixed = false;
  try {
    prefixed = parse_shape(lexer, LayoutPlace::adjacent) == shape && lexer.peek() == '(';
  } catch (const UserError&) {
    // It was the value, not a shape.
  }
  if (!prefixed) lexer.seek(start);
  read_leaves(lexer, shape, leaves);
  return leaves;
}

}  // namespace gspmd
