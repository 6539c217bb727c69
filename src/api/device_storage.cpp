#include "api/device_storage.h"

#include <map>
#include <mutex>
#include <typeinfo>

#include "gspmd/api/visualize.h"
#include "gspmd/base/error.h"

namespace gspmd {
namespace detail {

const ShardCopies& DeviceLayout::make_copies() const {
  std::call_once(once_, [&] {
    made_.emplace(global_, sharding_, num_devices_);
    copies_.store(&*made_, std::memory_order_release);
  });
  return *made_;
}

DeviceStorage::DeviceStorage(std::shared_ptr<DeviceBuffer> buffer, Shape global, Sharding sharding)
    : buffer_(std::move(buffer)),
      layout_(std::make_shared<DeviceLayout>(std::move(global), std::move(sharding),
                                             buffer_->num_devices())) {}

std::span<std::byte> DeviceStorage::host_bytes() {
  if (!taker_.empty())
    user_error(
        "array: the elements of {} were donated to {}; use the array that the step returned, or "
        "do not donate",
        to_string(layout_->global()), taker_);
  if (host_.empty()) {
    const bool is_all_here = buffer_->local().count() == buffer_->num_devices();
    host_ = is_all_here ? layout_->copies().gather(*buffer_)
                        : gather_to_host(*buffer_, layout_->global(), layout_->sharding());
  }
  return host_.bytes();
}

void DeviceStorage::renew(std::shared_ptr<DeviceBuffer> buffer) {
  buffer_ = std::move(buffer);
  if (!host_.empty()) host_ = Array();
  if (!taker_.empty()) taker_.clear();
}

std::shared_ptr<DeviceBuffer> DeviceStorage::donate(std::string taker) {
  taker_ = std::move(taker);
  host_ = Array();
  return std::exchange(buffer_, nullptr);
}

namespace {

struct DonatedHostArrays {
  std::mutex mutex;
  std::map<const ArrayStorage*, std::pair<std::weak_ptr<ArrayStorage>, std::string>> takers;
};

DonatedHostArrays& donated_host_arrays() {
  static DonatedHostArrays arrays;
  return arrays;
}

}  // namespace

void donate_host_array(const Array& array, std::string taker) {
  DonatedHostArrays& donated = donated_host_arrays();
  const std::lock_guard lock(donated.mutex);
  std::erase_if(donated.takers, [](const auto& entry) { return entry.second.first.expired(); });
  any_host_array_donated.store(true, std::memory_order_release);
  donated.takers[array.storage().get()] = {array.storage(), std::move(taker)};
}

std::string taker_of_host_array(const Array& array) {
  if (!any_host_array_donated.load(std::memory_order_acquire)) return "";
  DonatedHostArrays& donated = donated_host_arrays();
  const std::lock_guard lock(donated.mutex);
  const auto found = donated.takers.find(array.storage().get());
  // Another array may have got the address of one that is gone.
  return found == donated.takers.end() || found->second.first.expired() ? "" : found->second.second;
}

int64_t devices_needed(const Sharding& sharding) {
  if (sharding.kind() == ShardingKind::maximal) return sharding.device() + 1;
  const DeviceOrder order = sharding.order();
  if (order == nullptr) return 1;
  return order->last() + 1;
}

DeviceStorage* device_storage(const Array& array) {
  ArrayStorage* const storage = array.storage().get();
  if (storage == nullptr || storage->on_host() || typeid(*storage) != typeid(DeviceStorage))
    return nullptr;
  return static_cast<DeviceStorage*>(storage);  // dynamic casts took 6 % of a small call
}

}  // namespace detail

bool on_devices(const Array& array) { return detail::device_storage(array) != nullptr; }

Sharding sharding_of(const Array& array) {
  const detail::DeviceStorage* storage = detail::device_storage(array);
  return storage ? storage->sharding() : Sharding::replicated();
}

}  // namespace gspmd
