#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kFourierAt = f64({3, 5}, 12);

Tensor whirl(Tensor t) { return complex(t, t * t); }

// Both parts, side by side.
Tensor parts(Tensor z) { return concatenate({real(z), imag(z)}, 0); }

}  // namespace

std::vector<Case> fourier_cases() {
  return {
      GSPMD_CASE("complex", kFourierAt, parts(complex(t, t * t) * complex(t(0), 2. * t))),
      GSPMD_CASE("real", kFourierAt, real(whirl(t) * whirl(t))),
      GSPMD_CASE("imag", kFourierAt, imag(exp(whirl(t)))),
      GSPMD_CASE("conj", kFourierAt, parts(conj(whirl(t)) * whirl(t(0)))),
      GSPMD_CASE("angle", kFourierAt, angle(whirl(t))),
      GSPMD_CASE("abs: of complex numbers", kFourierAt, abs(whirl(t))),
      GSPMD_CASE("operator/: of complex numbers", kFourierAt, parts(whirl(t) / whirl(t + 0.5))),
      GSPMD_CASE("log: of complex numbers", kFourierAt, parts(log(whirl(t)))),
      GSPMD_CASE("sqrt: of complex numbers", kFourierAt, parts(sqrt(whirl(t)))),
      GSPMD_CASE("tanh: of complex numbers", kFourierAt, parts(tanh(whirl(t)))),
      GSPMD_CASE("pow: of complex numbers", kFourierAt, parts(pow(whirl(t), whirl(t(0))))),
      GSPMD_CASE("matmul: of complex numbers", kFourierAt,
                 parts(matmul(whirl(t), conj(transpose(whirl(t)))))),
      GSPMD_CASE("cholesky: of complex numbers", kFourierAt,
                 parts(cholesky(matmul(whirl(t), conj(transpose(whirl(t)))) +
                                convert(eye(3, {.dtype = DType::f64}) * 2., DType::c128)))),
      GSPMD_CASE("fft", kFourierAt, parts(fft(whirl(t), {.n = 4}))),
      GSPMD_CASE("fft: of real numbers", kFourierAt, parts(fft(t * t, {.axis = 0}))),
      GSPMD_CASE("ifft", kFourierAt, parts(ifft(whirl(t), {.norm = FftNorm::ortho}))),
      GSPMD_CASE("rfft", kFourierAt, parts(rfft(t * t))),
      GSPMD_CASE("rfft: along rows", kFourierAt, parts(rfft(t * t, {.n = 4, .axis = 0}))),
      GSPMD_CASE("irfft", kFourierAt, irfft(whirl(t))),
      GSPMD_CASE("irfft: of odd size", kFourierAt,
                 irfft(whirl(t), {.n = 7, .norm = FftNorm::forward})),
      GSPMD_CASE("fft2", kFourierAt, parts(fft2(whirl(t)))),
      GSPMD_CASE("ifft2", kFourierAt, parts(ifft2(whirl(t)))),
      GSPMD_CASE("rfft2", kFourierAt, parts(rfft2(t * t))),
      GSPMD_CASE("irfft2", kFourierAt, irfft2(whirl(t))),
      GSPMD_CASE("fftn", kFourierAt, parts(fftn(t * t, {.axes = {0}}))),
      GSPMD_CASE("ifftn", kFourierAt, parts(ifftn(whirl(t), {.norm = FftNorm::forward}))),
      GSPMD_CASE("rfftn", kFourierAt, parts(rfftn(t * t, {.s = {4, 4}}))),
      GSPMD_CASE("irfftn", kFourierAt, irfftn(whirl(t), {.s = {3, 7}})),
  };
}

}  // namespace gspmd::test
