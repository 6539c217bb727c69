#include <catch2/catch.hpp>
#include <cmath>

#include "ops/evaluate_cases.h"
#include "ops/random/bits.h"

namespace gspmd::testing {

using Pair = std::array<uint32_t, 2>;
using Four = std::array<uint32_t, 4>;

TEST_CASE("the generators give their published values", "[random]") {
  constexpr uint32_t kOnes = 0xffffffffu;
  CHECK(threefry_2x32({0, 0}, {0, 0}) == Pair{0x6b200159u, 0x99ba4efeu});
  CHECK(threefry_2x32({kOnes, kOnes}, {kOnes, kOnes}) == Pair{0x1cb996fcu, 0xbb002be7u});
  CHECK(threefry_2x32({0x13198a2eu, 0x03707344u}, {0x243f6a88u, 0x85a308d3u}) ==
        Pair{0xc4923a9cu, 0x483df7a0u});
  CHECK(philox_4x32({0, 0}, {0, 0, 0, 0}) ==
        Four{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox_4x32({kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}) ==
        Four{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox_4x32({0xa4093822u, 0x299f31d0u},
                    {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}) ==
        Four{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("numbers of three-fry pair up along the first even dim", "[random]") {
  const RandomBits bits = threefry_bits({7, 100}, {3, 4, 5}, 32);
  CHECK(bits.state == std::vector<uint64_t>{7, 130});
  for (uint64_t i = 0; i < 3; ++i)
    for (uint64_t j = 0; j < 4; ++j)
      for (uint64_t k = 0; k < 5; ++k) {
        const uint64_t counter = 100 + (i * 2 + j / 2) * 5 + k;
        CHECK(bits.values[(i * 4 + j) * 5 + k] ==
              threefry_2x32({7, 0}, {uint32_t(counter), 0})[j % 2]);
      }
}

TEST_CASE("of odd dims three-fry halves the longest and drops the last half", "[random]") {
  const RandomBits bits = threefry_bits({7, 1}, {3, 5}, 8);
  CHECK(bits.state == std::vector<uint64_t>{7, 10});
  for (uint64_t i = 0; i < 3; ++i)
    for (uint64_t j = 0; j < 5; ++j)
      CHECK(bits.values[i * 5 + j] ==
            (threefry_2x32({7, 0}, {uint32_t(1 + i * 3 + j / 2), 0})[j % 2] & 0xff));
  CHECK(threefry_bits({7, 1}, {}, 32).state[1] == 2);
  CHECK(threefry_bits({7, 1}, {0, 3}, 32).values.empty());
}

TEST_CASE("numbers of 64 bits take a counter each, low word first", "[random]") {
  const RandomBits bits = threefry_bits({0x500000003u, 0xffffffffu}, {2}, 64);
  const Pair second = threefry_2x32({3, 5}, {0, 1});
  CHECK(bits.values[1] == (uint64_t(second[1]) << 32 | second[0]));
  CHECK(bits.state[1] == 0x100000001u);
}

TEST_CASE("philox counts in 128 bits and gives its words in order", "[random]") {
  const RandomBits bits = philox_bits({9, ~uint64_t(0), 4}, {2, 3}, 32);
  const Four second = philox_4x32({9, 0}, {0, 0, 5, 0});
  CHECK(bits.values[4] == second[0]);
  CHECK(bits.values[5] == second[1]);
  CHECK(bits.state == std::vector<uint64_t>{9, 1, 5});
  const RandomBits wide = philox_bits({9, 3, 4}, {3}, 64);
  const Four first = philox_4x32({9, 0}, {3, 0, 4, 0});
  CHECK(wide.values[1] == (uint64_t(first[3]) << 32 | first[2]));
  CHECK(wide.state == std::vector<uint64_t>{9, 5, 4});
  // With two words of state the key is the high half of the counter, which is not given back.
  const RandomBits two = philox_bits({9, 3}, {1}, 32);
  CHECK(two.values[0] == philox_4x32({9, 0}, {3, 0, 9, 0})[0]);
  CHECK(two.state == std::vector<uint64_t>{9, 4});
}

TEST_CASE("states of the wrong size and unknown algorithms are refused", "[random]") {
  const auto error = [](const char* type, const char* algorithm) {
    return error_of(
        fmt::format("i = {0} iota(), iota_dimension=0\nROOT r = ({0}, u32[4]) "
                    "rng-bit-generator(i), algorithm={1}",
                    type, algorithm));
  };
  CHECK(error("u64[2]", "rng_three_fry").empty());
  CHECK(error("u64[3]", "rng_philox").empty());
  CHECK(error("u64[3]", "rng_default").empty());
  CHECK_THAT(error("u64[3]", "rng_three_fry"), Catch::Contains("rng_three_fry takes u64[2]"));
  CHECK_THAT(error("u32[4]", "rng_philox"), Catch::Contains("the state is u32[4]"));
  CHECK_THAT(error("u64[2]", "rng_dice"), Catch::Contains("rng_dice is none of"));
  CHECK_THAT(error("f32[2]", "rng_default"), Catch::Contains("it is an array of integers"));
}

TEST_CASE("uniform numbers stay inside of their bounds", "[random]") {
  const Array floats = run_text(
                           "a = f32[] constant(-1)\nb = f32[] constant(2)\nROOT r = f32[1000] "
                           "rng(a, b), distribution=rng_uniform")
                           .array;
  double sum = 0;
  for (const float x : floats.data<float>()) {
    CHECK((x >= -1 && x < 2));
    sum += double(x);
  }
  CHECK(std::fabs(sum / 1000 - 0.5) < 0.1);
  const Array integers = run_text(
                             "a = s8[] constant(3)\nb = s8[] constant(5)\nROOT r = s8[100] rng(a, "
                             "b), distribution=rng_uniform")
                             .array;
  for (const int8_t x : integers.data<int8_t>()) CHECK((x == 3 || x == 4));
}

}  // namespace gspmd::testing
