#include "io/npy_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "gspmd/base/error.h"
#include "io/narrow_bytes.h"

namespace gspmd::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxRank = 64;

struct Code {
  std::string_view code;  // kind and bytes, without the byte order
  DType dtype;
  Storage storage;
};
constexpr Code kCodes[] = {
    {"b1", DType::pred, Storage::native}, {"i1", DType::s8, Storage::native},
    {"i2", DType::s16, Storage::native},  {"i4", DType::s32, Storage::native},
    {"i8", DType::s64, Storage::native},  {"u1", DType::u8, Storage::native},
    {"u2", DType::u16, Storage::native},  {"u4", DType::u32, Storage::native},
    {"u8", DType::u64, Storage::native},  {"f2", DType::f16, Storage::native},
    {"f4", DType::f32, Storage::native},  {"f8", DType::f64, Storage::native},
    {"c8", DType::c64, Storage::native},  {"c16", DType::c128, Storage::native},
    {"V2", DType::bf16, Storage::raw},    {"V1", DType::u8, Storage::raw},
    {"f1", DType::u8, Storage::raw},
};

// The Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader read() {
    NpyHeader header;
    std::vector<std::string> seen;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      if (std::find(seen.begin(), seen.end(), key) != seen.end())
        user_error("{}: the npy header has '{}' twice", name_, key);
      seen.push_back(key);
      expect(':');
      if (key == "descr")
        descr(header);
      else if (key == "fortran_order")
        header.fortran_order = boolean();
      else if (key == "shape")
        shape(header);
      else
        user_error("{}: the npy header has the unknown key '{}'", name_, key);
      if (accept(',')) continue;
      expect('}');
      break;
    }
    for (const char* key : {"descr", "fortran_order", "shape"})
      if (std::find(seen.begin(), seen.end(), key) == seen.end())
        user_error("{}: the npy header has no '{}'", name_, key);
    skip_space();
    if (at_ != text_.size()) fail("the end");
    return header;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::strchr(" \n\r\t", text_[at_]) != nullptr && text_[at_] != 0)
      ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void fail(std::string_view wanted) const {
    user_error("{}: the npy header is malformed at byte {}: {} was expected", name_, at_, wanted);
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}'", c));
  }
  std::string string() {
    skip_space();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail("a string");
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos || end - at_ > 64) fail("a short string");
    const std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    fail("True or False");
  }
  int64_t integer() {
    skip_space();
    const size_t start = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value))
        fail("a size below 2^63");
    if (at_ == start) fail("a size");
    accept('L');  // as Python 2 wrote it
    return value;
  }
  void shape(NpyHeader& header) {
    expect('(');
    while (!accept(')')) {
      header.dims.push_back(integer());
      if (header.dims.size() > kMaxRank)
        user_error("{}: an array of more than {} dims", name_, kMaxRank);
      if (accept(',')) continue;
      expect(')');
      break;
    }
  }
  void descr(NpyHeader& header) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[')
      user_error("{}: is an array of records; save each field as an array of its own", name_);
    const std::string text = string();
    const bool ordered = !text.empty() && std::strchr("<>|=", text[0]) != nullptr;
    const std::string_view code = std::string_view(text).substr(ordered ? 1 : 0);
    for (const Code& known : kCodes)
      if (known.code == code) {
        header.dtype = known.dtype;
        header.storage = known.storage;
        header.big_endian = ordered && text[0] == '>' && known.storage == Storage::native;
        return;
      }
    user_error(
        "{}: elements of type '{}' have no HLO type; save them as bool, integers, floats or "
        "complex numbers of up to 8 bytes a part",
        name_, text);
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

std::string descr_of(DType dtype) {
  const DType stored = storage_type(dtype);
  if (dtype == DType::bf16) return "|V2";
  if (is_narrow(dtype) && is_floating(dtype)) return "|V1";
  for (const Code& known : kCodes)
    if (known.dtype == stored)
      return fmt::format("{}{}", dtype_size(stored) == 1 ? '|' : '<', known.code);
  user_error("npy: {} values cannot be saved", dtype_name(dtype));
}

void reverse_bytes(std::span<std::byte> bytes, size_t width) {
  for (size_t i = 0; i + width <= bytes.size(); i += width)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + width));
}

