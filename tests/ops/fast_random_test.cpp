// Random numbers on all workers are those of the evaluator.
#include <catch2/catch.hpp>
#include <random>

#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::fast_random_test {
namespace {

using testing::expect_fast;

int64_t below(std::mt19937_64& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

// Up to three dims; some of many elements, which are drawn in several parts.
Dims some_dims(std::mt19937_64& random) {
  if (below(random, 6) == 0) return {3, 1 + below(random, 30000)};
  if (below(random, 6) == 0) return {2 * (1 + below(random, 20000)) + below(random, 2)};
  Dims dims;
  for (int64_t d = below(random, 4); d > 0; --d) dims.push_back(below(random, 9));
  return dims;
}

}  // namespace

TEST_CASE("fast random bits: any algorithm, state, type and shape", "[random]") {
  constexpr const char* kAlgorithms[] = {"rng_three_fry", "rng_philox", "rng_default"};
  constexpr DType kTypes[] = {DType::u8,  DType::s8,  DType::u16, DType::u32,
                              DType::s32, DType::u64, DType::s64};
  for (int64_t seed = 1; seed <= random_load(200); ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const std::string algorithm = kAlgorithms[below(random, 3)];
    const bool is_wide = algorithm != "rng_three_fry" && below(random, 2) == 0;
    std::vector<uint64_t> state{random(), random()};
    if (is_wide) state.push_back(random());
    // Counters about to carry into their upper half, or all of them.
    if (below(random, 2) == 0) state[1] |= 0xFFFFFF00U;
    if (below(random, 4) == 0) state[1] = ~uint64_t{0} - static_cast<uint64_t>(below(random, 99));
    const auto words = static_cast<int64_t>(state.size());
    const Shape bits(kTypes[below(random, std::size(kTypes))], some_dims(random));
    const std::string result = below(random, 2) == 0
                                   ? to_string(bits)
                                   : fmt::format("(u64[{}], {})", words, to_string(bits));
    expect_fast(fmt::format("HloModule m\nENTRY e {{\ns = u64[{}] parameter(0)\nROOT r = {} "
                            "rng-bit-generator(s), algorithm={}\n}}\n",
                            words, result, algorithm),
                {Array::of<uint64_t>({words}, state)});
  }
}

TEST_CASE("fast random numbers: uniform and normal ones of any type", "[random]") {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                              DType::s32, DType::u8,   DType::s64, DType::pred};
  for (int64_t seed = 1; seed <= random_load(100); ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const DType type = kTypes[below(random, std::size(kTypes))];
    const bool uniform = !is_floating(type) || below(random, 2) == 0;
    Array a(type, {}), b(type, {});
    a.set(0, is_floating(type) ? double(below(random, 41)) / 8 - 2 : double(below(random, 2)));
    b.set(0, is_floating(type) ? double(below(random, 41)) / 8 - 2 : double(below(random, 100)));
    expect_fast(fmt::format("HloModule m\nENTRY e {{\na = {0} parameter(0)\nb = {0} parameter(1)\n"
                            "ROOT r = {1} rng(a, b), distribution=rng_{2}\n}}\n",
                            to_string(a.shape()), to_string(Shape(type, some_dims(random))),
                            uniform ? "uniform" : "normal"),
                {a, b});
  }
}

// So many that some lie next to where the rounding changes.
TEST_CASE("fast normal numbers: all of a million", "[random][once]") {
  for (const char* type : {"f32", "bf16"}) {
    const DType dtype = type == std::string("f32") ? DType::f32 : DType::bf16;
    Array a(dtype, {}), b(dtype, {});
    a.set(0, 0);
    b.set(0, 1);
    expect_fast(fmt::format("HloModule m\nENTRY e {{\na = {0}[] parameter(0)\nb = {0}[] "
                            "parameter(1)\nROOT r = {0}[1024,1024] rng(a, b), "
                            "distribution=rng_normal\n}}\n",
                            type),
                {a, b});
  }
}

}  // namespace gspmd::fast_random_test
