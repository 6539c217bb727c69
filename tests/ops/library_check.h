#pragma once

#include <complex>
#include <functional>
#include <string>
#include <vector>

#include "gspmd/base/array.h"

namespace gspmd::testing {

using Number = std::complex<double>;

// A dense matrix to check results with: row-major, plain loops.
struct Dense {
  int64_t rows = 0, columns = 0;
  std::vector<Number> values = {};

  Dense(int64_t m, int64_t n) : rows(m), columns(n), values(static_cast<size_t>(m * n)) {}
  Number& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  Number operator()(int64_t i, int64_t j) const {
    return values[static_cast<size_t>(i * columns + j)];
  }
};
Dense operator*(const Dense& a, const Dense& b);
Dense adjoint(const Dense& a);
Dense transpose(const Dense& a);
Dense identity(int64_t n);
Dense diagonal(const Dense& row, int64_t above = 0);  // of a vector
// The elements with `below` <= column - row <= `above`.
Dense band(const Dense& a, int64_t below, int64_t above);
Dense lower(const Dense& a);
Dense upper(const Dense& a);
Dense first_columns(const Dense& a, int64_t count);
Dense first_rows(const Dense& a, int64_t count);
Dense sum(const Dense& a, const Dense& b);

// Element types with LAPACK's letter of each.
struct MatrixType {
  DType dtype, real, complex;
  char letter;
  bool is_complex;
};
const std::vector<MatrixType>& matrix_types();

// Matrix `i` of a batch of matrices; of a batch of vectors a row.
Dense matrix_of(const Array& array, int64_t i);
Dense vector_of(const Array& array, int64_t i);
// Normally distributed elements, from a seed.
Array random_matrices(DType dtype, Dims dims, unsigned seed);
Array array_of(DType dtype, Dims dims, const std::vector<Dense>& matrices);

// CHECKs that the matrices are equal but for rounding errors of the type.
void check_near(const Dense& actual, const Dense& expected, DType dtype);

// Whether the library was built without LAPACK, so that there is nothing to test; says so.
bool is_without_lapack();

// A call of `target` by its operands and its results' shapes, "f32[2,3], s32[2]", with what else
// the instruction says; the leaves of its result.
std::vector<Array> call(const std::string& target, const std::vector<Array>& operands,
                        const std::string& results, const std::string& rest = "");

}  // namespace gspmd::testing
