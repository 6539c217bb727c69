#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tools/compare.h"
#include "tools/run_command.h"

namespace gspmd {
namespace {

using tools::compare;
using tools::Tolerance;

bool equal(const Array& expected, const Array& actual, bool exact = false,
           const Tolerance& tolerance = {}) {
  return compare(std::vector{expected}, std::vector{actual}, exact, tolerance).equal;
}

Array floats(const std::vector<float>& values) {
  return Array::of<float>({static_cast<int64_t>(values.size())}, values);
}

}  // namespace

TEST_CASE("results are compared bit for bit where they are exact, and within rounding elsewhere") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(equal(floats({1, nan, inf}), floats({1, nan, inf}), true));
  CHECK_FALSE(equal(floats({0.0f}), floats({-0.0f}), true));
  CHECK(equal(floats({0.0f, 1}), floats({-0.0f, 1.000001f})));
  CHECK_FALSE(equal(floats({1}), floats({1.000001f}), true));
  CHECK_FALSE(equal(floats({1}), floats({1.001f})));
  CHECK_FALSE(equal(floats({1, 2}), floats({1, nan})));
  CHECK_FALSE(equal(floats({1, inf}), floats({1, -inf})));
  CHECK_FALSE(equal(floats({1, inf}), floats({1, 1e30f})));
  CHECK(equal(floats({1000, 1e-4f}), floats({1000, 3e-4f})));
  CHECK_FALSE(equal(floats({1000, 1e-4f}), floats({1000, 0.1f})));
  CHECK(equal(floats({1}), floats({1.001f}), false, {.rtol = 0.01, .atol = {}}));
  CHECK_FALSE(equal(floats({1000}), floats({1000.001f}), false, {.rtol = 0, .atol = 0}));
}

TEST_CASE("integers are equal or not, whatever the tolerance") {
  const Array a = Array::of<int64_t>({2}, {1, int64_t{1} << 62});
  CHECK(equal(a, a.clone()));
  CHECK_FALSE(equal(a, Array::of<int64_t>({2}, {1, (int64_t{1} << 62) + 1}), false,
                    {.rtol = 1, .atol = 1}));
}

TEST_CASE("the noise of one device widens the tolerance, a wrong term is still found") {
  const Array expected = floats({0.01f, -0.02f});
  CHECK_FALSE(equal(expected, floats({0.011f, -0.02f})));
  CHECK(equal(expected, floats({0.011f, -0.02f}), false, {{}, {}, {2e-4}}));
  CHECK_FALSE(equal(expected, floats({0.11f, -0.02f}), false, {{}, {}, {2e-4}}));
  CHECK(tools::noise_between(std::vector{expected}, std::vector{floats({0.5f, -0.02f})})[0] ==
        Approx(0.49));
}

TEST_CASE("the first difference says where, and what was expected") {
  const auto result = compare(std::vector{Array::of<int32_t>({2, 2}, {1, 2, 3, 4})},
                              std::vector{Array::of<int32_t>({2, 2}, {1, 2, 9, 4})}, false, {});
  REQUIRE(result.first.has_value());
  CHECK(result.first->index == std::vector<int64_t>{1, 0});
  CHECK(tools::part_of(result.first->expected, 0) == 3);
  CHECK(tools::part_of(result.first->actual, 0) == 9);
  CHECK(result.max_abs_error == 6);
}

// Sums of bf16 over a split dim, of which the large part cancels afterwards.
TEST_CASE("a bf16 program that cancels is not different because a mesh rounds elsewhere") {
  const std::string text =
      "HloModule m, num_partitions=8\nadd { x = bf16[] parameter(0)\n y = bf16[] parameter(1)\n"
      " ROOT z = bf16[] add(x, y) }\nENTRY e {\n"
      " a = bf16[64,512] parameter(0), sharding={devices=[1,8]<=[8]}\n"
      " w = bf16[512,32] parameter(1)\n z = bf16[] constant(0)\n"
      " d = bf16[64,32] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " s = bf16[512] reduce(a, z), dimensions={0}, to_apply=add\n"
      " v = bf16[32] dot(s, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      " c = bf16[32] reduce(d, z), dimensions={0}, to_apply=add\n"
      " e = bf16[32] subtract(v, c)\n t = bf16[64,32] tanh(d)\n"
      " ROOT r = (bf16[32], bf16[64,32]) tuple(e, t) }";
  for (const char* options : {"", " --seed 1", " --seed 2", " --reference oracle"}) {
    const CommandResult result =
        run_command(std::string("verify - --json --values uniform") + options, text);
    CAPTURE(result.out);
    CHECK(result.err == "");
    CHECK(result.code == 0);
  }
}

}  // namespace gspmd
