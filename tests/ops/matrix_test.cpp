// Factorizations, transforms and ragged products against values computed elsewhere (numpy, scipy).
#include <catch2/catch.hpp>
#include <complex>
#include <random>

#include "gspmd/base/error.h"
#include "ops/evaluate_cases.h"

namespace gspmd::testing {
namespace {

std::vector<std::complex<double>> numbers_of(const Array& array) {
  std::vector<std::complex<double>> out;
  for (int64_t i = 0; i < array.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (array.dtype() == DType::c64)
      out.emplace_back(array.data<std::complex<float>>()[at]);
    else if (array.dtype() == DType::c128)
      out.push_back(array.data<std::complex<double>>()[at]);
    else
      out.emplace_back(array.at(i), 0);
  }
  return out;
}

void check_close(const EvaluateCase& test, double tolerance) {
  INFO(test.name);
  const std::vector<Array> actual = leaves(run_text(test.body));
  const std::vector<Array> expected = literals(test.expected);
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    REQUIRE(actual[i].shape() == expected[i].shape());
    const auto a = numbers_of(actual[i]), b = numbers_of(expected[i]);
    for (size_t n = 0; n < a.size(); ++n) {
      INFO("element " << n << ": " << a[n] << ", expected " << b[n]);
      CHECK(std::abs(a[n] - b[n]) <= tolerance * (1 + std::abs(b[n])));
    }
  }
}

}  // namespace

TEST_CASE("cholesky factorizes, and gives NaN where it cannot", "[linalg]") {
  const std::string a = "a = f64[3,3] constant({{4,2,-2},{2,10,4},{-2,4,9}})\n";
  const std::vector<EvaluateCase> cases = {
      {"lower", a + "ROOT r = f64[3,3] cholesky(a), lower=true",
       "f64[3,3] {{2,0,0},{1,3,0},{-1,1.6666666666666665,2.2852182001336816}}"},
      {"upper", a + "ROOT r = f64[3,3] cholesky(a)",
       "f64[3,3] {{2,1,-1},{0,3,1.6666666666666665},{0,0,2.2852182001336816}}"},
      {"only one triangle is read",
       "a = f32[2,2] constant({{4,99},{2,10}})\nROOT r = f32[2,2] cholesky(a), lower=true",
       "f32[2,2] {{2,0},{1,3}}"},
      {"complex, lower",
       "a = c64[2,2] constant({{(4,0),(2,-2)},{(2,2),(6,0)}})\nROOT r = c64[2,2] cholesky(a), "
       "lower=true",
       "c64[2,2] {{(2,0),(0,0)},{(1,1),(2,0)}}"},
      {"complex, upper",
       "a = c128[2,2] constant({{(4,0),(2,-2)},{(2,2),(6,0)}})\nROOT r = c128[2,2] cholesky(a)",
       "c128[2,2] {{(2,0),(1,-1)},{(0,0),(2,0)}}"},
  };
  for (const EvaluateCase& test : cases) check_close(test, 1e-12);
  check_case({"one of two is not positive definite",
              "a = f32[2,2,2] constant({{{1,2},{2,1}},{{4,2},{2,10}}})\nROOT r = f32[2,2,2] "
              "cholesky(a), lower=true",
              "f32[2,2,2] {{{nan,nan},{nan,nan}},{{2,0},{1,3}}}"});
}

