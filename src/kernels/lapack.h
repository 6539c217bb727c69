#pragma once

// Dense linear algebra of one matrix by the packaged LAPACK. Arguments are as LAPACK's own of the
// same names: matrices are column-major without gaps and are overwritten. What comes back is its
// `info`: 0, or what went wrong. T is float, double, std::complex<float> or std::complex<double>.

#include <complex>
#include <cstdint>

namespace gspmd::lapack {

// Whether the library was built with LAPACK. Without it every function below throws UserError.
bool is_there();

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

// Sizes up to which the work space of each routine can be counted in LAPACK's 32-bit integers.
inline constexpr int64_t kMostRows = 16'000;
// What is said of a matrix that has elements that are not finite, where a routine would not end.
inline constexpr int kNotFinite = -4;

// --- Factors
template <class T>
int potrf(char uplo, int n, T* a);
template <class T>
int getrf(int m, int n, T* a, int* pivots);  // pivots from 1
template <class T>
int geqrf(int m, int n, T* a, T* tau);
// `pivots` says which columns go first (not 0), and gets where each came from, from 1.
template <class T>
int geqp3(int m, int n, T* a, int* pivots, T* tau);
template <class T>
int orgqr(int m, int n, int k, T* a, const T* tau);
// `c`, m by n, becomes its product with Q of geqrf, or with Q's adjoint (`adjoint` T or C), from
// the side L or R; `a` has as many rows as Q.
template <class T>
int ormqr(char side, char adjoint, int m, int n, int k, const T* a, const T* tau, T* c);
template <class T>
int gehrd(int n, int low, int high, T* a, T* tau);
template <class T>
int sytrd(char uplo, int n, T* a, Real<T>* diagonal, Real<T>* off_diagonal, T* tau);

// --- Eigenvalues and singular values
template <class T>
int syevd(char mode, char uplo, int n, T* a, Real<T>* w);
// `mode` A, S or N; of S, u has min(m, n) columns and vt as many rows.
template <class T>
int gesdd(char mode, int m, int n, T* a, Real<T>* s, T* u, T* vt);
template <class T>
int gesvd(char mode, int m, int n, T* a, Real<T>* s, T* u, T* vt);
// Eigenvalues w, and of modes V the left and right eigenvectors.
template <class T>
int geev(char left, char right, int n, T* a, std::complex<Real<T>>* w, std::complex<Real<T>>* vl,
         std::complex<Real<T>>* vr);
template <class T>
int gees(char mode, int n, T* a, std::complex<Real<T>>* w, T* vs);

// --- Systems of equations
template <class T>
int trsm(char side, char uplo, char transpose, char diagonal, int m, int n, T alpha, const T* a,
         T* b);
template <class T>
int gtsv(int n, int systems, T* lower, T* diagonal, T* upper, T* b);

}  // namespace gspmd::lapack
