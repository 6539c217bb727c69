#pragma once

#include <cstdint>

// How many cases a random test tries: `full`, and a sixteenth of it in sanitizer builds, where a
// case takes about ten times as long and its path counts, not its numbers.
inline int64_t random_load(int64_t full) {
#ifdef GSPMD_SANITIZED
  return (full + 15) / 16;
#else
  return full;
#endif
}
