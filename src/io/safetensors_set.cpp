#include "io/safetensors_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "gspmd/base/error.h"
#include "io/atomic_file.h"
#include "io/box_rows.h"
#include "io/safetensors_format.h"

namespace gspmd::io {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr std::string_view kEnd = ".safetensors", kPart = ".part-";
constexpr size_t kIdDigits = 16;

std::string without_end(const std::string& name) {
  return name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : name;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "step-7" of "step-7.part-1-of-4-0123456789abcdef.safetensors"; nullopt: no part.
std::optional<std::string> stem_of_part(const std::string& name) {
  if (!name.ends_with(kEnd)) return std::nullopt;
  const std::string_view text = std::string_view(name).substr(0, name.size() - kEnd.size());
  const size_t at = text.rfind(kPart);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const std::string_view rest = text.substr(at + kPart.size());
  const size_t of = rest.find("-of-"), id = rest.rfind('-');
  if (of == std::string_view::npos || id < of + 4 || rest.size() - id - 1 != kIdDigits ||
      rest.find_first_not_of("0123456789abcdef", id + 1) != std::string_view::npos ||
      !is_number(rest.substr(0, of)) || !is_number(rest.substr(of + 4, id - of - 4)))
    return std::nullopt;
  return std::string(text.substr(0, at));
}

// Paths of the parts in a folder, by the stem of their index.
std::vector<std::pair<std::string, std::string>> parts_in(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> parts;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (const auto stem = stem_of_part(name))
      parts.emplace_back(*stem, fmt::format("{}/{}", folder, name));
  }
  return parts;
}

Json box_json(const SetPiece& piece) {
  return Json::array({piece.part, piece.box.start, piece.box.size});
}

std::string note_of(const SetIndex& set) {
  Json parts = Json::array(), tensors = Json::array();
  for (const SetPart& part : set.parts)
    parts.push_back(
        {{"file", part.file}, {"bytes", part.written.bytes}, {"checksum", part.written.checksum}});
  for (const SetTensor& tensor : set.tensors) {
    Json pieces = Json::array();
    for (const SetPiece& piece : tensor.pieces) pieces.push_back(box_json(piece));
    tensors.push_back({{"name", tensor.name},
                       {"dtype", dtype_name(tensor.shape.dtype)},
                       {"shape", tensor.shape.dims},
                       {"stored", tensor.stored},
                       {"pieces", std::move(pieces)}});
  }
  return Json{{"parts", std::move(parts)}, {"tensors", std::move(tensors)}}.dump();
}

Dims sizes(const Json& value) {
  Dims dims;
  for (const Json& size : value) {
    if (!size.is_number_integer() || size.get<int64_t>() < 0)
      throw std::invalid_argument(size.dump() + " is no size");
    dims.push_back(size.get<int64_t>());
  }
  return dims;
}

SetTensor tensor_of(const Json& entry) {
  SetTensor tensor;
  tensor.name = entry.at("name").get<std::string>();
  const auto dtype = dtype_from_name(entry.at("dtype").get<std::string>());
  if (!dtype) throw std::invalid_argument("no dtype: " + entry.at("dtype").dump());
  tensor.shape = Shape(*dtype, sizes(entry.at("shape")));
  tensor.stored = sizes(entry.at("stored"));
  for (const Json& piece : entry.at("pieces"))
    tensor.pieces.push_back({piece.at(0).get<int64_t>(), {sizes(piece.at(1)), sizes(piece.at(2))}});
  return tensor;
}

SetIndex index_of(const std::string& path, const std::string& note) {
  SetIndex set;
  try {
    const Json json = Json::parse(note);
    for (const Json& part : json.at("parts"))
      set.parts.push_back(
          {part.at("file").get<std::string>(),
           {part.at("bytes").get<int64_t>(), part.at("checksum").get<std::string>()}});
    for (const Json& entry : json.at("tensors")) set.tensors.push_back(tensor_of(entry));
  } catch (const std::exception& error) {  // the parser's and ours
    user_error("{}: the index cannot be read: {}", path, error.what());
  }
  return set;
}

// Where two boxes overlap; empty where they do not.
Box intersection(const Box& a, const Box& b) {
  Box both = a;
  for (size_t d = 0; d < a.start.size(); ++d) {
    both.start[d] = std::max(a.start[d], b.start[d]);
    const int64_t end = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]);
    both.size[d] = std::max<int64_t>(end - both.start[d], 0);
  }
  return both;
}

}  // namespace

std::string index_path(const std::string& path) {
  std::error_code failed;
  return fs::is_symlink(path, failed) ? fs::weakly_canonical(path, failed).string() : path;
}