TEST_CASE("triangular-solve solves from either side, transposed or not", "[linalg]") {
  const std::string l =
      "l = f64[3,3] constant({{2,77,77},{1,4,77},{-1,2,8}})\nb = f64[3,2] "
      "constant({{2,4},{9,-2},{7,8}})\n";
  const std::vector<EvaluateCase> cases = {
      {"plain",
       l + "ROOT r = f64[3,2] triangular-solve(l, b), left_side=true, lower=true, "
           "transpose_a=NO_TRANSPOSE",
       "f64[3,2] {{1,2},{2,-1},{0.5,1.5}}"},
      {"transposed",
       l + "ROOT r = f64[3,2] triangular-solve(l, b), left_side=true, lower=true, "
           "transpose_a=TRANSPOSE",
       "f64[3,2] {{0.53125,3},{1.8125,-1},{0.875,1}}"},
      {"upper, adjoint",
       "u = f64[3,3] constant({{2,1,-1},{77,4,2},{77,77,8}})\nb = f64[3,2] "
       "constant({{2,4},{9,-2},{7,8}})\nROOT r = f64[3,2] triangular-solve(u, b), left_side=true, "
       "lower=false, transpose_a=ADJOINT",
       "f64[3,2] {{1,2},{2,-1},{0.5,1.5}}"},
      {"right side",
       "l = f64[3,3] constant({{2,77,77},{1,4,77},{-1,2,8}})\nb = f64[2,3] "
       "constant({{2,4,9},{-2,7,8}})\nROOT r = f64[2,3] triangular-solve(l, b), lower=true, "
       "transpose_a=NO_TRANSPOSE",
       "f64[2,3] {{1.34375,0.4375,1.125},{-1.125,1.25,1}}"},
      {"unit diagonal",
       l + "ROOT r = f64[3,2] triangular-solve(l, b), left_side=true, lower=true, "
           "unit_diagonal=true, transpose_a=NO_TRANSPOSE",
       "f64[3,2] {{2,4},{7,-6},{-5,24}}"},
      {"complex, adjoint",
       "l = c64[2,2] constant({{(1,1),(0,0)},{(2,0),(1,-1)}})\nb = c64[2,1] "
       "constant({{(2,0)},{(0,4)}})\nROOT r = c64[2,1] triangular-solve(l, b), left_side=true, "
       "lower=true, transpose_a=ADJOINT",
       "c64[2,1] {{(1,-3)},{(2,2)}}"},
  };
  for (const EvaluateCase& test : cases) check_close(test, 1e-12);
}

TEST_CASE("fft transforms the last dims, of any length", "[fft]") {
  const std::vector<EvaluateCase> cases = {
      {"a prime length",
       "x = c128[7] constant({(1,0),(-2,0),(3,0),(0.5,0),(-1,0),(2,0),(4,0)})\nROOT r = c128[7] "
       "fft(x), fft_type=FFT, fft_length={7}",
       "c128[7] "
       "{(7.5,0),(1.5848593678871044,3.065235373950018),(-4.261631108354091,7.456198435910545),(2."
       "426771740466986,1.9227420489006433),(2.426771740466986,-1.9227420489006433),(-4."
       "261631108354091,-7.456198435910545),(1.5848593678871044,-3.065235373950018)}"},
      {"real",
       "x = f64[7] constant({1,-2,3,0.5,-1,2,4})\nROOT r = c128[4] fft(x), fft_type=RFFT, "
       "fft_length={7}",
       "c128[4] "
       "{(7.5,0),(1.5848593678871044,3.065235373950019),(-4.261631108354091,7.456198435910545),(2."
       "426771740466986,1.9227420489006428)}"},
      {"real, two dims",
       "x = f64[2,6] constant({{1,2,0,-1,3,1},{0,1,1,2,-2,4}})\nROOT r = c128[2,4] fft(x), "
       "fft_type=RFFT, fft_length={2,6}",
       "c128[2,4] "
       "{{(12,0),(3,1.7320508075688767),(-3,1.7320508075688772),(-6,0)},{(0,0),(1,1."
       "7320508075688776),(-3,-8.660254037844387),(10,0)}}"},
      {"back to an odd length",
       "x = c128[3] constant({(10,1),(-2,2),(3,-1)})\nROOT r = f64[5] fft(x), fft_type=IRFFT, "
       "fft_length={5}",
       "f64[5] {2.4,0.2562348991309715,2.1673831803978554,3.8686847971019347,1.3076971233692387}"},
      {"back to an even length",
       "x = c128[3] constant({(10,1),(-2,2),(3,-1)})\nROOT r = f64[4] fft(x), fft_type=IRFFT, "
       "fft_length={4}",
       "f64[4] {2.25,0.75,4.25,2.75}"},
      {"inverse",
       "x = c128[4] constant({(1,2),(0,0),(0,-1),(3,0)})\nROOT r = c128[4] fft(x), fft_type=IFFT, "
       "fft_length={4}",
       "c128[4] {(1,0.25),(0.25,0),(-0.5,0.25),(0.25,1.5)}"},
      {"one",
       "x = c64[2,1] constant({{(1,2)},{(3,4)}})\nROOT r = c64[2,1] fft(x), fft_type=FFT, "
       "fft_length={1}",
       "c64[2,1] {{(1,2)},{(3,4)}}"},
  };
  for (const EvaluateCase& test : cases) check_close(test, 1e-14);
}

