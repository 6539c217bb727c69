#include "base/page_pool.h"

#include <sys/mman.h>

#include <cstring>

#include "base/pages.h"
#include "gspmd/base/shape.h"

namespace gspmd {

PagePool& PagePool::of_process() {
  static auto* pool = new PagePool;
  return *pool;
}

PagePool::~PagePool() {
  for (const auto& [memory, chunk] : chunks_) unmap_pages(memory, kChunk);
}

std::byte* PagePool::take(int64_t bytes) {
  bytes = ceil_div(bytes, kPage) * kPage;
  std::byte* memory = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    memory = take_used(bytes);
    if (memory == nullptr) return take_fresh(bytes);
  }
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return memory;
}

// The smallest that is large enough.
std::byte* PagePool::take_used(int64_t bytes) {
  const auto found = by_size_.lower_bound({bytes, nullptr});
  if (found == by_size_.end()) return nullptr;
  const auto [size, memory] = *found;
  erase_used(memory, size);
  if (size > bytes) add_used(memory + bytes, size - bytes);
  chunk_of(memory)->second.taken += bytes;
  return memory;
}

std::byte* PagePool::take_fresh(int64_t bytes) {
  if (newest_ == nullptr || chunks_[newest_].fresh + bytes > kChunk) {
    std::byte* const memory = map_pages(kChunk);
    if (memory == nullptr) return nullptr;
    if (newest_ != nullptr) leave_newest();
    newest_ = memory;
    chunks_[memory] = {};
  }
  Chunk& chunk = chunks_[newest_];
  std::byte* const memory = newest_ + chunk.fresh;
  chunk.fresh += bytes;
  chunk.taken += bytes;
  return memory;
}

// What is left of the newest chunk serves smaller pieces.
void PagePool::leave_newest() {
  const auto chunk = chunks_.find(newest_);
  if (chunk->second.taken == 0) return release(chunk);
  const int64_t left = kChunk - chunk->second.fresh;
  if (left > 0) add_used(newest_ + chunk->second.fresh, left);
  chunk->second.fresh = kChunk;
}

void PagePool::give_back(std::byte* memory, int64_t bytes) {
  bytes = ceil_div(bytes, kPage) * kPage;
  const std::scoped_lock lock(mutex_);
  const auto chunk = chunk_of(memory);
  chunk->second.taken -= bytes;
  if (chunk->second.taken == 0 && chunk->first != newest_) return release(chunk);
  // Together with what is free beside it in its chunk.
  const auto next = used_.find(memory + bytes);
  if (next != used_.end() && chunk_of(next->first) == chunk) {
    bytes += next->second;
    erase_used(next->first, next->second);
  }
  auto before = used_.lower_bound(memory);
  if (before != used_.begin() && (--before)->first + before->second == memory &&
      chunk_of(before->first) == chunk) {
    memory = before->first;
    bytes += before->second;
    erase_used(memory, before->second);
  }
  add_used(memory, bytes);
}

void PagePool::add_used(std::byte* memory, int64_t bytes) {
  used_[memory] = bytes;
  by_size_.insert({bytes, memory});
}

void PagePool::erase_used(std::byte* memory, int64_t bytes) {
  used_.erase(memory);
  by_size_.erase({bytes, memory});
}

void PagePool::release(Chunks::iterator chunk) {
  std::byte* const begin = chunk->first;
  for (auto used = used_.lower_bound(begin); used != used_.end() && used->first < begin + kChunk;) {
    by_size_.erase({used->second, used->first});
    used = used_.erase(used);
  }
  chunks_.erase(chunk);
  unmap_pages(begin, kChunk);
}

PagePool::Chunks::iterator PagePool::chunk_of(const std::byte* memory) {
  return --chunks_.upper_bound(const_cast<std::byte*>(memory));  // NOLINT: only compared
}

int64_t PagePool::mapped_bytes() {
  const std::scoped_lock lock(mutex_);
  return std::ssize(chunks_) * kChunk;
}

}  // namespace gspmd
