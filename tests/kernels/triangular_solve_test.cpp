#include "kernels/triangular_solve.h"

#include <cmath>
#include <random>

#include "kernels/run_kernel.h"

namespace gspmd {
namespace {

// Where an operand's matrix has the element (i, j).
int64_t at(int64_t matrix, int64_t rows, int64_t columns, int64_t i, int64_t j) {
  return (matrix * rows + i) * columns + j;
}

// Random, the diagonal outweighing the rest; what must not be read is NaN.
Array triangles(const TriangularSolve& spec, std::mt19937& random) {
  std::uniform_real_distribution<> uniform(-1, 1);
  Array a(spec.dtype, {spec.matrices, spec.n, spec.n});
  for (int64_t k = 0; k < a.size(); ++k) {
    const int64_t i = k / spec.n % spec.n, j = k % spec.n;
    const bool read = i == j ? !spec.unit_diagonal : spec.lower == (j < i);
    const double scale = spec.unit_diagonal ? 1.0 / double(spec.n) : 1;
    a.set(k, read ? uniform(random) * scale + (i == j ? double(spec.n) : 0) : NAN);
  }
  return a;
}

Array random_systems(const TriangularSolve& spec, std::mt19937& random) {
  std::uniform_real_distribution<> uniform(-1, 1);
  Array b(spec.dtype, spec.left_side ? Dims{spec.matrices, spec.n, spec.systems}
                                     : Dims{spec.matrices, spec.systems, spec.n});
  for (int64_t k = 0; k < b.size(); ++k) b.set(k, uniform(random));
  return b;
}

// The largest difference between op(a) x, or x op(a), and b.
double residual(const TriangularSolve& spec, const Array& a, const Array& b, const Array& x) {
  double worst = 0;
  const auto factor = [&](int64_t m, int64_t i, int64_t j) {
    if (spec.transposed) std::swap(i, j);
    if (i == j && spec.unit_diagonal) return 1.0;
    return i == j || spec.lower == (j < i) ? a.at(at(m, spec.n, spec.n, i, j)) : 0.0;
  };
  for (int64_t m = 0; m < spec.matrices; ++m)
    for (int64_t s = 0; s < spec.systems; ++s)
      for (int64_t i = 0; i < spec.n; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < spec.n; ++k)
          sum += spec.left_side ? factor(m, i, k) * x.at(at(m, spec.n, spec.systems, k, s))
                                : x.at(at(m, spec.systems, spec.n, s, k)) * factor(m, k, i);
        const double wanted = spec.left_side ? b.at(at(m, spec.n, spec.systems, i, s))
                                             : b.at(at(m, spec.systems, spec.n, s, i));
        const double difference = std::fabs(sum - wanted);
        worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
      }
  return worst;
}

Array solved(const TriangularSolve& spec, const Array& a, const Array& b) {
  const PreparedKernel kernel = prepare_triangular_solve(spec);
  REQUIRE(kernel.run);
  return run_kernel(kernel, {a, b}, {b.shape()}).at(0);
}

}  // namespace

TEST_CASE("triangular-solve: the solution solves, in every form and of any size", "[linalg]") {
  std::mt19937 random(5);
  for (const int64_t n : {1, 2, 7, 8, 9, 16, 23, 40})
    for (const int64_t systems : {1, 3, 8, 17, 33, 70})
      for (int form = 0; form < 16; ++form) {
        const TriangularSolve spec{.dtype = (n + systems) % 2 == 0 ? DType::f32 : DType::f64,
                                   .matrices = 1 + (n + form) % 3,
                                   .n = n,
                                   .systems = systems,
                                   .left_side = form % 2 == 0,
                                   .lower = form / 2 % 2 == 0,
                                   .transposed = form / 4 % 2 == 0,
                                   .unit_diagonal = form / 8 == 0};
        INFO("n " << n << ", " << systems << " systems, form " << form);
        const Array a = triangles(spec, random), b = random_systems(spec, random);
        const double most = spec.dtype == DType::f32 ? 4e-6 : 4e-15;
        REQUIRE(residual(spec, a, b, solved(spec, a, b)) < most * std::sqrt(double(n)));
      }
}

TEST_CASE("triangular-solve: matrices of several blocks, each packed for all parts or its own",
          "[linalg]") {
  std::mt19937 random(7);
  for (const int64_t n : {241, 250})
    for (const int64_t matrices : {1, 8})
      for (int form = 0; form < 8; ++form) {
        const TriangularSolve spec{.dtype = form % 3 == 0 ? DType::f64 : DType::f32,
                                   .matrices = matrices,
                                   .n = n,
                                   .systems = matrices == 1 ? 40 : 3,
                                   .left_side = form % 2 == 0,
                                   .lower = form / 2 % 2 == 0,
                                   .transposed = form / 4 == 0};
        INFO("n " << n << ", " << matrices << " matrices, form " << form);
        const PreparedKernel kernel = prepare_triangular_solve(spec);
        CHECK((kernel.prepare_parts > 0) == (matrices == 1));
        const Array a = triangles(spec, random), b = random_systems(spec, random);
        const double most = spec.dtype == DType::f32 ? 4e-6 : 4e-15;
        REQUIRE(residual(spec, a, b, solved(spec, a, b)) < most * std::sqrt(double(n)));
      }
}

TEST_CASE("triangular-solve: a system's bits are the same whatever is solved beside it",
          "[linalg]") {
  std::mt19937 random(6);
  for (const bool left_side : {false, true}) {
    const TriangularSolve all{.matrices = 3, .n = 90, .systems = 130, .left_side = left_side};
    const Array a = triangles(all, random), b = random_systems(all, random);
    const Array together = solved(all, a, b);
    TriangularSolve one = all;
    one.matrices = one.systems = 1;
    for (const int64_t m : {0, 2})
      for (const int64_t s : {0, 15, 64, 129}) {
        Array matrix(DType::f32, {1, 90, 90});
        Array row(DType::f32, left_side ? Dims{1, 90, 1} : Dims{1, 1, 90});
        const auto place = [&](int64_t k) {
          return left_side ? at(m, 90, 130, k, s) : at(m, 130, 90, s, k);
        };
        for (int64_t k = 0; k < 90 * 90; ++k) matrix.set(k, a.at(m * 90 * 90 + k));
        for (int64_t k = 0; k < 90; ++k) row.set(k, b.at(place(k)));
        const Array alone = solved(one, matrix, row);
        for (int64_t k = 0; k < 90; ++k) REQUIRE(alone.at(k) == together.at(place(k)));
      }
  }
}

TEST_CASE("triangular-solve: no kernel for other types, no elements, enormous matrices",
          "[linalg]") {
  CHECK_FALSE(prepare_triangular_solve({.dtype = DType::c64, .n = 4}).run);
  CHECK_FALSE(prepare_triangular_solve({.n = 4, .systems = 0}).run);
  CHECK_FALSE(prepare_triangular_solve({.n = int64_t{1} << 20}).run);
}

}  // namespace gspmd
