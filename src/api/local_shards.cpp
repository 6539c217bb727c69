#include "gspmd/api/local_shards.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "api/device_storage.h"
#include "gspmd/kernels/strided_copy.h"

namespace gspmd {
namespace {

void check_sharding(const Shape& shape, const Sharding& sharding, int64_t num_devices, Site site) {
  const bool of_shape = (sharding.is_tiled() && sharding.unreduced().empty() &&
                         sharding.manual_digits().empty() && sharding.rank() <= shape.rank()) ||
                        sharding.kind() == ShardingKind::maximal;
  if (shape.is_tuple || !of_shape)
    user_error(site,
               "array from local shards: {} cannot be laid out as {}; give a sharding of its dims",
               to_string(shape), to_string(sharding));
  const int64_t needed = detail::devices_needed(sharding);
  if (num_devices < needed)
    user_error(site,
               "array from local shards: {} needs {} devices, num_devices is {}; give at least as "
               "many",
               to_string(sharding), needed, num_devices);
}

// The box's elements between a whole device part, padded, and an array of them alone.
void copy_box(const Shape& local, const Box& box, const std::byte* from, std::byte* to,
              bool to_device) {
  StridedCopy copy;
  copy.element_size = dtype_size(local.dtype);
  copy.dims = box.size;
  copy.source = row_major_strides(to_device ? box.size : local.dims);
  copy.target = row_major_strides(to_device ? local.dims : box.size);
  run_copy(simplified(std::move(copy)), from, to);
}

}  // namespace

Array array_from_local_shards(const Shape& shape, const Sharding& sharding, int64_t num_devices,
                              const std::vector<Array>& shards, Site site) {
  check_sharding(shape, sharding, num_devices, site);
  const DeviceRange here = local_devices(num_devices);
  if (std::ssize(shards) != here.count())
    user_error(
        site,
        "array from local shards: {} shards of {}; this process hosts devices {} to {}: give "
        "{}, one a device",
        shards.size(), to_string(shape), here.first, here.last - 1, here.count());
  const Shape local = local_shape(shape, sharding);
  auto buffer = std::make_shared<DeviceBuffer>(local, num_devices);
  const auto bytes = static_cast<size_t>(local.bytes());
  std::map<Dims, int64_t> first;  // by the box's start: the device that has it
  for (int64_t device = here.first; device < here.last; ++device) {
    const Box box = shard_box(shape, sharding, device);
    if (box.is_empty()) continue;
    const Array& shard = shards[static_cast<size_t>(device - here.first)];
    const Shape part(shape.dtype, box.size);
    if (shard.empty() || !(shard.shape() == local || shard.shape() == part))
      user_error(site,
                 "array from local shards: the shard of device {} is {}, that of {} as {} is {}",
                 device, shard.empty() ? "empty" : to_string(shard.shape()), to_string(shape),
                 to_string(sharding), to_string(part));
    Array own = shard;
    if (!(shard.shape() == part)) {
      own = Array(part);
      copy_box(local, box, shard.bytes().data(), own.bytes().data(), false);
    }
    copy_box(local, box, own.bytes().data(), buffer->shard(device), true);
    const auto [at, is_new] = first.try_emplace(box.start, device);
    if (!is_new && std::memcmp(buffer->shard(at->second), buffer->shard(device), bytes) != 0)
      user_error(site,
                 "array from local shards: devices {} and {} have the same part of {} as {}, but "
                 "their shards differ; give both the same",
                 at->second, device, to_string(shape), to_string(sharding));
  }
  return {shape, std::make_shared<detail::DeviceStorage>(std::move(buffer), shape, sharding)};
}

std::vector<Array> local_shards(const Array& array, Site site) {
  const detail::DeviceStorage* const storage = detail::device_storage(array);
  if (storage == nullptr) return {array};
  if (!storage->taker().empty())
    user_error(site, "local shards: {} was donated to {}; use the array that the call returned",
               to_string(array.shape()), storage->taker());
  if (!(storage->global_shape() == array.shape()))
    user_error(site, "local shards: {} lies flat on the devices, as {}; read it whole",
               to_string(array.shape()), to_string(storage->global_shape()));
  const DeviceBuffer& buffer = *storage->buffer();
  std::vector<Array> shards;
  for (int64_t device = buffer.local().first; device < buffer.local().last; ++device) {
    const Box box = shard_box(array.shape(), storage->sharding(), device);
    const Array& shard = shards.emplace_back(
        Shape(array.dtype(), box.is_empty() ? Dims(box.size.size(), 0) : box.size));
    if (!box.is_empty())
      copy_box(buffer.shape(), box, buffer.shard(device), shard.bytes().data(), false);
  }
  return shards;
}

}  // namespace gspmd
