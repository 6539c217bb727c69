// Sums over windows of planes, eight vectors of positions at a time.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window_sums.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "gspmd/base/shape.h"
#include "kernels/window_planes.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kWindowJobs = 8;  // vectors of sums that wait for nothing but their own

// to[i] = from[i * stride] for i < n.
template <class T>
void copy_phase(const T* from, int64_t stride, int64_t n, T* to) {
  if (stride == 1) {
    std::copy_n(from, n, to);
    return;
  }
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if (stride == 2) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes < n; i += lanes)  // what is read behind the last element is not the row's last
      hn::StoreU(hn::ConcatEven(d, hn::LoadU(d, from + 2 * i + lanes), hn::LoadU(d, from + 2 * i)),
                 d, to + i);
    if (i > 0) {  // up to the last, and one before the first
      const T* const last = from + 2 * (n - lanes) - 1;
      hn::StoreU(hn::ConcatOdd(d, hn::LoadU(d, last + lanes), hn::LoadU(d, last)), d,
                 to + n - lanes);
      return;
    }
  }
#endif
  for (; i < n; ++i) to[i] = from[i * stride];
}

// What a band reads of a plane, between what adds nothing.
template <class T>
void lay_out_band(const WindowPlanes& e, const WindowLayout& l, int64_t band, const T* x, T* to) {
  const WindowPlanes::Axis &outer = e.axes[0], &middle = e.axes[1], &inner = e.axes[2];
  const int64_t first_row = band * l.band * middle.stride - middle.pad;
  for (int64_t p = 0; p < l.planes; ++p) {
    const int64_t plane = p - outer.pad;
    if (plane < 0 || plane >= outer.input) continue;
    for (int64_t r = 0; r < l.rows; ++r) {
      const int64_t row = first_row + r;
      if (row < 0 || row >= middle.input) continue;
      const T* const from = x + plane * outer.x_step + row * middle.x_step;
      T* at = to + (p * l.rows + r) * l.row();
      for (const WindowLayout::Phase& phase : l.phases) {
        if (phase.begin < phase.end)
          copy_phase(from + phase.from, inner.stride, phase.end - phase.begin, at + phase.begin);
        at += l.width;
      }
    }
  }
}

// Vectors of positions: where the first tap of each reads, and where its sums go.
template <class T>
struct WindowJobs {
  const T* from[kWindowJobs];
  T* to[kWindowJobs];
  int64_t count = 0;
};

// `end`: of the band's sums, behind which nothing may be written; `partial`: of the last vector.
template <bool kWeighed, class T>
void run_jobs(const WindowJobs<T>& jobs, const WindowLayout& l, const T* weights, T init, T* end,
              int64_t partial) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t* const taps = l.taps.data();
  const auto count = static_cast<int64_t>(l.taps.size());
  const auto add = [&](auto sum, const T* from, [[maybe_unused]] auto w) HWY_ATTR {
    if constexpr (kWeighed)
      return hn::MulAdd(hn::LoadU(d, from), w, sum);
    else
      return hn::Add(sum, hn::LoadU(d, from));
  };
  const auto store = [&](auto sum, T* to) HWY_ATTR {
    if (to + lanes <= end) return hn::StoreU(sum, d, to);  // what comes behind is written later
    HWY_ALIGN T last[HWY_LANES(T)];
    hn::Store(sum, d, last);
    std::copy_n(last, std::min<int64_t>(partial, end - to), to);
  };
  const auto start = hn::Set(d, init);
  int64_t n = 0;
  if (jobs.count == kWindowJobs) {
    const T* const* const x = jobs.from;
    auto a = start, b = start, c = start, e = start, f = start, g = start, h = start, i = start;
    for (int64_t t = 0; t < count; ++t) {
      const auto w = hn::Set(d, kWeighed ? weights[t] : init);
      const int64_t at = taps[t];
      a = add(a, x[0] + at, w);
      b = add(b, x[1] + at, w);
      c = add(c, x[2] + at, w);
      e = add(e, x[3] + at, w);
      f = add(f, x[4] + at, w);
      g = add(g, x[5] + at, w);
      h = add(h, x[6] + at, w);
      i = add(i, x[7] + at, w);
    }
    store(a, jobs.to[0]);
    store(b, jobs.to[1]);
    store(c, jobs.to[2]);
    store(e, jobs.to[3]);
    store(f, jobs.to[4]);
    store(g, jobs.to[5]);
    store(h, jobs.to[6]);
    store(i, jobs.to[7]);
    return;
  }
  const int64_t few = std::min(jobs.count, kWindowJobs - 1);
  for (; n + 2 <= few; n += 2) {
    auto a = start, b = start;
    for (int64_t t = 0; t < count; ++t) {
      const auto w = hn::Set(d, kWeighed ? weights[t] : init);
      a = add(a, jobs.from[n] + taps[t], w);
      b = add(b, jobs.from[n + 1] + taps[t], w);
    }
    store(a, jobs.to[n]);
    store(b, jobs.to[n + 1]);
  }
  for (; n < few; ++n) {
    auto a = start;
    for (int64_t t = 0; t < count; ++t)
      a = add(a, jobs.from[n] + taps[t], hn::Set(d, kWeighed ? weights[t] : init));
    store(a, jobs.to[n]);
  }
}