// First index fastest -> last index fastest.
Array from_fortran_order(const Array& array) {
  Array result(array.shape());
  const auto size = static_cast<size_t>(dtype_size(array.dtype()));
  const Dims& dims = array.dims();
  const std::byte* from = array.bytes().data();
  std::byte* const to = result.bytes().data();
  const Dims strides = row_major_strides(dims);
  Dims index(dims.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < array.size(); ++i, from += size) {
    std::memcpy(to + static_cast<size_t>(offset) * size, from, size);
    for (size_t d = 0; d < dims.size(); ++d) {
      offset += strides[d];
      if (++index[d] < dims[d]) break;
      offset -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace

int64_t npy_header_bytes(std::span<const std::byte> prefix, const std::string& name) {
  if (prefix.size() < 10 || std::memcmp(prefix.data(), kMagic.data(), kMagic.size()) != 0)
    user_error("{}: is not an npy file: it does not begin with \\x93NUMPY", name);
  const auto byte = [&](size_t i) { return std::to_integer<int64_t>(prefix[i]); };
  const int64_t version = byte(6);
  if (version == 1) return 10 + byte(8) + (byte(9) << 8);
  if (version < 1 || version > 3)
    user_error("{}: npy version {}.{}; versions 1 to 3 are read", name, version, byte(7));
  if (prefix.size() < 12) user_error("{}: ends inside its npy header", name);
  return 12 + byte(8) + (byte(9) << 8) + (byte(10) << 16) + (byte(11) << 24);
}

NpyHeader parse_npy_header(std::span<const std::byte> header, const std::string& name) {
  const size_t start = std::to_integer<int>(header[6]) == 1 ? 10 : 12;
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  NpyHeader result = HeaderReader(text.substr(start), name).read();
  result.header_bytes = static_cast<int64_t>(header.size());
  return result;
}

std::string npy_header_text(const Shape& shape) {
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr_of(shape.dtype));
  for (const int64_t dim : shape.dims) text += fmt::format("{}, ", dim);
  if (shape.rank() > 1) text.resize(text.size() - 2);
  if (shape.rank() == 1) text.pop_back();
  text += "), }";
  text.append(63 - (10 + text.size()) % 64, ' ');  // elements begin at a multiple of 64
  text += '\n';
  std::string result(kMagic);
  result +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return result + text;
}

void check_npy_size(const NpyHeader& header, int64_t available, const std::string& name) {
  const int64_t needed = header.shape().bytes();
  if (needed != available)
    user_error("{}: declares {}, {} bytes, but holds {}", name, to_string(header.shape()), needed,
               available);
}

Array finish_npy(const NpyHeader& header, Array array, const std::string& name,
                 std::optional<DType> as) {
  if (header.big_endian) {
    const bool pair = is_complex(header.dtype);
    reverse_bytes(array.bytes(), static_cast<size_t>(dtype_size(header.dtype)) / (pair ? 2 : 1));
  }
  if (header.dtype == DType::pred)
    for (std::byte& byte : array.bytes()) byte = byte == std::byte{0} ? byte : std::byte{1};
  if (header.fortran_order && header.dims.size() > 1) array = from_fortran_order(array);
  if (!as || *as == header.dtype) return array;
  const bool bytes = dtype_size(header.dtype) == 1 && header.dtype != DType::pred;
  if (bytes && is_narrow(*as)) return narrow_array(array, *as);
  if (bytes && header.storage == Storage::raw && dtype_size(*as) == 1 && *as != DType::pred)
    return narrow_array(array, *as);
  user_error("{}: is {}, but {} is wanted", name, to_string(header.shape()), dtype_name(*as));
}

}  // namespace gspmd::io
