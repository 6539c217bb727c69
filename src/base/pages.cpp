#include "base/pages.h"

#include <sys/mman.h>

#include "base/guard_bytes.h"
#include "base/page_pool.h"
#include "gspmd/base/shape.h"

namespace gspmd {

namespace {

// Under AddressSanitizer every buffer has pages of its own: a use after the end is then seen.
bool is_pooled(int64_t bytes) { return kGuardBytes == 0 && PagePool::holds(bytes); }

}  // namespace

std::byte* map_pages(int64_t bytes, PageCount count) {
  constexpr int64_t kHuge = PagePool::kHuge;
  if (bytes <= 0) return nullptr;
  if (is_pooled(bytes)) return PagePool::of_process().take(bytes);
  // Huge pages need their own alignment, which the system does not choose by itself.
  const int64_t slack = bytes >= kHuge ? kHuge : 0;
  const int reserve = count == PageCount::at_once ? 0 : MAP_NORESERVE;
  void* mapped = mmap(nullptr, static_cast<size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | reserve, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
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
  if (memory == nullptr) return;
  if (is_pooled(bytes)) return PagePool::of_process().give_back(memory, bytes);
  munmap(memory, static_cast<size_t>(bytes));
}

int64_t step_between(int64_t bytes) {
  constexpr int64_t kPage = 4096, kPast = 9 * 64;  // seven buffers until lines meet again
  if (bytes < 16 * kPage) return ceil_div(bytes, 64) * 64;
  return ceil_div(bytes - kPast, kPage) * kPage + kPast;
}

}  // namespace gspmd
