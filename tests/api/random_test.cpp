#include <array>
#include <cmath>

#include "api/support.h"
#include "api/threefry.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("threefry gives the published answers of Random123", "[api]") {
  struct Known {
    std::array<uint32_t, 2> key, counter, answer;
  };
  const Known known[] = {
      {{0, 0}, {0, 0}, {0x6b200159, 0x99ba4efe}},
      {{0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7}},
      {{0x13198a2e, 0x03707344}, {0x243f6a88, 0x85a308d3}, {0xc4923a9c, 0x483df7a0}},
  };
  for (const Known& k : known)
    CHECK(detail::threefry(detail::HostWords{}, k.key[0], k.key[1], k.counter[0], k.counter[1]) ==
          k.answer);
}

TEST_CASE("traced bits are threefry of the global row-major index", "[api]") {
  const Array bits = run(
      [](Tensor seed) {
        return random_bits(seed, {3, 5}, {.stream = 9});
      },
      Array::scalar<int32_t>(1234));
  for (uint32_t i = 0; i < 15; ++i)
    CHECK(bits.data<uint32_t>()[i] == detail::threefry(detail::HostWords{}, 1234u, 9u, i, 0u)[0]);
}

TEST_CASE("the counter's high word runs where the low one would overflow", "[api]") {
  // 2^33 elements cannot be made, but one row of them can be sliced out of the shapes.
  const Traced traced = trace([] { return random_bits(1, {4, int64_t{1} << 31, 2}); });
  int64_t iotas = 0;
  for (const auto& node : traced.module().entry()->nodes()) iotas += node->is(Opcode::iota);
  CHECK(iotas == 3);
}

TEST_CASE("uniform numbers fill zero to one evenly in f32 and f64", "[api]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Array u = run([&] { return random_uniform(42, {100, 100}, {.dtype = dtype}); });
    REQUIRE(u.dtype() == dtype);
    std::array<int, 10> bins{};
    double sum = 0;
    for (const double x : values(u)) {
      REQUIRE((x >= 0 && x < 1));
      ++bins[size_t(x * 10)];
      sum += x;
    }
    CHECK(sum / 10000 == Approx(0.5).margin(0.015));
    double chi_square = 0;
    for (const int bin : bins) chi_square += (bin - 1000) * (bin - 1000) / 1000.0;
    CHECK(chi_square < 27.9);  // 0.1 % of good generators exceed this
  }
}

TEST_CASE("normal numbers have mean 0, variance 1 and light tails", "[api]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    double sum = 0, squares = 0, beyond = 0;
    for (const double x :
         values(run([&] { return random_normal(3, {20000}, {.dtype = dtype}); }))) {
      sum += x;
      squares += x * x;
      beyond += std::fabs(x) > 2;
    }
    CHECK(sum / 20000 == Approx(0).margin(0.03));
    CHECK(squares / 20000 == Approx(1).margin(0.04));
    CHECK(beyond / 20000 == Approx(0.0455).margin(0.008));
  }
}

TEST_CASE("streams and seeds differ, equal seeds repeat", "[api]") {
  const auto bits = [](int seed, int64_t stream) {
    return values(run([&] { return random_bits(seed, {8}, {.stream = stream}); }));
  };
  CHECK(bits(1, 0) == bits(1, 0));
  CHECK(bits(1, 0) != bits(2, 0));
  CHECK(bits(1, 0) != bits(1, 1));
}

TEST_CASE("host arrays hold the numbers of a trace", "[api]") {
  CHECK(bitwise_equal(random_uniform_array({DType::f32, {7, 5}}, 11, 2), run([] {
                        return random_uniform(11, {7, 5}, {.stream = 2});
                      })));
  CHECK(bitwise_equal(random_uniform_array({DType::f64, {7, 5}}, 11), run([] {
                        return random_uniform(11, {7, 5}, {.dtype = DType::f64});
                      })));
  CHECK(expect_close({random_normal_array({DType::f64, {33}}, 5)},
                     {run([] { return random_normal(5, {33}, {.dtype = DType::f64}); })},
                     {1e-12, 1e-12}));
  CHECK(expect_close({random_normal_array({DType::f32, {33}}, 5)},
                     {run([] { return random_normal(5, {33}); })}, {1e-5, 1e-5}));
}
