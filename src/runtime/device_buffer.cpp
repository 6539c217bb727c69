#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/kernels/strided_copy.h"
#include "gspmd/runtime/executor.h"
#include "runtime/arena_guard.h"
#include "runtime/pages.h"

namespace gspmd {

namespace {

constexpr int64_t kStagger = 4096;

// Buffers start at different places of a page: equal elements of several buffers would otherwise
// fight for the same cache sets.
int64_t next_stagger() {
  static std::atomic<uint32_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed) * 5 % 64 * 64;
}

}  // namespace

std::byte* map_pages(int64_t bytes) {
  constexpr int64_t kHuge = 1 << 21;
  if (bytes <= 0) return nullptr;
  // Huge pages need their own alignment, which the system does not choose by itself.
  const int64_t slack = bytes >= kHuge ? kHuge : 0;
  void* mapped = mmap(nullptr, static_cast<size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) execution_error("executor: no memory for {} bytes", bytes);
  auto* memory = static_cast<std::byte*>(mapped);
  if (slack == 0) return memory;
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) % kHuge);
  const int64_t before = past == 0 ? 0 : kHuge - past;
  if (before > 0) munmap(memory, static_cast<size_t>(before));
  memory += before;
  const int64_t end = ceil_div(bytes, 4096) * 4096;
  const int64_t rest = ceil_div(bytes + slack, 4096) * 4096 - before - end;
  if (rest > 0) munmap(memory + end, static_cast<size_t>(rest));
  // First touch of small pages is ten times slower.
  madvise(memory, static_cast<size_t>(end), MADV_HUGEPAGE);
  return memory;
}

void unmap_pages(std::byte* memory, int64_t bytes) {
  if (memory != nullptr) munmap(memory, static_cast<size_t>(bytes));
}

DeviceBuffer::DeviceBuffer(Shape local_shape, int64_t num_devices)
    : shape_(std::move(local_shape)), num_devices_(num_devices) {
  const int64_t bytes = std::max<int64_t>(shape_.bytes(), 1);  // as planned: copied like any other
  if (shape_.is_tuple || num_devices < 1 || bytes > INT64_MAX / 2 / num_devices) {
    user_error("device buffer: {} on {} devices cannot be held", to_string(shape_), num_devices);
  }
  stride_ = ceil_div(bytes, 64) * 64 + kGuardBytes;
  data_ = map_pages(stride_ * num_devices_ + kStagger) + next_stagger();
  for (int64_t d = 0; d < num_devices_; ++d) poison_memory(shard(d) + bytes, stride_ - bytes);
}

DeviceBuffer::~DeviceBuffer() {
  const auto address = reinterpret_cast<uintptr_t>(data_);
  unpoison_memory(data_, stride_ * num_devices_);
  unmap_pages(data_ - address % 4096, stride_ * num_devices_ + kStagger);
}

namespace {

// The copy between a tile inside the global array and the device's own dense shard.
StridedCopy tile_copy(const Shape& global, const Shape& local, const Box& box, bool to_device) {
  StridedCopy copy;
  copy.element_size = dtype_size(global.dtype);
  copy.dims = box.size;
  copy.source = row_major_strides(to_device ? global.dims : local.dims);
  copy.target = row_major_strides(to_device ? local.dims : global.dims);
  return simplified(std::move(copy));
}

int64_t start_offset(const Shape& global, const Box& box) {
  const Dims strides = row_major_strides(global.dims);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += box.start[d] * strides[d];
  return offset * dtype_size(global.dtype);
}

}  // namespace

std::shared_ptr<DeviceBuffer> scatter_to_devices(const Array& global, const Sharding& sharding,
                                                 int64_t num_devices) {
  const Shape local = local_shape(global.shape(), sharding);
  auto buffer = std::make_shared<DeviceBuffer>(local, num_devices);  // fresh pages are zero
  const std::byte* source = global.bytes().data();
  for (int64_t d = 0; d < num_devices; ++d) {
    const Box box = shard_box(global.shape(), sharding, d);
    if (box.is_empty()) continue;
    run_copy(tile_copy(global.shape(), local, box, true),
             source + start_offset(global.shape(), box), buffer->shard(d));
  }
  return buffer;
}

Array gather_to_host(const DeviceBuffer& buffer, const Shape& global, const Sharding& sharding) {
  const Shape local = local_shape(global, sharding);
  if (!(local == buffer.shape())) {
    internal_error("gather to host: shards of {} are {}, the sharding says {}", to_string(global),
                   to_string(buffer.shape()), to_string(local));
  }
  Array result(global);
  std::byte* target = result.bytes().data();
  std::set<Dims> done;  // replicas hold the same tile
  for (int64_t d = 0; d < buffer.num_devices(); ++d) {
    const Box box = shard_box(global, sharding, d);
    if (box.is_empty() || !done.insert(box.start).second) continue;
    run_copy(tile_copy(global, local, box, false), buffer.shard(d),
             target + start_offset(global, box));
  }
  return result;
}

}  // namespace gspmd
