#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("transforms along one dim are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("fft");
  cases.check("fft", [](Tensor x) { return fft(x); });
  cases.check("fft_axis", [](Tensor x) { return fft(x, {.axis = 0}); });
  cases.check("fft_short", [](Tensor x) { return fft(x, {.n = 3, .axis = 1}); });
  cases.check("fft_long", [](Tensor x) { return fft(x, {.n = 9}); });
  cases.check("fft_ortho", [](Tensor x) { return fft(x, {.norm = FftNorm::ortho}); });
  cases.check("fft_forward", [](Tensor x) { return fft(x, {.norm = FftNorm::forward}); });
  cases.check("ifft", [](Tensor x) { return ifft(x); });
  cases.check("ifft_axis", [](Tensor x) { return ifft(x, {.axis = 0}); });
  cases.check("ifft_short", [](Tensor x) { return ifft(x, {.n = 3, .axis = 1}); });
  cases.check("ifft_long", [](Tensor x) { return ifft(x, {.n = 9}); });
  cases.check("ifft_ortho", [](Tensor x) { return ifft(x, {.norm = FftNorm::ortho}); });
  cases.check("ifft_forward", [](Tensor x) { return ifft(x, {.norm = FftNorm::forward}); });
  cases.check("rfft", [](Tensor x) { return rfft(x); });
  cases.check("rfft_axis", [](Tensor x) { return rfft(x, {.axis = 0}); });
  cases.check("rfft_short", [](Tensor x) { return rfft(x, {.n = 3, .axis = 1}); });
  cases.check("rfft_long", [](Tensor x) { return rfft(x, {.n = 9}); });
  cases.check("rfft_ortho", [](Tensor x) { return rfft(x, {.norm = FftNorm::ortho}); });
  cases.check("rfft_forward", [](Tensor x) { return rfft(x, {.norm = FftNorm::forward}); });
  cases.check("irfft", [](Tensor x) { return irfft(x); });
  cases.check("irfft_axis", [](Tensor x) { return irfft(x, {.axis = 0}); });
  cases.check("irfft_short", [](Tensor x) { return irfft(x, {.n = 3, .axis = 1}); });
  cases.check("irfft_long", [](Tensor x) { return irfft(x, {.n = 9}); });
  cases.check("irfft_ortho", [](Tensor x) { return irfft(x, {.norm = FftNorm::ortho}); });
  cases.check("irfft_forward", [](Tensor x) { return irfft(x, {.norm = FftNorm::forward}); });
  cases.check("fft_of_real", [](Tensor x) { return fft(x); });
}

TEST_CASE("transforms along several dims are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("fft");
  cases.check("fftn", [](Tensor x) { return fftn(x); });
  cases.check("fftn_axes", [](Tensor x) {
    return fftn(x, {.axes = {2, 0}, .norm = FftNorm::ortho});
  });
  cases.check("fftn_sizes", [](Tensor x) { return fftn(x, {.s = {4, 8}}); });
  cases.check("ifftn", [](Tensor x) { return ifftn(x); });
  cases.check("ifftn_axes", [](Tensor x) {
    return ifftn(x, {.axes = {2, 0}, .norm = FftNorm::ortho});
  });
  cases.check("ifftn_sizes", [](Tensor x) { return ifftn(x, {.s = {4, 8}}); });
  cases.check("rfftn", [](Tensor x) { return rfftn(x); });
  cases.check("rfftn_axes", [](Tensor x) {
    return rfftn(x, {.axes = {2, 0}, .norm = FftNorm::ortho});
  });
  cases.check("rfftn_sizes", [](Tensor x) { return rfftn(x, {.s = {4, 8}}); });
  cases.check("irfftn", [](Tensor x) { return irfftn(x); });
  cases.check("irfftn_axes", [](Tensor x) {
    return irfftn(x, {.axes = {2, 0}, .norm = FftNorm::ortho});
  });
  cases.check("irfftn_sizes", [](Tensor x) { return irfftn(x, {.s = {4, 8}}); });
  cases.check("fft2", [](Tensor x) { return fft2(x); });
  cases.check("ifft2", [](Tensor x) { return ifft2(x); });
  cases.check("rfft2", [](Tensor x) { return rfft2(x); });
  cases.check("irfft2", [](Tensor x) { return irfft2(x); });
  cases.check("fftn_four", [](Tensor x) { return fftn(x); });
}