// The sums of a band whose elements are laid out.
template <bool kWeighed, class T>
void sum_band(const WindowPlanes& e, const WindowLayout& l, int64_t band, const T* x,
              const T* weights, T init, T* y) {
  const WindowPlanes::Axis &outer = e.axes[0], &middle = e.axes[1], &inner = e.axes[2];
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t vectors = ceil_div(inner.positions, lanes);
  const int64_t partial = inner.positions - (vectors - 1) * lanes;
  const int64_t first = band * l.band, last = std::min(first + l.band, middle.positions);
  WindowJobs<T> jobs;
  for (int64_t p = 0; p < outer.positions; ++p) {
    T* const plane = y + p * middle.positions * inner.positions;
    T* const end = plane + last * inner.positions;
    for (int64_t r = first; r < last; ++r) {
      const T* const from = x + (p * outer.stride * l.rows + (r - first) * middle.stride) * l.row();
      T* const to = plane + r * inner.positions;
      for (int64_t v = 0; v < vectors; ++v) {
        jobs.from[jobs.count] = from + v * lanes;
        jobs.to[jobs.count++] = to + v * lanes;
        if (jobs.count < kWindowJobs) continue;
        run_jobs<kWeighed>(jobs, l, weights, init, end, partial);
        jobs.count = 0;
      }
    }
    run_jobs<kWeighed>(jobs, l, weights, init, end, partial);
    jobs.count = 0;
  }
}

template <class T, bool kWeighed>
void window_sums(const WindowPlanes& e, const WindowLayout& l, int64_t first, int64_t last,
                 const KernelArgs& args) {
  const auto* const x = reinterpret_cast<const T*>(args.operands[0]);
  const auto* const w = reinterpret_cast<const T*>(args.operands[1]);
  auto* const y = reinterpret_cast<T*>(args.results[0]);
  auto* const laid_out = reinterpret_cast<T*>(args.scratch);
  T* const weights = laid_out + l.elements();
  T nothing{}, init{};
  if constexpr (!kWeighed) {
    nothing = static_cast<T>(-nothing);  // of floats -0, which leaves a -0 as it is
    std::memcpy(&init, w, sizeof init);
  }
  int64_t filled = -1;  // the band around which nothing has been laid out
  for (int64_t unit = first; unit < last; ++unit) {
    const int64_t band = unit / e.planes(), plane = unit % e.planes();
    const int64_t image = plane / e.channels, channel = plane % e.channels;
    if (band != filled) std::fill_n(laid_out, l.elements(), nothing);
    filled = band;
    lay_out_band(e, l, band, x + image * e.x_image + channel / e.sharing * e.x_channel, laid_out);
    if constexpr (kWeighed)
      for (size_t t = 0; t < e.w_taps.size(); ++t)
        weights[t] = w[channel * e.w_channel + e.w_taps[t]];
    sum_band<kWeighed>(e, l, band, laid_out, weights, init,
                       y + image * e.y_image + channel * e.y_channel);
  }
}

}  // namespace

WindowPlanesFunction find_window_sums(DType dtype, bool weighed) {
  if (dtype == DType::f32) return weighed ? window_sums<float, true> : window_sums<float, false>;
  if (weighed) return nullptr;
  if (dtype == DType::f64) return window_sums<double, false>;
  if (dtype == DType::s32) return window_sums<int32_t, false>;
  return nullptr;
}

int64_t find_window_lanes(DType dtype) {
  if (dtype == DType::f64) return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>()));
  return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_window_sums);
HWY_EXPORT(find_window_lanes);

WindowPlanesFunction window_planes_function(DType dtype, bool weighed) {
  return HWY_DYNAMIC_DISPATCH(find_window_sums)(dtype, weighed);
}
int64_t window_lanes(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_window_lanes)(dtype); }

}  // namespace gspmd
#endif
