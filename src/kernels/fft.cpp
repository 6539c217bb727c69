#include "kernels/fft.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/lines.h"

namespace gspmd {

std::complex<double> root_of_unity(int64_t k, int64_t n, int sign) {
  int64_t angle = 8 * k;  // a full turn is 8n
  if (angle > 4 * n) {
    angle = 8 * n - angle;
    sign = -sign;
  }
  const bool left = angle > 2 * n;
  if (left) angle = 4 * n - angle;
  const bool steep = angle > n;
  if (steep) angle = 2 * n - angle;
  const double radians =
      0.78539816339744830962 * static_cast<double>(angle) / static_cast<double>(n);
  const double c = std::cos(radians), s = std::sin(radians);
  const double x = steep ? s : c, y = steep ? c : s;
  return {left ? -x : x, sign * y};
}

namespace {

constexpr int64_t kMostBufferBytes = int64_t{32} << 20;  // of a buffer

template <class T>
void append(std::vector<T>& out, std::complex<double> root) {
  out.push_back(static_cast<T>(root.real()));
  out.push_back(static_cast<T>(root.imag()));
}

// Factors 4, 2, 3 and 5; empty where there are others.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> radices;
  for (const int64_t radix : {4, 2, 3, 5})
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  return n == 1 ? radices : std::vector<int64_t>{};
}

template <class T>
void add_twiddles(FftPlan<T>& plan) {
  int64_t length = plan.n;
  for (const int64_t radix : plan.radices) {
    for (int64_t p = 0; p < length / radix; ++p)
      for (int64_t j = 1; j < radix; ++j)
        append(plan.twiddles, root_of_unity(j * p % length, length, plan.sign));
    length /= radix;
  }
}

// Memory of the loops: whole vectors.
template <class T>
struct alignas(64) LaneElement {
  T numbers[2 * kFftLanes];
};

template <class T>
std::shared_ptr<FftPlan<T>> make_plan(int64_t n, int sign);

template <class T>
void add_chirp(FftPlan<T>& plan) {
  int64_t size = 1;
  while (size < 2 * plan.n - 1) size *= 2;
  std::vector<std::complex<double>> chirp;
  int64_t square = 0;  // k * k modulo 2n
  for (int64_t k = 0; k < plan.n; ++k) {
    chirp.push_back(root_of_unity(square, 2 * plan.n, plan.sign));
    append(plan.chirp, chirp.back());
    square = (square + 2 * k + 1) % (2 * plan.n);
  }
  std::vector<LaneElement<double>> x(static_cast<size_t>(size)), work(x.size());
  for (LaneElement<double>& element : x) std::fill_n(element.numbers, 2 * kFftLanes, 0.0);
  for (int64_t k = 0; k < plan.n; ++k)
    for (const int64_t at : {k, (size - k) % size}) {
      x[static_cast<size_t>(at)].numbers[0] = chirp[static_cast<size_t>(k)].real();
      x[static_cast<size_t>(at)].numbers[kFftLanes] = -chirp[static_cast<size_t>(k)].imag();
    }
  fft_loops(double{}).transform(*make_plan<double>(size, -1), x[0].numbers, work[0].numbers);
  for (const LaneElement<double>& element : x)
    append(plan.spectrum, std::complex<double>{element.numbers[0], element.numbers[kFftLanes]});
  plan.forward = make_plan<T>(size, -1);
}

template <class T>
std::shared_ptr<FftPlan<T>> make_plan(int64_t n, int sign) {
  auto plan = std::make_shared<FftPlan<T>>();
  plan->n = n;
  plan->sign = sign;
  if (n < 2) return plan;
  plan->radices = radices_of(n);
  if (plan->radices.empty())
    add_chirp(*plan);
  else
    add_twiddles(*plan);
  return plan;
}

// A transform of arrays, dim by dim.
template <class T>
class Fft {
 public:
  explicit Fft(const FftSpec& spec)
      : spec_(spec),
        n_(spec.lengths.back()),
        is_real_(spec.kind == FftKind::real_forward || spec.kind == FftKind::real_backward),
        backward_(spec.kind == FftKind::backward || spec.kind == FftKind::real_backward),
        pairs_(is_real_ && n_ % 2 == 0),
        loops_(fft_loops(T{})) {
    const int sign = backward_ ? 1 : -1;
    for (size_t d = 0; d + 1 < spec.lengths.size(); ++d) {
      outer_.push_back(make_plan<T>(spec.lengths[d], sign));
      rows_ *= spec.lengths[d];
    }
    const auto last = make_plan<T>(pairs_ ? n_ / 2 : n_, sign);
    for (int64_t k = 0; pairs_ && k <= n_ / 2; ++k)
      append(last->halves, root_of_unity(k, n_, sign));
    last_ = last;
    spectrum_ = is_real_ ? n_ / 2 + 1 : n_;
    for (const auto& plan : outer_) room_ = std::max(room_, plan->size());
    room_ = std::max({room_, last_->size() + 1, n_});
    if (backward_)
      for (const int64_t length : spec.lengths) scale_ /= static_cast<double>(length);
  }

