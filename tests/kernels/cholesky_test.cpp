#include "kernels/cholesky.h"

#include <cmath>
#include <random>

#include "kernels/run_kernel.h"

namespace gspmd {
namespace {

// Random, the diagonal outweighing the rest; what must not be read is NaN.
Array positive_matrices(const Cholesky& spec, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<> uniform(-1, 1);
  Array a(spec.dtype, {spec.matrices, spec.n, spec.n});
  for (int64_t at = 0; at < a.size(); ++at) {
    const int64_t i = at / spec.n % spec.n, j = at % spec.n;
    const bool read = spec.lower ? j <= i : i <= j;
    a.set(at, !read ? NAN : uniform(random) + (i == j ? double(spec.n) : 0));
  }
  return a;
}

Array factors(const Cholesky& spec, const Array& a) {
  const PreparedKernel kernel = prepare_cholesky(spec);
  REQUIRE(kernel.run);
  return run_kernel(kernel, {a}, {a.shape()}).at(0);
}

}  // namespace

TEST_CASE("cholesky: the factor times its transpose is the matrix, of any size", "[linalg]") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const bool lower : {true, false})
      for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 40, 65, 130, 300}) {
        const Cholesky spec{dtype, 1 + n % 3, n, lower};
        INFO(dtype_name(dtype) << " n " << n << (lower ? " lower" : " upper"));
        const Array a = positive_matrices(spec, unsigned(n)), l = factors(spec, a);
        double worst = 0;
        bool zeros = true;
        for (int64_t m = 0; m < spec.matrices; ++m) {
          const auto factor = [&](int64_t i, int64_t j) {
            return l.at((m * n + (lower ? i : j)) * n + (lower ? j : i));
          };
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) {
              if (j > i) {
                zeros = zeros && factor(i, j) == 0;
                continue;
              }
              double sum = 0;
              for (int64_t k = 0; k <= j; ++k) sum += factor(i, k) * factor(j, k);
              const double wanted = a.at((m * n + (lower ? i : j)) * n + (lower ? j : i));
              worst = std::max(worst, std::fabs(sum - wanted));
            }
        }
        CHECK(zeros);
        CHECK(worst < double(n) * (dtype == DType::f32 ? 4e-7 : 4e-15));  // units of the diagonal
      }
}

TEST_CASE("cholesky: each matrix that is not positive definite is NaN, alone", "[linalg]") {
  const Cholesky spec{DType::f32, 3, 37, true};
  const Array a = positive_matrices(spec, 3);
  Array spoilt = a.clone();
  spoilt.set((37 + 29) * 37 + 29, -1);  // the second one, in its last columns
  const Array good = factors(spec, a), bad = factors(spec, spoilt);
  for (int64_t i = 0; i < a.size(); ++i) {
    if (i / (37 * 37) == 1)
      REQUIRE(std::isnan(bad.at(i)));
    else
      REQUIRE(bad.at(i) == good.at(i));
  }
}

// 1 / (i + j + 1) and a little on the diagonal: of such a matrix f32 loses all digits.
TEST_CASE("cholesky: f32 of a nearly singular matrix has the digits of f64", "[linalg]") {
  for (const bool lower : {true, false})
    for (const int64_t n : {12, 40, 110}) {
      const Cholesky spec{DType::f32, 1, n, lower};
      Array a(DType::f32, {1, n, n}), wide(DType::f64, {1, n, n});
      for (int64_t at = 0; at < n * n; ++at) {
        const int64_t i = at / n, j = at % n;
        a.set(at, 1.0 / double(i + j + 1) + (i == j ? 1e-5 : 0));
        wide.set(at, a.at(at));
      }
      Cholesky exact = spec;
      exact.dtype = DType::f64;
      const Array l = factors(spec, a), wanted = factors(exact, wide);
      INFO("n " << n << (lower ? " lower" : " upper"));
      for (int64_t at = 0; at < n * n; ++at) {
        REQUIRE(std::isfinite(wanted.at(at)));
        REQUIRE(std::fabs(l.at(at) - wanted.at(at)) <= 6e-8 * std::fabs(wanted.at(at)));
      }
    }
}

TEST_CASE("cholesky: no kernel for other types and enormous matrices", "[linalg]") {
  CHECK_FALSE(prepare_cholesky({DType::c64, 1, 4, true}).run);
  CHECK_FALSE(prepare_cholesky({DType::f32, 1, int64_t{1} << 20, true}).run);
}

}  // namespace gspmd
