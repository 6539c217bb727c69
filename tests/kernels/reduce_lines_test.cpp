#include "kernels/reduce_lines.h"

#include <cmath>
#include <random>

#include "kernels/run_kernel.h"

namespace gspmd::reduce_lines_test {
namespace {

// Element e joins lane e % 64 in order; lanes are then joined in halves, those without an element
// left out.
template <class A, class F>
A folded(const std::vector<A>& line, F&& combine) {
  std::vector<A> lanes(line.begin(), line.begin() + int64_t(std::min<size_t>(line.size(), 64)));
  for (size_t e = 64; e < line.size(); ++e) lanes[e % 64] = combine(lanes[e % 64], line[e]);
  for (size_t width = 32; width > 0; width /= 2)
    for (size_t l = 0; l < width && l + width < lanes.size(); ++l)
      lanes[l] = combine(lanes[l], lanes[l + width]);
  return lanes[0];
}

template <class T, class A, class F>
void check(LoopOp op, F&& combine, bool special) {
  std::mt19937 random(11);
  for (const int64_t n : {2, 3, 7, 8, 15, 16, 17, 31, 33, 49, 63, 64, 65, 100, 128, 200, 256})
    for (const int64_t lines : {64, 65, 79, 400}) {
      const DType dtype = dtype_of<T>();
      INFO(lines << " lines of " << n << " " << dtype_name(dtype));
      Array x(dtype, {lines, n});
      for (int64_t i = 0; i < x.size(); ++i) {
        double value = 1 + std::uniform_real_distribution<>(-0.05, 0.05)(random);
        if (special && i / n % 2 == 0) {
          value = random() % 2 == 0 ? 0.0 : -0.0;
          if (random() % uint64_t(n * 8) == 0) value = std::nan("");
        }
        if (!is_floating(dtype)) value = double(random() % 90);
        x.set(i, value);
      }
      const Array init = Array::full({dtype, {}}, op == LoopOp::reduce_max ? 0 : 9);
      const PreparedKernel kernel = prepare_reduce_lines(dtype, op, lines, n);
      REQUIRE(kernel.run);
      Array expected(dtype, {lines});
      for (int64_t l = 0; l < lines; ++l) {
        std::vector<A> line;
        for (int64_t e = 0; e < n; ++e) line.push_back(A(x.data<T>()[size_t(l * n + e)]));
        expected.data<T>()[size_t(l)] = T(combine(A(init.data<T>()[0]), folded<A>(line, combine)));
      }
      CHECK(bitwise_equal(run_kernel(kernel, {x, init}, {Shape(dtype, {lines})}).at(0), expected));
    }
}

template <class T, class A = T>
void check_numbers() {
  check<T, A>(
      LoopOp::reduce_sum, [](A a, A b) { return A(a + b); }, false);
  check<T, A>(
      LoopOp::reduce_product, [](A a, A b) { return A(a * b); }, false);
  const auto larger = [](A a, A b) {
    if (a != a || b != b) return std::numeric_limits<A>::quiet_NaN();
    if (a == b) return std::signbit(double(a)) ? b : a;
    return a > b ? a : b;
  };
  check<T, A>(LoopOp::reduce_max, larger, true);
}

}  // namespace

TEST_CASE("reduce lines: numbers are combined in the order of a loop's fold", "[reduce]") {
  check_numbers<float>();
  check_numbers<double>();
  check_numbers<bfloat16, float>();
  check_numbers<float16, float>();
  check<int32_t, uint32_t>(
      LoopOp::reduce_product, [](uint32_t a, uint32_t b) { return a * b; }, false);
  check<uint64_t, uint64_t>(
      LoopOp::reduce_or, [](uint64_t a, uint64_t b) { return a | b; }, false);
  check<uint32_t, uint32_t>(
      LoopOp::reduce_sum, [](uint32_t a, uint32_t b) { return a + b; }, false);
  check<int8_t, uint8_t>(  // wraps
      LoopOp::reduce_sum, [](uint8_t a, uint8_t b) { return uint8_t(a + b); }, false);
  check<uint16_t, uint16_t>(
      LoopOp::reduce_product, [](uint32_t a, uint32_t b) { return uint16_t(a * b); }, false);
  check<int16_t, int16_t>(
      LoopOp::reduce_min, [](int16_t a, int16_t b) { return std::min(a, b); }, false);
}

TEST_CASE("reduce lines: long and few ones and narrow floats are a loop's", "[reduce]") {
  CHECK_FALSE(prepare_reduce_lines(DType::f32, LoopOp::reduce_sum, 400, 257).run);
  CHECK_FALSE(prepare_reduce_lines(DType::f32, LoopOp::reduce_sum, 63, 49).run);
  CHECK_FALSE(prepare_reduce_lines(DType::f8e4m3fn, LoopOp::reduce_sum, 400, 49).run);
}

}  // namespace gspmd::reduce_lines_test
