// 16-bit floats: read into f32, rounded back, and combined where they lie.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loop_functions_half.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <bit>
#include <type_traits>

#include "kernels/loop_elementwise-inl.h"
#include "kernels/loop_families.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

// How a 16-bit float is read and rounded to nearest even, NaN staying NaN. On plain integers, so
// that loops over them vectorise.
struct Brain {
  static float read(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
  template <class D>
  static GSPMD_INLINE hwy::HWY_NAMESPACE::Vec<D> load(D d, const uint16_t* x) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::Rebind<uint16_t, D> narrow;
    const hn::RebindToUnsigned<D> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, x))));
  }
  static uint16_t round(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40u;
    return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
};
struct Half {
  static float read(uint16_t bits) { return half_to_float(bits); }
  static uint16_t round(float value) { return float_to_half(value); }
};

// Elements [0, count) done by the processor's own conversions of f16; 0 where it has none.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
int64_t read_halves(float* out, const uint16_t* x, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(bits));
  }
  return i;
}
int64_t round_to_halves(uint16_t* out, const float* x, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bits);
  }
  return i;
}
#else
int64_t read_halves(float*, const uint16_t*, int64_t) { return 0; }
int64_t round_to_halves(uint16_t*, const float*, int64_t) { return 0; }
#endif

template <class H>
void read_loop(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
               uint32_t) {
  float* r = reinterpret_cast<float*>(out);
  const uint16_t* x = reinterpret_cast<const uint16_t*>(a);
  if constexpr (std::is_same_v<H, Brain>) {
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = H::read(x[i]);
  } else {
    for (int64_t i = read_halves(r, x, n); i < n; ++i) r[i] = H::read(x[i]);
  }
}

template <class H>
void round_loop(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
                uint32_t) {
  uint16_t* r = reinterpret_cast<uint16_t*>(out);
  const float* x = reinterpret_cast<const float*>(a);
  if constexpr (std::is_same_v<H, Brain>) {
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = H::round(x[i]);
  } else {
    for (int64_t i = round_to_halves(r, x, n); i < n; ++i) r[i] = H::round(x[i]);
  }
}

constexpr int64_t kBlock = 256;  // elements that are in f32 at once

// f32 to the nearest number that the 16-bit type holds, as f32. In blocks through the narrow form.
template <class H>
void narrow_loop(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
                 uint32_t) {
  float* r = reinterpret_cast<float*>(out);
  const float* x = reinterpret_cast<const float*>(a);
  if constexpr (std::is_same_v<H, Brain>) {
    GSPMD_IVDEP
    for (int64_t i = 0; i < n; ++i) r[i] = H::read(H::round(x[i]));
  } else {
    uint16_t bits[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = n - i < kBlock ? n - i : kBlock;
      round_loop<H>(reinterpret_cast<std::byte*>(bits), a + i * 4, nullptr, nullptr, m, 0);
      read_loop<H>(out + i * 4, reinterpret_cast<const std::byte*>(bits), nullptr, nullptr, m, 0);
    }
  }
}

struct Add {
  static float apply(float a, float b) { return a + b; }
};
struct Multiply {
  static float apply(float a, float b) { return a * b; }
};

// F of stored numbers, rounded; block by block in f32. `out` may be an input.
template <class H, class F>
void stored_loop(std::byte* out, const std::byte* a, const std::byte* b, const std::byte*,
                 int64_t n, uint32_t scalars) {
  float x[kBlock], y[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    const bool one_a = (scalars & 1) != 0, one_b = (scalars & 2) != 0;
    if (i == 0 || !one_a)
      read_loop<H>(reinterpret_cast<std::byte*>(x), a + (one_a ? 0 : 2 * i), nullptr, nullptr,
                   one_a ? 1 : m, 0);
    if (i == 0 || !one_b)
      read_loop<H>(reinterpret_cast<std::byte*>(y), b + (one_b ? 0 : 2 * i), nullptr, nullptr,
                   one_b ? 1 : m, 0);
    float z[kBlock];
    binary_loop<float, float, F>(reinterpret_cast<std::byte*>(z),
                                 reinterpret_cast<const std::byte*>(x),
                                 reinterpret_cast<const std::byte*>(y), nullptr, m, scalars);
    round_loop<H>(out + 2 * i, reinterpret_cast<const std::byte*>(z), nullptr, nullptr, m, 0);
  }
}

