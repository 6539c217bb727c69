#include "ops/library_check.h"

#include <catch2/catch.hpp>
#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "kernels/lapack.h"
#include "ops/common/numeric.h"

namespace gspmd::testing {
namespace {

Dense made(int64_t rows, int64_t columns, const std::function<Number(int64_t, int64_t)>& element) {
  Dense out(rows, columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out(i, j) = element(i, j);
  return out;
}

Number element(const Array& array, int64_t i) {
  return visit_number(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return convert_element<Number>(array.data<T>()[static_cast<size_t>(i)]);
  });
}

void set_element(const Array& array, int64_t i, Number value) {
  visit_number(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    array.data<T>()[static_cast<size_t>(i)] = convert_element<T>(value);
  });
}

}  // namespace

Dense operator*(const Dense& a, const Dense& b) {
  REQUIRE(a.columns == b.rows);
  return made(a.rows, b.columns, [&](int64_t i, int64_t j) {
    Number total = 0;
    for (int64_t k = 0; k < a.columns; ++k) total += a(i, k) * b(k, j);
    return total;
  });
}
Dense adjoint(const Dense& a) {
  return made(a.columns, a.rows, [&](int64_t i, int64_t j) { return std::conj(a(j, i)); });
}
Dense transpose(const Dense& a) {
  return made(a.columns, a.rows, [&](int64_t i, int64_t j) { return a(j, i); });
}
Dense identity(int64_t n) {
  return made(n, n, [](int64_t i, int64_t j) { return Number(i == j ? 1 : 0); });
}
Dense diagonal(const Dense& row, int64_t above) {
  const int64_t n = row.columns + std::abs(above);
  return made(n, n, [&](int64_t i, int64_t j) {
    return j - i == above ? row(0, std::min(i, j)) : Number(0);
  });
}
Dense band(const Dense& a, int64_t below, int64_t above) {
  return made(a.rows, a.columns, [&](int64_t i, int64_t j) {
    return below <= j - i && j - i <= above ? a(i, j) : Number(0);
  });
}
Dense lower(const Dense& a) { return band(a, -a.rows, 0); }
Dense upper(const Dense& a) { return band(a, 0, a.columns); }
Dense first_columns(const Dense& a, int64_t count) {
  return made(a.rows, count, [&](int64_t i, int64_t j) { return a(i, j); });
}
Dense first_rows(const Dense& a, int64_t count) {
  return made(count, a.columns, [&](int64_t i, int64_t j) { return a(i, j); });
}
Dense sum(const Dense& a, const Dense& b) {
  return made(a.rows, a.columns, [&](int64_t i, int64_t j) { return a(i, j) + b(i, j); });
}

const std::vector<MatrixType>& matrix_types() {
  static const std::vector<MatrixType> types = {{DType::f32, DType::f32, DType::c64, 's', false},
                                                {DType::f64, DType::f64, DType::c128, 'd', false},
                                                {DType::c64, DType::f32, DType::c64, 'c', true},
                                                {DType::c128, DType::f64, DType::c128, 'z', true}};
  return types;
}

Dense matrix_of(const Array& array, int64_t i) {
  const int64_t rows = array.dim(-2), columns = array.dim(-1);
  return made(rows, columns,
              [&](int64_t r, int64_t c) { return element(array, (i * rows + r) * columns + c); });
}
Dense vector_of(const Array& array, int64_t i) {
  const int64_t n = array.dim(-1);
  return made(1, n, [&](int64_t, int64_t c) { return element(array, i * n + c); });
}

Array random_matrices(DType dtype, Dims dims, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Array array(Shape(dtype, std::move(dims)));
  for (int64_t i = 0; i < array.size(); ++i)
    set_element(array, i, {normal(random), is_complex(dtype) ? normal(random) : 0});
  return array;
}

Array array_of(DType dtype, Dims dims, const std::vector<Dense>& matrices) {
  Array array(Shape(dtype, std::move(dims)));
  int64_t at = 0;
  for (const Dense& matrix : matrices)
    for (const Number value : matrix.values) set_element(array, at++, value);
  return array;
}

void check_near(const Dense& actual, const Dense& expected, DType dtype) {
  REQUIRE(actual.rows == expected.rows);
  REQUIRE(actual.columns == expected.columns);
  double largest = 1, error = 0;
  for (size_t i = 0; i < actual.values.size(); ++i) {
    largest = std::max(largest, std::abs(expected.values[i]));
    const double difference = std::abs(actual.values[i] - expected.values[i]);
    error = std::isfinite(difference) ? std::max(error, difference) : 1e30;
  }
  const bool single = dtype == DType::f32 || dtype == DType::c64;
  CHECK(error <= (single ? 1e-4 : 1e-11) * largest);
}

bool is_without_lapack() {
  if (lapack::is_there()) return false;
  WARN("skipped: the library was built without LAPACK (Debian: liblapack-dev)");
  return true;
}

std::vector<Array> call(const std::string& target, const std::vector<Array>& operands,
                        const std::string& results, const std::string& rest) {
  std::string text = "HloModule m\nENTRY e {\n", names;
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    text += fmt::format("p{0} = {1} parameter({0})\n", i, to_string(operands[i].shape()));
    names += fmt::format("{}p{}", i > 0 ? ", " : "", i);
    values.push_back({operands[i], {}, false});
  }
  const bool several =
      results.find("], ") != std::string::npos || results.find("}, ") != std::string::npos;
  text += fmt::format("ROOT r = {}{}{} custom-call({}), custom_call_target=\"{}\"{}\n}}\n",
                      several ? "(" : "", results, several ? ")" : "", names, target, rest);
  INFO(text);
  return leaves(evaluate(*parse_module(text), values));
}

}  // namespace gspmd::testing
