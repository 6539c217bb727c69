#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "gspmd/base/array.h"

namespace gspmd {

// Bytes right before, or right behind, memory that nobody may read.
class Walled final : public ArrayStorage {
 public:
  Walled(const Array& array, bool before_wall) : bytes_(array.bytes().size()) {
    const size_t held = (bytes_ + kPage - 1) / kPage * kPage;
    size_ = held + 2 * kWall;
    void* const all = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::runtime_error("mmap");
    base_ = static_cast<std::byte*>(all);
    if (mprotect(base_ + kWall, held, PROT_READ | PROT_WRITE) != 0)
      throw std::runtime_error("mprotect");
    at_ = base_ + kWall + (before_wall ? held - bytes_ : 0);
    std::copy_n(array.bytes().data(), bytes_, at_);
  }
  Walled(const Walled&) = delete;
  Walled& operator=(const Walled&) = delete;
  ~Walled() override { munmap(base_, size_); }
  std::span<std::byte> host_bytes() override { return {at_, bytes_}; }
  bool on_host() const override { return true; }

 private:
  static constexpr size_t kPage = 4096, kWall = size_t{1} << 20;
  size_t bytes_, size_ = 0;
  std::byte *base_ = nullptr, *at_ = nullptr;
};

inline Array walled(const Array& array, bool before_wall) {
  return Array(array.shape(), std::make_shared<Walled>(array, before_wall));
}

}  // namespace gspmd
