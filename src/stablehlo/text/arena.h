#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/pages.h"

namespace gspmd::stablehlo {

// Memory of what is read of one text: given out piece by piece, taken back all at once.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* allocate(size_t bytes, size_t alignment) {
    size_t begin = (used_ + alignment - 1) & ~(alignment - 1);
    if (begin + bytes > size_) {
      size_ = std::max(bytes, std::clamp(2 * size_, kLeast, kMost));
      std::byte* const pages = map_pages(static_cast<int64_t>(size_));
      if (pages == nullptr) throw std::bad_alloc();
      blocks_.emplace_back(pages, Unmap{static_cast<int64_t>(size_)});
      begin = 0;
    }
    used_ = begin + bytes;
    return blocks_.back().get() + begin;
  }

  // Takes back all that was given out, of which nothing is read any more.
  void clear() {
    if (blocks_.size() > 1) blocks_.erase(blocks_.begin(), blocks_.end() - 1);
    used_ = 0;
  }

  // The one that lists of this thread are made in; nullptr: each allocates for itself.
  static Arena*& current() {
    thread_local Arena* arena = nullptr;
    return arena;
  }

 private:
  static constexpr size_t kLeast = size_t{1} << 14, kMost = size_t{1} << 25;  // of a block
  struct Unmap {
    int64_t bytes = 0;
    void operator()(std::byte* pages) const { unmap_pages(pages, bytes); }
  };
  std::vector<std::unique_ptr<std::byte, Unmap>> blocks_;
  size_t size_ = 0, used_ = 0;  // of the last block
};

// Lists that are made while it lives are made in the arena, which outlives them; nullptr: each
// allocates for itself.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : ArenaScope(&arena) {}
  explicit ArenaScope(Arena* arena) : before_(std::exchange(Arena::current(), arena)) {}
  ~ArenaScope() { Arena::current() = before_; }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena* before_;
};

template <class T>
struct ArenaAllocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  ArenaAllocator() : arena(Arena::current()) {}
  template <class U>
  ArenaAllocator(const ArenaAllocator<U>& other) : arena(other.arena) {}
  ArenaAllocator select_on_container_copy_construction() const { return {}; }

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    return static_cast<T*>(arena ? arena->allocate(bytes, alignof(T)) : ::operator new(bytes));
  }
  void deallocate(T* memory, size_t) {
    if (arena == nullptr) ::operator delete(memory);
  }
  bool operator==(const ArenaAllocator&) const = default;

  Arena* arena;
};

// A list of what is read.
template <class T>
using List = std::vector<T, ArenaAllocator<T>>;

}  // namespace gspmd::stablehlo
