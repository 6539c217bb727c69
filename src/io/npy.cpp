#include "gspmd/io/npy.h"

#include <cstring>

#include "gspmd/base/error.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/narrow_bytes.h"
#include "io/npy_format.h"

namespace gspmd {

using namespace io;

Array parse_npy(std::span<const std::byte> bytes, const std::string& name,
                std::optional<DType> as) {
  const int64_t length =
      npy_header_bytes(bytes.first(std::min<size_t>(bytes.size(), kNpyPrefix)), name);
  if (length > static_cast<int64_t>(bytes.size()))
    user_error("{}: an npy header of {} bytes in a file of {}", name, length, bytes.size());
  const NpyHeader header = parse_npy_header(bytes.first(static_cast<size_t>(length)), name);
  const std::span<const std::byte> elements = bytes.subspan(static_cast<size_t>(length));
  check_npy_size(header, static_cast<int64_t>(elements.size()), name);
  Array array(header.shape());
  if (const std::span<std::byte> to = array.bytes(); !to.empty())
    std::memcpy(to.data(), elements.data(), to.size());
  return finish_npy(header, std::move(array), name, as);
}

Array read_npy(const std::string& path, std::optional<DType> as) {
  const InputFile file(path);
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(file.size(), kNpyPrefix)));
  file.read(0, bytes);
  const int64_t length = npy_header_bytes(bytes, path);
  if (length > file.size())
    user_error("{}: an npy header of {} bytes in a file of {}", path, length, file.size());
  bytes.resize(static_cast<size_t>(length));
  file.read(0, bytes);
  const NpyHeader header = parse_npy_header(bytes, path);
  check_npy_size(header, file.size() - length, path);
  Array array(header.shape());
  file.read(length, array.bytes());
  return finish_npy(header, std::move(array), path, as);
}

std::vector<std::byte> npy_bytes(const Array& array) {
  const std::string header = npy_header_text(array.shape());
  const Array stored = widened(array);
  const std::span<std::byte> elements = stored.bytes();
  std::vector<std::byte> bytes(header.size() + elements.size());
  std::memcpy(bytes.data(), header.data(), header.size());
  if (!elements.empty())
    std::memcpy(bytes.data() + header.size(), elements.data(), elements.size());
  return bytes;
}

void write_npy(const std::string& path, const Array& array) {
  const std::string header = npy_header_text(array.shape());
  const Array stored = widened(array);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(header)), stored.bytes()};
  write_file(path, pieces);
}

}  // namespace gspmd
