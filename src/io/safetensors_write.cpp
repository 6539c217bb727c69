#include "io/safetensors_write.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gspmd/base/error.h"
#include "gspmd/io/safetensors.h"
#include "io/atomic_file.h"
#include "io/narrow_bytes.h"
#include "io/safetensors_format.h"

namespace gspmd {

using namespace io;

namespace {

// What the file says the elements of a type are. Bytes and integers of the format's own stand for
// narrow types that it lacks; nothing for c128.
DType stored_type(DType dtype) { return format_name(dtype).empty() ? storage_type(dtype) : dtype; }

using OrderedJson = nlohmann::ordered_json;

// The header with every checksum's digits still zeros.
OrderedJson make_header(const std::string& path, std::span<const SafetensorsSource> tensors,
                        const std::map<std::string, std::string>& metadata,
                        const std::map<std::string, std::string>& notes) {
  const std::string zeros(kChecksumDigits, '0');
  std::map<std::string, std::string> all = metadata;
  all.insert(notes.begin(), notes.end());
  for (const auto& [key, value] : metadata)
    if (key.starts_with(kOwnKeys))
      user_error("{}: metadata \"{}\": names that begin with \"{}\" are taken; give it another",
                 path, key, kOwnKeys);
  all[std::string(kHeaderChecksum)] = zeros;
  OrderedJson header = {{"__metadata__", OrderedJson::object()}};
  int64_t offset = 0;
  for (const SafetensorsSource& tensor : tensors) {
    const DType dtype = tensor.shape.dtype, stored = stored_type(dtype);
    if (format_name(stored).empty())
      user_error("{}: tensor \"{}\": safetensors has no form for {}", path, tensor.name,
                 dtype_name(dtype));
    if (header.contains(tensor.name))
      user_error("{}: tensor \"{}\" is given twice, or has the metadata's name; give it another",
                 path, tensor.name);
    const int64_t end = offset + Shape(stored, tensor.shape.dims).bytes();
    header[tensor.name] = {{"dtype", format_name(stored)},
                           {"shape", tensor.shape.dims},
                           {"data_offsets", {offset, end}}};
    offset = end;
    all[std::string(kTensorChecksum) + tensor.name] = zeros;
    if (format_name(dtype).empty())
      all[std::string(kElementType) + tensor.name] = dtype_name(dtype);
  }
  header["__metadata__"] = all;
  return header;
}

// Padded to the format's 8 bytes: its length does not depend on the digits of checksums.
std::string header_text(const std::string& path, const OrderedJson& header) {
  try {
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    return text;
  } catch (const OrderedJson::exception& error) {
    user_error("{}: a name is not UTF-8: {}", path, error.what());
  }
}

}  // namespace

io::WrittenFile io::write_with_notes(const std::string& path,
                                     std::span<const SafetensorsSource> tensors,
                                     const std::map<std::string, std::string>& metadata,
                                     const std::map<std::string, std::string>& own) {
  OrderedJson header = make_header(path, tensors, metadata, own);
  OrderedJson& notes = header["__metadata__"];
  const uint64_t length = header_text(path, header).size();
  AtomicFile file(path);
  auto offset = static_cast<int64_t>(sizeof length + length);
  for (const SafetensorsSource& tensor : tensors) {
    const Array array = tensor.read();
    if (!(array.shape() == tensor.shape))
      internal_error("{}: tensor \"{}\" is {}, announced as {}", path, tensor.name,
                     to_string(array.shape()), to_string(tensor.shape));
    const Array stored = widened(array);
    const std::span<const std::byte> bytes = stored.bytes();
    Checksum checksum;
    checksum.add(bytes);
    notes[std::string(kTensorChecksum) + tensor.name] = checksum.digits();
    file.write(offset, bytes);
    offset += static_cast<int64_t>(bytes.size());
  }
  const std::string digits = header_checksum(header_text(path, header));
  notes[std::string(kHeaderChecksum)] = digits;
  file.write(0, std::as_bytes(std::span(&length, 1)));
  const std::string text = header_text(path, header);
  file.write(sizeof length, std::as_bytes(std::span(text)));
  file.commit();
  return {offset, digits};
}

void write_safetensors_streamed(const std::string& path, std::span<const SafetensorsSource> tensors,
                                const std::map<std::string, std::string>& metadata) {
  write_with_notes(path, tensors, metadata, {});
}

void write_safetensors(const std::string& path,
                       std::span<const std::pair<std::string, Array>> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsSource> sources;
  for (const auto& [name, array] : tensors)
    sources.push_back({name, array.shape(), [&held = array] { return held; }});
  write_safetensors_streamed(path, sources, metadata);
}

}  // namespace gspmd
