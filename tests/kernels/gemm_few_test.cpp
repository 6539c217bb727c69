// Products of few rows, and of rows too few to be parts: sums of small whole numbers are exact in
// any order.
#include <random>

#include "gspmd/kernels/gemm.h"
#include "kernels/run_kernel.h"

namespace gspmd {
namespace {

// How the operands of a product of matrices lie, and the result.
struct Lie {
  bool a_turned = false, b_turned = false, c_turned = false;
  int64_t batch = 1;
};

GemmSpec spec_of(DType dtype, DType result, int64_t m, int64_t n, int64_t k, const Lie& lie) {
  GemmSpec spec{dtype, result, {}, {}, {}, {}};
  spec.m = {{m, lie.a_turned ? 1 : k, 0, lie.c_turned ? 1 : n}};
  spec.n = {{n, 0, lie.b_turned ? k : 1, lie.c_turned ? m : 1}};
  spec.k = {{k, lie.a_turned ? m : 1, lie.b_turned ? 1 : n, 0}};
  if (lie.batch > 1) spec.batch = {{lie.batch, m * k, k * n, m * n}};
  return spec;
}

std::vector<double> reference(const GemmSpec& s, const std::vector<double>& a,
                              const std::vector<double>& b, int64_t size) {
  std::vector<double> c(size_t(size), 0);
  const GemmLoop m = s.m[0], n = s.n[0], k = s.k[0];
  const GemmLoop batch = s.batch.empty() ? GemmLoop{} : s.batch[0];
  for (int64_t o = 0; o < batch.size; ++o)
    for (int64_t i = 0; i < m.size; ++i)
      for (int64_t p = 0; p < k.size; ++p) {
        const double x = a[size_t(o * batch.a + i * m.a + p * k.a)];
        for (int64_t j = 0; j < n.size; ++j)
          c[size_t(o * batch.c + i * m.c + j * n.c)] +=
              x * b[size_t(o * batch.b + p * k.b + j * n.b)];
      }
  return c;
}

// The kernel of the product, which has given the reference's numbers.
PreparedKernel check(DType dtype, DType result, int64_t m, int64_t n, int64_t k, const Lie& lie) {
  INFO(dtype_name(dtype) << " to " << dtype_name(result) << ": " << m << " x " << k << " x " << n
                         << ", turned " << lie.a_turned << lie.b_turned << lie.c_turned
                         << ", batch " << lie.batch);
  std::mt19937 random(unsigned(m * 1000 + n * 10 + k));
  const auto fill = [&](int64_t size) {
    std::vector<double> values(static_cast<size_t>(size));
    for (double& v : values) v = double(int(random() % 5) - 2);
    return values;
  };
  const auto array = [](DType type, const std::vector<double>& values) {
    Array out(type, {std::ssize(values)});
    for (size_t i = 0; i < values.size(); ++i) out.set(int64_t(i), values[i]);
    return out;
  };
  const std::vector<double> a = fill(lie.batch * m * k), b = fill(lie.batch * k * n);
  const GemmSpec spec = spec_of(dtype, result, m, n, k, lie);
  PreparedKernel kernel = prepare_gemm(spec);
  const std::vector<double> want = reference(spec, a, b, lie.batch * m * n);
  const Array got = run_kernel(kernel, {array(dtype, a), array(dtype, b)},
                               {Shape(result, {std::ssize(want)})})[0];
  CHECK(bitwise_equal(got, array(result, want)));
  return kernel;
}

}  // namespace

TEST_CASE("gemm: few rows or columns by a matrix, however it lies", "[gemm]") {
  struct Size {
    int64_t rows, n, k;
  };
  const Size sizes[] = {{1, 1024, 16}, {1, 300, 257}, {2, 127, 130}, {3, 64, 1025},
                        {5, 321, 64},  {8, 513, 33},  {9, 270, 70},  {16, 65, 260},
                        {1, 1, 20000}, {4, 3, 9000},  {7, 4099, 16}, {1, 79, 300}};
  for (const Size& s : sizes)
    for (int which = 0; which < 8; ++which) {
      const Lie lie{(which & 1) != 0, (which & 2) != 0, (which & 4) != 0, which % 3 == 0 ? 1 : 3};
      check(DType::f32, DType::f32, s.rows, s.n, s.k, lie);
      check(DType::f64, DType::f64, s.n, s.rows, s.k, lie);
      check(DType::bf16, DType::f32, s.n, s.rows, s.k, lie);
      check(DType::f16, DType::f32, s.rows, s.n, s.k, lie);
    }
  // Rounded once: sums of up to 256 are whole numbers of 16 bits.
  for (const DType dtype : {DType::bf16, DType::f16}) {
    check(dtype, dtype, 1, 1024, 64, {});
    check(dtype, dtype, 1024, 3, 60, {.b_turned = true, .c_turned = true});
  }
}

TEST_CASE("gemm: a row by a large matrix is parts of its columns, which read no further",
          "[gemm]") {
  CHECK(check(DType::f32, DType::f32, 1, 2000, 300, {}).parts > 4);
  CHECK(check(DType::bf16, DType::f32, 2, 999, 700, {.b_turned = true}).parts > 2);
  CHECK(check(DType::f16, DType::f32, 2, 130, 128, {.batch = 40}).parts > 2);
  CHECK(check(DType::f32, DType::f32, 1, 64, 256, {}).parts == 1);
  // Of a tall matrix, too: its rows are the columns then.
  CHECK(check(DType::f32, DType::f32, 2000, 3, 300, {}).parts > 4);
  CHECK(check(DType::f32, DType::f32, 2000, 3, 300, {.a_turned = true}).parts > 4);
}

TEST_CASE("gemm: columns are parts where rows are too few", "[gemm]") {
  for (const bool turned : {false, true}) {
    const Lie lie{.b_turned = turned};
    CHECK(check(DType::f32, DType::f32, 40, 611, 300, lie).parts == 2);
    for (const DType dtype : {DType::f32, DType::f64, DType::s32, DType::s64})
      check(dtype, dtype, 20, 700, turned ? 100 : 400, lie);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      CHECK(check(dtype, DType::f32, 40, 611, 300, lie).parts == 2);
      check(dtype, DType::f32, 40, 411, 300, lie);
      check(dtype, dtype, 100, 750, 100, lie);
    }
  }
}

TEST_CASE("gemm: sums of a long line lose no more than those of its vectors", "[gemm]") {
  // 0.1 a million times: one by one, in f32, it would be off by a hundredth.
  constexpr int64_t kLong = 1 << 20;
  for (const bool turned : {true, false}) {
    const int64_t n = turned ? 1 : 64;
    const GemmSpec spec = spec_of(DType::f32, DType::f32, 1, n, kLong / n, {.b_turned = turned});
    const Array got = run_kernel(prepare_gemm(spec),
                                 {Array::full(Shape(DType::f32, {kLong / n}), 0.1),
                                  Array::full(Shape(DType::f32, {kLong}), 1)},
                                 {Shape(DType::f32, {n})})[0];
    const double want = double(0.1F) * double(kLong / n);
    CHECK(std::abs(got.at(0) - want) < want * 1e-4);
  }
}

}  // namespace gspmd
