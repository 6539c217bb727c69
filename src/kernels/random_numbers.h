#pragma once

#include <cstdint>

namespace gspmd {

// Here arrays have room for n rounded up to a multiple of 64, unless something else is said.

// Threefry-2x32 with 20 rounds of n counters {low + i, high}, 0 <= i < n, as api/threefry.h.
struct ThreefryCounters {
  uint32_t key0 = 0, key1 = 0, low = 0, high = 0;
};
void threefry_words(const ThreefryCounters& counters, int64_t n, uint32_t* words0,
                    uint32_t* words1);

// Philox-4x32 with 10 rounds of n counters, 128 bits wide, {low + i, high}, 0 <= i < n, where low +
// i does not wrap around: the four words of a counter follow each other in `words`, which has room
// for 4n and no more.
struct PhiloxCounters {
  uint64_t key = 0, low = 0, high = 0;
};
void philox_words(const PhiloxCounters& counters, int64_t n, uint32_t* words);

// Normal numbers of pairs of words, by Box and Muller: sqrt(-2 log u1) cos(2 pi u2). The same bits
// on every machine.
void normal_numbers(const uint32_t* words0, const uint32_t* words1, int64_t n, float* numbers);

// Normal numbers in doubles of n pairs of counters, whose words follow each other: of the upper 53
// bits u of the first and v of the second counter of each, below 1, sqrt(-2 log(1 - u))
// cos(2 pi v), to within 2^-46. The bits may differ between machines.
void normal_doubles(const uint32_t* words0, const uint32_t* words1, int64_t n, double* numbers);

}  // namespace gspmd
