// Windows of rows, several vectors of a row at once: what is combined stays in registers.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_windows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <cstring>

#include "kernels/extrema.h"
#include "kernels/pool_windows.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

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

// The same of vectors: of equal numbers zeros alone differ in bits, by their sign.
template <PoolOp kOp, class V>
V pooled_vectors(V a, V b) {
  if constexpr (kOp == PoolOp::sum) {
    return hn::Add(a, b);
  } else if constexpr (std::is_integral_v<hn::TFromV<V>>) {
    return kOp == PoolOp::max ? hn::Max(a, b) : hn::Min(a, b);
  } else {
    const V extreme = kOp == PoolOp::max ? hn::IfThenElse(hn::Gt(a, b), a, b)
                                         : hn::IfThenElse(hn::Lt(a, b), a, b);
    const V zero = kOp == PoolOp::max ? hn::And(a, b) : hn::Or(a, b);
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Eq(a, b), zero, extreme));
  }
}

template <PoolOp kOp, class T>
void pool(const PoolWindow& w, const std::byte* init_bytes, std::byte* out_bytes) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* const in = reinterpret_cast<const T*>(w.in);
  auto* const out = reinterpret_cast<T*>(out_bytes);
  T init;
  std::memcpy(&init, init_bytes, sizeof(T));
  const V start = hn::Set(d, init);
  int64_t i = 0;
  for (; i + 4 * lanes <= w.inner; i += 4 * lanes) {
    V a = start, b = start, c = start, e = start;
    for (int64_t n = 0; n < w.count; ++n) {
      const T* const from = in + w.offsets[n] + i;
      a = pooled_vectors<kOp>(a, hn::LoadU(d, from));
      b = pooled_vectors<kOp>(b, hn::LoadU(d, from + lanes));
      c = pooled_vectors<kOp>(c, hn::LoadU(d, from + 2 * lanes));
      e = pooled_vectors<kOp>(e, hn::LoadU(d, from + 3 * lanes));
    }
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + i + lanes);
    hn::StoreU(c, d, out + i + 2 * lanes);
    hn::StoreU(e, d, out + i + 3 * lanes);
  }
  for (; i + lanes <= w.inner; i += lanes) {
    V a = start;
    for (int64_t n = 0; n < w.count; ++n)
      a = pooled_vectors<kOp>(a, hn::LoadU(d, in + w.offsets[n] + i));
    hn::StoreU(a, d, out + i);
  }
  for (; i < w.inner; ++i) {
    T a = init;
    for (int64_t n = 0; n < w.count; ++n) a = pooled<kOp>(a, in[w.offsets[n] + i]);
    out[i] = a;
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
PoolFunction pool_of(PoolOp op) {
  switch (op) {
    case PoolOp::sum:
      return pool<PoolOp::sum, T>;
    case PoolOp::max:
      return pool<PoolOp::max, T>;
    case PoolOp::min:
      return pool<PoolOp::min, T>;
  }
  return nullptr;
}

}  // namespace

PoolFunction find_pool(DType dtype, PoolOp op) {
  if (dtype == DType::f32) return pool_of<float>(op);
  if (dtype == DType::f64) return pool_of<double>(op);
  if (dtype == DType::s32) return pool_of<int32_t>(op);
  return nullptr;
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

PoolFunction pool_function(DType dtype, PoolOp op) {
  return HWY_DYNAMIC_DISPATCH(find_pool)(dtype, op);
}
PoolGradientFunction pool_gradient_function(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(find_pool_gradient)(dtype);
}

}  // namespace gspmd
#endif
