// Linked into programs that allocate by mimalloc: its memory is asked for in large pages, whose
// first touch costs a tenth of that of small ones where the system is slow at handing them out.
// MIMALLOC_LARGE_OS_PAGES=0 in the environment turns it off.
#include <mimalloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <memory>

namespace {

// The segment that programs start with was there before anybody could ask.
void advise_first_segment() {
  constexpr uintptr_t kSegment = uintptr_t{64} << 20;
  const auto some = std::make_unique<char>();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(some.get()) / kSegment * kSegment;
  // What of it is not mapped is passed over, with an error that does not matter.
  madvise(reinterpret_cast<void*>(begin), kSegment, MADV_HUGEPAGE);  // NOLINT: an address
}

// A pass frees what the next one needs again: given back in between it would be cleared anew each
// time.
constexpr long kMillisecondsKept = 2000;

#if MI_MALLOC_VERSION < 210
constexpr mi_option_t kDelay = mi_option_decommit_delay;
#else
constexpr mi_option_t kDelay = mi_option_purge_delay;
#endif

const bool is_asked = [] {
  mi_option_set_default(kDelay, kMillisecondsKept);
  mi_option_set_enabled_default(mi_option_large_os_pages, true);
  if (mi_option_is_enabled(mi_option_large_os_pages)) advise_first_segment();
  return true;
}();

}  // namespace
