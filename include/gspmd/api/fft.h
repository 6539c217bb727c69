#pragma once

// Discrete Fourier transforms, as numpy.fft's.

#include <optional>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// What transforms are divided by: `backward`: the inverse by n; `ortho`: both by the root of n;
// `forward`: the direct one by n.
enum class FftNorm : uint8_t { backward, ortho, forward };

// Of transforms along one dim.
struct FftOptions {
  // Elements transformed: the first n, or zeros behind them; default: all. irfft: of the result,
  // default: 2 (size - 1).
  std::optional<int64_t> n = {};
  int64_t axis = -1;                 // the dim transformed
  FftNorm norm = FftNorm::backward;  // what is divided by
};
// --- Of c64 or c128; real numbers become complex first
GSPMD_API Tensor fft(Operand x, const FftOptions& options = {});
GSPMD_API Tensor ifft(Operand x, const FftOptions& options = {});
// Of real numbers: the n / 2 + 1 terms that tell the others.
GSPMD_API Tensor rfft(Operand x, const FftOptions& options = {});
GSPMD_API Tensor irfft(Operand x, const FftOptions& options = {});  // real, from those terms

// Of transforms along several dims.
struct FftnOptions {
  std::vector<int64_t> s = {};  // n of each dim transformed; empty: as n's default
  std::vector<int64_t> axes =
      {};  // the dims transformed; empty: all, or the last of s; 2: the last 2
  FftNorm norm = FftNorm::backward;  // what is divided by
};
// --- Along several dims; those with 2 along the last two by default. The real ones' last dim is
// the one halved
GSPMD_API Tensor fftn(Operand x, const FftnOptions& options = {});
GSPMD_API Tensor ifftn(Operand x, const FftnOptions& options = {});
GSPMD_API Tensor rfftn(Operand x, const FftnOptions& options = {});
GSPMD_API Tensor irfftn(Operand x, const FftnOptions& options = {});
GSPMD_API Tensor fft2(Operand x, const FftnOptions& options = {});
GSPMD_API Tensor ifft2(Operand x, const FftnOptions& options = {});
GSPMD_API Tensor rfft2(Operand x, const FftnOptions& options = {});
GSPMD_API Tensor irfft2(Operand x, const FftnOptions& options = {});

}  // namespace gspmd
