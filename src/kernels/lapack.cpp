#include "kernels/lapack.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "gspmd/base/error.h"

namespace gspmd::lapack {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

}  // namespace

#if defined(GSPMD_HAS_LAPACK)

// Fortran: everything by reference, and the lengths of texts behind all arguments.
// clang-format off
#define GSPMD_COMMON(T, R, p)                                                                     \
  void p##potrf_(const char*, const int*, T*, const int*, int*, size_t);                          \
  void p##getrf_(const int*, const int*, T*, const int*, int*, int*);                             \
  void p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);               \
  void p##gehrd_(const int*, const int*, const int*, T*, const int*, T*, T*, const int*, int*);   \
  void p##gtsv_(const int*, const int*, T*, T*, T*, T*, const int*, int*);                        \
  void p##trsm_(const char*, const char*, const char*, const char*, const int*, const int*,       \
                const T*, const T*, const int*, T*, const int*, size_t, size_t, size_t, size_t);
#define GSPMD_REAL(T, p)                                                                          \
  GSPMD_COMMON(T, T, p)                                                                           \
  void p##geqp3_(const int*, const int*, T*, const int*, int*, T*, T*, const int*, int*);         \
  void p##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,    \
                 int*);                                                                           \
  void p##ormqr_(const char*, const char*, const int*, const int*, const int*, const T*,          \
                 const int*, const T*, T*, const int*, T*, const int*, int*, size_t, size_t);     \
  void p##sytrd_(const char*, const int*, T*, const int*, T*, T*, T*, T*, const int*, int*,       \
                 size_t);                                                                         \
  void p##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*,  \
                 const int*, int*, size_t, size_t);                                               \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*,     \
                 const int*, T*, const int*, int*, int*, size_t);                                 \
  void p##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, T*, T*,        \
                 const int*, T*, const int*, T*, const int*, int*, size_t, size_t);               \
  void p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*, const int*, T*, \
                const int*, T*, const int*, int*, size_t, size_t);                                \
  void p##gees_(const char*, const char*, int (*)(const T*, const T*), const int*, T*,            \
                const int*, int*, T*, T*, T*, const int*, T*, const int*, int*, int*, size_t,     \
                size_t);
#define GSPMD_COMPLEX(T, R, p)                                                                    \
  GSPMD_COMMON(T, R, p)                                                                           \
  void p##geqp3_(const int*, const int*, T*, const int*, int*, T*, T*, const int*, R*, int*);     \
  void p##ungqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,    \
                 int*);                                                                           \
  void p##unmqr_(const char*, const char*, const int*, const int*, const int*, const T*,          \
                 const int*, const T*, T*, const int*, T*, const int*, int*, size_t, size_t);     \
  void p##hetrd_(const char*, const int*, T*, const int*, R*, R*, T*, T*, const int*, int*,       \
                 size_t);                                                                         \
  void p##heevd_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*, R*,    \
                 const int*, int*, const int*, int*, size_t, size_t);                             \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*,     \
                 const int*, T*, const int*, R*, int*, int*, size_t);                             \
  void p##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, R*, T*,        \
                 const int*, T*, const int*, T*, const int*, R*, int*, size_t, size_t);           \
  void p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, T*,     \
                const int*, T*, const int*, R*, int*, size_t, size_t);                            \
  void p##gees_(const char*, const char*, int (*)(const T*), const int*, T*, const int*, int*,    \
                T*, T*, const int*, T*, const int*, R*, int*, int*, size_t, size_t);
// clang-format on

extern "C" {
GSPMD_REAL(float, s)
GSPMD_REAL(double, d)
GSPMD_COMPLEX(C64, float, c)
GSPMD_COMPLEX(C128, double, z)
}

