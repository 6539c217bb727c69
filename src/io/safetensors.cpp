#include "gspmd/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "gspmd/base/error.h"
#include "io/box_rows.h"
#include "io/file.h"
#include "io/narrow_bytes.h"
#include "io/safetensors_format.h"
#include "io/safetensors_set.h"

namespace gspmd {

using namespace io;

namespace {

using Json = nlohmann::json;

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeader = 100'000'000;  // the format's own limit

// The header as JSON; refuses duplicate names and deep nesting, which the format does not have.
Json parse_header(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > 3) user_error("{}: the safetensors header is nested too deeply", path);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      user_error("{}: the safetensors header has \"{}\" twice", path, value.get<std::string>());
    return true;
  };
  try {
    Json header = Json::parse(text, check);
    if (!header.is_object()) user_error("{}: the safetensors header is not an object", path);
    return header;
  } catch (const Json::exception& error) {
    user_error("{}: the safetensors header is no JSON: {}", path, error.what());
  }
}

int64_t size_of(const Json& value, const std::string& path, const std::string& tensor) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMax)
    user_error("{}: tensor \"{}\": {} is no size", path, tensor, value.dump());
  return value.get<int64_t>();
}

DType dtype_of_entry(const Json& entry, const std::string& path, const std::string& tensor) {
  const auto at = entry.find("dtype");
  if (at == entry.end() || !at->is_string())
    user_error("{}: tensor \"{}\" has no dtype", path, tensor);
  if (const auto dtype = dtype_of_format(at->get<std::string>())) return *dtype;
  user_error("{}: tensor \"{}\" has the unknown dtype {}", path, tensor, at->dump());
}

const Json& array_of(const Json& entry, const char* key, const std::string& path,
                     const std::string& tensor) {
  const auto at = entry.find(key);
  if (at == entry.end() || !at->is_array())
    user_error("{}: tensor \"{}\" has no {}", path, tensor, key);
  return *at;
}

// offset: still relative to the end of the header.
SafetensorsEntry read_entry(const std::string& tensor, const Json& entry, int64_t data_bytes,
                            const std::string& path) {
  if (!entry.is_object()) user_error("{}: tensor \"{}\" is no object", path, tensor);
  Dims dims;
  for (const Json& dim : array_of(entry, "shape", path, tensor))
    dims.push_back(size_of(dim, path, tensor));
  SafetensorsEntry result{tensor, Shape(dtype_of_entry(entry, path, tensor), dims), 0};
  const Json& offsets = array_of(entry, "data_offsets", path, tensor);
  if (offsets.size() != 2)
    user_error("{}: tensor \"{}\" has {} data_offsets; there are two", path, tensor,
               offsets.size());
  const int64_t begin = size_of(offsets[0], path, tensor);
  const int64_t end = size_of(offsets[1], path, tensor);
  if (begin > end || end > data_bytes)
    user_error("{}: tensor \"{}\" lies at bytes {} to {} of {}", path, tensor, begin, end,
               data_bytes);
  if (result.shape.bytes() != end - begin)
    user_error("{}: tensor \"{}\", {}, has {} bytes, but its data_offsets span {}", path, tensor,
               to_string(result.shape), result.shape.bytes(), end - begin);
  result.offset = begin;
  return result;
}

void check_layout(const std::vector<SafetensorsEntry>& tensors, int64_t data_bytes,
                  const std::string& path) {
  int64_t end = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.offset != end)
      user_error(
          "{}: tensor \"{}\" begins at byte {}, the one before it ends at byte {}; tensors "
          "neither overlap nor leave gaps",
          path, tensor.name, tensor.offset, end);
    end += tensor.shape.bytes();
  }
  if (end != data_bytes)
    user_error("{}: holds {} bytes of data, its tensors have {}", path, data_bytes, end);
}

void fix_pred(const Array& array) {
  if (array.dtype() != DType::pred) return;
  for (std::byte& byte : array.bytes()) byte = byte == std::byte{0} ? byte : std::byte{1};
}

}  // namespace

struct SafetensorsFile::Impl {
  explicit Impl(const std::string& path) : file(path) {}