std::string part_path(const std::string& index, int64_t part, int64_t parts,
                      const std::string& id) {
  return fmt::format("{}{}{}-of-{}-{}{}", without_end(index), kPart, part + 1, parts, id, kEnd);
}

std::string piece_name(const SetTensor& tensor, const Box& box) {
  if (box.size == tensor.shape.dims) return tensor.name;
  std::string text;
  for (size_t d = 0; d < box.size.size(); ++d)
    text += fmt::format("{}{}:{}", d == 0 ? "" : ",", box.start[d], box.start[d] + box.size[d]);
  return fmt::format("{}[{}]", tensor.name, text);
}

WrittenFile write_part(const std::string& index, const std::string& path,
                       std::span<const SafetensorsSource> pieces) {
  return write_with_notes(path, pieces, {},
                          {{std::string(kPartNote), fs::path(index).filename().string()}});
}

void write_index(const std::string& index, const SetIndex& set,
                 const std::map<std::string, std::string>& metadata) {
  for (const SetPart& part : set.parts) {
    std::error_code failed;
    const std::string path = fmt::format("{}/{}", folder_of(index), part.file);
    const auto bytes = static_cast<int64_t>(fs::file_size(path, failed));
    if (failed || bytes != part.written.bytes)
      user_error(
          "{}: another process wrote it, and it is not seen here; give a folder that all "
          "processes share",
          path);
  }
  write_with_notes(index, {}, metadata, {{std::string(kSetNote), note_of(set)}});
}

void remove_parts(const std::string& index, const std::vector<std::string>& keep) {
  const std::string stem = without_end(fs::path(index).filename().string());
  std::set<std::string> kept;
  for (const std::string& path : keep) kept.insert(fs::path(path).filename().string());
  for (const auto& [owner, path] : parts_in(folder_of(index))) {
    std::error_code failed;
    if (owner == stem && !kept.contains(fs::path(path).filename().string()))
      fs::remove(path, failed);
  }
}

void remove_lost_parts(const std::string& folder, const std::string& prefix) {
  std::set<std::string> stems;
  for (const auto& [stem, path] : parts_in(folder))
    if (stem.starts_with(prefix)) stems.insert(stem);
  for (const std::string& stem : stems) {
    const std::string index = fmt::format("{}/{}{}", folder, stem, kEnd);
    std::error_code failed;
    if (!fs::exists(index, failed)) {
      if (!failed) remove_parts(index, {});
      continue;
    }
    try {
      remove_parts(index, SafetensorsFile(index).files());
    } catch (const UserError&) {  // damaged: nobody knows which are its
    }
  }
}

SafetensorsSet::SafetensorsSet(const std::string& path, const std::string& note)
    : path_(path), index_(index_of(path, note)) {
  open_parts();
  for (SetTensor& tensor : index_.tensors) {
    check(tensor);
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const auto& a, const auto& b) { return a.box.start < b.box.start; });
  }
}

void SafetensorsSet::open_parts() {
  const std::string folder = folder_of(index_path(path_));
  const std::string own = fs::path(index_path(path_)).filename().string();
  for (size_t i = 0; i < index_.parts.size(); ++i) {
    const SetPart& part = index_.parts[i];
    if (part.file.empty() || part.file.find('/') != std::string::npos)
      user_error("{}: the index names a part \"{}\", which is no file's name", path_, part.file);
    const std::string path = fmt::format("{}/{}", folder, part.file);
    const std::string which = fmt::format("part {} of {} of {}", i + 1, index_.parts.size(), path_);
    try {
      parts_.push_back(SafetensorsFile(path, false));
    } catch (const UserError& error) {
      std::error_code failed;
      const auto bytes = static_cast<int64_t>(fs::file_size(path, failed));
      const bool cut = !failed && bytes != part.written.bytes;
      user_error(
          "{} ({}{})", error.what(), which,
          cut ? fmt::format(", of whose {} bytes there are {}", part.written.bytes, bytes) : "");
    }
    const std::string of = parts_.back().note(kPartNote);
    const std::string found = parts_.back().note(kHeaderChecksum);
    if (found != part.written.checksum)
      user_error("{}: is of another save{}: its header's checksum is {}, that of {} is {}", path,
                 of.empty() || of == own ? "" : fmt::format(", {}", of),
                 found.empty() ? "missing" : found, which, part.written.checksum);
  }
}