namespace {

// clang-format off
template <class T> struct Names;
#define GSPMD_NAMES(T, p, Orthogonal, Multiply, Tridiagonal, Eigen)                               \
  template <> struct Names<T> {                                                                   \
    static constexpr auto potrf = p##potrf_; static constexpr auto getrf = p##getrf_;             \
    static constexpr auto geqrf = p##geqrf_; static constexpr auto geqp3 = p##geqp3_;             \
    static constexpr auto gehrd = p##gehrd_; static constexpr auto gtsv = p##gtsv_;               \
    static constexpr auto trsm = p##trsm_; static constexpr auto gesdd = p##gesdd_;               \
    static constexpr auto gesvd = p##gesvd_; static constexpr auto geev = p##geev_;               \
    static constexpr auto gees = p##gees_;                                                        \
    static constexpr auto orgqr = p##Orthogonal##_;                                               \
    static constexpr auto ormqr = p##Multiply##_;                                                 \
    static constexpr auto sytrd = p##Tridiagonal##_;                                              \
    static constexpr auto syevd = p##Eigen##_;                                                    \
  };
GSPMD_NAMES(float, s, orgqr, ormqr, sytrd, syevd)
GSPMD_NAMES(double, d, orgqr, ormqr, sytrd, syevd)
GSPMD_NAMES(C64, c, ungqr, unmqr, hetrd, heevd)
GSPMD_NAMES(C128, z, ungqr, unmqr, hetrd, heevd)
// clang-format on

template <class T>
inline constexpr bool is_complex_v = !std::is_same_v<T, Real<T>>;

// LAPACK wants 1 where a matrix has no rows.
int leading(int64_t rows) { return static_cast<int>(std::max<int64_t>(rows, 1)); }

// The length that a query for work space answered; floats may have rounded it down.
template <class T>
int work_length(T answer, int64_t least) {
  const auto length = static_cast<double>(std::real(answer));
  return static_cast<int>(std::max<int64_t>(static_cast<int64_t>(length * 1.000001) + 1, least));
}

template <class T>
bool all_finite(const T* a, int64_t count) {
  return std::all_of(a, a + count, [](const T& x) {
    return std::isfinite(std::real(x)) && std::isfinite(std::imag(x));
  });
}

// Calls f(work, lwork), first to ask for the length.
template <class T, class F>
void with_work(int64_t least, F&& f) {
  T answer{};
  f(&answer, -1);
  std::vector<T> work(static_cast<size_t>(work_length(answer, least)));
  f(work.data(), static_cast<int>(work.size()));
}

int64_t square(int64_t n) { return n * n; }

}  // namespace

bool is_there() { return true; }

template <class T>
int potrf(char uplo, int n, T* a) {
  const int lda = leading(n);
  int info = 0;
  Names<T>::potrf(&uplo, &n, a, &lda, &info, 1);
  return info;
}

template <class T>
int getrf(int m, int n, T* a, int* pivots) {
  const int lda = leading(m);
  int info = 0;
  Names<T>::getrf(&m, &n, a, &lda, pivots, &info);
  return info;
}

template <class T>
int geqrf(int m, int n, T* a, T* tau) {
  const int lda = leading(m);
  int info = 0;
  with_work<T>(leading(n), [&](T* work, int length) {
    Names<T>::geqrf(&m, &n, a, &lda, tau, work, &length, &info);
  });
  return info;
}

template <class T>
int geqp3(int m, int n, T* a, int* pivots, T* tau) {
  const int lda = leading(m);
  int info = 0;
  std::vector<Real<T>> reals(static_cast<size_t>(2 * leading(n)));
  with_work<T>(3 * int64_t{n} + 1, [&](T* work, int length) {
    if constexpr (is_complex_v<T>)
      Names<T>::geqp3(&m, &n, a, &lda, pivots, tau, work, &length, reals.data(), &info);
    else
      Names<T>::geqp3(&m, &n, a, &lda, pivots, tau, work, &length, &info);
  });
  return info;
}

template <class T>
int orgqr(int m, int n, int k, T* a, const T* tau) {
  const int lda = leading(m);
  int info = 0;
  with_work<T>(leading(n), [&](T* work, int length) {
    Names<T>::orgqr(&m, &n, &k, a, &lda, tau, work, &length, &info);
  });
  return info;
}

