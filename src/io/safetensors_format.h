#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gspmd/base/dtype.h"

namespace gspmd::io {

// The format's names of element types; nothing for types that it lacks.
std::string_view format_name(DType dtype);
std::optional<DType> dtype_of_format(std::string_view name);

// What this library keeps in __metadata__, not shown among the user's: a checksum of the header
// with its own digits as zeros, one per tensor of its bytes, and the type of elements that the
// format has no name for. docs/design/0016
constexpr std::string_view kOwnKeys = "gspmd.";
constexpr std::string_view kHeaderChecksum = "gspmd.xxh3";
constexpr std::string_view kTensorChecksum = "gspmd.xxh3.";
constexpr std::string_view kElementType = "gspmd.dtype.";
constexpr size_t kChecksumDigits = 16;  // hexadecimal

// XXH3 of 64 bits, fed piece by piece.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  void add(std::span<const std::byte> bytes);
  std::string digits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Where the digits of the header's own checksum lie in its text; npos where they do not.
size_t header_digits(std::string_view header);
// Of the header's length and text, its own digits taken as zeros; `header` has such digits.
std::string header_checksum(std::string header);

}  // namespace gspmd::io
