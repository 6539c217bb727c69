#include "ops/linalg/fft.h"

#include "gspmd/base/error.h"
#include "kernels/fft.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/number_types.h"
#include "ops/linalg/gradient.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

using Complex = std::complex<double>;
using Line = std::vector<Complex>;

enum class FftType : uint8_t { fft, ifft, rfft, irfft };

FftType type_of(const Node& node) {
  const std::string& name = node.attrs.scalar->fft_type;
  if (name == "FFT") return FftType::fft;
  if (name == "IFFT") return FftType::ifft;
  if (name == "RFFT") return FftType::rfft;
  if (name == "IRFFT") return FftType::irfft;
  user_error("fft: fft_type={}; it is FFT, IFFT, RFFT or IRFFT", name);
}

Shape infer_fft(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  const Dims& lengths = node.attrs.dimensions;
  const FftType type = type_of(node);
  const auto count = static_cast<int64_t>(lengths.size());
  if (count < 1 || count > 3 || count > x.rank())
    user_error("fft: fft_length={} of operand {}; 1 to 3 of its dims are transformed",
               braces(lengths), to_string(x));
  const bool real = type == FftType::rfft;
  if (real ? x.dtype != DType::f32 && x.dtype != DType::f64 : !is_complex(x.dtype))
    user_error("fft: {} of operand {}; it needs {} elements", node.attrs.scalar->fft_type,
               to_string(x), real ? "f32 or f64" : "c64 or c128");
  Shape result = x;
  result.layout.clear();
  const auto first = static_cast<size_t>(x.rank() - count);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const bool last = i + 1 == lengths.size();
    const int64_t half = lengths[i] == 0 ? 0 : lengths[i] / 2 + 1;
    const int64_t wanted = last && type == FftType::irfft ? half : lengths[i];
    if (lengths[i] < 0 || x.dims[first + i] != wanted)
      user_error("fft: {} with fft_length={} needs {} elements in dim {} of operand {}",
                 node.attrs.scalar->fft_type, braces(lengths), wanted, first + i, to_string(x));
    if (last && real) result.dims[first + i] = half;
    if (last && type == FftType::irfft) result.dims[first + i] = lengths[i];
  }
  if (real) result.dtype = x.dtype == DType::f32 ? DType::c64 : DType::c128;
  if (type == FftType::irfft) result.dtype = x.dtype == DType::c64 ? DType::f32 : DType::f64;
  return checked_size(node, std::move(result));
}

FactorRule fft_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  const int64_t first = node.rank() - static_cast<int64_t>(node.attrs.dimensions.size());
  for (int64_t d = 0; d < node.rank(); ++d) {
    if (d >= first) {
      block_operand(rule, node, 0, d);
      block_result(rule, node, d);
    } else {
      rule.operands[0][static_cast<size_t>(d)] = rule.results[0][static_cast<size_t>(d)] =
          add_factor(rule, node.dim(d));
    }
  }
  return rule;
}

