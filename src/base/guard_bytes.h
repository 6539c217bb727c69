#pragma once

#include <cstdint>

#include "base/sanitized.h"

namespace gspmd {

// Unused bytes behind every buffer of the arena of a program that runs: under AddressSanitizer,
// where nobody may touch them.
constexpr int64_t kGuardBytes = kIsSanitized ? 64 : 0;

}  // namespace gspmd
