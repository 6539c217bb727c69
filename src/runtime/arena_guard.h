#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/guard_bytes.h"
#include "runtime/program.h"

#ifdef GSPMD_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace gspmd {

// Under AddressSanitizer every buffer has unused bytes behind it, and the memory that nobody may
// touch at the moment is poisoned. In other builds there are no such bytes and nothing is done.
#ifdef GSPMD_ADDRESS_SANITIZER
inline void poison_memory(const std::byte* memory, int64_t bytes) {
  __asan_poison_memory_region(memory, static_cast<size_t>(bytes));
}
inline void unpoison_memory(const std::byte* memory, int64_t bytes) {
  __asan_unpoison_memory_region(memory, static_cast<size_t>(bytes));
}
#else
inline void poison_memory(const std::byte*, int64_t) {}
inline void unpoison_memory(const std::byte*, int64_t) {}
#endif

// What of the devices' arenas may be touched: the operands and results of the op that runs, and
// what the executor reads itself between ops (predicates, selectors, the state of loops).
class ArenaGuard {
 public:
  ArenaGuard() = default;
  // `arena` is that of device `first`; the next devices' follow.
  ArenaGuard(const Program& program, const std::byte* arena, int64_t stride, int64_t first)
      : program_(&program), arena_(arena), stride_(stride), first_(first) {
    if constexpr (kGuardBytes == 0) return;
    for (const auto& loop : program.loops) {
      always_.push_back({loop->predicate_argument, 1});
      always_.push_back({loop->first_carried, static_cast<int64_t>(loop->carried_bytes.size())});
    }
    for (const auto& branch : program.branches) always_.push_back({branch->selector_argument, 1});
  }

  // Nothing of the device's arena but what the executor reads.
  void close(int64_t device) const {
    if constexpr (kGuardBytes == 0) return;
    poison_memory(arena_ + (device - first_) * stride_, stride_);
    for (const Range& range : always_) open(device, range.first, range.count);
  }
  // The buffers of these entries of the argument table too.
  void open(int64_t device, int64_t first_argument, int64_t count) const {
    if constexpr (kGuardBytes == 0) return;
    for (int64_t a = first_argument; a < first_argument + count; ++a) {
      const Slot& slot = program_->arguments[static_cast<size_t>(a)];
      if (slot.kind == BufferPlace::arena)
        unpoison_memory(arena_ + (device - first_) * stride_ + slot.offset, slot.bytes);
    }
  }

 private:
  struct Range {
    int64_t first = 0, count = 0;
  };
  const Program* program_ = nullptr;
  const std::byte* arena_ = nullptr;
  int64_t stride_ = 0, first_ = 0;
  std::vector<Range> always_;
};

}  // namespace gspmd