template <class T>
int ormqr(char side, char adjoint, int m, int n, int k, const T* a, const T* tau, T* c) {
  const int lda = leading(side == 'L' ? m : n), ldc = leading(m);
  int info = 0;
  with_work<T>(leading(side == 'L' ? n : m), [&](T* work, int length) {
    Names<T>::ormqr(&side, &adjoint, &m, &n, &k, a, &lda, tau, c, &ldc, work, &length, &info, 1, 1);
  });
  return info;
}

template <class T>
int gehrd(int n, int low, int high, T* a, T* tau) {
  const int lda = leading(n);
  int info = 0;
  with_work<T>(leading(n), [&](T* work, int length) {
    Names<T>::gehrd(&n, &low, &high, a, &lda, tau, work, &length, &info);
  });
  return info;
}

template <class T>
int sytrd(char uplo, int n, T* a, Real<T>* diagonal, Real<T>* off_diagonal, T* tau) {
  const int lda = leading(n);
  int info = 0;
  with_work<T>(1, [&](T* work, int length) {
    Names<T>::sytrd(&uplo, &n, a, &lda, diagonal, off_diagonal, tau, work, &length, &info, 1);
  });
  return info;
}

template <class T>
int syevd(char mode, char uplo, int n, T* a, Real<T>* w) {
  if (!all_finite(a, square(n))) return kNotFinite;
  const int lda = leading(n);
  int info = 0;
  std::vector<int> integers(static_cast<size_t>(3 + 5 * int64_t{n}));
  const auto integers_length = static_cast<int>(integers.size());
  if constexpr (is_complex_v<T>) {
    std::vector<Real<T>> reals(static_cast<size_t>(1 + 5 * int64_t{n} + 2 * square(n)));
    std::vector<T> work(static_cast<size_t>(2 * int64_t{n} + square(n) + 1));
    const auto length = static_cast<int>(work.size()),
               reals_length = static_cast<int>(reals.size());
    Names<T>::syevd(&mode, &uplo, &n, a, &lda, w, work.data(), &length, reals.data(), &reals_length,
                    integers.data(), &integers_length, &info, 1, 1);
  } else {
    // More than the least lets it work in blocks.
    std::vector<T> work(static_cast<size_t>(1 + 40 * int64_t{n} + 2 * square(n)));
    const auto length = static_cast<int>(work.size());
    Names<T>::syevd(&mode, &uplo, &n, a, &lda, w, work.data(), &length, integers.data(),
                    &integers_length, &info, 1, 1);
  }
  return info;
}

namespace {

// Leading dims of u and vt; those that are not computed are not read.
struct SingularSizes {
  int a, u, vt;
};
SingularSizes singular_sizes(char mode, int m, int n) {
  if (mode == 'N') return {leading(m), 1, 1};
  return {leading(m), leading(m), leading(mode == 'A' ? n : std::min(m, n))};
}

}  // namespace

template <class T>
int gesdd(char mode, int m, int n, T* a, Real<T>* s, T* u, T* vt) {
  if (!all_finite(a, int64_t{m} * n)) return kNotFinite;
  const SingularSizes ld = singular_sizes(mode, m, n);
  const int64_t least = std::min(m, n), most = std::max(m, n);
  int info = 0;
  std::vector<int> integers(static_cast<size_t>(8 * least + 1));
  std::vector<Real<T>> reals;
  if constexpr (is_complex_v<T>)
    reals.resize(static_cast<size_t>(
        std::max(5 * square(least) + 7 * least, 2 * most * least + 2 * square(least) + least) + 1));
  with_work<T>(1, [&](T* work, int length) {
    if constexpr (is_complex_v<T>)
      Names<T>::gesdd(&mode, &m, &n, a, &ld.a, s, u, &ld.u, vt, &ld.vt, work, &length, reals.data(),
                      integers.data(), &info, 1);
    else
      Names<T>::gesdd(&mode, &m, &n, a, &ld.a, s, u, &ld.u, vt, &ld.vt, work, &length,
                      integers.data(), &info, 1);
  });
  return info;
}

