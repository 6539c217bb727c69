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

TEST_CASE("host arrays hold each element's number, of any size and type", "[api]") {
  const auto words = [](int64_t i, uint32_t seed, uint32_t stream) {
    return detail::threefry(detail::HostWords{}, seed, stream, static_cast<uint32_t>(i), 0u);
  };
  for (const int64_t n : {1, 63, 65, 1025, 65536 + 1, 3 * 65536}) {  // of chunks and of threads
    const Array f32 = random_uniform_array({DType::f32, {n}}, 3, 4);
    const Array f64 = random_uniform_array({DType::f64, {n}}, 3, 4);
    const Array bf16 = random_uniform_array({DType::bf16, {n}}, 3, 4);
    const Array f8 = random_uniform_array({DType::f8e5m2, {n}}, 3, 4);
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto [x0, x1] = words(i, 3, 4);
      const float x = detail::uniform_f32(x0);
      wrong += f32.data<float>()[size_t(i)] != x;
      wrong += f64.data<double>()[size_t(i)] != detail::uniform_f64(x0, x1);
      wrong += bf16.at(i) != float(bfloat16(x));
      if (i < 100) {
        Array narrow(DType::f8e5m2, {1});
        narrow.set(0, x);
        wrong += f8.at(i) != narrow.at(0);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("normal host arrays have the same bits on every machine", "[api]") {
  const Array x = random_normal_array({DType::f32, {200001}}, 7, 2);
  // What std::log and std::cos of glibc gave on a machine with fused multiply-adds.
  uint64_t hash = 0;
  for (const uint32_t bits : std::span(reinterpret_cast<const uint32_t*>(x.bytes().data()), 200001))
    hash = hash * 0x9e3779b97f4a7c15 + bits;
  CHECK(hash == 0xa9bc713999897091);
  const Array wide = random_normal_array({DType::f64, {9}}, 7, 2);
  CHECK(wide.at(8) == Approx(-1.6226720029145698).epsilon(1e-14));
  // No farther from the formula than float's rounding.
  for (const int64_t i : {0, 1, 2, 77777, 200000}) {
    const auto [x0, x1] = detail::threefry(detail::HostWords{}, 7u, 2u, uint32_t(i), 0u);
    const double u1 = double((x0 >> 8) + 1) * 0x1p-24, u2 = double(x1 >> 8) * 0x1p-24;
    CHECK(x.at(i) == Approx(std::sqrt(-2 * std::log(u1)) * std::cos(2 * M_PI * u2)).epsilon(1e-5));
  }
}