  const SafetensorsEntry& find(const std::string& name) const {
    const auto at = index.find(name);
    if (at == index.end())
      user_error("{}: has no tensor \"{}\" among its {}", file.path(), name, tensors.size());
    return tensors[at->second];
  }
  void read(int64_t offset, std::span<std::byte> to) const {
    file.read(offset, to);
    bytes_read += static_cast<int64_t>(to.size());
  }
  void check_header(const std::string& text) const;
  void take_notes();
  void check(const SafetensorsEntry& tensor, const Checksum& checksum) const;
  // The elements in the type that the writer had.
  Array typed(const SafetensorsEntry& tensor, const Array& stored) const {
    if (set) return stored;
    const auto at = notes.find(std::string(kElementType) + tensor.name);
    if (at == notes.end()) {
      fix_pred(stored);
      return stored;
    }
    return narrow_array(stored, tensor.shape.dtype);
  }
  // The box's elements to the beginning of `to`.
  void read_rows(const SafetensorsEntry& tensor, const Box& box, const Array& to) const;

  InputFile file;
  std::unique_ptr<SafetensorsSet> set;  // where the file is the index of one
  std::vector<SafetensorsEntry> tensors;
  std::map<std::string, size_t> index;
  std::map<std::string, std::string> metadata, notes;  // the user's, our own
  mutable std::atomic<int64_t> bytes_read{0};
};

void SafetensorsFile::Impl::read_rows(const SafetensorsEntry& tensor, const Box& box,
                                      const Array& to) const {
  if (set) return set->read(index.at(tensor.name), box, to);
  const int64_t width = dtype_size(tensor.shape.dtype);
  std::byte* const target = to.bytes().data();
  each_row(tensor.shape.dims, box, to.dims(), [&](int64_t from, int64_t into, int64_t count) {
    read(tensor.offset + from * width, {target + into * width, static_cast<size_t>(count * width)});
  });
}

// A file with anything of ours in its metadata must have all of it.
void SafetensorsFile::Impl::check_header(const std::string& text) const {
  if (notes.empty()) return;
  const auto at = notes.find(std::string(kHeaderChecksum));
  if (at == notes.end() || header_digits(text) == std::string::npos)
    user_error("{}: the header is damaged: its checksum is missing", file.path());
  const std::string found = header_checksum(text);
  if (at->second != found)
    user_error("{}: the header is damaged: its checksum is {}, the file says {}", file.path(),
               found, at->second);
}

void SafetensorsFile::Impl::take_notes() {
  for (SafetensorsEntry& tensor : tensors) {
    const auto at = notes.find(std::string(kElementType) + tensor.name);
    if (at == notes.end()) continue;
    const std::optional<DType> dtype = dtype_from_name(at->second);
    if (!dtype || !is_narrow(*dtype) || dtype_size(tensor.shape.dtype) != 1)
      user_error("{}: tensor \"{}\": {} are no elements of {}", file.path(), tensor.name,
                 dtype_name(tensor.shape.dtype), at->second);
    tensor.shape.dtype = *dtype;
  }
}

void SafetensorsFile::Impl::check(const SafetensorsEntry& tensor, const Checksum& checksum) const {
  if (notes.empty()) return;
  const auto at = notes.find(std::string(kTensorChecksum) + tensor.name);
  const std::string given = at == notes.end() ? "nothing" : at->second;
  if (given != checksum.digits())
    user_error(
        "{}: tensor \"{}\", {}, is damaged: the checksum of its bytes is {}, the file says {}",
        file.path(), tensor.name, to_string(tensor.shape), checksum.digits(), given);
}

SafetensorsFile::SafetensorsFile(const std::string& path) : SafetensorsFile(path, true) {}

SafetensorsFile::SafetensorsFile(const std::string& path, bool may_be_index)
    : impl_(make_owned<Impl>(path)) {
  const InputFile& file = impl_->file;
  if (file.size() < kLengthBytes)
    user_error("{}: is no safetensors file: {} bytes, without the header's length", path,
               file.size());
  uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > static_cast<uint64_t>(std::min(kMaxHeader, file.size() - kLengthBytes)))
    user_error("{}: is no safetensors file: a header of {} bytes in a file of {}", path, length,
               file.size());
  std::string text(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const Json header = parse_header(text, path);
  const int64_t start = kLengthBytes + static_cast<int64_t>(length);
  const int64_t data_bytes = file.size() - start;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      impl_->tensors.push_back(read_entry(name, entry, data_bytes, path));
      continue;
    }
    if (!entry.is_object()) user_error("{}: __metadata__ is no object", path);
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) user_error("{}: __metadata__ \"{}\" is no string", path, key);
      (key.starts_with(kOwnKeys) ? impl_->notes : impl_->metadata)[key] = value;
    }
  }
  std::stable_sort(impl_->tensors.begin(), impl_->tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.shape.bytes()) < std::pair(b.offset, b.shape.bytes());
  });
  check_layout(impl_->tensors, data_bytes, path);
  impl_->check_header(text);
  impl_->take_notes();
  if (const std::string set = note(kSetNote); may_be_index && !set.empty()) {
    if (!impl_->tensors.empty()) user_error("{}: is an index, but has tensors itself", path);
    impl_->set = std::make_unique<SafetensorsSet>(path, set);
    impl_->tensors = impl_->set->entries();
  }
  for (size_t i = 0; i < impl_->tensors.size(); ++i) {
    impl_->tensors[i].offset += impl_->set ? 0 : start;
    impl_->index[impl_->tensors[i].name] = i;
  }
}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const std::vector<SafetensorsEntry>& SafetensorsFile::tensors() const { return impl_->tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->metadata;
}
bool SafetensorsFile::contains(const std::string& name) const {
  return impl_->index.contains(name);
}
const Shape& SafetensorsFile::shape(const std::string& name) const {
  return impl_->find(name).shape;
}
int64_t SafetensorsFile::bytes_read() const {
  return impl_->set ? impl_->set->bytes_read() : impl_->bytes_read.load();
}

