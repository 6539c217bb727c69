// Butterflies on vectors of lines.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fft_loops.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <utility>

#include "kernels/fft.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kElement = 2 * kFftLanes;  // numbers of one element of all lines

template <class T>
using Tag = hn::CappedTag<T, kFftLanes>;
template <class T>
using Vector = hn::Vec<Tag<T>>;

template <class T>
struct Complex {
  Vector<T> re, im;
};
template <class T>
Complex<T> load(const T* x) {
  const Tag<T> d;
  return {hn::Load(d, x), hn::Load(d, x + kFftLanes)};
}
template <class T>
void store(Complex<T> z, T* x) {
  const Tag<T> d;
  hn::Store(z.re, d, x);
  hn::Store(z.im, d, x + kFftLanes);
}
template <class T>
Complex<T> add(Complex<T> a, Complex<T> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class T>
Complex<T> subtract(Complex<T> a, Complex<T> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class T>
Complex<T> times(Complex<T> z, T re, T im) {
  const Tag<T> d;
  const auto c = hn::Set(d, re), s = hn::Set(d, im);
  return {hn::NegMulAdd(z.im, s, hn::Mul(z.re, c)), hn::MulAdd(z.im, c, hn::Mul(z.re, s))};
}
template <class T>
Complex<T> scaled(Complex<T> z, T by) {
  const auto v = hn::Set(Tag<T>(), by);
  return {hn::Mul(z.re, v), hn::Mul(z.im, v)};
}
template <class T>
Complex<T> times_i(Complex<T> z, T sign) {  // sign * i * z
  const auto v = hn::Set(Tag<T>(), sign);
  return {hn::Neg(hn::Mul(z.im, v)), hn::Mul(z.re, v)};
}

// a[j] becomes the sum over k of a[k] e^(sign 2 pi i j k / kRadix).
template <int kRadix, class T>
void butterfly(Complex<T>* a, T sign) {
  if constexpr (kRadix == 2) {
    const Complex<T> sum = add(a[0], a[1]);
    a[1] = subtract(a[0], a[1]);
    a[0] = sum;
  } else if constexpr (kRadix == 3) {
    const Complex<T> sum = add(a[1], a[2]);
    const Complex<T> turned =
        times_i(subtract(a[1], a[2]), sign * static_cast<T>(0.86602540378443864676));
    const Complex<T> middle = subtract(a[0], scaled(sum, T(0.5)));
    a[0] = add(a[0], sum);
    a[1] = add(middle, turned);
    a[2] = subtract(middle, turned);
  } else if constexpr (kRadix == 4) {
    const Complex<T> even = add(a[0], a[2]), even_rest = subtract(a[0], a[2]);
    const Complex<T> odd = add(a[1], a[3]), odd_rest = times_i(subtract(a[1], a[3]), sign);
    a[0] = add(even, odd);
    a[1] = add(even_rest, odd_rest);
    a[2] = subtract(even, odd);
    a[3] = subtract(even_rest, odd_rest);
  } else {
    static_assert(kRadix == 5);
    constexpr T kC1 = static_cast<T>(0.30901699437494742410);   // cos of a fifth of a turn
    constexpr T kC2 = static_cast<T>(-0.80901699437494742410);  // of two fifths
    const T s1 = sign * static_cast<T>(0.95105651629515357212);
    const T s2 = sign * static_cast<T>(0.58778525229247312917);
    const Complex<T> p = add(a[1], a[4]), q = add(a[2], a[3]);
    const Complex<T> u = subtract(a[1], a[4]), v = subtract(a[2], a[3]);
    const Complex<T> x = add(a[0], add(scaled(p, kC1), scaled(q, kC2)));
    const Complex<T> y = add(a[0], add(scaled(p, kC2), scaled(q, kC1)));
    const Complex<T> xi = add(times_i(u, s1), times_i(v, s2));
    const Complex<T> yi = subtract(times_i(u, s2), times_i(v, s1));
    a[0] = add(a[0], add(p, q));
    a[1] = add(x, xi);
    a[2] = add(y, yi);
    a[3] = subtract(y, yi);
    a[4] = subtract(x, xi);
  }
}

// One step: of `length` elements in each of `stride` interleaved transforms, kRadix parts become
// one: y[stride (kRadix p + j)] = e^(... j p / length) times the sum over parts k of
// x[stride (p + k m)].
template <int kRadix, class T>
void step(const T* x, T* y, int64_t length, int64_t stride, const T* twiddles, T sign) {
  const int64_t m = length / kRadix;
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  for (int64_t p = 0; p < m; ++p, twiddles += 2 * (kRadix - 1)) {
    for (int64_t q = 0; q < stride; ++q) {
      const T* const from = x + (q + stride * p) * kElement;
      T* const to = y + (q + stride * kRadix * p) * kElement;
      for (int64_t lane = 0; lane < kFftLanes; lane += lanes) {
        Complex<T> a[kRadix];
        for (int k = 0; k < kRadix; ++k) a[k] = load(from + k * stride * m * kElement + lane);
        butterfly<kRadix>(a, sign);
        store(a[0], to + lane);
        for (int j = 1; j < kRadix; ++j)
          store(times(a[j], twiddles[2 * j - 2], twiddles[2 * j - 1]),
                to + j * stride * kElement + lane);
      }
    }
  }
}

// f(element k of all lines) for each of n, a vector at a time.
template <class T, class F>
void for_each_vector(int64_t n, F&& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  for (int64_t k = 0; k < n; ++k)
    for (int64_t lane = 0; lane < kFftLanes; lane += lanes) f(k, k * kElement + lane);
}

template <class T>
void by_radices(const FftPlan<T>& plan, T* x, T* work) {
  T *from = x, *to = work;
  int64_t length = plan.n, stride = 1;
  const T* twiddles = plan.twiddles.data();
  const T sign = static_cast<T>(plan.sign);
  for (const int64_t radix : plan.radices) {
    if (radix == 2) step<2>(from, to, length, stride, twiddles, sign);
    if (radix == 3) step<3>(from, to, length, stride, twiddles, sign);
    if (radix == 4) step<4>(from, to, length, stride, twiddles, sign);
    if (radix == 5) step<5>(from, to, length, stride, twiddles, sign);
    length /= radix;
    twiddles += 2 * (radix - 1) * length;
    stride *= radix;
    std::swap(from, to);
  }
  if (from != x) std::copy_n(from, plan.n * kElement, x);
}

// The inverse of the inner transform as the conjugate of the forward one.
template <class T>
void by_chirps(const FftPlan<T>& plan, T* x, T* work) {
  const int64_t size = plan.forward->n;
  for_each_vector<T>(plan.n, [&](int64_t k, int64_t at) {
    store(times(load(x + at), plan.chirp[static_cast<size_t>(2 * k)],
                plan.chirp[static_cast<size_t>(2 * k + 1)]),
          x + at);
  });
  std::fill(x + plan.n * kElement, x + size * kElement, T(0));
  by_radices(*plan.forward, x, work);
  for_each_vector<T>(size, [&](int64_t k, int64_t at) {
    Complex<T> z = times(load(x + at), plan.spectrum[static_cast<size_t>(2 * k)],
                         plan.spectrum[static_cast<size_t>(2 * k + 1)]);
    z.im = hn::Neg(z.im);
    store(z, x + at);
  });
  by_radices(*plan.forward, x, work);
  // conj(z) * c / size.
  for_each_vector<T>(plan.n, [&](int64_t k, int64_t at) {
    Complex<T> z = load(x + at);
    z.im = hn::Neg(z.im);
    const T scale = T(1) / static_cast<T>(size);
    store(times(z, plan.chirp[static_cast<size_t>(2 * k)] * scale,
                plan.chirp[static_cast<size_t>(2 * k + 1)] * scale),
          x + at);
  });
}

template <class T>
void transform(const FftPlan<T>& plan, T* x, T* work) {
  if (plan.n < 2) return;
  if (plan.forward)
    by_chirps(plan, x, work);
  else
    by_radices(plan, x, work);
}

// f(first, second) for pairs k, n - k of elements; of the middle one twice itself.
template <class T, class F>
void for_each_pair(const FftPlan<T>& plan, T* x, F&& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  for (int64_t k = 0; 2 * k <= plan.n; ++k)
    for (int64_t lane = 0; lane < kFftLanes; lane += lanes)
      f(k, x + k * kElement + lane, x + (plan.n - k) * kElement + lane);
}

// X[k] = (Z[k] + conj Z[n-k]) / 2 - i/2 e^(-pi i k / n) (Z[k] - conj Z[n-k]), Z[n] = Z[0].
template <class T>
void split_pairs(const FftPlan<T>& plan, T* x) {
  std::copy_n(x, kElement, x + plan.n * kElement);
  for_each_pair(plan, x, [&](int64_t k, T* first, T* second) {
    const Complex<T> a = load(first);
    Complex<T> b = load(second);
    b.im = hn::Neg(b.im);
    const Complex<T> even = scaled(add(a, b), T(0.5));
    const T re = plan.halves[static_cast<size_t>(2 * k)];
    const T im = plan.halves[static_cast<size_t>(2 * k + 1)];
    const Complex<T> odd = times_i(times(scaled(subtract(a, b), T(0.5)), re, im), T(-1));
    const Complex<T> low = add(even, odd);
    Complex<T> high = subtract(even, odd);
    high.im = hn::Neg(high.im);
    store(high, second);
    store(low, first);
  });
}

// Twice Z[k] = (X[k] + conj X[n-k]) + i e^(pi i k / n) (X[k] - conj X[n-k]); the parts that have to
// be real are taken as real.
template <class T>
void join_pairs(const FftPlan<T>& plan, T* x) {
  std::fill_n(x + kFftLanes, kFftLanes, T(0));
  std::fill_n(x + plan.n * kElement + kFftLanes, kFftLanes, T(0));
  for_each_pair(plan, x, [&](int64_t k, T* first, T* second) {
    const Complex<T> a = load(first);
    Complex<T> b = load(second);
    b.im = hn::Neg(b.im);
    const Complex<T> even = add(a, b);
    const T re = plan.halves[static_cast<size_t>(2 * k)];
    const T im = plan.halves[static_cast<size_t>(2 * k + 1)];
    const Complex<T> odd = times_i(times(subtract(a, b), re, im), T(1));
    const Complex<T> low = add(even, odd);
    Complex<T> high = subtract(even, odd);
    high.im = hn::Neg(high.im);
    store(high, second);
    store(low, first);
  });
}

template <class T>
void read_columns(const T* from, int64_t step, int64_t n, int64_t lanes, T* x) {
  const Tag<T> d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < n; ++k, from += step, x += kElement) {
    if (lanes == kFftLanes) {
      for (int64_t lane = 0; lane < kFftLanes; lane += width) {
        Vector<T> re, im;
        hn::LoadInterleaved2(d, from + 2 * lane, re, im);
        store(Complex<T>{re, im}, x + lane);
      }
      continue;
    }
    for (int64_t lane = 0; lane < kFftLanes; ++lane) {
      x[lane] = lane < lanes ? from[2 * lane] : T(0);
      x[kFftLanes + lane] = lane < lanes ? from[2 * lane + 1] : T(0);
    }
  }
}

template <class T>
void write_columns(const T* x, int64_t step, int64_t n, int64_t lanes, T scale, T* to) {
  const Tag<T> d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < n; ++k, to += step, x += kElement) {
    if (lanes == kFftLanes) {
      for (int64_t lane = 0; lane < kFftLanes; lane += width) {
        const Complex<T> z = scaled(load(x + lane), scale);
        hn::StoreInterleaved2(z.re, z.im, d, to + 2 * lane);
      }
      continue;
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      to[2 * lane] = x[lane] * scale;
      to[2 * lane + 1] = x[kFftLanes + lane] * scale;
    }
  }
}

template <class T>
FftLoops<T> loops_of() {
  return {transform<T>, split_pairs<T>, join_pairs<T>, read_columns<T>, write_columns<T>};
}

}  // namespace

FftLoops<float> find_fft_float() { return loops_of<float>(); }
FftLoops<double> find_fft_double() { return loops_of<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_fft_float);
HWY_EXPORT(find_fft_double);

const FftLoops<float>& fft_loops(float) {
  static const FftLoops<float> loops = HWY_DYNAMIC_DISPATCH(find_fft_float)();
  return loops;
}
const FftLoops<double>& fft_loops(double) {
  static const FftLoops<double> loops = HWY_DYNAMIC_DISPATCH(find_fft_double)();
  return loops;
}

}  // namespace gspmd
#endif
