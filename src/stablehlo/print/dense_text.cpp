// Literals as MLIR prints them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/narrow.h"
#include "stablehlo/text/dense.h"
#include "stablehlo/text/type.h"

namespace gspmd::stablehlo {
namespace {

// More elements are written as their bytes.
constexpr int64_t kMostListed = 100;
constexpr size_t kPiece = 1 << 16;  // bytes of a literal that are text at once

template <class T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// "%.6e" where it reads back, else with all digits; infinities and NaN as bits.
template <class T>
std::string number_text(T value) {
  if (!std::isfinite(value)) return fmt::format("0x{:0{}X}", bits_of(value), 2 * sizeof value);
  std::string text = fmt::format("{:.6e}", value);
  T back{};
  if constexpr (std::is_same_v<T, float>)
    back = std::strtof(text.c_str(), nullptr);
  else
    back = std::strtod(text.c_str(), nullptr);
  if (bits_of(back) != bits_of(value))
    text = fmt::format("{:.{}e}", value, std::is_same_v<T, float> ? 8 : 16);
  return text;
}

std::string element_text_of(const Array& array, int64_t i) {
  const DType dtype = array.dtype();
  const auto at = static_cast<size_t>(i);
  if (is_narrow(dtype)) {
    const auto bits = std::to_integer<uint8_t>(array.bytes()[at]);
    const double value = narrow_to_double(dtype, bits);
    if (is_integer(dtype)) return fmt::format("{}", static_cast<int64_t>(value));
    const int width = narrow_bits(dtype);
    const auto masked = static_cast<uint8_t>(width < 8 ? bits & ((1 << width) - 1) : bits);
    return std::isfinite(value) ? number_text(static_cast<float>(value))
                                : fmt::format("0x{:0{}X}", masked, (width + 3) / 4);
  }
  return visit_dtype(dtype, [&](auto tag) -> std::string {
    using T = typename decltype(tag)::type;
    const T value = array.data<T>()[at];
    if constexpr (std::is_same_v<T, bool>)
      return value ? "true" : "false";
    else if constexpr (std::is_integral_v<T>)
      return fmt::format(
          "{}", static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
    else if constexpr (sizeof(T) == 2)
      return std::isfinite(float{value}) ? number_text(float{value})
                                         : fmt::format("0x{:04X}", bits_of(value));
    else
      return number_text(value);
  });
}

std::string element(const Array& array, int64_t i) {
  if (!is_complex(array.dtype())) return element_text_of(array, i);
  const bool is_double = array.dtype() == DType::c128;
  const size_t size = is_double ? 8 : 4;
  const std::byte* const at = array.bytes().data() + 2 * size * static_cast<size_t>(i);
  const auto part = [&](size_t k) {
    double wide = 0;
    float narrow = 0;
    std::memcpy(&wide, at + k * size, is_double ? size : 0);
    std::memcpy(&narrow, at + k * size, is_double ? 0 : size);
    return is_double ? number_text(wide) : number_text(narrow);
  };
  return fmt::format("({},{})", part(0), part(1));
}

void put_list(std::string& text, const Array& array, size_t dim, int64_t& next) {
  if (dim == array.dims().size()) {
    text += element(array, next++);
    return;
  }
  text += "[";
  for (int64_t i = 0; i < array.dims()[dim]; ++i) {
    if (i) text += ", ";
    put_list(text, array, dim + 1, next);
  }
  text += "]";
}

void append_hex(std::string& text, std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const size_t begin = text.size();
  text.resize(begin + 2 * bytes.size());
  char* out = text.data() + begin;
  for (const std::byte byte : bytes) {
    *out++ = kDigits[std::to_integer<int>(byte) >> 4];
    *out++ = kDigits[std::to_integer<int>(byte) & 15];
  }
}

}  // namespace

bool has_one_value(const Array& array) {
  const std::span<const std::byte> bytes = array.bytes();
  const auto size = static_cast<size_t>(dtype_size(array.dtype()));
  return bytes.size() <= size ||
         std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

bool is_large_text(const Array& array) {
  return array.size() > kMostListed && array.bytes().size() > kPiece && !has_one_value(array);
}

void print_dense(const Array& array, const std::function<void(std::string_view)>& write) {
  if (!is_large_text(array)) return write(dense_text(array));
  write("dense<\"0x");
  const std::span<const std::byte> bytes = array.bytes();
  std::string piece;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    piece.clear();
    append_hex(piece, bytes.subspan(at, std::min(kPiece, bytes.size() - at)));
    write(piece);
  }
  write("\"> : " + type_text(array.shape()));
}

std::string dense_text(const Array& array) {
  const std::string type = type_text(array.shape());
  const int64_t count = array.size();
  if (count == 0) return "dense<> : " + type;
  std::string text = "dense<";
  if (has_one_value(array)) {
    text += element(array, 0);
  } else if (count <= kMostListed) {
    int64_t next = 0;
    put_list(text, array, 0, next);
  } else {
    text += "\"0x";
    append_hex(text, array.bytes());
    text += "\"";
  }
  return text + "> : " + type;
}

}  // namespace gspmd::stablehlo
