#pragma once

#include <complex>
#include <memory>
#include <vector>

#include "gspmd/base/shape.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// e^(sign 2 pi i k / n), 0 <= k < n, from an angle within an eighth of a turn.
std::complex<double> root_of_unity(int64_t k, int64_t n, int sign);

enum class FftKind : uint8_t { forward, backward, real_forward, real_backward };

// Transforms of the last lengths.size() dims of `batch` arrays. Lengths are those of the signal: of
// a real transform the spectrum's last dim has n / 2 + 1. Backward ones divide by the lengths.
struct FftSpec {
  FftKind kind = FftKind::forward;
  bool is_double = false;  // c128 and f64, else c64 and f32
  int64_t batch = 1;
  Dims lengths;
};
// `run` is empty for lines so long that several side by side would take too much scratch.
PreparedKernel prepare_fft(const FftSpec& spec);

// Lines go through a transform kFftLanes at a time, element k of all of them as kFftLanes real
// parts and then as many imaginary ones.
constexpr int64_t kFftLanes = 16;

// A complex transform of one length and direction, not scaled: steps of small radices (Stockham's,
// which leave elements in order), for lengths with larger factors a product of chirps by transforms
// of a power of two (Bluestein).
template <class T>
struct FftPlan {
  int64_t n = 1;
  int sign = -1;  // of the exponent
  std::vector<int64_t> radices;
  std::vector<T> twiddles;                 // pairs, step after step
  std::vector<T> chirp;                    // pairs; empty: by radices
  std::vector<T> spectrum;                 // of the chirp
  std::shared_ptr<const FftPlan> forward;  // of the power of two
  // Of a real transform of length 2n: e^(sign 2 pi i k / 2n).
  std::vector<T> halves;

  int64_t size() const { return forward ? forward->n : n; }  // elements of a buffer
};

// The loops of one element type.
template <class T>
struct FftLoops {
  // Of kFftLanes lines in x, which has room for plan.size() elements, as `work` has; to x.
  void (*transform)(const FftPlan<T>& plan, T* x, T* work);
  // Between the spectrum of n + 1 elements of a real line of 2n and that of its pairs, in x.
  void (*split_pairs)(const FftPlan<T>& plan, T* x);
  void (*join_pairs)(const FftPlan<T>& plan, T* x);
  // `lanes` neighbouring complex numbers, in elements that are `step` numbers apart, to lanes.
  void (*read_columns)(const T* from, int64_t step, int64_t n, int64_t lanes, T* x);
  void (*write_columns)(const T* x, int64_t step, int64_t n, int64_t lanes, T scale, T* to);
};
const FftLoops<float>& fft_loops(float);
const FftLoops<double>& fft_loops(double);

}  // namespace gspmd