std::vector<std::string> SafetensorsFile::files() const {
  return impl_->set ? impl_->set->files() : std::vector{impl_->file.path()};
}

std::string SafetensorsFile::note(std::string_view key) const {
  const auto at = impl_->notes.find(std::string(key));
  return at == impl_->notes.end() ? "" : at->second;
}

bool SafetensorsFile::has_checksums() const { return !impl_->notes.empty(); }

void SafetensorsFile::verify(const std::string& name) const {
  if (!has_checksums()) return;
  constexpr int64_t kPiece = 1 << 20;
  const SafetensorsEntry& tensor = impl_->find(name);
  if (impl_->set) return impl_->set->verify(impl_->index.at(name));
  const int64_t bytes = tensor.shape.bytes();
  std::vector<std::byte> piece(static_cast<size_t>(std::min(bytes, kPiece)));
  Checksum checksum;
  for (int64_t at = 0; at < bytes; at += kPiece) {
    const std::span part(piece.data(), static_cast<size_t>(std::min(bytes - at, kPiece)));
    impl_->read(tensor.offset + at, part);
    checksum.add(part);
  }
  impl_->check(tensor, checksum);
}

void SafetensorsFile::verify() const {
  for (const SafetensorsEntry& tensor : impl_->tensors) verify(tensor.name);
}

Array SafetensorsFile::read(const std::string& name) const {
  const SafetensorsEntry& tensor = impl_->find(name);
  const Array array(tensor.shape);
  if (impl_->set) {
    impl_->set->verify(impl_->index.at(name));
    impl_->read_rows(tensor, {Dims(tensor.shape.dims.size(), 0), tensor.shape.dims}, array);
    return array;
  }
  impl_->read(tensor.offset, array.bytes());
  Checksum checksum;
  checksum.add(array.bytes());
  impl_->check(tensor, checksum);
  return impl_->typed(tensor, array);
}

Array SafetensorsFile::read_box(const std::string& name, const Box& box) const {
  const SafetensorsEntry& tensor = impl_->find(name);
  const Dims& dims = tensor.shape.dims;
  if (box.start.size() != dims.size() || box.size.size() != dims.size())
    user_error("{}: tensor \"{}\", {}: a box of {} starts and {} sizes", impl_->file.path(), name,
               to_string(tensor.shape), box.start.size(), box.size.size());
  for (size_t d = 0; d < dims.size(); ++d)
    if (box.start[d] < 0 || box.size[d] < 0 || box.start[d] > dims[d] ||
        box.size[d] > dims[d] - box.start[d])
      user_error("{}: tensor \"{}\", {}: a box from {} of {} is outside dim {}", impl_->file.path(),
                 name, to_string(tensor.shape), box.start[d], box.size[d], d);
  Array array(Shape(tensor.shape.dtype, box.size));
  impl_->read_rows(tensor, box, array);
  return impl_->typed(tensor, array);
}

Array SafetensorsFile::read_shard(const std::string& name, const Sharding& sharding,
                                  int64_t device) const {
  const SafetensorsEntry& tensor = impl_->find(name);
  if (sharding.is_tuple() || sharding.rank() > tensor.shape.rank())
    user_error("{}: tensor \"{}\", {}: {} is no sharding of it", impl_->file.path(), name,
               to_string(tensor.shape), to_string(sharding));
  if (device < 0) user_error("{}: there is no device {}", impl_->file.path(), device);
  Array array(local_shape(tensor.shape, sharding));
  impl_->read_rows(tensor, shard_box(tensor.shape, sharding, device), array);
  return impl_->typed(tensor, array);
}

}  // namespace gspmd
