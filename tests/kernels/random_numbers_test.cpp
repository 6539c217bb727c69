#include "kernels/random_numbers.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace gspmd {
namespace {

// Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011): one counter at a time.
std::array<uint32_t, 4> philox_of(uint64_t key, uint64_t low, uint64_t high) {
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> x{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                            static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53U} * x[0], second = uint64_t{0xCD9E8D57U} * x[2];
    x = {static_cast<uint32_t>(second >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(second),
         static_cast<uint32_t>(first >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(first)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return x;
}

uint32_t turned_left(uint32_t x, int bits) { return x << bits | x >> (32 - bits); }

std::array<uint32_t, 2> threefry_of(const ThreefryCounters& c, int64_t i) {
  constexpr int kTurns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {c.key0, c.key1, 0x1BD11BDAU ^ c.key0 ^ c.key1};
  std::array<uint32_t, 2> x{c.low + static_cast<uint32_t>(i) + keys[0], c.high + keys[1]};
  for (uint32_t group = 1; group <= 5; ++group) {
    for (const int bits : kTurns[(group + 1) % 2]) {
      x[0] += x[1];
      x[1] = turned_left(x[1], bits) ^ x[0];
    }
    x[0] += keys[group % 3];
    x[1] += keys[(group + 1) % 3] + group;
  }
  return x;
}

}  // namespace

// The first is one of the known answers of Random123.
TEST_CASE("random numbers: philox has the words of each counter side by side, and writes no more",
          "[random]") {
  CHECK(philox_of(0, 0, 0) ==
        std::array<uint32_t, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});
  constexpr uint32_t kGuard = 0x5A5A5A5AU;
  for (int64_t n = 0; n < 70; ++n) {
    const PhiloxCounters counters{0x0123456789ABCDEFU + static_cast<uint64_t>(n),
                                  n % 2 == 0 ? 0xFFFFFFF0U : ~uint64_t{0} - 70,
                                  0xFEDCBA9876543210U};
    std::vector<uint32_t> words(static_cast<size_t>(4 * n + 32), kGuard);
    philox_words(counters, n, words.data() + 1);
    INFO(n << " counters");
    CHECK(words[0] == kGuard);
    for (int64_t i = 0; i < 4 * n; ++i) {
      const auto x =
          philox_of(counters.key, counters.low + static_cast<uint64_t>(i / 4), counters.high);
      REQUIRE(words[static_cast<size_t>(i + 1)] == x[static_cast<size_t>(i % 4)]);
    }
    for (size_t i = static_cast<size_t>(4 * n + 1); i < words.size(); ++i)
      REQUIRE(words[i] == kGuard);
  }
}

TEST_CASE("random numbers: threefry has one array for each word of a counter", "[random]") {
  for (const int64_t n : {1, 63, 64, 500}) {
    const ThreefryCounters counters{0x13198A2EU, 0x03707344U, 0xFFFFFFF0U, 7};
    std::vector<uint32_t> words0(static_cast<size_t>(n + 64)), words1(words0.size());
    threefry_words(counters, n, words0.data(), words1.data());
    INFO(n << " counters");
    for (int64_t i = 0; i < n; ++i) {
      const auto x = threefry_of(counters, i);
      REQUIRE(words0[static_cast<size_t>(i)] == x[0]);
      REQUIRE(words1[static_cast<size_t>(i)] == x[1]);
    }
  }
}

}  // namespace gspmd
