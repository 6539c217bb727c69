#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "base/host_storage.h"
#include "base/pages.h"
#include "gspmd/base/error.h"
#include "gspmd/kernels/strided_copy.h"
#include "gspmd/runtime/executor.h"
#include "kernels/host_threads.h"
#include "runtime/arena_guard.h"
#include "runtime/shard_copies.h"
#include "runtime/transport.h"

namespace gspmd {

namespace {

constexpr int64_t kStagger = 4096;
constexpr int64_t kPagesFrom = 1 << 16;  // bytes; smaller buffers come from the heap

// Buffers start at different places of a page: equal elements of several buffers would otherwise
// fight for the same cache sets.
int64_t next_stagger() {
  static std::atomic<uint32_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed) * 5 % 64 * 64;
}

// Zeros. `bytes` is a multiple of 64.
std::byte* take_memory(int64_t bytes) {
  std::byte* memory = nullptr;
  if (bytes >= kPagesFrom) {
    memory = map_pages(bytes + kStagger);
    if (memory != nullptr) memory += next_stagger();
  } else {
    memory = static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(bytes)));
    if (memory != nullptr) std::memset(memory, 0, static_cast<size_t>(bytes));
  }
  if (memory == nullptr) execution_error("executor: no memory for {} bytes", bytes);
  return memory;
}

uint64_t next_placement() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void give_memory_back(std::byte* memory, int64_t bytes) {
  if (bytes < kPagesFrom) return std::free(memory);
  unmap_pages(memory - reinterpret_cast<uintptr_t>(memory) % 4096, bytes + kStagger);
}

}  // namespace

DeviceBuffer::DeviceBuffer(Shape local_shape, int64_t num_devices)
    : shape_(std::move(local_shape)), num_devices_(num_devices) {
  const int64_t bytes = std::max<int64_t>(shape_.bytes(), 1);  // as planned: copied like any other
  if (shape_.is_tuple || num_devices < 1 || bytes > INT64_MAX / 2 / num_devices) {
    user_error("device buffer: {} on {} devices cannot be held", to_string(shape_), num_devices);
  }
  local_ = local_devices(num_devices);
  stride_ = (num_devices == 1 ? ceil_div(bytes, 64) * 64 : step_between(bytes)) + kGuardBytes;
  data_ = take_memory(stride_ * local_.count());
  placement_ = next_placement();
  for (int64_t d = local_.first; d < local_.last; ++d)
    poison_memory(shard(d) + bytes, stride_ - bytes);
}

void DeviceBuffer::share(const std::vector<int64_t>& holders) {
  std::vector<int64_t> wanted;
  for (int64_t d = local_.first; d < local_.last; ++d)
    wanted.push_back(holders.at(static_cast<size_t>(d)) - local_.first);
  if (holders_ == wanted) return;
  separate();
  holders_ = std::move(wanted);
  placement_ = next_placement();
}

void DeviceBuffer::separate() {
  if (holders_.empty()) return;
  placement_ = next_placement();
  const std::vector<int64_t> holders = std::exchange(holders_, {});
  for (int64_t at = 0; at < std::ssize(holders); ++at) {
    const int64_t holder = holders[static_cast<size_t>(at)];
    if (holder != at && shape_.bytes() > 0)
      std::memcpy(shard(local_.first + at), shard(local_.first + holder),
                  static_cast<size_t>(shape_.bytes()));
  }
}

DeviceBuffer::~DeviceBuffer() {
  unpoison_memory(data_, stride_ * local_.count());
  give_memory_back(data_, stride_ * local_.count());
}

std::shared_ptr<DeviceBuffer> scatter_to_devices(const Array& global, const Sharding& sharding,
                                                 int64_t num_devices) {
  auto buffer = std::make_shared<DeviceBuffer>(local_shape(global.shape(), sharding), num_devices);
  if (!is_untouched_zero(global))
    ShardCopies(global.shape(), sharding, num_devices).scatter(global, *buffer);
  return buffer;
}

