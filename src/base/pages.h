#pragma once

#include <cstddef>
#include <cstdint>

namespace gspmd {

// Whether pages are counted before they are touched: more than the machine has is then refused.
enum class PageCount : bool { when_touched, at_once };

// Zeroed pages, huge where the system can: from the system itself or, below the size of a huge
// page, from the pool of the process (page_pool.h), whose pages are counted when touched. nullptr
// where there are none, or `bytes` is 0.
std::byte* map_pages(int64_t bytes, PageCount count = PageCount::when_touched);
void unmap_pages(std::byte* memory, int64_t bytes);

// A step of at least `bytes` between buffers of one kind, a multiple of 64. From 64 KiB it is some
// lines past whole pages: equal elements of buffers whole pages apart would fight for the same few
// sets of the caches.
int64_t step_between(int64_t bytes);

}  // namespace gspmd
