// Windows of rows, several vectors of a row at once: what is combined stays in registers.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_windows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/extrema-inl.h"
#include "kernels/extrema.h"
#include "kernels/pool_windows.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kAhead = 4096;  // bytes that are fetched ahead

// Integers wrap around.
template <PoolOp kOp, class T>
T pooled(T a, T b) {
  if constexpr (kOp == PoolOp::max) return larger(a, b);
  if constexpr (kOp == PoolOp::min) return smaller(a, b);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  else
    return a + b;
}

// The same of vectors, one after the other.
template <PoolOp kOp, class D>
class PooledVectors {
 public:
  using V = hn::Vec<D>;
  GSPMD_INLINE PooledVectors(D, V first) : value_(first) {}
  GSPMD_INLINE void add(V x) {
    if constexpr (kOp == PoolOp::sum) value_ = hn::Add(value_, x);
    if constexpr (kOp == PoolOp::max) value_ = hn::Max(value_, x);
    if constexpr (kOp == PoolOp::min) value_ = hn::Min(value_, x);
  }
  GSPMD_INLINE V value() const { return value_; }

 private:
  V value_;
};
template <PoolOp kOp, class D>
using Pooled = std::conditional_t<kOp != PoolOp::sum && hwy::IsFloat<hn::TFromD<D>>(),
                                  Extremum<kOp == PoolOp::max, D>, PooledVectors<kOp, D>>;

template <PoolOp kOp, class T>
void pool(const PoolWindow& w, const std::byte* init_bytes, std::byte* out_bytes) {
  const hn::ScalableTag<T> d;
  using P = Pooled<kOp, hn::ScalableTag<T>>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* const in = reinterpret_cast<const T*>(w.in);
  auto* const out = reinterpret_cast<T*>(out_bytes);
  T init;
  std::memcpy(&init, init_bytes, sizeof(T));
  const auto start = hn::Set(d, init);
  int64_t i = 0;
  for (; i + 4 * lanes <= w.inner; i += 4 * lanes) {
    P a(d, start), b(d, start), c(d, start), e(d, start);
    for (int64_t n = 0; n < w.count; ++n) {
      const T* const from = in + w.offsets[n] + i;
      for (int64_t ahead = 0; ahead < 4; ++ahead)
        hwy::Prefetch(from + kAhead / sizeof(T) + ahead * lanes);
      a.add(hn::LoadU(d, from));
      b.add(hn::LoadU(d, from + lanes));
      c.add(hn::LoadU(d, from + 2 * lanes));
      e.add(hn::LoadU(d, from + 3 * lanes));
    }
    hn::StoreU(a.value(), d, out + i);
    hn::StoreU(b.value(), d, out + i + lanes);
    hn::StoreU(c.value(), d, out + i + 2 * lanes);
    hn::StoreU(e.value(), d, out + i + 3 * lanes);
  }
  const auto vector = [&](int64_t at) HWY_ATTR {
    P a(d, start);
    for (int64_t n = 0; n < w.count; ++n) {
      const T* const from = in + w.offsets[n] + at;
      hwy::Prefetch(from + kAhead / sizeof(T));
      a.add(hn::LoadU(d, from));
    }
    hn::StoreU(a.value(), d, out + at);
  };
  for (; i + lanes <= w.inner; i += lanes) vector(i);
  if (i < w.inner && w.inner >= lanes) {  // some of them once more
    vector(w.inner - lanes);
    return;
  }
  for (; i < w.inner; ++i) {
    T a = init;
    for (int64_t n = 0; n < w.count; ++n) a = pooled<kOp>(a, in[w.offsets[n] + i]);
    out[i] = a;
  }
}

// Elements `stride` apart: those of every other element are picked out of two vectors.
template <class D, class T>
GSPMD_INLINE hn::Vec<D> load_apart(D d, const T* from, int64_t stride) {
  if (stride == 1) return hn::LoadU(d, from);
#if HWY_TARGET != HWY_SCALAR
  if (stride == 2) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    return hn::ConcatEven(d, hn::LoadU(d, from + lanes), hn::LoadU(d, from));
  }
