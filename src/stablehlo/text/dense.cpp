#include "stablehlo/text/dense.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/narrow.h"
#include "ir/float_bits.h"

namespace gspmd::stablehlo {
namespace {

int bits_of(DType dtype) {
  return is_narrow(dtype) ? narrow_bits(dtype) : static_cast<int>(8 * dtype_size(dtype));
}

[[noreturn]] void no_element(Cursor& cursor, std::string_view text, DType dtype, size_t position) {
  cursor.fail(position, "\"{}\" is no {}", text, dtype_name(dtype));
}

// "0x7FC0": the element's bits.
void read_bits(Cursor& cursor, std::string_view text, DType dtype, size_t position,
               std::byte* out) {
  uint64_t bits = 0;
  const std::string_view digits = text.substr(2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  const int width = dtype == DType::pred ? 1 : bits_of(dtype);
  if (error != std::errc{} || end != digits.data() + digits.size() ||
      (width < 64 && bits >> width != 0))
    cursor.fail(position, "{} does not fit into the {} bits of {}", text, width, dtype_name(dtype));
  std::memcpy(out, &bits, static_cast<size_t>(dtype_size(dtype)));
}

template <class T>
T parse_float(Cursor& cursor, std::string_view text, DType dtype, size_t position) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    no_element(cursor, text, dtype, position);
  if (error == std::errc::result_out_of_range) {  // zero, the nearest subnormal, or infinite
    const std::string copy(text);
    if constexpr (std::is_same_v<T, float>)
      value = std::strtof(copy.c_str(), nullptr);
    else
      value = std::strtod(copy.c_str(), nullptr);
  }
  return value;
}

template <class T>
void read_integer(Cursor& cursor, std::string_view text, DType dtype, size_t position,
                  std::byte* out) {
  T value{};
  if (text == "true" || text == "false") {
    value = text == "true";
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // The bits of an unsigned number may be written as those of a signed one, and the reverse.
    if (error == std::errc::result_out_of_range || (std::is_unsigned_v<T> && text[0] == '-'))
      cursor.fail(position, "{} does not fit into {}", text, dtype_name(dtype));
    if (error != std::errc{} || end != text.data() + text.size())
      no_element(cursor, text, dtype, position);
  }
  std::memcpy(out, &value, sizeof value);
}

void read_narrow(Cursor& cursor, std::string_view text, DType dtype, size_t position,
                 std::byte* out) {
  double value = 0;
  if (text == "true" || text == "false")
    value = text == "true";
  else
    value = parse_float<double>(cursor, text, dtype, position);
  const uint8_t bits = narrow_from_double(dtype, value);
  if (is_integer(dtype) && narrow_to_double(dtype, bits) != value)
    cursor.fail(position, "{} does not fit into {}", text, dtype_name(dtype));
  std::memcpy(out, &bits, 1);
}

void read_plain(Cursor& cursor, std::string_view text, DType dtype, size_t position,
                std::byte* out) {
  if (text.size() > 2 && text[0] == '0' && text[1] == 'x')
    return read_bits(cursor, text, dtype, position, out);
  if (is_narrow(dtype)) return read_narrow(cursor, text, dtype, position, out);
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) {
      if (text != "true" && text != "false" && text != "1" && text != "0" && text != "-1")
        no_element(cursor, text, dtype, position);
      *out = std::byte{text != "false" && text != "0"};
    } else if constexpr (std::is_integral_v<T>) {
      read_integer<T>(cursor, text, dtype, position, out);
    } else {
      T value;
      if constexpr (sizeof(T) == 2)
        value = T(round_to_odd(parse_float<double>(cursor, text, dtype, position)));
      else
        value = parse_float<T>(cursor, text, dtype, position);
      std::memcpy(out, &value, sizeof value);
    }
  });
}

// Walks the brackets of a literal, each held against the dims.
class ElementReader {
 public:
  ElementReader(Cursor& cursor, const Shape& shape)
      : cursor_(cursor), shape_(shape), size_(static_cast<size_t>(dtype_size(shape.dtype))) {}

  Array read() {
    Array array(Shape(shape_.dtype, shape_.dims));
    out_ = array.bytes().data();
    read_dim(0);
    return array;
  }

  void read_element(std::byte* out) {
    const DType dtype = shape_.dtype;
    if (!is_complex(dtype)) return read_number(dtype, out);
    const DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
    cursor_.expect("(", "before a complex number such as (1.0, -2.0)");
    read_number(part, out);
    cursor_.expect(",", "between the parts of a complex number");
    read_number(part, out + dtype_size(part));
    cursor_.expect(")", "behind a complex number");
  }

