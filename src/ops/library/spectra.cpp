// Eigenvalues and singular values.

#include <complex>

#include "gspmd/ops/custom_ops.h"
#include "kernels/lapack.h"
#include "ops/library/matrix_call.h"

namespace gspmd::library {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

#define GSPMD_ALL(f) \
  { f<float>, f<double>, f<C64>, f<C128> }

template <class T>
int syevd(const MatrixItem& x) {
  const char mode = x.typed() ? x.letter("mode", "NV") : 'V';
  const char uplo = x.typed() ? x.letter("uplo", "LU") : x.argument(0) != 0 ? 'L' : 'U';
  x.copy(0, 0);
  return lapack::syevd(mode, uplo, x.size('n'), x.result<T>(0), x.result<lapack::Real<T>>(1));
}

// Its configuration begins with whether the lower triangle is read: "1,1,100,1e-6".
template <class T>
int eigh(const MatrixItem& x) {
  const char uplo = custom_config(x.node()).starts_with('0') ? 'U' : 'L';
  x.copy(0, 0);
  return lapack::syevd('V', uplo, x.size('n'), x.result<T>(0), x.result<lapack::Real<T>>(1));
}

char singular_mode(const MatrixItem& x) {
  if (x.typed()) return x.letter("mode", "ASN");
  return x.argument(1) == 0 ? 'N' : x.argument(0) != 0 ? 'A' : 'S';
}

// The shapes of u and vt have to hold what the mode asks for.
void check_singular_sizes(const MatrixItem& x, char mode) {
  if (mode == 'N') return;
  const int u = mode == 'A' ? x.size('m') : x.size('k'),
            v = mode == 'A' ? x.size('n') : x.size('k');
  if (x.size('u') != u || x.size('v') != v)
    user_error(
        "custom-call: \"{}\" of target \"{}\" has {} columns of u and {} rows of vt; by its mode "
        "{} they are {} and {}",
        x.node().name(), *x.node().attrs.custom_call_target, x.size('u'), x.size('v'), mode, u, v);
}

template <class T>
int gesdd(const MatrixItem& x) {
  const char mode = singular_mode(x);
  check_singular_sizes(x, mode);
  x.copy(0, 0);
  return lapack::gesdd(mode, x.size('m'), x.size('n'), x.result<T>(0), x.result<lapack::Real<T>>(1),
                       x.result<T>(2), x.result<T>(3));
}

template <class T>
int gesvd(const MatrixItem& x) {
  const char mode = singular_mode(x);
  check_singular_sizes(x, mode);
  x.copy(0, 0);
  return lapack::gesvd(mode, x.size('m'), x.size('n'), x.result<T>(0), x.result<lapack::Real<T>>(1),
                       x.result<T>(2), x.result<T>(3));
}

template <class R>
void split(const std::vector<std::complex<R>>& w, R* real, R* imaginary) {
  for (size_t i = 0; i < w.size(); ++i) {
    real[i] = w[i].real();
    imaginary[i] = w[i].imag();
  }
}

// Real matrices: the eigenvalues' real and imaginary parts are results 0 and 1.
template <class T>
int geev(const MatrixItem& x) {
  constexpr bool kReal = std::is_same_v<T, lapack::Real<T>>;
  using C = std::complex<lapack::Real<T>>;
  const char left = x.typed() ? x.letter("compute_left", "NV") : x.argument(2) == 'V' ? 'V' : 'N';
  const char right = x.typed() ? x.letter("compute_right", "NV") : x.argument(3) == 'V' ? 'V' : 'N';
  const size_t vectors = kReal ? 2 : 1;
  std::vector<C> w(static_cast<size_t>(x.size('n')));
  const int info = lapack::geev(left, right, x.size('n'), x.operand<T>(0), w.data(),
                                x.result<C>(vectors), x.result<C>(vectors + 1));
  if constexpr (kReal)
    split(w, x.result<T>(0), x.result<T>(1));
  else
    std::copy(w.begin(), w.end(), x.result<C>(0));
  return info;
}

template <class T>
int gees(const MatrixItem& x) {
  constexpr bool kReal = std::is_same_v<T, lapack::Real<T>>;
  const char mode = x.letter("mode", "NV");
  x.letter("sort", "N");
  std::vector<std::complex<lapack::Real<T>>> w(static_cast<size_t>(x.size('n')));
  x.copy(0, 0);
  const int info = lapack::gees(mode, x.size('n'), x.result<T>(0), w.data(), x.result<T>(1));
  if constexpr (kReal)
    split(w, x.result<T>(2), x.result<T>(3));
  else
    std::copy(w.begin(), w.end(), x.result<T>(2));
  return info;
}

constexpr std::string_view kSingular = "T:mn R:k T:mu T:vn I:";

const Routine kSpectraRoutines[] = {
    {.name = "syevd",
     .kinds = "sd",
     .operands = "T:nn",
     .results = "T:nn R:n I:",
     .run = GSPMD_ALL(syevd)},
    {.name = "heevd",
     .kinds = "cz",
     .operands = "T:nn",
     .results = "T:nn R:n I:",
     .run = GSPMD_ALL(syevd)},
    {.name = "Eigh",
     .is_lapack = false,
     .operands = "T:nn",
     .results = "T:nn R:n",
     .run = GSPMD_ALL(eigh)},
    {.name = "gesdd", .operands = "T:mn", .results = kSingular, .run = GSPMD_ALL(gesdd)},
    {.name = "gesvd", .operands = "T:mn", .results = kSingular, .run = GSPMD_ALL(gesvd)},
    {.name = "geev",
     .kinds = "sd",
     .operands = "T:nn",
     .results = "R:n R:n C:nn C:nn I:",
     .work_in_front = 3,
     .run = GSPMD_ALL(geev)},
    {.name = "geev",
     .kinds = "cz",
     .operands = "T:nn",
     .results = "C:n C:nn C:nn I:",
     .work_in_front = 2,
     .run = GSPMD_ALL(geev)},
    {.name = "gees",
     .kinds = "sd",
     .operands = "T:nn",
     .results = "T:nn T:nn R:n R:n I: I:",
     .run = GSPMD_ALL(gees)},
    {.name = "gees",
     .kinds = "cz",
     .operands = "T:nn",
     .results = "T:nn T:nn C:n I: I:",
     .run = GSPMD_ALL(gees)},
};

}  // namespace

std::span<const Routine> spectral_routines() { return kSpectraRoutines; }

}  // namespace gspmd::library
