#include "api/checkpoint_set.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "api/device_storage.h"
#include "gspmd/io/safetensors.h"
#include "io/box_rows.h"
#include "io/safetensors_set.h"

namespace gspmd::detail {

namespace fs = std::filesystem;
using io::SetPiece;
using io::SetTensor;
using io::WrittenFile;

namespace {

// A tile of an array on devices, and a device of each process that has it.
struct Tile {
  Box box;
  std::vector<std::pair<int64_t, int64_t>> holders;  // process, device
};

std::vector<Tile> tiles_of(const DeviceStorage& storage, int64_t processes) {
  std::vector<Tile> tiles;
  std::map<Dims, size_t> known;  // by start
  const int64_t devices = storage.buffer()->num_devices();
  for (int64_t p = 0; p < processes; ++p) {
    const DeviceRange range = devices_of_process(devices, p);
    for (int64_t d = range.first; d < range.last; ++d) {
      Box box = shard_box(storage.global_shape(), storage.sharding(), d);
      if (box.is_empty()) continue;
      const size_t tile = known.try_emplace(box.start, tiles.size()).first->second;
      if (tile == tiles.size()) tiles.push_back({std::move(box), {}});
      auto& holders = tiles[tile].holders;
      if (holders.empty() || holders.back().first != p) holders.emplace_back(p, d);
    }
  }
  return tiles;
}

// Who writes what; the same in every process.
class Plan {
 public:
  Plan(const Leaves& leaves, Transport& transport)
      : self_(transport.process()), bytes_(static_cast<size_t>(transport.count()), 0) {
    own_.resize(leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i) add(leaves[i].first, leaves[i].second, i);
  }

  const std::vector<SetTensor>& tensors() const { return tensors_; }
  // Whether the first process writes all.
  bool is_one_file() const { return alone_; }
  // What this process writes.
  std::vector<SafetensorsSource> pieces(const Leaves& leaves) const {
    std::vector<SafetensorsSource> sources;
    for (size_t i = 0; i < leaves.size(); ++i)
      for (const auto& [box, device] : own_[i]) {
        const Array& array = leaves[i].second;
        sources.push_back({io::piece_name(tensors_[i], box), Shape(array.dtype(), box.size),
                           [&array, box = box, device = device] {
                             return device < 0 ? host_copy(array) : part(array, box, device);
                           }});
      }
    return sources;
  }
  // Equal numbers, equal plans.
  uint64_t key() const {
    std::string text;
    for (const SetTensor& tensor : tensors_) {
      text += fmt::format("{} {} [{}]", tensor.name, to_string(tensor.shape),
                          fmt::join(tensor.stored, ","));
      for (const SetPiece& piece : tensor.pieces)
        text += fmt::format(" {} {}", piece.part, fmt::join(piece.box.start, ","));
      text += '\n';
    }
    return std::hash<std::string>()(text);
  }

 private:
  static Array part(const Array& array, const Box& box, int64_t device) {
    const DeviceBuffer& buffer = *device_storage(array)->buffer();
    const Array result(Shape(array.dtype(), box.size));
    const int64_t width = dtype_size(array.dtype());
    const Box inside{Dims(box.size.size(), 0), box.size};
    io::each_row(
        buffer.shape().dims, inside, box.size, [&](int64_t from, int64_t into, int64_t count) {
          std::memcpy(result.bytes().data() + into * width, buffer.shard(device) + from * width,
                      static_cast<size_t>(count * width));
        });
    return result;
  }

  void add(const std::string& name, const Array& array, size_t leaf) {
    const Shape& shape = array.shape();
    const DeviceStorage* const storage = device_storage(array);
    SetTensor tensor{name, shape, shape.dims, {}};
    if (storage == nullptr || storage->buffer()->num_devices() == 1) {
      const Box whole{Dims(shape.dims.size(), 0), shape.dims};
      if (!whole.is_empty()) put(tensor, whole, 0, -1, leaf);
    } else {
      tensor.stored = storage->global_shape().dims;
      for (const Tile& tile : tiles_of(*storage, std::ssize(bytes_))) {
        // Of those that have it, the one with the least to write so far.
        const auto least = std::min_element(
            tile.holders.begin(), tile.holders.end(), [&](const auto& a, const auto& b) {
              return bytes_[static_cast<size_t>(a.first)] < bytes_[static_cast<size_t>(b.first)];
            });
        put(tensor, tile.box, least->first, least->second, leaf);
      }
    }
    tensors_.push_back(std::move(tensor));
  }