// The pieces are there and make up the tensor: together they have its elements, none begins where
// another does.
void SafetensorsSet::check(const SetTensor& tensor) const {
  const Shape& shape = tensor.shape;
  const auto wrong = [&](const std::string& what) {
    user_error("{}: the index's tensor \"{}\", {}, {}", path_, tensor.name, to_string(shape), what);
  };
  const int64_t elements = shape.elements_count();
  if (tensor.stored != shape.dims && tensor.stored != Dims{elements})
    wrong("is stored as another shape");
  int64_t found = 0;
  std::set<Dims> starts;
  for (const SetPiece& piece : tensor.pieces) {
    const Box& box = piece.box;
    if (piece.part < 0 || piece.part >= std::ssize(parts_)) wrong("lies in a part that is none");
    if (box.start.size() != tensor.stored.size() || box.size.size() != tensor.stored.size())
      wrong("has a piece of another rank");
    for (size_t d = 0; d < box.size.size(); ++d)
      if (box.start[d] > tensor.stored[d] || box.size[d] > tensor.stored[d] - box.start[d])
        wrong("has a piece outside");
    const SafetensorsFile& part = parts_[static_cast<size_t>(piece.part)];
    const std::string name = piece_name(tensor, box);
    const Shape expected(shape.dtype, box.size);
    if (!part.contains(name) || !(part.shape(name) == expected))
      user_error("{}: has no tensor \"{}\", {}, as the index {} says", part.files().at(0), name,
                 to_string(expected), path_);
    found = saturating_add(found, expected.elements_count());
    if (!starts.insert(box.start).second) wrong("has two pieces in one place");
  }
  if (found != elements) wrong(fmt::format("has {} elements, its pieces have {}", elements, found));
}

std::vector<SafetensorsEntry> SafetensorsSet::entries() const {
  std::vector<SafetensorsEntry> entries;
  for (const SetTensor& tensor : index_.tensors) entries.push_back({tensor.name, tensor.shape, 0});
  return entries;
}

std::vector<std::string> SafetensorsSet::files() const {
  std::vector<std::string> paths;
  for (const SafetensorsFile& part : parts_) paths.push_back(part.files().at(0));
  return paths;
}

int64_t SafetensorsSet::bytes_read() const {
  int64_t bytes = 0;
  for (const SafetensorsFile& part : parts_) bytes += part.bytes_read();
  return bytes;
}

void SafetensorsSet::verify(size_t index) const {
  const SetTensor& tensor = index_.tensors[index];
  for (const SetPiece& piece : tensor.pieces)
    parts_[static_cast<size_t>(piece.part)].verify(piece_name(tensor, piece.box));
}

void SafetensorsSet::read(size_t index, const Box& box, const Array& to) const {
  const SetTensor& tensor = index_.tensors[index];
  if (tensor.stored != tensor.shape.dims) return read_flat(tensor, box, to);
  const int64_t width = dtype_size(tensor.shape.dtype);
  const Dims strides = row_major_strides(to.dims());
  for (const SetPiece& piece : tensor.pieces) {
    Box part = intersection(piece.box, box);
    if (box.is_empty() || part.is_empty()) continue;
    int64_t target = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      target += (part.start[d] - box.start[d]) * strides[d];
      part.start[d] -= piece.box.start[d];
    }
    const Array found =
        parts_[static_cast<size_t>(piece.part)].read_box(piece_name(tensor, piece.box), part);
    std::byte* const out = to.bytes().data() + target * width;
    const std::byte* const in = found.bytes().data();
    each_row(part.size, {Dims(part.size.size(), 0), part.size}, to.dims(),
             [&](int64_t from, int64_t into, int64_t count) {
               std::memcpy(out + into * width, in + from * width,
                           static_cast<size_t>(count * width));
             });
  }
}

void SafetensorsSet::read_flat(const SetTensor& tensor, const Box& box, const Array& to) const {
  const int64_t width = dtype_size(tensor.shape.dtype);
  std::byte* const target = to.bytes().data();
  const auto end_of = [](const SetPiece& piece) { return piece.box.start[0] + piece.box.size[0]; };
  each_row(tensor.shape.dims, box, to.dims(), [&](int64_t from, int64_t into, int64_t count) {
    auto at = std::partition_point(tensor.pieces.begin(), tensor.pieces.end(),
                                   [&](const SetPiece& piece) { return end_of(piece) <= from; });
    while (count > 0 && at != tensor.pieces.end()) {
      const int64_t n = std::min(count, end_of(*at) - from);
      const Array found = parts_[static_cast<size_t>(at->part)].read_box(
          piece_name(tensor, at->box), {{from - at->box.start[0]}, {n}});
      std::memcpy(target + into * width, found.bytes().data(), static_cast<size_t>(n * width));
      from += n, into += n, count -= n, ++at;
    }
  });
}

}  // namespace gspmd::io
