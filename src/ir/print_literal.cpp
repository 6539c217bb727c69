#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/narrow.h"
#include "ir/float_bits.h"
#include "ir/parse_literal.h"

namespace gspmd {
namespace {

template <class T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
void print_float(std::string& text, T stored, DType dtype) {
  const auto value =
      static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(stored);
  if (!std::isnan(value)) {
    fmt::format_to(std::back_inserter(text), "{}", value);
    return;
  }
  const FloatBits format = float_bits(dtype).value();
  const uint64_t bits = bits_of(stored);
  text += bits >> (format.width - 1) ? "-nan" : "nan";
  if (const uint64_t payload = format.payload(bits); payload != format.quiet())
    fmt::format_to(std::back_inserter(text), "(0x{:x})", payload);
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
  else
    print_float(text, value, literal.dtype());
}

template <class T>
void print_complex(std::string& text, const Array& literal, int64_t index) {
  const DType part = std::is_same_v<T, float> ? DType::f32 : DType::f64;
  T parts[2];
  std::memcpy(parts, literal.bytes().data() + static_cast<size_t>(index) * sizeof parts,
              sizeof parts);
  text += "(";
  print_float(text, parts[0], part);
  text += ", ";
  print_float(text, parts[1], part);
  text += ")";
}

void print_narrow(std::string& text, const Array& literal, int64_t index) {
  const auto bits = static_cast<uint8_t>(literal.bytes()[static_cast<size_t>(index)]);
  const double value = narrow_to_double(literal.dtype(), bits);
  if (std::isnan(value))
    text += "nan";
  else
    fmt::format_to(std::back_inserter(text), "{}", value);
}

void print_any(std::string& text, const Array& literal, int64_t index) {
  if (literal.dtype() == DType::c64) return print_complex<float>(text, literal, index);
  if (literal.dtype() == DType::c128) return print_complex<double>(text, literal, index);
  if (is_narrow(literal.dtype())) return print_narrow(text, literal, index);
  visit_dtype(literal.dtype(),
              [&](auto tag) { print_element<typename decltype(tag)::type>(text, literal, index); });
}

}  // namespace

void print_literal(std::string& text, const Array& literal, const PieceWriter& write) {
  const Dims& dims = literal.dims();
  const int64_t count = literal.size();
  if (count == 0) {
    text += "{}";
    return;
  }
  text.append(dims.size(), '{');
  // Counts like an odometer: behind an element a brace closes, and before the next one opens, for
  // each dim that wraps there.
  Dims at(dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    print_any(text, literal, i);
    size_t wrapped = 0;
    for (size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d]; ++wrapped) at[d] = 0;
    text.append(wrapped, '}');
    if (i + 1 == count) break;
    text += ", ";
    text.append(wrapped, '{');
    if (write && text.size() >= kPiece) {
      write(text);
      text.clear();
    }
  }
}

}  // namespace gspmd