namespace {

// The first device of each process that has a tile; the same tiles in the same order everywhere.
struct Tile {
  std::vector<int64_t> holders;  // ascending
};

std::vector<Tile> tiles_of(const DeviceBuffer& buffer, const Shape& global,
                           const Sharding& sharding) {
  std::vector<Tile> tiles;
  std::map<Dims, size_t> known;  // by start: replicas hold the same tile
  const int64_t processes = buffer.num_devices() == 1 ? 1 : process_count();
  for (int64_t p = 0; p < processes; ++p) {
    std::set<size_t> here;
    const DeviceRange range = devices_of_process(buffer.num_devices(), p);
    for (int64_t d = range.first; d < range.last; ++d) {
      const Box box = shard_box(global, sharding, d);
      if (box.is_empty()) continue;
      const size_t tile = known.try_emplace(box.start, tiles.size()).first->second;
      if (tile == tiles.size()) tiles.emplace_back();
      if (here.insert(tile).second) tiles[tile].holders.push_back(d);
    }
  }
  return tiles;
}

// Of each tile a device that has it and the bytes of its part, in `room` where they came from
// another process.
std::vector<std::pair<int64_t, const std::byte*>> parts_of(const DeviceBuffer& buffer,
                                                           const std::vector<Tile>& tiles,
                                                           std::vector<std::byte>& room) {
  const auto bytes = static_cast<size_t>(buffer.shape().bytes());
  Transport* const transport = buffer.num_devices() == 1 ? nullptr : current_transport();
  const int64_t processes = transport == nullptr ? 1 : transport->count();
  std::vector<DeviceRange> blocks;
  for (int64_t p = 0; p < processes; ++p)
    blocks.push_back(devices_of_process(buffer.num_devices(), p));
  const auto holder = [](const Tile& tile, const DeviceRange& range) {
    for (const int64_t device : tile.holders)
      if (range.contains(device)) return device;
    return int64_t{-1};
  };
  std::vector<std::pair<int64_t, const std::byte*>> parts;
  std::vector<Parcel> out, in;
  bool moves = false;
  size_t missing = 0;
  for (const Tile& tile : tiles) missing += holder(tile, buffer.local()) < 0 ? 1 : 0;
  room.resize(missing * bytes);
  size_t at = 0;
  for (const Tile& tile : tiles) {
    const int64_t mine = holder(tile, buffer.local()), first = tile.holders[0];
    for (int64_t p = 0; p < processes; ++p) {
      if (holder(tile, blocks[static_cast<size_t>(p)]) >= 0) continue;
      moves = true;
      if (mine == first && bytes > 0) out.push_back({p, {buffer.shard(first), bytes}});
    }
    parts.emplace_back(mine >= 0 ? mine : first, mine >= 0 ? buffer.shard(mine) : room.data() + at);
    if (mine >= 0) continue;
    const auto from = std::find_if(blocks.begin(), blocks.end(),
                                   [&](const DeviceRange& range) { return range.contains(first); });
    if (bytes > 0) in.push_back({from - blocks.begin(), {room.data() + at, bytes}});
    at += bytes;
  }
  if (!moves) return parts;
  const std::string what =
      fmt::format("reads an array of {} on each device", to_string(buffer.shape()));
  agree(*transport, std::hash<std::string>()(what), what);
  transport->exchange(out, in, "reading of an array");
  return parts;
}

}  // namespace

Array gather_to_host(const DeviceBuffer& buffer, const Shape& global, const Sharding& sharding) {
  const Shape local = local_shape(global, sharding);
  if (!(local == buffer.shape())) {
    internal_error("gather to host: shards of {} are {}, the sharding says {}", to_string(global),
                   to_string(buffer.shape()), to_string(local));
  }
  if (buffer.local().count() == buffer.num_devices())
    return ShardCopies(global, sharding, buffer.num_devices()).gather(buffer);
  std::vector<std::byte> room;
  std::vector<ShardPiece> pieces;
  std::vector<const std::byte*> addresses;
  for (const auto& [device, part] : parts_of(buffer, tiles_of(buffer, global, sharding), room)) {
    add_pieces_to_host(pieces, global, local, shard_box(global, sharding, device),
                       std::ssize(addresses));
    addresses.push_back(part);
  }
  Array result(global);
  run_to_host(pieces, addresses, result.bytes().data(), global.bytes());
  return result;
}

std::vector<Array> gather_parts(const DeviceBuffer& buffer) {
  std::vector<Tile> tiles;
  for (int64_t d = 0; d < buffer.num_devices(); ++d) tiles.push_back({{d}});
  std::vector<std::byte> room;
  std::vector<Array> arrays;
  for (const auto& [device, part] : parts_of(buffer, tiles, room)) {
    arrays.emplace_back(buffer.shape());
    const std::span<std::byte> bytes = arrays.back().bytes();
    if (!bytes.empty()) std::memcpy(bytes.data(), part, bytes.size());
  }
  return arrays;
}

}  // namespace gspmd
