#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "gspmd/kernels/loop_program.h"
#include "kernels/run_kernel.h"

namespace gspmd {
namespace {

// Sums over the rows of x[kept, outer, rows, columns] * g[outer, columns], over `outer` and `rows`.
struct ColumnSums {
  int64_t kept = 1, outer = 1, rows = 1, columns = 1;
  DType dtype = DType::f32;
};

int add(LoopProgram& p, LoopOp op, int a, int b, DType dtype) {
  LoopValue v;
  v.op = op;
  v.dtype = dtype;
  v.a = a;
  v.b = b;
  p.values.push_back(v);
  return static_cast<int>(p.values.size()) - 1;
}

int operand(LoopProgram& p, int64_t index, Dims strides, DType dtype) {
  const int v = add(p, LoopOp::operand, -1, -1, dtype);
  p.values.back().operand = index;
  p.values.back().strides = std::move(strides);
  return v;
}

// The product is a result, its sums from `start` on and its sum of absolute numbers are, and half
// of the first.
LoopProgram program_of(const ColumnSums& c, double start) {
  LoopProgram p;
  p.dims = {c.kept, c.outer, c.rows, c.columns};
  p.reduced = {false, true, true, false};
  const int64_t plane = c.rows * c.columns;
  const int x = operand(p, 0, {c.outer * plane, plane, c.columns, 1}, c.dtype);
  const int g = operand(p, 1, {0, c.columns, 0, 1}, c.dtype);
  const auto constant = [&](double value) {
    const int v = add(p, LoopOp::constant, -1, -1, c.dtype);
    p.values.back().constant = Array::full(Shape(c.dtype, {}), value);
    return v;
  };
  const int first = constant(start), zero = constant(0), half = constant(0.5);
  const int product = add(p, LoopOp::multiply, x, g, c.dtype);
  const int absolute = add(p, LoopOp::abs, product, -1, c.dtype);
  const int sum = add(p, LoopOp::reduce_sum, product, first, c.dtype);
  const int size = add(p, LoopOp::reduce_sum, absolute, zero, c.dtype);
  p.outputs = {{product, false},
               {sum, true},
               {size, true},
               {add(p, LoopOp::multiply, sum, half, c.dtype), true}};
  return p;
}

Array noise(DType dtype, int64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  Array a(dtype, {size});
  for (int64_t i = 0; i < size; ++i) a.set(i, draw(random));
  return a;
}

// The documented order: 128 numbers one after the other, the sums of 128 such blocks likewise, and
// the rest behind them.
template <class T, class Number>
T sum_in_blocks(T start, int64_t count, Number&& number) {
  T levels[3] = {start, T(-0.0), T(-0.0)};
  for (int64_t i = 0; i < count; ++i) {
    levels[0] += number(i);
    if ((i + 1) % 128 == 0) levels[1] += std::exchange(levels[0], T(-0.0));
    if (count > 128 * 128 && (i + 1) % (128 * 128) == 0)
      levels[2] += std::exchange(levels[1], T(-0.0));
  }
  return levels[2] + (levels[1] + levels[0]);
}

template <class T>
void expect_order(const ColumnSums& c, bool machine_code) {
  const double start = 0.25;
  const Array x = noise(c.dtype, c.kept * c.outer * c.rows * c.columns, 1);
  const Array g = noise(c.dtype, c.outer * c.columns, 2);
  const PreparedKernel kernel = prepare_loop(program_of(c, start), {.machine_code = machine_code});
  REQUIRE(kernel.run);
  const Shape sums(c.dtype, {c.kept, c.columns});
  const std::vector<Array> got =
      run_kernel(kernel, {x, g}, {Shape(c.dtype, {x.size()}), sums, sums, sums});
  const T* a = reinterpret_cast<const T*>(x.bytes().data());
  const T* b = reinterpret_cast<const T*>(g.bytes().data());
  int64_t wrong = 0;
  for (int64_t k = 0; k < c.kept; ++k) {
    for (int64_t column = 0; column < c.columns; ++column) {
      const auto at = [&](int64_t i) { return (k * c.outer * c.rows + i) * c.columns + column; };
      const auto product = [&](int64_t i) { return a[at(i)] * b[i / c.rows * c.columns + column]; };
      const int64_t steps = c.outer * c.rows;
      for (int64_t i = 0; i < steps; ++i) wrong += got[0].at(at(i)) != double(product(i));
      const T sum = sum_in_blocks<T>(T(start), steps, product);
      const T size = sum_in_blocks<T>(0, steps, [&](int64_t i) { return std::abs(product(i)); });
      const int64_t place = k * c.columns + column;
      wrong += got[1].at(place) != double(sum) || got[2].at(place) != double(size) ||
               got[3].at(place) != double(sum * T(0.5));
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("loop sums: rows are added in blocks of 128, whoever has which", "[loop]") {
  const ColumnSums cases[] = {
      {1, 1, 1024, 512}, {1, 1, 1000, 528}, {1, 3, 341, 100},  {3, 2, 300, 40}, {1, 1, 385, 1100},
      {1, 1, 384, 512},  {1, 1, 40000, 3},  {1, 128, 130, 16}, {2, 1, 513, 70}, {5, 1, 700, 33},
      {1, 1, 16384, 24}, {1, 7, 90, 1500},  {1, 1, 100, 1000},
  };
  for (ColumnSums c : cases) {
    for (const bool code : {true, false}) {
      INFO(c.kept << " " << c.outer << " " << c.rows << " " << c.columns << " code " << code);
      expect_order<float>(c, code);
      c.dtype = DType::f64;
      expect_order<double>(c, code);
      c.dtype = DType::f32;
    }
  }
}

namespace {

// The sum of x[rows, columns] over its rows, and what `follow` makes of it and of s[columns].
LoopProgram followed(const std::function<int(LoopProgram&, int sum, int s)>& follow, int64_t step) {
  LoopProgram p;
  p.dims = {1024, 2500};
  p.reduced = {true, false};
  const int x = operand(p, 0, {2500, 1}, DType::f32), s = operand(p, 1, {0, step}, DType::f32);
  const int zero = add(p, LoopOp::constant, -1, -1, DType::f32);
  p.values.back().constant = Array::full(Shape(DType::f32, {}), 0);
  const int sum = add(p, LoopOp::reduce_sum, x, zero, DType::f32);
  p.outputs = {{follow(p, sum, s), true}};
  return p;
}

}  // namespace

// In the second stage nothing is there that the first has made of single rows and columns.
TEST_CASE("loop sums: what follows reads what is made of columns", "[loop]") {
  const auto times = [](LoopProgram& p, int sum, int s) {
    return add(p, LoopOp::multiply, sum, s, DType::f32);
  };
  const auto times_negative = [](LoopProgram& p, int sum, int s) {
    return add(p, LoopOp::multiply, sum, add(p, LoopOp::negate, s, -1, DType::f32), DType::f32);
  };
  const auto times_position = [](LoopProgram& p, int sum, int) {
    const int column = add(p, LoopOp::iota, -1, -1, DType::f32);
    p.values.back().operand = 1;
    return add(p, LoopOp::multiply, sum, column, DType::f32);
  };
  const auto beside = [](LoopProgram& p, int, int s) {
    return add(p, LoopOp::negate, s, -1, DType::f32);
  };
  Array x(DType::f32, {1024 * 2500}), s(DType::f32, {5000});
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, double(i % 2500 % 7) - 2);
  for (int64_t i = 0; i < s.size(); ++i) s.set(i, double(i % 11) - 5);
  const auto expect = [&](const LoopProgram& p, bool in_blocks, auto&& expected) {
    for (const bool code : {true, false}) {
      const PreparedKernel kernel = prepare_loop(p, {.machine_code = code});
      CHECK(bool(kernel.prepare) == in_blocks);
      const std::vector<Shape> shapes(p.outputs.size(), Shape(DType::f32, {2500}));
      const Array got = run_kernel(kernel, {x, s}, shapes).back();
      int64_t wrong = 0;
      for (int64_t i = 0; i < 2500; ++i)
        wrong += got.at(i) != expected(1024 * (double(i % 7) - 2), i);
      CHECK(wrong == 0);
    }
  };
  const auto number = [](int64_t i) { return double(i % 11) - 5; };
  expect(followed(times, 1), true, [&](double sum, int64_t i) { return sum * number(i); });
  expect(followed(times, 0), true, [&](double sum, int64_t) { return sum * number(0); });
  expect(followed(times, 2), false, [&](double sum, int64_t i) { return sum * number(2 * i); });
  expect(followed(times_negative, 1), false,
         [&](double sum, int64_t i) { return -sum * number(i); });
  expect(followed(times_negative, 0), true, [&](double sum, int64_t) { return -sum * number(0); });
  expect(followed(times_position, 1), false, [](double sum, int64_t i) { return sum * double(i); });
  LoopProgram both = followed(beside, 1);
  both.outputs.insert(both.outputs.begin(), {3, true});  // the sum
  expect(both, false, [&](double, int64_t i) { return -number(i); });
}

TEST_CASE("loop sums: rows of few columns are parts as well", "[loop]") {
  const PreparedKernel kernel = prepare_loop(program_of({1, 1, 8192, 16}, 0));
  CHECK(kernel.prepare_parts >= 2);
  CHECK(kernel.shared_bytes == 2 * 64 * 64);  // two sums of 64 blocks
  const PreparedKernel many = prepare_loop(program_of({64, 1, 1024, 16}, 0));
  CHECK_FALSE(many.prepare);  // the rows that are kept are parts enough
  CHECK(many.parts >= 8);
}

}  // namespace gspmd