  int64_t rows() const { return rows_; }
  int64_t buffer_bytes() const {
    return in_lines(room_ * static_cast<int64_t>(sizeof(LaneElement<T>)));
  }
  // Of the spectrum of one array on its way to a real one.
  int64_t copy_bytes() const {
    const bool copies = spec_.kind == FftKind::real_backward && !outer_.empty();
    return copies ? in_lines(rows_ * spectrum_ * 2 * static_cast<int64_t>(sizeof(T))) : 0;
  }

  // Lines [first, last) of all arrays, where they are one-dimensional.
  void run_lines(const std::byte* in, std::byte* out, int64_t first, int64_t last,
                 std::byte* scratch, double scale) const {
    const int64_t in_line = spec_.kind == FftKind::real_forward ? n_ : 2 * spectrum_;
    const int64_t out_line = spec_.kind == FftKind::real_backward ? n_ : 2 * spectrum_;
    T* const x = reinterpret_cast<T*>(scratch);
    T* const work = reinterpret_cast<T*>(scratch + buffer_bytes());
    for (int64_t line = first; line < last; line += kFftLanes) {
      const int64_t lanes = std::min(kFftLanes, last - line);
      read_lines(reinterpret_cast<const T*>(in) + line * in_line, in_line, lanes, x);
      run_last(x, work);
      write_lines(x, lanes, static_cast<T>(scale), reinterpret_cast<T*>(out) + line * out_line,
                  out_line);
    }
  }

  // One array of several dims.
  void run_array(const std::byte* in, std::byte* out, std::byte* scratch) const {
    if (spec_.kind == FftKind::real_backward) {
      std::byte* const copy = scratch + 2 * buffer_bytes();
      std::memcpy(copy, in, static_cast<size_t>(rows_ * spectrum_ * 2) * sizeof(T));
      run_columns(copy, scratch);
      run_lines(copy, out, 0, rows_, scratch, scale_);
    } else {
      run_lines(in, out, 0, rows_, scratch, scale_);
      run_columns(out, scratch);
    }
  }
  double scale() const { return scale_; }

 private:
  // Numbers of a line of `count` to lanes: number i of line l at i * kFftLanes + l.
  static void turn(const T* from, int64_t from_line, int64_t from_step, T* to, int64_t to_line,
                   int64_t to_step, int64_t count, int64_t lanes) {
    const StridedCopy copy = simplified({static_cast<int64_t>(sizeof(T)),
                                         {lanes, count},
                                         {from_line, from_step},
                                         {to_line, to_step}});
    run_copy(copy, reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(to));
  }

  void read_lines(const T* in, int64_t line, int64_t lanes, T* x) const {
    const bool complex = spec_.kind != FftKind::real_forward || pairs_;
    if (lanes < kFftLanes) std::fill_n(x, room_ * 2 * kFftLanes, T(0));
    if (complex) return turn(in, line, 1, x, 1, kFftLanes, line, lanes);
    std::fill_n(x, n_ * 2 * kFftLanes, T(0));
    turn(in, line, 1, x, 1, 2 * kFftLanes, n_, lanes);
  }

  void write_lines(T* x, int64_t lanes, T scale, T* out, int64_t line) const {
    const bool real = spec_.kind == FftKind::real_backward;
    if (scale != T(1))
      for (int64_t i = 0; i < (real && pairs_ ? n_ : 2 * spectrum_of_lanes()) * kFftLanes; ++i)
        x[i] *= scale;
    turn(x, 1, real && !pairs_ ? 2 * kFftLanes : kFftLanes, out, line, 1, line, lanes);
  }
  int64_t spectrum_of_lanes() const {
    return spec_.kind == FftKind::real_backward ? n_ : spectrum_;
  }

