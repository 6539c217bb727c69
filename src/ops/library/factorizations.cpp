// Factors of matrices, and systems of equations that are solved by them.

#include <complex>

#include "gspmd/base/error.h"
#include "kernels/lapack.h"
#include "ops/library/matrix_call.h"
#include "ops/library/settings.h"

namespace gspmd::library {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

#define GSPMD_ALL(f) \
  { f<float>, f<double>, f<C64>, f<C128> }

template <class T>
int potrf(const MatrixItem& x) {
  const char uplo = x.typed() ? x.letter("uplo", "LU") : x.argument(0) != 0 ? 'L' : 'U';
  x.copy(0, 0);
  return lapack::potrf(uplo, x.size('n'), x.result<T>(0));
}

template <class T>
void clear_above(int rows, int columns, T* a) {
  for (int64_t j = 1; j < columns; ++j)
    for (int64_t i = 0; i < std::min<int64_t>(j, rows); ++i) a[j * rows + i] = T(0);
}

template <class T>
int cholesky(const MatrixItem& x) {
  x.copy(0, 0);
  const int info = lapack::potrf('L', x.size('n'), x.result<T>(0));
  clear_above(x.size('n'), x.size('n'), x.result<T>(0));
  return info;
}

template <class T>
int getrf(const MatrixItem& x) {
  x.copy(0, 0);
  return lapack::getrf(x.size('m'), x.size('n'), x.result<T>(0), x.result<int32_t>(1));
}

// Pivots from 0, and the order of the rows that they make; a singular matrix has its factors too.
template <class T>
int lu_decomposition(const MatrixItem& x) {
  getrf<T>(x);
  auto* const pivots = x.result<int32_t>(1);
  auto* const order = x.result<int32_t>(2);
  for (int i = 0; i < x.size('m'); ++i) order[i] = i;
  for (int i = 0; i < x.size('k'); ++i) {
    pivots[i] -= 1;
    std::swap(order[i], order[pivots[i]]);
  }
  return 0;
}

template <class T>
int geqrf(const MatrixItem& x) {
  x.copy(0, 0);
  return lapack::geqrf(x.size('m'), x.size('n'), x.result<T>(0), x.result<T>(1));
}

template <class T>
int geqp3(const MatrixItem& x) {
  x.copy(0, 0);
  x.copy(1, 1);
  return lapack::geqp3(x.size('m'), x.size('n'), x.result<T>(0), x.result<int32_t>(1),
                       x.result<T>(2));
}

template <class T>
int orgqr(const MatrixItem& x) {
  const int m = x.size('m'), n = x.size('n'), l = x.size('l');
  if (n > m || l > n)
    user_error(
        "custom-call: \"{}\" of target \"{}\" has {} columns of {} rows and {} reflectors; each is "
        "at most the one before",
        x.node().name(), *x.node().attrs.custom_call_target, n, m, l);
  x.copy(0, 0);
  return lapack::orgqr(m, n, l, x.result<T>(0), x.operand<T>(1));
}

template <class T>
int ormqr(const MatrixItem& x) {
  const bool left = x.number("left", 1) != 0, adjoint = x.number("transpose", 0) != 0;
  const int m = x.size('m'), n = x.size('n'), l = x.size('l'), rows = left ? m : n;
  if (!x.typed() || x.size('a') != rows || l > rows || l > x.size('b'))
    user_error(
        "custom-call: \"{}\" of target \"{}\" has {} reflectors in {} x {} for {} x {}; they have "
        "as many rows as that from its {}",
        x.node().name(), *x.node().attrs.custom_call_target, l, x.size('a'), x.size('b'), m, n,
        left ? "left" : "right");
  x.copy(2, 0);
  constexpr bool is_real = std::is_same_v<T, lapack::Real<T>>;
  return lapack::ormqr(left ? 'L' : 'R',
                       !adjoint  ? 'N'
                       : is_real ? 'T'
                                 : 'C',
                       m, n, l, x.operand<T>(0), x.operand<T>(1), x.result<T>(0));
}

template <class T>
int gehrd(const MatrixItem& x) {
  const int n = x.size('n');
  const int64_t low = x.typed() ? x.number("low", 1) : x.argument(1);
  const int64_t high = x.typed() ? x.number("high", n) : x.argument(2);
  if (n > 0 && (low < 1 || low > high || high > n))
    user_error("custom-call: \"{}\" of target \"{}\" reduces rows {} to {} of {}", x.node().name(),
               *x.node().attrs.custom_call_target, low, high, n);
  x.copy(0, 0);
  if (n == 0) return 0;
  return lapack::gehrd(n, static_cast<int>(low), static_cast<int>(high), x.result<T>(0),
                       x.result<T>(1));
}

template <class T>
int sytrd(const MatrixItem& x) {
  const char uplo = x.typed() ? x.letter("uplo", "LU") : x.argument(1) != 0 ? 'L' : 'U';
  x.copy(0, 0);
  return lapack::sytrd(uplo, x.size('n'), x.result<T>(0), x.result<lapack::Real<T>>(1),
                       x.result<lapack::Real<T>>(2), x.result<T>(3));
}

// The number that the product is multiplied by: behind the arrays of the typed interface, if at
// all; the last but one in front of them in the older one.
template <class T>
T scale_of(const MatrixItem& x) {
  const Array* const scale = x.typed() ? x.value(2) : x.value(x.operand_count() - 3);
  return scale == nullptr ? T(1) : scale->data<T>()[0];
}

template <class T>
int trsm(const MatrixItem& x) {
  constexpr char kTransposes[] = {'N', 'T', 'C'};
  char side, uplo, transpose, diagonal;
  if (x.typed()) {
    side = x.letter("side", "LR");
    uplo = x.letter("uplo", "LU");
    transpose = x.letter("trans_x", "NTC");
    diagonal = x.letter("diag", "NU");
  } else {
    side = x.argument(0) != 0 ? 'L' : 'R';
    uplo = x.argument(1) != 0 ? 'L' : 'U';
    transpose = kTransposes[std::clamp<int64_t>(x.argument(2), 0, 2)];
    diagonal = x.argument(3) != 0 ? 'U' : 'N';
  }
  const int m = x.size('m'), n = x.size('n');
  if (x.size('a') != (side == 'L' ? m : n))
    user_error("custom-call: \"{}\" of target \"{}\": {} rows of the triangle do not fit {} x {}",
               x.node().name(), *x.node().attrs.custom_call_target, x.size('a'), m, n);
  x.copy(1, 0);
  return lapack::trsm(side, uplo, transpose, diagonal, m, n, scale_of<T>(x), x.operand<T>(0),
                      x.result<T>(0));
}

// The diagonals begin or end with an element that is not read, and have n.
template <class T>
int gtsv(const MatrixItem& x) {
  const int n = x.size('n');
  for (size_t i = 0; i < 4; ++i) x.copy(i, i);
  const int info = lapack::gtsv(n, x.size('q'), x.result<T>(0) + (n > 0 ? 1 : 0), x.result<T>(1),
                                x.result<T>(2), x.result<T>(3));
  return info;
}

const Routine kFactorizationRoutines[] = {
    {.name = "potrf", .operands = "T:nn", .results = "T:nn I:", .run = GSPMD_ALL(potrf)},
    {.name = "getrf", .operands = "T:mn", .results = "T:mn I:k I:", .run = GSPMD_ALL(getrf)},
    {.name = "geqrf", .operands = "T:mn", .results = "T:mn T:k", .run = GSPMD_ALL(geqrf)},
    {.name = "geqp3", .operands = "T:mn I:n", .results = "T:mn I:n T:k", .run = GSPMD_ALL(geqp3)},
    {.name = "orgqr",
     .kinds = "sd",
     .operands = "T:mn T:l",
     .results = "T:mn",
     .run = GSPMD_ALL(orgqr)},
    {.name = "ungqr",
     .kinds = "cz",
     .operands = "T:mn T:l",
     .results = "T:mn",
     .run = GSPMD_ALL(orgqr)},
    {.name = "ormqr",
     .kinds = "sd",
     .operands = "T:ab T:l T:mn",
     .results = "T:mn",
     .run = GSPMD_ALL(ormqr)},
    {.name = "unmqr",
     .kinds = "cz",
     .operands = "T:ab T:l T:mn",
     .results = "T:mn",
     .run = GSPMD_ALL(ormqr)},
    {.name = "gehrd", .operands = "T:nn", .results = "T:nn T:h I:", .run = GSPMD_ALL(gehrd)},
    {.name = "sytrd",
     .kinds = "sd",
     .operands = "T:nn",
     .results = "T:nn R:n R:h T:h I:",
     .run = GSPMD_ALL(sytrd)},
    {.name = "hetrd",
     .kinds = "cz",
     .operands = "T:nn",
     .results = "T:nn R:n R:h T:h I:",
     .run = GSPMD_ALL(sytrd)},
    {.name = "trsm", .operands = "T:aa T:mn", .results = "T:mn", .run = GSPMD_ALL(trsm)},
    {.name = "gtsv",
     .operands = "T:n T:n T:n T:nq",
     .results = "T:n T:n T:n T:nq I:",
     .run = GSPMD_ALL(gtsv)},
    {.name = "Cholesky",
     .is_lapack = false,
     .operands = "T:nn",
     .results = "T:nn",
     .as_custom_call = true,
     .run = GSPMD_ALL(cholesky)},
    {.name = "Qr",
     .is_lapack = false,
     .operands = "T:mn",
     .results = "T:mn T:k",
     .run = GSPMD_ALL(geqrf)},
    {.name = "ProductOfElementaryHouseholderReflectors",
     .is_lapack = false,
     .operands = "T:mn T:l",
     .results = "T:mn",
     .run = GSPMD_ALL(orgqr)},
    {.name = "LuDecomposition",
     .is_lapack = false,
     .operands = "T:mn",
     .results = "T:mn I:k I:m",
     .run = GSPMD_ALL(lu_decomposition)},
};

}  // namespace

std::span<const Routine> factor_routines() { return kFactorizationRoutines; }

}  // namespace gspmd::library