template <class H>
LoopFunction find_stored(LoopOp op) {
  switch (op) {
    case LoopOp::add:
      return stored_loop<H, Add>;
    case LoopOp::multiply:
      return stored_loop<H, Multiply>;
    case LoopOp::maximum:
      return stored_loop<H, Maximum>;
    case LoopOp::minimum:
      return stored_loop<H, Minimum>;
    default:
      return nullptr;
  }
}

template <class H>
LoopFunction find_half(LoopOp op, DType input, DType result) {
  if (op != LoopOp::convert) return find_stored<H>(op);
  if (result == DType::f32) return read_loop<H>;
  return input == DType::f32 ? round_loop<H> : nullptr;
}

// What is combined so far of some columns, as an Extremum is.
template <class F, class D>
class Total {
 public:
  using V = hn::Vec<D>;
  GSPMD_INLINE Total(D, V first) : value_(first) {}
  GSPMD_INLINE void add(V x) {
    value_ = std::is_same_v<F, Add> ? hn::Add(value_, x) : hn::Mul(value_, x);
  }
  GSPMD_INLINE V value() const { return value_; }

 private:
  V value_;
};
template <class F, class D>
using Combined = std::conditional_t<std::is_same_v<F, Maximum> || std::is_same_v<F, Minimum>,
                                    Extremum<std::is_same_v<F, Maximum>, D>, Total<F, D>>;

// fold_rows of bf16. A word holds two columns: the odd one is its upper half, the even one comes by
// a shift, while widening neighbours into one vector is two instructions of the slow ports for
// each.
template <class F>
void fold_brain_rows(std::byte* sum, const std::byte* rows, int64_t step, int64_t n, bool starts) {
  float* const r = reinterpret_cast<float*>(sum);
  const uint16_t* const x = reinterpret_cast<const uint16_t*>(rows);
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  using V = hn::Vec<decltype(d)>;
  const auto upper = hn::Set(words, 0xffff0000u);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto pairs = [&](int64_t k) HWY_ATTR {
      return hn::LoadU(words, reinterpret_cast<const uint32_t*>(x + k * step + i));
    };
    const auto even_of = [&](auto w) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(w)); };
    const auto odd_of = [&](auto w) HWY_ATTR { return hn::BitCast(d, hn::And(w, upper)); };
    V even = even_of(pairs(0)), odd = odd_of(pairs(0));
    if (!starts) hn::LoadInterleaved2(d, r + i, even, odd);
    Combined<F, decltype(d)> evens(d, even), odds(d, odd);
    for (int64_t k = starts ? 1 : 0; k < kFoldRows; ++k) {
      const auto w = pairs(k);
      evens.add(even_of(w));
      odds.add(odd_of(w));
    }
    hn::StoreInterleaved2(evens.value(), odds.value(), d, r + i);
  }
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) {
    Combined<F, decltype(one)> last(one, starts ? Brain::load(one, x + i) : hn::LoadU(one, r + i));
    for (int64_t k = starts ? 1 : 0; k < kFoldRows; ++k)
      last.add(Brain::load(one, x + k * step + i));
    hn::StoreU(last.value(), one, r + i);
  }
}

}  // namespace
FoldRows find_half_rows(LoopOp reduce, DType input) {
  if (input != DType::bf16) return nullptr;
  switch (reduce) {
    case LoopOp::reduce_sum:
      return fold_brain_rows<Add>;
    case LoopOp::reduce_product:
      return fold_brain_rows<Multiply>;
    case LoopOp::reduce_max:
      return fold_brain_rows<Maximum>;
    case LoopOp::reduce_min:
      return fold_brain_rows<Minimum>;
    default:
      return nullptr;
  }
}
LoopFunction find_half_loop(LoopOp op, DType input, DType result) {
  if (op == LoopOp::round_to_bf16) return narrow_loop<Brain>;
  if (op == LoopOp::round_to_f16) return narrow_loop<Half>;
  if (input == DType::bf16 || result == DType::bf16) return find_half<Brain>(op, input, result);
  return find_half<Half>(op, input, result);
}
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_half_loop);
HWY_EXPORT(find_half_rows);
LoopFunction half_loop(LoopOp op, DType input, DType result) {
  return HWY_DYNAMIC_DISPATCH(find_half_loop)(op, input, result);
}
FoldRows half_fold_rows(LoopOp reduce, DType input) {
  return HWY_DYNAMIC_DISPATCH(find_half_rows)(reduce, input);
}
}  // namespace gspmd
#endif