  void put(SetTensor& tensor, const Box& box, int64_t process, int64_t device, size_t leaf) {
    tensor.pieces.push_back({process, box});
    bytes_[static_cast<size_t>(process)] += Shape(tensor.shape.dtype, box.size).bytes();
    alone_ = alone_ && process == 0;
    if (process == self_) own_[leaf].emplace_back(box, device);
  }

  int64_t self_;
  bool alone_ = true;
  std::vector<int64_t> bytes_;                             // by process: to be written
  std::vector<SetTensor> tensors_;                         // pieces by process, not by part
  std::vector<std::vector<std::pair<Box, int64_t>>> own_;  // by leaf: box, device; -1: the host
};

std::string new_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// The first process's text, in all.
std::string of_first(Transport& transport, const std::string& own, std::string_view what) {
  return gather_texts(transport, transport.process() == 0 ? own : "", what).at(0);
}

// The parts that have pieces, in order of the processes, and who wrote which.
io::SetIndex index_of(std::vector<SetTensor> tensors, const std::vector<std::string>& paths,
                      const std::vector<std::string>& written) {
  io::SetIndex set{{}, std::move(tensors)};
  std::vector<int64_t> part_of(paths.size(), -1);
  for (size_t p = 0; p < paths.size(); ++p) {
    if (written[p].empty()) continue;
    part_of[p] = std::ssize(set.parts);
    const size_t space = written[p].find(' ');
    set.parts.push_back({fs::path(paths[p]).filename().string(),
                         {std::stoll(written[p].substr(0, space)), written[p].substr(space + 1)}});
  }
  for (SetTensor& tensor : set.tensors)
    for (SetPiece& piece : tensor.pieces) piece.part = part_of[static_cast<size_t>(piece.part)];
  return set;
}

}  // namespace

Transport* job_transport() { return process_count() > 1 ? current_transport() : nullptr; }

Array host_copy(const Array& array) {
  const DeviceStorage* const storage = device_storage(array);
  if (storage == nullptr || !storage->buffer()) return array;
  const Array host =
      gather_to_host(*storage->buffer(), storage->global_shape(), storage->sharding());
  return {array.shape(), host.storage()};
}

void together(Transport& transport, std::string_view what, const std::function<void()>& f) {
  std::string failure;
  try {
    f();
  } catch (const UserError& error) {
    failure = error.what();
  }
  const std::vector<std::string> failures = gather_texts(transport, failure, what);
  for (size_t p = 0; p < failures.size(); ++p)
    if (!failures[p].empty())
      throw UserError(p == 0 ? failures[p] : fmt::format("process {}: {}", p, failures[p]), Site{});
}

void save_by_all(const std::string& path, const Leaves& leaves,
                 const std::map<std::string, std::string>& metadata, Transport& transport) {
  const Plan plan(leaves, transport);
  const std::string index = io::index_path(path);
  const int64_t self = transport.process(), count = transport.count();
  agree(transport, std::hash<std::string>()(path) ^ plan.key(), fmt::format("saves {}", path));
  const std::string id = of_first(transport, new_id(), "saving");
  std::vector<std::string> paths;
  for (int64_t p = 0; p < count; ++p) paths.push_back(io::part_path(index, p, count, id));
  const std::string& own = paths[static_cast<size_t>(self)];
  const std::vector<SafetensorsSource> pieces = plan.pieces(leaves);
  std::string written;  // bytes and checksum of this process's part
  try {
    if (plan.is_one_file()) {
      together(transport, "saving", [&] {
        if (self == 0) write_safetensors_streamed(path, pieces, metadata);
      });
    } else {
      together(transport, "saving", [&] {
        if (pieces.empty()) return;
        const WrittenFile file = io::write_part(index, own, pieces);
        written = fmt::format("{} {}", file.bytes, file.checksum);
      });
      const std::vector<std::string> all = gather_texts(transport, written, "saving");
      together(transport, "saving", [&] {
        if (self == 0) io::write_index(index, index_of(plan.tensors(), paths, all), metadata);
      });
    }
  } catch (const UserError&) {  // of all: no index names the part
    if (!written.empty()) ::unlink(own.c_str());
    throw;
  }
  if (self == 0) io::remove_parts(index, plan.is_one_file() ? std::vector<std::string>() : paths);
}

}  // namespace gspmd::detail