#endif
  const hn::RebindToSigned<D> di;
  using Index = hn::TFromD<decltype(di)>;
  return hn::GatherIndex(d, from,
                         hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<Index>(stride))));
}

template <PoolOp kOp, class T>
void pool_line(const PoolLine& line, const std::byte* row_bytes, std::byte* out_bytes) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* const row = reinterpret_cast<const T*>(row_bytes);
  auto* const out = reinterpret_cast<T*>(out_bytes);
  for (int64_t i = 0; i < line.positions; i += lanes) {
    const T* const from = row + i * line.stride;
    Pooled<kOp, hn::ScalableTag<T>> best(d, load_apart(d, from, line.stride));
    for (int64_t k = 1; k < line.count; ++k)
      best.add(load_apart(d, from + k * line.step, line.stride));
    if (i + lanes <= line.positions) {
      hn::StoreU(best.value(), d, out + i);
      continue;
    }
    HWY_ALIGN T last[HWY_LANES(T)];
    hn::Store(best.value(), d, last);
    std::copy_n(last, line.positions - i, out + i);
  }
}

template <class T>
void pool_gradient(const PoolWindow& w, const std::byte* source_bytes, std::byte* out_bytes) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using Index = hn::TFromD<decltype(di)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* const in = reinterpret_cast<const T*>(w.in);
  const auto* const source = reinterpret_cast<const T*>(source_bytes);
  auto* const out = reinterpret_cast<T*>(out_bytes);
  if (w.count == 0) return;
  int64_t i = 0;
  for (; i + lanes <= w.inner; i += lanes) {
    auto best = hn::LoadU(d, in + w.offsets[0] + i);
    auto chosen = hn::Zero(di);
    for (int64_t n = 1; n < w.count; ++n) {
      const auto later = hn::LoadU(d, in + w.offsets[n] + i);
      const auto stays = hn::Ge(best, later);
      best = hn::IfThenElse(stays, best, later);
      chosen =
          hn::IfThenElse(hn::RebindMask(di, stays), chosen, hn::Set(di, static_cast<Index>(n)));
    }
    const auto added = hn::LoadU(d, source + i);
    for (int64_t n = 0; n < w.count; ++n) {
      T* const to = out + w.offsets[n] + i;
      const auto here = hn::RebindMask(d, hn::Eq(chosen, hn::Set(di, static_cast<Index>(n))));
      const auto before = hn::LoadU(d, to);
      hn::StoreU(hn::IfThenElse(here, hn::Add(before, added), before), d, to);
    }
  }
  for (; i < w.inner; ++i) {
    T best = in[w.offsets[0] + i];
    int64_t chosen = 0;
    for (int64_t n = 1; n < w.count; ++n) {
      const T later = in[w.offsets[n] + i];
      if (best >= later) continue;
      best = later;
      chosen = n;
    }
    out[w.offsets[chosen] + i] += source[i];
  }
}

template <class T>
PoolFunctions pool_of(PoolOp op) {
  switch (op) {
    case PoolOp::sum:
      return {pool<PoolOp::sum, T>, nullptr};
    case PoolOp::max:
      return {pool<PoolOp::max, T>, pool_line<PoolOp::max, T>};
    case PoolOp::min:
      return {pool<PoolOp::min, T>, pool_line<PoolOp::min, T>};
  }
  return {};
}

}  // namespace

PoolFunctions find_pool(DType dtype, PoolOp op) {
  if (dtype == DType::f32) return pool_of<float>(op);
  if (dtype == DType::f64) return pool_of<double>(op);
  if (dtype == DType::s32) return pool_of<int32_t>(op);
  return {};
}

PoolGradientFunction find_pool_gradient(DType dtype) {
  if (dtype == DType::f32) return pool_gradient<float>;
  if (dtype == DType::f64) return pool_gradient<double>;
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_pool);
HWY_EXPORT(find_pool_gradient);

PoolFunctions pool_functions(DType dtype, PoolOp op) {
  return HWY_DYNAMIC_DISPATCH(find_pool)(dtype, op);
}
PoolGradientFunction pool_gradient_function(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_pool_gradient)(dtype);
}

}  // namespace gspmd
#endif
