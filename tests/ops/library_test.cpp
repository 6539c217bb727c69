// Custom-calls into LAPACK and others: what they give, put together again, is what they were given.
#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "ops/evaluate_cases.h"
#include "ops/library_check.h"

namespace gspmd::testing {
namespace {

constexpr int64_t kBatch = 2, kN = 5;

std::string name(const MatrixType& type, const std::string& routine, bool typed = true) {
  return fmt::format("lapack_{}{}{}", type.letter, routine, typed ? "_ffi" : "");
}
std::string shape(DType dtype, Dims dims) {
  dims.insert(dims.begin(), kBatch);
  return to_string(Shape(dtype, dims));
}
// What a typed call says: letters as the numbers of their codes.
std::string config(const std::vector<std::pair<std::string, char>>& letters) {
  std::string text;
  for (const auto& [key, letter] : letters)
    text += fmt::format("{}{} = {} : ui8", text.empty() ? "" : ", ", key, int{letter});
  return ", api_version=API_VERSION_TYPED_FFI, backend_config={" + text + "}";
}
Array number(int32_t value) { return Array::scalar(value); }
std::vector<Array> numbers(std::initializer_list<int32_t> values, std::vector<Array> arrays) {
  std::vector<Array> all;
  for (const int32_t value : values) all.push_back(number(value));
  all.insert(all.end(), arrays.begin(), arrays.end());
  return all;
}

// For each type and each matrix of a random batch of m x n.
void each_type(int64_t m, int64_t n,
               const std::function<void(const MatrixType&, const Array&)>& f) {
  for (const MatrixType& type : matrix_types()) {
    INFO("type " << type.letter << ", " << m << " x " << n);
    f(type, random_matrices(type.dtype, {kBatch, m, n}, 7));
  }
}

// a a^H + n: Hermitian, positive definite.
Array positive(const MatrixType& type, const Array& a) {
  std::vector<Dense> matrices;
  for (int64_t i = 0; i < kBatch; ++i) {
    Dense x = matrix_of(a, i) * adjoint(matrix_of(a, i));
    for (int64_t d = 0; d < x.rows; ++d) x(d, d) += double(x.rows);
    matrices.push_back(x);
  }
  return array_of(type.dtype, a.dims(), matrices);
}

Array triangle(const MatrixType& type, const Array& a, bool is_lower) {
  std::vector<Dense> matrices;
  for (int64_t i = 0; i < kBatch; ++i)
    matrices.push_back(is_lower ? lower(matrix_of(a, i)) : upper(matrix_of(a, i)));
  return array_of(type.dtype, a.dims(), matrices);
}

const std::vector<std::pair<int64_t, int64_t>> kShapes = {{4, 6}, {6, 4}, {5, 5}, {1, 3}, {3, 1}};

}  // namespace

TEST_CASE("potrf: a triangle times its adjoint is the matrix, in both interfaces", "[library]") {
  if (is_without_lapack()) return;
  each_type(kN, kN, [](const MatrixType& type, const Array& random) {
    const Array a = positive(type, random);
    const std::string results = shape(type.dtype, {kN, kN}) + ", " + shape(DType::s32, {});
    for (const bool typed : {true, false})
      for (const bool is_lower : {true, false}) {
        const auto out =
            typed
                ? call(name(type, "potrf"), {a}, results, config({{"uplo", is_lower ? 'L' : 'U'}}))
                : call(name(type, "potrf", false), numbers({is_lower, kBatch, kN}, {a}), results);
        for (int64_t i = 0; i < kBatch; ++i) {
          const Dense factor = matrix_of(out[0], i);
          const Dense product = is_lower ? lower(factor) * adjoint(lower(factor))
                                         : adjoint(upper(factor)) * upper(factor);
          check_near(product, matrix_of(a, i), type.dtype);
          CHECK(out[1].at(i) == 0);
        }
      }
    const auto plain = call("Cholesky", {a}, shape(type.dtype, {kN, kN}));
    check_near(matrix_of(plain[0], 1) * adjoint(matrix_of(plain[0], 1)), matrix_of(a, 1),
               type.dtype);
  });
}

TEST_CASE("potrf says where a matrix is not positive definite; the others of the batch are right",
          "[library]") {
  if (is_without_lapack()) return;
  check_case({"one of two",
              "a = f64[2,2,2] constant({{{1,2},{2,1}},{{4,2},{2,10}}})\n"
              "c = (f64[2,2,2], s32[2]) custom-call(a), custom_call_target=\"lapack_dpotrf_ffi\", "
              "backend_config=\"{uplo = 76 : ui8}\"\n"
              "ROOT r = s32[2] get-tuple-element(c), index=1",
              "s32[2] {2,0}"});
}

TEST_CASE("getrf: rows exchanged, lower times upper is the matrix", "[library]") {
  if (is_without_lapack()) return;
  for (const auto& [m, n] : kShapes)
    each_type(m, n, [&, m = m, n = n](const MatrixType& type, const Array& a) {
      const int64_t k = std::min(m, n);
      const std::string results = shape(type.dtype, {m, n}) + ", " + shape(DType::s32, {k}) + ", ";
      const auto typed = call(name(type, "getrf"), {a}, results + shape(DType::s32, {}));
      const auto old =
          call(name(type, "getrf", false), numbers({kBatch, int32_t(m), int32_t(n)}, {a}),
               results + shape(DType::s32, {}));
      const auto plain = call("LuDecomposition", {a}, results + shape(DType::s32, {m}));
      for (int64_t i = 0; i < kBatch; ++i) {
        const Dense lu = matrix_of(typed[0], i), x = matrix_of(a, i);
        Dense l = first_columns(band(lu, -m, -1), k);
        for (int64_t d = 0; d < k; ++d) l(d, d) = 1;
        Dense product = l * first_rows(upper(lu), k);
        check_near(matrix_of(old[0], i), lu, type.dtype);
        check_near(matrix_of(plain[0], i), lu, type.dtype);
        Dense ordered(m, n);  // the rows in the order that the call gives
        for (int64_t r = 0; r < m; ++r)
          for (int64_t c = 0; c < n; ++c)
            ordered(r, c) = x(static_cast<int64_t>(plain[2].at(i * m + r)), c);
        check_near(product, ordered, type.dtype);
        for (int64_t d = k; d-- > 0;) {
          const auto other = static_cast<int64_t>(typed[1].at(i * k + d)) - 1;
          CHECK(plain[1].at(i * k + d) == double(other));
          for (int64_t c = 0; c < n; ++c) std::swap(product(d, c), product(other, c));
        }
        check_near(product, x, type.dtype);
      }
    });
}

TEST_CASE("geqrf and orgqr: Q is orthogonal, Q R is the matrix", "[library]") {
  if (is_without_lapack()) return;
  for (const auto& [m, n] : kShapes)
    each_type(m, n, [&, m = m, n = n](const MatrixType& type, const Array& a) {
      const int64_t k = std::min(m, n);
      const std::string orthogonal = type.is_complex ? "ungqr" : "orgqr";
      const std::string factors = shape(type.dtype, {m, n}) + ", " + shape(type.dtype, {k});
      const std::string work = ", " + shape(DType::s32, {}) + ", f32[7]";
      for (const int form : {0, 1, 2}) {
        const auto qr = form == 0   ? call(name(type, "geqrf"), {a}, factors)
                        : form == 1 ? call("Qr", {a}, factors)
                                    : call(name(type, "geqrf", false),
                                           numbers({kBatch, 0, 0, 7}, {a}), factors + work);
        std::vector<Dense> columns;
        for (int64_t i = 0; i < kBatch; ++i)
          columns.push_back(first_columns(matrix_of(qr[0], i), k));
        const Array packed = array_of(type.dtype, {kBatch, m, k}, columns);
        const std::string result = shape(type.dtype, {m, k});
        const auto q =
            form == 0   ? call(name(type, orthogonal), {packed, qr[1]}, result)
            : form == 1 ? call("ProductOfElementaryHouseholderReflectors", {packed, qr[1]}, result)
                        : call(name(type, orthogonal, false),
                               numbers({kBatch, 0, 0, 0, 7}, {packed, qr[1]}), result + work);
        for (int64_t i = 0; i < kBatch; ++i) {
          const Dense each = matrix_of(q[0], i);
          check_near(each * first_rows(upper(matrix_of(qr[0], i)), k), matrix_of(a, i), type.dtype);
          check_near(adjoint(each) * each, identity(k), type.dtype);
        }
      }
    });
}

TEST_CASE("ormqr: a matrix times Q of geqrf, from either side", "[library]") {
  if (is_without_lapack()) return;
  for (const auto& [m, n] : kShapes)
    each_type(m, n, [&, m = m, n = n](const MatrixType& type, const Array& a) {
      const std::string factors =
          shape(type.dtype, {m, n}) + ", " + shape(type.dtype, {std::min(m, n)});
      const auto qr = call(name(type, "geqrf"), {a}, factors);
      const std::string multiply = type.is_complex ? "unmqr" : "ormqr";
      const auto product = [&](const Array& c, bool left, bool transpose) {
        return call(
            name(type, multiply), {qr[0], qr[1], c}, shape(type.dtype, {c.dim(1), c.dim(2)}),
            fmt::format(", backend_config={{left = {}, transpose = {}}}", left, transpose))[0];
      };
      std::vector<Dense> adjoints;
      for (int64_t i = 0; i < kBatch; ++i) adjoints.push_back(adjoint(matrix_of(a, i)));
      const Array turned = array_of(type.dtype, {kBatch, n, m}, adjoints);
      const Array r = product(a, true, true), r_adjoint = product(turned, false, false);
      const Array back = product(r, true, false);
      for (int64_t i = 0; i < kBatch; ++i) {
        const Dense wanted = upper(matrix_of(qr[0], i));
        check_near(matrix_of(r, i), wanted, type.dtype);
        check_near(matrix_of(r_adjoint, i), adjoint(wanted), type.dtype);
        check_near(matrix_of(back, i), matrix_of(a, i), type.dtype);
      }
    });
}

TEST_CASE("geqp3: Q R is the matrix with its columns in another order", "[library]") {
  if (is_without_lapack()) return;
  each_type(6, 4, [](const MatrixType& type, const Array& a) {
    const Array any(Shape(DType::s32, {kBatch, 4}));
    const auto qr = call(
        name(type, "geqp3"), {a, any},
        shape(type.dtype, {6, 4}) + ", " + shape(DType::s32, {4}) + ", " + shape(type.dtype, {4}));
    const auto q = call(name(type, type.is_complex ? "ungqr" : "orgqr"), {qr[0], qr[2]},
                        shape(type.dtype, {6, 4}));
    for (int64_t i = 0; i < kBatch; ++i) {
      Dense ordered(6, 4);
      for (int64_t r = 0; r < 6; ++r)
        for (int64_t c = 0; c < 4; ++c)
          ordered(r, c) = matrix_of(a, i)(r, static_cast<int64_t>(qr[1].at(i * 4 + c)) - 1);
      check_near(matrix_of(q[0], i) * first_rows(upper(matrix_of(qr[0], i)), 4), ordered,
                 type.dtype);
    }
  });
}

TEST_CASE("gesdd and gesvd: U S V is the matrix, U and V are orthogonal", "[library]") {
  if (is_without_lapack()) return;
  for (const auto& [m, n] : kShapes)
    each_type(m, n, [&, m = m, n = n](const MatrixType& type, const Array& a) {
      const int64_t k = std::min(m, n);
      const auto results = [&, m = m, n = n](bool full) {
        return shape(type.dtype, {m, n}) + ", " + shape(type.real, {k}) + ", " +
               shape(type.dtype, {m, full ? m : k}) + ", " + shape(type.dtype, {full ? n : k, n}) +
               ", " + shape(DType::s32, {});
      };
      const auto check = [&](const std::vector<Array>& out) {
        for (int64_t i = 0; i < kBatch; ++i) {
          const Dense u = matrix_of(out[2], i), v = matrix_of(out[3], i);
          const Dense s = diagonal(vector_of(out[1], i));
          check_near(first_columns(u, k) * s * first_rows(v, k), matrix_of(a, i), type.dtype);
          check_near(adjoint(u) * u, identity(u.columns), type.dtype);
          check_near(v * adjoint(v), identity(v.rows), type.dtype);
          for (int64_t d = 1; d < k; ++d) CHECK(s(d - 1, d - 1).real() >= s(d, d).real());
        }
      };
      for (const bool full : {true, false}) {
        const std::string mode = config({{"mode", full ? 'A' : 'S'}});
        check(call(name(type, "gesdd"), {a}, results(full), mode));
        check(call(name(type, "gesvd"), {a}, results(full), mode));
        check(call(name(type, "gesdd", false), numbers({full, 1, kBatch, 0, 0, 9}, {a}),
                   results(full) + ", s32[8], f32[9]"));
      }
      const auto alone = call(name(type, "gesdd"), {a}, results(true), config({{"mode", 'N'}}));
      const auto all = call(name(type, "gesdd"), {a}, results(true), config({{"mode", 'A'}}));
      check_near(vector_of(alone[1], 1), vector_of(all[1], 1), type.dtype);
    });
}

TEST_CASE("syevd: of a triangle, vectors times values times vectors is the matrix", "[library]") {
  if (is_without_lapack()) return;
  each_type(kN, kN, [](const MatrixType& type, const Array& random) {
    const Array a = positive(type, random);
    const std::string results = shape(type.dtype, {kN, kN}) + ", " + shape(type.real, {kN});
    const std::string info = ", " + shape(DType::s32, {});
    const std::string routine = type.is_complex ? "heevd" : "syevd";
    for (const bool is_lower : {true, false}) {
      const Array half = triangle(type, a, is_lower);
      for (const int form : {0, 1, 2}) {
        const auto out =
            form == 0   ? call(name(type, routine), {half}, results + info,
                               config({{"mode", 'V'}, {"uplo", is_lower ? 'L' : 'U'}}))
            : form == 1 ? call("Eigh", {half}, results,
                               fmt::format(", backend_config=\"{},1,100,1e-6\"", int{is_lower}))
                        : call(name(type, routine, false), numbers({is_lower, kBatch, kN}, {half}),
                               results + info + ", f32[3], s32[4]");
        for (int64_t i = 0; i < kBatch; ++i) {
          const Dense v = matrix_of(out[0], i);
          check_near(v * diagonal(vector_of(out[1], i)) * adjoint(v), matrix_of(a, i), type.dtype);
          check_near(adjoint(v) * v, identity(kN), type.dtype);
        }
      }
    }
  });
}

TEST_CASE("geev: each side's vectors are those of the values", "[library]") {
  if (is_without_lapack()) return;
  each_type(kN, kN, [](const MatrixType& type, const Array& a) {
    const std::string values = shape(type.is_complex ? type.complex : type.real, {kN});
    const std::string vectors = shape(type.complex, {kN, kN});
    const std::string results = values + ", " + (type.is_complex ? "" : values + ", ") + vectors +
                                ", " + vectors + ", " + shape(DType::s32, {});
    const std::string work =
        type.is_complex ? "c64[5,5], f32[10], " : "f32[5,5], f32[5,5], f32[5,5], ";
    const size_t in_front = type.is_complex ? 2 : 3;
    const auto typed = call(name(type, "geev"), {a}, results,
                            config({{"compute_left", 'V'}, {"compute_right", 'V'}}));
    const auto v = Array::scalar(uint8_t('V'));
    const auto old =
        call(name(type, "geev", false), {number(kBatch), number(kN), v, v, a}, work + results);
    for (int64_t i = 0; i < kBatch; ++i) {
      Dense w = vector_of(typed[0], i);
      if (!type.is_complex)
        for (int64_t j = 0; j < kN; ++j) w(0, j) += Number(0, 1) * vector_of(typed[1], i)(0, j);
      const size_t left = type.is_complex ? 1 : 2;
      const Dense l = matrix_of(typed[left], i), r = matrix_of(typed[left + 1], i);
      check_near(matrix_of(a, i) * r, r * diagonal(w), type.dtype);
      check_near(adjoint(l) * matrix_of(a, i), diagonal(w) * adjoint(l), type.dtype);
      check_near(matrix_of(old[in_front + left + 1], i), r, type.dtype);
    }
  });
}

TEST_CASE("gees, gehrd and sytrd: a matrix similar to the one given", "[library]") {
  if (is_without_lapack()) return;
  each_type(kN, kN, [](const MatrixType& type, const Array& a) {
    const std::string square = shape(type.dtype, {kN, kN}), info = shape(DType::s32, {});
    const std::string values = shape(type.is_complex ? type.complex : type.real, {kN});
    const auto schur = call(name(type, "gees"), {a},
                            square + ", " + square + ", " + values + ", " +
                                (type.is_complex ? "" : values + ", ") + info + ", " + info,
                            config({{"mode", 'V'}, {"sort", 'N'}}));
    const auto hessenberg =
        call(name(type, "gehrd"), {a}, square + ", " + shape(type.dtype, {kN - 1}) + ", " + info,
             ", backend_config={high = 5 : i32, low = 1 : i32}");
    const Array symmetric = positive(type, a);
    const auto tridiagonal =
        call(name(type, type.is_complex ? "hetrd" : "sytrd"), {symmetric},
             square + ", " + shape(type.real, {kN}) + ", " + shape(type.real, {kN - 1}) + ", " +
                 shape(type.dtype, {kN - 1}) + ", " + info,
             config({{"uplo", 'L'}}));
    for (int64_t i = 0; i < kBatch; ++i) {
      const Dense q = matrix_of(schur[1], i);
      check_near(q * matrix_of(schur[0], i) * adjoint(q), matrix_of(a, i), type.dtype);
      // Traces of the matrix and of its square are those of every similar one.
      const auto traces = [](const Dense& x) {
        Dense out(1, 2);
        const Dense twice = x * x;
        for (int64_t d = 0; d < x.rows; ++d) out(0, 0) += x(d, d), out(0, 1) += twice(d, d);
        return out;
      };
      check_near(traces(band(matrix_of(hessenberg[0], i), -1, kN)), traces(matrix_of(a, i)),
                 type.dtype);
      const Dense e = vector_of(tridiagonal[2], i);
      const Dense t =
          sum(diagonal(vector_of(tridiagonal[1], i)), sum(diagonal(e, 1), diagonal(e, -1)));
      check_near(traces(t), traces(matrix_of(symmetric, i)), type.dtype);
    }
  });
}

TEST_CASE("trsm solves from either side, by any triangle, transposed or not", "[library]") {
  if (is_without_lapack()) return;
  constexpr int64_t kM = 3, kSystems = 4;
  for (const MatrixType& type : matrix_types())
    for (const char side : {'L', 'R'})
      for (const char uplo : {'L', 'U'})
        for (const char transposed : {'N', 'T', 'C'})
          for (const char unit : {'N', 'U'}) {
            const int64_t n = side == 'L' ? kM : kSystems;
            const Array a = positive(type, random_matrices(type.dtype, {kBatch, n, n}, 3));
            const Array b = random_matrices(type.dtype, {kBatch, kM, kSystems}, 4);
            const std::string result = shape(type.dtype, {kM, kSystems});
            const auto x = call(
                name(type, "trsm"), {a, b}, result,
                config({{"diag", unit}, {"side", side}, {"trans_x", transposed}, {"uplo", uplo}}));
            std::vector<Array> old = numbers({side == 'L', uplo == 'L',
                                              transposed == 'N'   ? 0
                                              : transposed == 'T' ? 1
                                                                  : 2,
                                              unit == 'U', kM, kSystems, kBatch},
                                             {});
            old.push_back(array_of(type.dtype, {}, {identity(1)}));
            old.push_back(a);
            old.push_back(b);
            const auto same = call(name(type, "trsm", false), old, result);
            Dense t = uplo == 'L' ? lower(matrix_of(a, 1)) : upper(matrix_of(a, 1));
            for (int64_t d = 0; unit == 'U' && d < n; ++d) t(d, d) = 1;
            if (transposed != 'N') t = transposed == 'T' ? transpose(t) : adjoint(t);
            const Dense solved = matrix_of(x[0], 1);
            check_near(side == 'L' ? t * solved : solved * t, matrix_of(b, 1), type.dtype);
            check_near(matrix_of(same[0], 1), solved, type.dtype);
          }
}

TEST_CASE("gtsv solves tridiagonal systems", "[library]") {
  if (is_without_lapack()) return;
  each_type(kN, 2, [](const MatrixType& type, const Array& b) {
    const std::string line = shape(type.dtype, {kN});
    const Array low = random_matrices(type.dtype, {kBatch, kN}, 1);
    const Array high = random_matrices(type.dtype, {kBatch, kN}, 2);
    const Array main = random_matrices(type.dtype, {kBatch, kN}, 3);
    const auto out = call(name(type, "gtsv"), {low, main, high, b},
                          line + ", " + line + ", " + line + ", " + shape(type.dtype, {kN, 2}) +
                              ", " + shape(DType::s32, {}));
    for (int64_t i = 0; i < kBatch; ++i) {
      Dense t = diagonal(vector_of(main, i));
      for (int64_t d = 1; d < kN; ++d) {
        t(d, d - 1) = vector_of(low, i)(0, d);
        t(d - 1, d) = vector_of(high, i)(0, d - 1);
      }
      check_near(t * matrix_of(out[3], i), matrix_of(b, i), type.dtype);
    }
  });
}

}  // namespace gspmd::testing