template <class T>
int gesvd(char mode, int m, int n, T* a, Real<T>* s, T* u, T* vt) {
  if (!all_finite(a, int64_t{m} * n)) return kNotFinite;
  const SingularSizes ld = singular_sizes(mode, m, n);
  int info = 0;
  std::vector<Real<T>> reals(static_cast<size_t>(5 * std::min(m, n) + 1));
  with_work<T>(1, [&](T* work, int length) {
    if constexpr (is_complex_v<T>)
      Names<T>::gesvd(&mode, &mode, &m, &n, a, &ld.a, s, u, &ld.u, vt, &ld.vt, work, &length,
                      reals.data(), &info, 1, 1);
    else
      Names<T>::gesvd(&mode, &mode, &m, &n, a, &ld.a, s, u, &ld.u, vt, &ld.vt, work, &length, &info,
                      1, 1);
  });
  return info;
}

namespace {

// Of a conjugate pair of eigenvalues LAPACK gives the real and the imaginary part of one vector.
template <class R>
void to_complex(int64_t n, const std::vector<R>& imaginary, const std::vector<R>& packed,
                std::complex<R>* out) {
  for (int64_t j = 0; j < n; ++j) {
    const bool pair = imaginary[static_cast<size_t>(j)] != 0 && j + 1 < n;
    for (int64_t i = 0; i < n; ++i) {
      const R real = packed[static_cast<size_t>(j * n + i)];
      const R other = pair ? packed[static_cast<size_t>((j + 1) * n + i)] : R(0);
      out[j * n + i] = {real, other};
      if (pair) out[(j + 1) * n + i] = {real, -other};
    }
    if (pair) ++j;
  }
}

template <class R>
void to_complex(const std::vector<R>& real, const std::vector<R>& imaginary, std::complex<R>* out) {
  for (size_t i = 0; i < real.size(); ++i) out[i] = {real[i], imaginary[i]};
}

}  // namespace

template <class T>
int geev(char left, char right, int n, T* a, std::complex<Real<T>>* w, std::complex<Real<T>>* vl,
         std::complex<Real<T>>* vr) {
  if (!all_finite(a, square(n))) return kNotFinite;
  const int lda = leading(n);
  int info = 0;
  if constexpr (is_complex_v<T>) {
    std::vector<Real<T>> reals(static_cast<size_t>(2 * lda));
    with_work<T>(2 * lda, [&](T* work, int length) {
      Names<T>::geev(&left, &right, &n, a, &lda, w, vl, &lda, vr, &lda, work, &length, reals.data(),
                     &info, 1, 1);
    });
  } else {
    const auto count = static_cast<size_t>(n), all = static_cast<size_t>(square(n));
    std::vector<T> real(count), imaginary(count), l(all), r(all);
    with_work<T>(4 * lda, [&](T* work, int length) {
      Names<T>::geev(&left, &right, &n, a, &lda, real.data(), imaginary.data(), l.data(), &lda,
                     r.data(), &lda, work, &length, &info, 1, 1);
    });
    to_complex(real, imaginary, w);
    if (left == 'V') to_complex(n, imaginary, l, vl);
    if (right == 'V') to_complex(n, imaginary, r, vr);
  }
  return info;
}

template <class T>
int gees(char mode, int n, T* a, std::complex<Real<T>>* w, T* vs) {
  if (!all_finite(a, square(n))) return kNotFinite;
  const int lda = leading(n);
  const char sort = 'N';
  int info = 0, selected = 0, none = 0;
  if constexpr (is_complex_v<T>) {
    std::vector<Real<T>> reals(static_cast<size_t>(lda));
    with_work<T>(2 * lda, [&](T* work, int length) {
      Names<T>::gees(&mode, &sort, nullptr, &n, a, &lda, &selected, w, vs, &lda, work, &length,
                     reals.data(), &none, &info, 1, 1);
    });
  } else {
    std::vector<T> real(static_cast<size_t>(n)), imaginary(static_cast<size_t>(n));
    with_work<T>(3 * lda, [&](T* work, int length) {
      Names<T>::gees(&mode, &sort, nullptr, &n, a, &lda, &selected, real.data(), imaginary.data(),
                     vs, &lda, work, &length, &none, &info, 1, 1);
    });
    to_complex(real, imaginary, w);
  }
  return info;
}

