#pragma once

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define GSPMD_GUARD_ARENA 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GSPMD_GUARD_ARENA 1
#endif
#endif

namespace gspmd {

// Unused bytes behind every buffer of the arena of a program that runs: under AddressSanitizer,
// where nobody may touch them.
#ifdef GSPMD_GUARD_ARENA
constexpr int64_t kGuardBytes = 64;
#else
constexpr int64_t kGuardBytes = 0;
#endif

}  // namespace gspmd
