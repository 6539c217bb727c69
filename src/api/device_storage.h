#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "gspmd/base/array.h"
#include "gspmd/mesh/sharding.h"
#include "gspmd/runtime/executor.h"
#include "runtime/shard_copies.h"

namespace gspmd::detail {

// How an array lies on the devices of a mesh: as itself or flat, [elements], and by which sharding.
class DeviceLayout {
 public:
  DeviceLayout(Shape global, Sharding sharding, int64_t num_devices)
      : global_(std::move(global)), sharding_(std::move(sharding)), num_devices_(num_devices) {}
  const Shape& global() const { return global_; }
  const Sharding& sharding() const { return sharding_; }
  int64_t num_devices() const { return num_devices_; }
  // The copies to and from the devices, made when they are first asked for.
  const ShardCopies& copies() const {
    const ShardCopies* const made = copies_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make_copies();
  }
  bool operator==(const DeviceLayout& o) const {
    return num_devices_ == o.num_devices_ && global_ == o.global_ && sharding_ == o.sharding_;
  }

 private:
  const ShardCopies& make_copies() const;

  Shape global_;
  Sharding sharding_;
  int64_t num_devices_;
  mutable std::once_flag once_;
  mutable std::optional<ShardCopies> made_;
  mutable std::atomic<const ShardCopies*> copies_{nullptr};
};

// An array that lives on the devices of a mesh, sharded. Reading it on the host gathers it once.
class DeviceStorage final : public ArrayStorage {
 public:
  DeviceStorage(std::shared_ptr<DeviceBuffer> buffer, std::shared_ptr<const DeviceLayout> layout)
      : buffer_(std::move(buffer)), layout_(std::move(layout)) {}
  DeviceStorage(std::shared_ptr<DeviceBuffer> buffer, Shape global, Sharding sharding);

  std::span<std::byte> host_bytes() override;
  bool on_host() const override { return false; }

  const std::shared_ptr<const DeviceLayout>& layout() const { return layout_; }
  const Sharding& sharding() const { return layout_->sharding(); }
  const Shape& global_shape() const { return layout_->global(); }
  // nullptr once donated.
  const std::shared_ptr<DeviceBuffer>& buffer() const { return buffer_; }
  // Becomes what a new storage of this layout with these elements would be. With nullptr it gives
  // back those that it has, and is not to be read before it is given others.
  void renew(std::shared_ptr<DeviceBuffer> buffer);
  // Gives the elements away; `taker` is used in messages: "argument params.wq of step 3".
  std::shared_ptr<DeviceBuffer> donate(std::string taker);
  const std::string& taker() const { return taker_; }  // empty: not donated

 private:
  std::shared_ptr<DeviceBuffer> buffer_;
  std::shared_ptr<const DeviceLayout> layout_;
  Array host_;  // gathered
  std::string taker_;
};

// Host arrays keep their elements when they are donated; that they were is remembered as long as
// they live. `taker` as in DeviceStorage; "": not donated.
void donate_host_array(const Array& array, std::string taker);
std::string taker_of_host_array(const Array& array);
inline std::atomic<bool> any_host_array_donated{false};  // ever
inline bool is_donated_host_array(const Array& array) {
  return any_host_array_donated.load(std::memory_order_acquire) &&
         !taker_of_host_array(array).empty();
}

// One more than the highest device that a sharding names.
int64_t devices_needed(const Sharding& sharding);

// The device storage of an array, or nullptr for host arrays.
DeviceStorage* device_storage(const Array& array);

}  // namespace gspmd::detail