TEST_CASE("fft of every length agrees with the sum that defines it", "[fft]") {
  std::mt19937_64 random(5);
  for (int64_t n = 1; n <= 70; ++n) {
    std::string values;
    std::vector<std::complex<double>> x;
    for (int64_t i = 0; i < n; ++i) {
      x.emplace_back(static_cast<double>(random() % 9) - 4, static_cast<double>(random() % 9) - 4);
      values += fmt::format("{}({},{})", i ? "," : "", x.back().real(), x.back().imag());
    }
    const auto got =
        numbers_of(run_text(fmt::format("x = c128[{0}] constant({{{1}}})\nROOT r = c128[{0}] "
                                        "fft(x), fft_type=FFT, fft_length={{{0}}}",
                                        n, values))
                       .array);
    for (int64_t k = 0; k < n; ++k) {
      std::complex<double> sum = 0;
      for (int64_t i = 0; i < n; ++i)
        sum += x[static_cast<size_t>(i)] *
               std::polar(1.0, -2 * M_PI * static_cast<double>(i * k % n) / static_cast<double>(n));
      INFO("length " << n << ", element " << k);
      CHECK(std::abs(got[static_cast<size_t>(k)] - sum) < 1e-12 * static_cast<double>(n));
    }
  }
}

TEST_CASE("ragged-dot gives each group of rows its own matrix", "[dot]") {
  const std::string ab = "a = f32[4,2] constant({{1,2},{3,4},{5,6},{7,8}})\n";
  const std::vector<EvaluateCase> cases = {
      {"rows, the last in no group",
       ab + "b = f32[2,2,1] constant({{{1},{1}},{{10},{100}}})\ns = s32[2] constant({1,2})\nROOT r "
            "= f32[4,1] ragged-dot(a, b, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
            "lhs_ragged_dims={0}, rhs_group_dims={0}",
       "f32[4,1] {{3},{430},{650},{0}}"},
      {"contracting",
       ab + "b = f32[4,1] constant({{1},{10},{100},{1000}})\ns = s64[3] constant({1,0,2})\nROOT r "
            "= f32[3,2,1] ragged-dot(a, b, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
            "lhs_ragged_dims={0}",
       "f32[3,2,1] {{{1},{2}},{{0},{0}},{{530},{640}}}"},
      {"batch",
       "a = f32[2,1,2] constant({{{1,2}},{{3,4}}})\nb = f32[2,2,1] "
       "constant({{{1},{10}},{{100},{1000}}})\ns = s32[1] constant({1})\nROOT r = f32[2,1,1] "
       "ragged-dot(a, b, s), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={0}",
       "f32[2,1,1] {{{21}},{{4300}}}"},
      {"sizes per batch",
       "a = s32[2,2,1] constant({{{1},{2}},{{3},{4}}})\nb = s32[2,2,1,1] "
       "constant({{{{1}},{{1}}},{{{10}},{{10}}}})\ns = s32[2,2] constant({{1,1},{2,0}})\nROOT r = "
       "s32[2,2,1] ragged-dot(a, b, s), lhs_batch_dims={0}, rhs_batch_dims={1}, "
       "lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, "
       "rhs_group_dims={0}",
       "s32[2,2,1] {{{1},{20}},{{3},{4}}}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("matrices and transforms that cannot be are refused", "[linalg]") {
  CHECK_THAT(error_of("a = f32[2,3] constant({{1,2,3},{4,5,6}})\nROOT r = f32[2,3] cholesky(a)"),
             Catch::Contains("no square matrix"));
  CHECK_THAT(error_of("a = s32[2,2] constant({{1,2},{4,5}})\nROOT r = s32[2,2] cholesky(a)"),
             Catch::Contains("floating point or complex"));
  CHECK_THAT(
      error_of("a = f32[2,2] constant({{1,2},{4,5}})\nb = f32[3,1] constant({{1},{2},{3}})\nROOT r "
               "= f32[3,1] triangular-solve(a, b), left_side=true"),
      Catch::Contains("does not fit"));
  CHECK_THAT(
      error_of(
          "x = f32[4] constant({1,2,3,4})\nROOT r = c64[4] fft(x), fft_type=FFT, fft_length={4}"),
      Catch::Contains("it needs c64 or c128 elements"));
  CHECK_THAT(
      error_of(
          "x = f32[4] constant({1,2,3,4})\nROOT r = c64[3] fft(x), fft_type=RFFT, fft_length={5}"),
      Catch::Contains("needs 5 elements"));
  CHECK_THAT(error_of("a = f32[2,2] constant({{1,2},{4,5}})\ns = s32[1] constant({1})\nROOT r = "
                      "f32[2,2] ragged-dot(a, a, s), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={0}, lhs_ragged_dims={0}"),
             Catch::Contains("rhs_group_dims"));
}

}  // namespace gspmd::testing