template <class T>
int trsm(char side, char uplo, char transpose, char diagonal, int m, int n, T alpha, const T* a,
         T* b) {
  const int lda = leading(side == 'L' ? m : n), ldb = leading(m);
  Names<T>::trsm(&side, &uplo, &transpose, &diagonal, &m, &n, &alpha, a, &lda, b, &ldb, 1, 1, 1, 1);
  return 0;
}

template <class T>
int gtsv(int n, int systems, T* lower, T* diagonal, T* upper, T* b) {
  const int ldb = leading(n);
  int info = 0;
  Names<T>::gtsv(&n, &systems, lower, diagonal, upper, b, &ldb, &info);
  return info;
}

#else

namespace {

[[noreturn]] int absent() {
  user_error(
      "the library was built without LAPACK; install it (Debian: liblapack-dev) and build again");
}

}  // namespace

bool is_there() { return false; }

// clang-format off
template <class T> int potrf(char, int, T*) { absent(); }
template <class T> int getrf(int, int, T*, int*) { absent(); }
template <class T> int geqrf(int, int, T*, T*) { absent(); }
template <class T> int geqp3(int, int, T*, int*, T*) { absent(); }
template <class T> int orgqr(int, int, int, T*, const T*) { absent(); }
template <class T> int ormqr(char, char, int, int, int, const T*, const T*, T*) { absent(); }
template <class T> int gehrd(int, int, int, T*, T*) { absent(); }
template <class T> int sytrd(char, int, T*, Real<T>*, Real<T>*, T*) { absent(); }
template <class T> int syevd(char, char, int, T*, Real<T>*) { absent(); }
template <class T> int gesdd(char, int, int, T*, Real<T>*, T*, T*) { absent(); }
template <class T> int gesvd(char, int, int, T*, Real<T>*, T*, T*) { absent(); }
template <class T> int geev(char, char, int, T*, std::complex<Real<T>>*, std::complex<Real<T>>*,
                            std::complex<Real<T>>*) { absent(); }
template <class T> int gees(char, int, T*, std::complex<Real<T>>*, T*) { absent(); }
template <class T> int trsm(char, char, char, char, int, int, T, const T*, T*) { absent(); }
template <class T> int gtsv(int, int, T*, T*, T*, T*) { absent(); }
// clang-format on

#endif

// clang-format off
#define GSPMD_INSTANTIATE(T)                                                                      \
  template int potrf(char, int, T*);                                                              \
  template int getrf(int, int, T*, int*);                                                         \
  template int geqrf(int, int, T*, T*);                                                           \
  template int geqp3(int, int, T*, int*, T*);                                                     \
  template int orgqr(int, int, int, T*, const T*);                                                \
  template int ormqr(char, char, int, int, int, const T*, const T*, T*);                          \
  template int gehrd(int, int, int, T*, T*);                                                      \
  template int sytrd(char, int, T*, Real<T>*, Real<T>*, T*);                                      \
  template int syevd(char, char, int, T*, Real<T>*);                                              \
  template int gesdd(char, int, int, T*, Real<T>*, T*, T*);                                       \
  template int gesvd(char, int, int, T*, Real<T>*, T*, T*);                                       \
  template int geev(char, char, int, T*, std::complex<Real<T>>*, std::complex<Real<T>>*,          \
                    std::complex<Real<T>>*);                                                      \
  template int gees(char, int, T*, std::complex<Real<T>>*, T*);                                   \
  template int trsm(char, char, char, char, int, int, T, const T*, T*);                           \
  template int gtsv(int, int, T*, T*, T*, T*);
GSPMD_INSTANTIATE(float)
GSPMD_INSTANTIATE(double)
GSPMD_INSTANTIATE(C64)
GSPMD_INSTANTIATE(C128)
// clang-format on

}  // namespace gspmd::lapack
