#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace gspmd {

// Zeroed pages for what is smaller than a huge page. Pieces are cut from chunks of huge pages: a
// small page costs as much as a huge one at its first touch, several microseconds where the machine
// is a guest. Pieces given back are filled with zeros when they are taken again. May be used from
// any thread.
class PagePool {
 public:
  static constexpr int64_t kPage = 4096, kHuge = 1 << 21, kChunk = 8 * kHuge;

  // The pool of the process, which is never destroyed: memory may be given back by destructors of
  // static objects.
  static PagePool& of_process();

  PagePool() = default;
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();

  // Whether a piece of `bytes` is worth a pool.
  static bool holds(int64_t bytes) { return bytes >= 4 * kPage && bytes < kHuge; }

  // Starts at a page; nullptr where the system has no memory.
  std::byte* take(int64_t bytes);
  void give_back(std::byte* memory, int64_t bytes);

  // Bytes of the system that the pool has now.
  int64_t mapped_bytes();

 private:
  struct Chunk {
    int64_t fresh = 0;  // from here on nobody has touched it
    int64_t taken = 0;
  };

  using Chunks = std::map<std::byte*, Chunk>;

  std::byte* take_used(int64_t bytes);
  std::byte* take_fresh(int64_t bytes);
  void leave_newest();
  void add_used(std::byte* memory, int64_t bytes);
  void erase_used(std::byte* memory, int64_t bytes);
  void release(Chunks::iterator chunk);
  Chunks::iterator chunk_of(const std::byte* memory);

  std::mutex mutex_;
  Chunks chunks_;
  std::byte* newest_ = nullptr;                       // whose fresh memory is cut next
  std::map<std::byte*, int64_t> used_;                // given back, by place
  std::set<std::pair<int64_t, std::byte*>> by_size_;  // the same
};

}  // namespace gspmd