 private:
  void read_dim(size_t dim) {
    if (dim == shape_.dims.size()) {
      read_element(out_);
      out_ += size_;
      return;
    }
    if (!cursor_.accept("["))
      cursor_.fail(cursor_.position(), "expected \"[\" before dim {} of {}, found {}", dim,
                   to_string(shape_), cursor_.found());
    const int64_t count = shape_.dims[dim];
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0 && !cursor_.accept(","))
        cursor_.fail(cursor_.position(), "{} elements where dim {} of {} has {}", i, dim,
                     to_string(shape_), count);
      read_dim(dim + 1);
    }
    if (!cursor_.accept("]"))
      cursor_.fail(cursor_.position(),
                   "expected \"]\" behind the {} elements of dim {} of {}, found {}", count, dim,
                   to_string(shape_), cursor_.found());
  }

  void read_number(DType dtype, std::byte* out) {
    const size_t at = cursor_.position();
    const std::string_view word = cursor_.peek_word();
    if (word == "true" || word == "false") {
      cursor_.word("an element");
      return read_plain(cursor_, word, dtype, at, out);
    }
    read_plain(cursor_, cursor_.number(fmt_name(dtype)), dtype, at, out);
  }
  static std::string_view fmt_name(DType dtype) { return dtype_name(dtype); }

  Cursor& cursor_;
  const Shape& shape_;
  size_t size_;
  std::byte* out_ = nullptr;
};

constexpr std::array<int8_t, 256> hex_table() {
  std::array<int8_t, 256> table{};
  for (int c = 0; c < 256; ++c) {
    int8_t value = -1;
    if (c >= '0' && c <= '9') value = static_cast<int8_t>(c - '0');
    if (c >= 'a' && c <= 'f') value = static_cast<int8_t>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') value = static_cast<int8_t>(c - 'A' + 10);
    table[static_cast<size_t>(c)] = value;
  }
  return table;
}

// Preds as one byte each, or, before 2026, eight to a byte, the lowest bit first.
Array read_preds(Cursor& cursor, std::string_view digits, const Shape& shape, size_t position,
                 bool& is_splat) {
  const auto bytes = static_cast<int64_t>(digits.size() / 2);
  const int64_t count = shape.elements_count();
  std::vector<std::byte> raw(static_cast<size_t>(bytes));
  if (!decode_hex(digits, raw)) cursor.fail(position, "a byte of the literal is no hex number");
  if (bytes == 1 && count > 8) {
    is_splat = true;
    Array one(DType::pred, {});
    one.bytes()[0] = std::byte{raw[0] != std::byte{0}};
    return one;
  }
  const bool packed = bytes == ceil_div(count, 8) && (bytes != count || count == 1);
  if (!packed && bytes != count)
    cursor.fail(position, "{} bytes for the {} elements of {}; one or an eighth of one each", bytes,
                count, to_string(shape));
  Array array(Shape(DType::pred, shape.dims));
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(packed ? i / 8 : i);
    const auto byte = std::to_integer<int>(raw[at]);
    array.bytes()[static_cast<size_t>(i)] =
        std::byte{static_cast<unsigned char>(packed ? (byte >> (i % 8)) & 1 : byte != 0)};
  }
  return array;
}

}  // namespace

void read_float_element(Cursor& cursor, std::string_view text, DType dtype, size_t position,
                        std::byte* out) {
  read_plain(cursor, text, dtype, position, out);
}

bool decode_hex(std::string_view digits, std::span<std::byte> bytes) {
  static constexpr std::array<int8_t, 256> kValue = hex_table();
  if (digits.size() != 2 * bytes.size()) return false;
  int bad = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = kValue[static_cast<unsigned char>(digits[2 * i])];
    const int low = kValue[static_cast<unsigned char>(digits[2 * i + 1])];
    bad |= high | low;
    bytes[i] = static_cast<std::byte>(16 * high + low);
  }
  return bad >= 0;
}

Array read_elements(Cursor& cursor, const Shape& shape, bool& is_splat) {
  is_splat = shape.rank() > 0 && cursor.peek() != '[';
  const size_t at = cursor.position();
  if (!is_splat) {
    // Every element takes two characters at least: the text bounds what is allocated.
    const auto characters = static_cast<int64_t>(cursor.text().size() - at);
    if (shape.elements_count() > characters)
      cursor.fail(at, "the literal has fewer than the {} elements of {}", shape.elements_count(),
                  to_string(shape));
    return ElementReader(cursor, shape).read();
  }
  Array one(shape.dtype, {});
  ElementReader(cursor, shape).read_element(one.bytes().data());
  return one;
}

Array read_hex_elements(Cursor& cursor, std::string_view hex, const Shape& shape, size_t position,
                        bool& is_splat) {
  if (!hex.starts_with("0x")) cursor.fail(position, "a literal's bytes begin with 0x");
  const std::string_view digits = hex.substr(2);
  if (digits.size() % 2 != 0) cursor.fail(position, "a byte of the literal has one hex digit only");
  is_splat = false;
  if (shape.dtype == DType::pred) return read_preds(cursor, digits, shape, position, is_splat);
  const auto bytes = static_cast<int64_t>(digits.size() / 2);
  is_splat = bytes == dtype_size(shape.dtype) && shape.elements_count() != 1;
  const int64_t wanted = is_splat ? bytes : shape.bytes();
  if (bytes != wanted)
    cursor.fail(position, "{} bytes for {}, which has {}", bytes, to_string(shape), wanted);
  Array array(Shape(shape.dtype, is_splat ? Dims{} : shape.dims));
  if (!decode_hex(digits, array.bytes()))
    cursor.fail(position, "a byte of the literal is no hex number");
  if (is_narrow(shape.dtype) && narrow_bits(shape.dtype) < 8)  // the low bits are the element
    for (std::byte& byte : array.bytes())
      byte &= static_cast<std::byte>((1 << narrow_bits(shape.dtype)) - 1);
  return array;
}

}  // namespace gspmd::stablehlo
