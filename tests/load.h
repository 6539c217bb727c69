#pragma once

#include <cstdint>

// How many cases a random test tries, or steps a training takes: `full`, and an eighth of it in
// sanitizer builds, where one takes about ten times as long and its path counts, not its numbers.
inline int64_t random_load(int64_t full) {
#ifdef GSPMD_SANITIZED
  return (full + 7) / 8;
#else
  return full;
#endif
}