Complex product(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Transforms of one length and sign (-1 forward, +1 backward, neither scaled).
class Transform {
 public:
  Transform(int64_t n, int sign) : n_(n), sign_(sign) {
    if (n < 2) return;
    size_ = 1;
    while (size_ < n) size_ *= 2;
    if (size_ != n) {  // Bluestein: a product of chirps, by transforms of a power of two
      while (size_ < 2 * n - 1) size_ *= 2;
      prepare_chirp();
    }
    roots_ = roots(size_, size_ == n ? sign : -1);
  }

  void run(Line& x) {
    if (n_ < 2) return;
    if (chirp_.empty())
      radix2(x, roots_);
    else
      bluestein(x);
  }

 private:
  static Line roots(int64_t n, int sign) {
    Line out;
    for (int64_t k = 0; k < n / 2; ++k) out.push_back(root_of_unity(k, n, sign));
    return out;
  }

  void prepare_chirp() {
    // k * k modulo 2n, without its overflow.
    int64_t square = 0;
    for (int64_t k = 0; k < n_; ++k) {
      chirp_.push_back(root_of_unity(square, 2 * n_, sign_));  // a full turn is 2n
      square = (square + 2 * k + 1) % (2 * n_);
    }
    spectrum_.assign(static_cast<size_t>(size_), Complex());
    spectrum_[0] = std::conj(chirp_[0]);
    for (int64_t k = 1; k < n_; ++k)
      spectrum_[static_cast<size_t>(k)] = spectrum_[static_cast<size_t>(size_ - k)] =
          std::conj(chirp_[static_cast<size_t>(k)]);
    radix2(spectrum_, roots(size_, -1));
  }

  static void radix2(Line& x, const Line& roots) {
    const size_t n = x.size();
    for (size_t i = 1, j = 0; i < n; ++i) {
      size_t bit = n >> 1;
      for (; (j & bit) != 0; bit >>= 1) j ^= bit;
      j |= bit;
      if (i < j) std::swap(x[i], x[j]);
    }
    for (size_t half = 1; half < n; half *= 2)
      for (size_t begin = 0; begin < n; begin += 2 * half)
        for (size_t k = 0; k < half; ++k) {
          const Complex even = x[begin + k];
          const Complex odd = product(x[begin + half + k], roots[k * (n / (2 * half))]);
          x[begin + k] = even + odd;
          x[begin + half + k] = even - odd;
        }
  }

  void bluestein(Line& x) {
    Line work(static_cast<size_t>(size_));
    for (size_t k = 0; k < x.size(); ++k) work[k] = product(x[k], chirp_[k]);
    radix2(work, roots_);
    // The inverse transform as the conjugate of the forward one.
    for (size_t k = 0; k < work.size(); ++k) work[k] = std::conj(product(work[k], spectrum_[k]));
    radix2(work, roots_);
    const double scale = 1 / static_cast<double>(size_);
    for (size_t k = 0; k < x.size(); ++k) x[k] = product(std::conj(work[k]) * scale, chirp_[k]);
  }

  int64_t n_, size_ = 1;
  int sign_;
  Line roots_, chirp_, spectrum_;
};

// Transforms dim `d` of dense values.
void transform_dim(Line& values, const Dims& dims, size_t d, int sign) {
  int64_t inner = 1;
  for (size_t i = d + 1; i < dims.size(); ++i) inner *= dims[i];
  Transform transform(dims[d], sign);
  Line line(static_cast<size_t>(dims[d]));
  const auto size = static_cast<int64_t>(values.size());
  for (int64_t outer = 0; outer < size; outer += dims[d] * inner)
    for (int64_t i = 0; i < inner; ++i) {
      for (size_t k = 0; k < line.size(); ++k)
        line[k] = values[static_cast<size_t>(outer + static_cast<int64_t>(k) * inner + i)];
      transform.run(line);
      for (size_t k = 0; k < line.size(); ++k)
        values[static_cast<size_t>(outer + static_cast<int64_t>(k) * inner + i)] = line[k];
    }
}

// Rows of n values from the first half + 1 of their spectra, whose other half mirrors it; the parts
// of the spectrum that have to be real are taken as real.
Line mirrored_rows(const Line& values, int64_t n) {
  const int64_t half = n / 2 + 1;
  Line out;
  out.reserve(values.size() / static_cast<size_t>(half) * static_cast<size_t>(n));
  for (size_t row = 0; row < values.size(); row += static_cast<size_t>(half)) {
    for (int64_t k = 0; k < n; ++k) {
      const bool real = k == 0 || 2 * k == n;
      const Complex value = values[row + static_cast<size_t>(k < half ? k : n - k)];
      out.push_back(real ? Complex(value.real(), 0) : k < half ? value : std::conj(value));
    }
  }
  return out;
}

Line first_halves(const Line& values, int64_t n) {
  Line out;
  for (size_t row = 0; row < values.size(); row += static_cast<size_t>(n))
    out.insert(out.end(), values.begin() + static_cast<std::ptrdiff_t>(row),
               values.begin() + static_cast<std::ptrdiff_t>(row) + n / 2 + 1);
  return out;
}

Value evaluate_fft(const EvalContext& context) {
  const Node& node = context.node;
  const Array& x = context.operands[0].array;
  const Array result(node.shape);
  if (result.size() == 0) return {result, {}, false};
  const FftType type = type_of(node);
  const bool inverse = type == FftType::ifft || type == FftType::irfft;
  const int sign = inverse ? 1 : -1;
  Line values = to_accumulators<Complex>(x);
  Dims dims = x.dims();
  const size_t first = dims.size() - node.attrs.dimensions.size(), last = dims.size() - 1;
  // The half spectrum is that of the last dim: cut first, or mirrored last.
  if (type == FftType::rfft) {
    transform_dim(values, dims, last, sign);
    values = first_halves(values, dims[last]);
    dims[last] = dims[last] / 2 + 1;
  }
  for (size_t d = first; d < last; ++d) transform_dim(values, dims, d, sign);
  if (type == FftType::irfft) {
    dims[last] = node.attrs.dimensions.back();
    values = mirrored_rows(values, dims[last]);
  }
  if (type != FftType::rfft) transform_dim(values, dims, last, sign);
  double scale = 1;
  if (inverse)
    for (const int64_t n : node.attrs.dimensions) scale /= static_cast<double>(n);
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < out.size(); ++i) {
      if constexpr (is_complex_v<T>)
        out[i] = from_accumulator<T>(values[i] * scale);
      else if constexpr (std::is_floating_point_v<T>)
        out[i] = static_cast<T>(values[i].real() * scale);
    }
  });
  return {result, {}, false};
}

PreparedKernel lower_fft(const Node& node) {
  const Shape& x = node.operand(0)->shape;
  if (node.shape.elements_count() == 0 || x.elements_count() == 0) return {};
  FftSpec spec;
  switch (type_of(node)) {
    case FftType::fft:
      spec.kind = FftKind::forward;
      break;
    case FftType::ifft:
      spec.kind = FftKind::backward;
      break;
    case FftType::rfft:
      spec.kind = FftKind::real_forward;
      break;
    case FftType::irfft:
      spec.kind = FftKind::real_backward;
      break;
  }
  spec.is_double = x.dtype == DType::f64 || x.dtype == DType::c128;
  spec.lengths = node.attrs.dimensions;
  for (int64_t d = 0; d + std::ssize(spec.lengths) < x.rank(); ++d)
    spec.batch *= x.dims[static_cast<size_t>(d)];
  return prepare_fft(spec);
}

// 5 n log n, the count that transforms are quoted with.
int64_t fft_flops(const Node& node) {
  int64_t levels = 0;
  for (const int64_t n : node.attrs.dimensions)
    for (int64_t size = 1; size < n && levels < 200; size *= 2) ++levels;
  return saturating_multiply(saturating_multiply(5, levels), node.shape.elements_count());
}

const OpInfo kFftRows[] = {
    {.opcode = Opcode::fft,
     .operands = {1, 1},
     .infer = infer_fft,
     .factors = fft_factors,
     .evaluate = evaluate_fft,
     .gradient = fft_gradient,
     .completion = kPointwiseCompletion,
     .partition = partition_fft,
     .lower = lower_fft,
     .flops = fft_flops,
     .batch = batch_as_it_is},
};

}  // namespace

std::span<const OpInfo> fft_rows() { return kFftRows; }

}  // namespace gspmd
