#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kAt = f64({3, 5}, 12);

Tensor whirl(Tensor t) { return complex(t, t * t); }

// Both parts, side by side.
Tensor parts(Tensor z) { return concatenate({real(z), imag(z)}, 0); }

}  // namespace

std::vector<Case> fourier_cases() {
  return {
      GSPMD_CASE("complex", kAt, parts(complex(t, t * t) * complex(t(0), 2. * t))),
      GSPMD_CASE("real", kAt, real(whirl(t) * whirl(t))),
      GSPMD_CASE("imag", kAt, imag(exp(whirl(t)))),
      GSPMD_CASE("conj", kAt, parts(conj(whirl(t)) * whirl(t(0)))),
      GSPMD_CASE("angle", kAt, angle(whirl(t))),
      GSPMD_CASE("abs: of complex numbers", kAt, abs(whirl(t))),
      GSPMD_CASE("operator/: of complex numbers", kAt, parts(whirl(t) / whirl(t + 0.5))),
      GSPMD_CASE("log: of complex numbers", kAt, parts(log(whirl(t)))),
      GSPMD_CASE("sqrt: of complex numbers", kAt, parts(sqrt(whirl(t)))),
      GSPMD_CASE("tanh: of complex numbers", kAt, parts(tanh(whirl(t)))),
      GSPMD_CASE("pow: of complex numbers", kAt, parts(pow(whirl(t), whirl(t(0))))),
      GSPMD_CASE("matmul: of complex numbers", kAt,
                 parts(matmul(whirl(t), conj(transpose(whirl(t)))))),
      GSPMD_CASE("cholesky: of complex numbers", kAt,
                 parts(cholesky(matmul(whirl(t), conj(transpose(whirl(t)))) +
                                convert(eye(3, {.dtype = DType::f64}) * 2., DType::c128)))),
      GSPMD_CASE("fft", kAt, parts(fft(whirl(t), {.n = 4}))),
      GSPMD_CASE("fft: of real numbers", kAt, parts(fft(t * t, {.axis = 0}))),
      GSPMD_CASE("ifft", kAt, parts(ifft(whirl(t), {.norm = FftNorm::ortho}))),
      GSPMD_CASE("rfft", kAt, parts(rfft(t * t))),
      GSPMD_CASE("rfft: along rows", kAt, parts(rfft(t * t, {.n = 4, .axis = 0}))),
      GSPMD_CASE("irfft", kAt, irfft(whirl(t))),
      GSPMD_CASE("irfft: of odd size", kAt, irfft(whirl(t), {.n = 7, .norm = FftNorm::forward})),
      GSPMD_CASE("fft2", kAt, parts(fft2(whirl(t)))),
      GSPMD_CASE("ifft2", kAt, parts(ifft2(whirl(t)))),
      GSPMD_CASE("rfft2", kAt, parts(rfft2(t * t))),
      GSPMD_CASE("irfft2", kAt, irfft2(whirl(t))),
      GSPMD_CASE("fftn", kAt, parts(fftn(t * t, {.axes = {0}}))),
      GSPMD_CASE("ifftn", kAt, parts(ifftn(whirl(t), {.norm = FftNorm::forward}))),
      GSPMD_CASE("rfftn", kAt, parts(rfftn(t * t, {.s = {4, 4}}))),
      GSPMD_CASE("irfftn", kAt, irfftn(whirl(t), {.s = {3, 7}})),
  };
}

}  // namespace gspmd::test
