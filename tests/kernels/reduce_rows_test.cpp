#include "kernels/reduce_rows.h"

#include <random>

#include "kernels/run_kernel.h"

namespace gspmd {
namespace {

// The order that the sums have: 64 rows one after the other, then one block of them after the
// other.
template <class T, class A, class F>
Array expected_rows(const ReduceRows& spec, const Array& x, const Array& init, F&& combine) {
  Array out(spec.dtype, {spec.outer, spec.inner});
  for (int64_t o = 0; o < spec.outer; ++o)
    for (int64_t i = 0; i < spec.inner; ++i) {
      const auto at = [&](int64_t row) {
        return A(x.data<T>()[size_t((o * spec.rows + row) * spec.inner + i)]);
      };
      A total{};
      for (int64_t block = 0; block < spec.rows; block += 64) {
        A sum = at(block);
        for (int64_t row = block + 1; row < std::min(spec.rows, block + 64); ++row)
          sum = combine(sum, at(row));
        total = block == 0 ? sum : combine(total, sum);
      }
      out.data<T>()[size_t(o * spec.inner + i)] = T(combine(A(init.data<T>()[0]), total));
    }
  return out;
}

template <class T, class A, class F>
void check_rows(LoopOp op, F&& combine, bool special) {
  std::mt19937 random(7);
  for (const int64_t rows : {8, 9, 15, 16, 63, 64, 72, 129, 200})
    for (const int64_t inner : {64, 65, 100, 257, 1200}) {
      const ReduceRows spec{dtype_of<T>(), op, 1 + rows % 3, rows, inner};
      INFO("rows " << rows << " of " << inner);
      Array x(spec.dtype, {spec.outer, rows, inner});
      const float wrong = std::numeric_limits<float>::quiet_NaN();
      for (int64_t i = 0; i < x.size(); ++i) {
        double value = 1 + std::uniform_real_distribution<>(-0.05, 0.05)(random);
        // Half of the columns hold zeros of both signs beside what loses against them, and NaNs.
        if (special && i % inner % 2 == 0) {
          value = random() % 2 == 0 ? 0.0 : -0.0;
          if (random() % 4 == 0) value = op == LoopOp::reduce_max ? -3 : 3;
          if (random() % (rows * 8) == 0) value = random() % 2 == 0 ? wrong : -wrong;
        }
        x.set(i, value);
      }
      const Array init = Array::full({spec.dtype, {}}, op == LoopOp::reduce_max ? -9 : 9);
      const PreparedKernel kernel = prepare_reduce_rows(spec);
      REQUIRE(kernel.run);
      CHECK(bitwise_equal(
          run_kernel(kernel, {x, init}, {Shape(spec.dtype, {spec.outer, inner})}).at(0),
          expected_rows<T, A>(spec, x, init, combine)));
    }
}

template <class T, class A = T>
void check_numbers() {
  const auto extreme = [](bool max) {
    return [max](A a, A b) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<A>::quiet_NaN();
      if (a == b) return std::signbit(a) == max ? b : a;
      return (a > b) == max ? a : b;
    };
  };
  check_rows<T, A>(
      LoopOp::reduce_sum, [](A a, A b) { return a + b; }, false);
  check_rows<T, A>(
      LoopOp::reduce_product, [](A a, A b) { return a * b; }, false);
  check_rows<T, A>(LoopOp::reduce_max, extreme(true), true);
  check_rows<T, A>(LoopOp::reduce_min, extreme(false), true);
}

}  // namespace

TEST_CASE("reduce rows: floats are combined in the order of rows, NaN and both zeros included",
          "[reduce]") {
  check_numbers<float>();
  check_numbers<double>();
  check_numbers<bfloat16, float>();
  check_numbers<float16, float>();
}

TEST_CASE("reduce rows: integers wrap around", "[reduce]") {
  const ReduceRows spec{DType::s32, LoopOp::reduce_product, 1, 40, 70};
  Array x(spec.dtype, {1, 40, 70});
  std::vector<uint32_t> products(70, 3);
  for (int64_t i = 0; i < x.size(); ++i) {
    x.data<int32_t>()[size_t(i)] = int32_t(i * 7 % 101 - 50);
    products[size_t(i % 70)] *= uint32_t(x.data<int32_t>()[size_t(i)]);
  }
  const PreparedKernel kernel = prepare_reduce_rows(spec);
  REQUIRE(kernel.run);
  const Array out =
      run_kernel(kernel, {x, Array::scalar(int32_t{3})}, {Shape(spec.dtype, {1, 70})}).at(0);
  for (size_t i = 0; i < 70; ++i) CHECK(out.data<int32_t>()[i] == int32_t(products[i]));
}

}  // namespace gspmd
