#include "io/narrow_bytes.h"

#include <cstring>

#include "base/narrow.h"

namespace gspmd::io {

DType storage_type(DType dtype) {
  if (!is_narrow(dtype)) return dtype;
  if (is_floating(dtype)) return DType::u8;
  return is_signed_integer(dtype) ? DType::s8 : DType::u8;
}

Array narrow_array(const Array& bytes, DType dtype) {
  Array result(Shape(dtype, bytes.dims()));
  const std::span<std::byte> from = bytes.bytes();
  const std::span<std::byte> to = result.bytes();
  const bool integer = is_narrow(dtype) && !is_floating(dtype);
  for (size_t i = 0; i < from.size(); ++i) {
    if (!integer) {
      to[i] = from[i];
      continue;
    }
    int8_t value;
    std::memcpy(&value, &from[i], 1);
    to[i] = static_cast<std::byte>(narrow_from_double(dtype, value));
  }
  return result;
}

Array widened(const Array& array) {
  const DType dtype = array.dtype();
  if (!is_narrow(dtype)) return array;
  Array result(Shape(storage_type(dtype), array.dims()));
  const std::span<std::byte> from = array.bytes();
  const std::span<std::byte> to = result.bytes();
  for (size_t i = 0; i < from.size(); ++i) {
    const auto bits = std::to_integer<uint8_t>(from[i]);
    to[i] = is_floating(dtype)
                ? from[i]
                : static_cast<std::byte>(static_cast<int>(narrow_to_double(dtype, bits)) & 0xff);
  }
  return result;
}

}  // namespace gspmd::io
