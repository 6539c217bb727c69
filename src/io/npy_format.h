#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gspmd/base/array.h"

namespace gspmd::io {

// How the elements of an .npy file are stored.
enum class Storage : uint8_t { native, raw };  // raw: |V1, |V2, bytes that no type is known of

struct NpyHeader {
  DType dtype = DType::f32;
  Dims dims;
  Storage storage = Storage::native;
  bool big_endian = false;
  bool fortran_order = false;
  int64_t header_bytes = 0;  // before the elements

  Shape shape() const { return {dtype, dims}; }
};

// Bytes that tell how long the header is.
constexpr int64_t kNpyPrefix = 12;
// The header's length from the first kNpyPrefix bytes (fewer where the file is shorter).
int64_t npy_header_bytes(std::span<const std::byte> prefix, const std::string& name);
// `header`: the first npy_header_bytes of the file.
NpyHeader parse_npy_header(std::span<const std::byte> header, const std::string& name);
std::string npy_header_text(const Shape& shape);

// Elements as they lie in a file -> a row-major array of type `as`, or of the file's type. Takes
// over `array`, which has the file's shape and bytes.
Array finish_npy(const NpyHeader& header, Array array, const std::string& name,
                 std::optional<DType> as);
// UserError unless the header's elements are `available` bytes.
void check_npy_size(const NpyHeader& header, int64_t available, const std::string& name);

}  // namespace gspmd::io
