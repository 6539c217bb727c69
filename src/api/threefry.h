#pragma once

#include <array>
#include <cstdint>

namespace gspmd::detail {

// Threefry-2x32 with 20 rounds (Salmon et al., SC 2011) over any word type: plain integers on the
// host, emitted instructions in a trace.
constexpr uint32_t kThreefryParity = 0x1BD11BDA;
constexpr std::array<std::array<int, 4>, 2> kThreefryRotations{{{13, 15, 26, 6}, {17, 29, 16, 24}}};

struct HostWords {
  using Word = uint32_t;
  static Word add(Word a, Word b) { return a + b; }
  static Word exclusive_or(Word a, Word b) { return a ^ b; }
  static Word rotate_left(Word x, int bits) { return (x << bits) | (x >> (32 - bits)); }
  // Key words and rounds' numbers are scalars; `widen` makes them as large as the counters.
  static Word add_number(Word a, uint32_t b) { return a + b; }
  static Word widen(Word key) { return key; }
  static Word parity() { return kThreefryParity; }
};

template <class Words>
std::array<typename Words::Word, 2> threefry(Words words, typename Words::Word key0,
                                             typename Words::Word key1, typename Words::Word x0,
                                             typename Words::Word x1) {
  using Word = typename Words::Word;
  const std::array<Word, 3> keys{
      key0, key1, words.exclusive_or(words.parity(), words.exclusive_or(key0, key1))};
  x0 = words.add(x0, words.widen(keys[0]));
  x1 = words.add(x1, words.widen(keys[1]));
  for (uint32_t group = 1; group <= 5; ++group) {
    for (const int bits : kThreefryRotations[(group + 1) % 2]) {
      x0 = words.add(x0, x1);
      x1 = words.exclusive_or(words.rotate_left(x1, bits), x0);
    }
    x0 = words.add(x0, words.widen(keys[group % 3]));
    x1 = words.add(x1, words.widen(words.add_number(keys[(group + 1) % 3], group)));
  }
  return {x0, x1};
}

// Uniform numbers from a pair of words: [0, 1) with 24 or 53 bits.
inline float uniform_f32(uint32_t x) { return static_cast<float>(x >> 8) * 0x1p-24f; }
inline double uniform_f64(uint32_t x0, uint32_t x1) {
  return (static_cast<double>(x0 >> 5) * 0x1p26 + static_cast<double>(x1 >> 6)) * 0x1p-53;
}

}  // namespace gspmd::detail