  void run_last(T* x, T* work) const {
    if (spec_.kind == FftKind::real_backward && pairs_) loops_.join_pairs(*last_, x);
    if (spec_.kind == FftKind::real_backward && !pairs_) mirror(x);
    loops_.transform(*last_, x, work);
    if (spec_.kind == FftKind::real_forward && pairs_) loops_.split_pairs(*last_, x);
  }

  // The other half of the spectrum of a real line of odd length.
  void mirror(T* x) const {
    constexpr int64_t kElement = 2 * kFftLanes;
    std::fill_n(x + kFftLanes, kFftLanes, T(0));
    for (int64_t k = spectrum_; k < n_; ++k)
      for (int64_t i = 0; i < kElement; ++i) {
        const T value = x[(n_ - k) * kElement + i];
        x[k * kElement + i] = i < kFftLanes ? value : -value;
      }
  }

  // All dims but the last one of an array of complex numbers, in place.
  void run_columns(std::byte* array, std::byte* scratch) const {
    T* const x = reinterpret_cast<T*>(scratch);
    T* const work = reinterpret_cast<T*>(scratch + buffer_bytes());
    T* const numbers = reinterpret_cast<T*>(array);
    int64_t before = 1, inner = rows_ * spectrum_;
    for (const auto& plan : outer_) {
      inner /= plan->n;
      for (int64_t b = 0; b < before; ++b)
        for (int64_t column = 0; column < inner; column += kFftLanes) {
          const int64_t lanes = std::min(kFftLanes, inner - column);
          T* const first = numbers + 2 * (b * plan->n * inner + column);
          loops_.read_columns(first, 2 * inner, plan->n, lanes, x);
          loops_.transform(*plan, x, work);
          loops_.write_columns(x, 2 * inner, plan->n, lanes, T(1), first);
        }
      before *= plan->n;
    }
  }

  FftSpec spec_;
  int64_t n_;
  bool is_real_, backward_, pairs_;
  const FftLoops<T>& loops_;
  std::vector<std::shared_ptr<const FftPlan<T>>> outer_;
  std::shared_ptr<const FftPlan<T>> last_;
  int64_t rows_ = 1, spectrum_ = 0, room_ = 1;
  double scale_ = 1;
};

template <class T>
PreparedKernel prepare_typed(const FftSpec& spec) {
  const auto fft = std::make_shared<const Fft<T>>(spec);
  if (fft->buffer_bytes() > kMostBufferBytes || fft->copy_bytes() > kMostBufferBytes) return {};
  const bool lines = spec.lengths.size() == 1;
  const int64_t n = spec.lengths.back(), half = n / 2 + 1;
  const bool from_real = spec.kind == FftKind::real_forward;
  const bool to_real = spec.kind == FftKind::real_backward;
  const int64_t in_bytes = fft->rows() *
                           (from_real ? n
                            : to_real ? 2 * half
                                      : 2 * n) *
                           static_cast<int64_t>(sizeof(T));
  const int64_t out_bytes = fft->rows() *
                            (to_real     ? n
                             : from_real ? 2 * half
                                         : 2 * n) *
                            static_cast<int64_t>(sizeof(T));
  // Lines in groups as they go side by side.
  const int64_t pieces = lines ? ceil_div(spec.batch, kFftLanes) : spec.batch;
  PreparedKernel kernel;
  kernel.scratch_bytes = 2 * fft->buffer_bytes() + fft->copy_bytes();
  kernel.cost = 1000 + 3.0 * static_cast<double>(spec.batch) * static_cast<double>(fft->rows()) *
                           static_cast<double>(n);
  kernel.parts = std::clamp<int64_t>(pieces, 1, 8);
  kernel.run = [=, batch = spec.batch, parts = kernel.parts](const KernelArgs& args) {
    const int64_t first = args.part * pieces / parts, last = (args.part + 1) * pieces / parts;
    if (lines)
      return fft->run_lines(args.operands[0], args.results[0], first * kFftLanes,
                            std::min(batch, last * kFftLanes), args.scratch, fft->scale());
    for (int64_t i = first; i < last; ++i)
      fft->run_array(args.operands[0] + i * in_bytes, args.results[0] + i * out_bytes,
                     args.scratch);
  };
  return kernel;
}

}  // namespace

PreparedKernel prepare_fft(const FftSpec& spec) {
  return spec.is_double ? prepare_typed<double>(spec) : prepare_typed<float>(spec);
}

}  // namespace gspmd
