#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/random_numbers.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/random_numbers.h"

// Logarithm and cosine take the steps, in doubles, and have the constants of logf and cosf in Arm's
// optimized routines, which C libraries have too: Copyright (c) 2017-2019, Arm Limited,
// SPDX-License-Identifier: MIT. Here each product that a sum follows is rounded with it, so that
// the bits are those of a machine with fused multiply-adds, on every machine.

#ifndef GSPMD_RANDOM_NUMBERS_TABLES
#define GSPMD_RANDOM_NUMBERS_TABLES
namespace gspmd::random_tables {

// 1 / c and log c for 16 centres c of [0x1.66p-1, 0x1.66p0).
inline constexpr double kInverse[16] = {0x1.661ec79f8f3bep+0, 0x1.571ed4aaf883dp+0,
                                        0x1.49539f0f010bp+0,  0x1.3c995b0b80385p+0,
                                        0x1.30d190c8864a5p+0, 0x1.25e227b0b8eap+0,
                                        0x1.1bb4a4a1a343fp+0, 0x1.12358f08ae5bap+0,
                                        0x1.0953f419900a7p+0, 0x1p+0,
                                        0x1.e608cfd9a47acp-1, 0x1.ca4b31f026aap-1,
                                        0x1.b2036576afce6p-1, 0x1.9c2d163a1aa2dp-1,
                                        0x1.886e6037841edp-1, 0x1.767dcf5534862p-1};
inline constexpr double kLog[16] = {-0x1.57bf7808caadep-2, -0x1.2bef0a7c06ddbp-2,
                                    -0x1.01eae7f513a67p-2, -0x1.b31d8a68224e9p-3,
                                    -0x1.6574f0ac07758p-3, -0x1.1aa2bc79c81p-3,
                                    -0x1.a4e76ce8c0e5ep-4, -0x1.1973c5a611cccp-4,
                                    -0x1.252f438e10c1ep-5, 0x0p+0,
                                    0x1.aa5aa5df25984p-5,  0x1.c5e53aa362eb4p-4,
                                    0x1.526e57720db08p-3,  0x1.bc2860d22477p-3,
                                    0x1.1058bc8a07ee1p-2,  0x1.4043057b6ee09p-2};
inline constexpr double kLogTerms[3] = {-0x1.00ea348b88334p-2, 0x1.5575b0be00b6ap-2,
                                        -0x1.ffffef20a4123p-2};
inline constexpr double kLog2 = 0x1.62e42fefa39efp-1;
// Of cos and sin within a quarter of pi, in rising powers.
inline constexpr double kCosTerms[5] = {1, -0x1.ffffffd0c621cp-2, 0x1.55553e1068f19p-5,
                                        -0x1.6c087e89a359dp-10, 0x1.99343027bf8c3p-16};
inline constexpr double kSinTerms[3] = {-0x1.555545995a603p-3, 0x1.1107605230bc4p-7,
                                        -0x1.994eb3774cf24p-13};
inline constexpr double kPerQuarter = 0x1.45F306DC9C883p-1;  // 2 / pi
inline constexpr double kQuarter = 0x1.921FB54442D18p0;      // pi / 2
inline constexpr float kTurn = 0x1.921fb6p2F;                // 2 pi
// Bits of floats: pi / 4, below which nothing is taken off; where the centres begin; powers of two.
inline constexpr int32_t kEighthBits = 0x3f490fdb, kLeast = 0x3f330000;
inline constexpr auto kPowerBits = static_cast<int32_t>(0xff800000U);
inline constexpr int32_t kCentres = 16;

}  // namespace gspmd::random_tables
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using namespace random_tables;

template <int kBits>
using Bits = std::integral_constant<int, kBits>;

// Each lane, to the left. Where there is no instruction for it, whole bytes are one shuffle.
template <int kBits, class V>
GSPMD_INLINE V rotated(V x) {
#if HWY_TARGET == HWY_AVX2
  if constexpr (kBits % 8 == 0) {
    const hn::DFromV<V> d;
    const hn::Repartition<uint8_t, decltype(d)> bytes;
    HWY_ALIGN static constexpr auto kFrom = [] {
      std::array<uint8_t, 16> from{};
      for (size_t i = 0; i < 16; ++i)
        from[i] = static_cast<uint8_t>(i / 4 * 4 + (i + 4 - kBits / 8) % 4);
      return from;
    }();
    const auto from = hn::LoadDup128(bytes, kFrom.data());
    return hn::BitCast(d, hn::TableLookupBytes(hn::BitCast(bytes, x), from));
  }
#endif
  return hn::RotateRight<32 - kBits>(x);
}

// Four vectors side by side: one alone would wait for itself in every round.
void words(const ThreefryCounters& counters, int64_t n, uint32_t* words0, uint32_t* words1) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const uint32_t keys[3] = {counters.key0, counters.key1,
                            0x1BD11BDAU ^ counters.key0 ^ counters.key1};
  for (int64_t i = 0; i < n; i += 4 * lanes) {
    auto a0 =
        hn::Add(hn::Iota(d, 0U), hn::Set(d, counters.low + static_cast<uint32_t>(i) + keys[0]));
    auto b0 = hn::Add(a0, hn::Set(d, static_cast<uint32_t>(lanes)));
    auto c0 = hn::Add(b0, hn::Set(d, static_cast<uint32_t>(lanes)));
    auto e0 = hn::Add(c0, hn::Set(d, static_cast<uint32_t>(lanes)));
    auto a1 = hn::Set(d, counters.high + keys[1]);
    auto b1 = a1, c1 = a1, e1 = a1;
    const auto each = [&](auto&& f) HWY_ATTR { f(a0, a1), f(b0, b1), f(c0, c1), f(e0, e1); };
    const auto round = [&](auto bits) HWY_ATTR {
      constexpr int kBits = decltype(bits)::value;
      each([&](auto& x0, auto& x1) HWY_ATTR {
        x0 = hn::Add(x0, x1);
        x1 = hn::Xor(rotated<kBits>(x1), x0);
      });
    };
    const auto rounds = [&](auto... bits) HWY_ATTR { (round(bits), ...); };
    for (uint32_t group = 1; group <= 5; ++group) {
      if (group % 2 == 1)
        rounds(Bits<13>(), Bits<15>(), Bits<26>(), Bits<6>());
      else
        rounds(Bits<17>(), Bits<29>(), Bits<16>(), Bits<24>());
      const auto key0 = hn::Set(d, keys[group % 3]);
      const auto key1 = hn::Set(d, keys[(group + 1) % 3] + group);
      each([&](auto& x0, auto& x1) HWY_ATTR { x0 = hn::Add(x0, key0), x1 = hn::Add(x1, key1); });
    }
    int64_t at = i;
    each([&](auto x0, auto x1) HWY_ATTR {
      hn::StoreU(x0, d, words0 + at);
      hn::StoreU(x1, d, words1 + at);
      at += lanes;
    });
  }
}

constexpr uint32_t kPhiloxMultipliers[2] = {0xD2511F53U, 0xCD9E8D57U};
constexpr uint32_t kPhiloxKeySteps[2] = {0x9E3779B9U, 0xBB67AE85U};
constexpr int kPhiloxRounds = 10;

#if HWY_TARGET != HWY_SCALAR

// The keys of all rounds, in each lane.
struct PhiloxKeys {
  using Wide = hn::ScalableTag<uint64_t>;
  hn::Vec<Wide> keys[kPhiloxRounds][2];

  explicit PhiloxKeys(uint64_t key) {
    auto first = static_cast<uint32_t>(key), second = static_cast<uint32_t>(key >> 32);
    for (auto& pair : keys) {
      pair[0] = hn::Set(Wide(), first);
      pair[1] = hn::Set(Wide(), second);
      first += kPhiloxKeySteps[0];
      second += kPhiloxKeySteps[1];
    }
  }
};

// kVectors vectors of counters from `low` on: one alone would wait for itself in every round. A
// word is the lower half of a lane of 64 bits, as the products read it; the upper halves have
// anything.
template <int kVectors>
void philox_group(const PhiloxKeys& keys, uint64_t low, uint64_t high, uint32_t* words) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> x[kVectors][4];
  for (int v = 0; v < kVectors; ++v) {
    x[v][0] = hn::Add(hn::Iota(d, static_cast<uint64_t>(v * lanes)), hn::Set(d, low));
    x[v][1] = hn::ShiftRight<32>(x[v][0]);
    x[v][2] = hn::Set(d, high);
    x[v][3] = hn::Set(d, high >> 32);
  }
  const auto multiplier0 = hn::Set(narrow, kPhiloxMultipliers[0]);
  const auto multiplier1 = hn::Set(narrow, kPhiloxMultipliers[1]);
  for (const auto& key : keys.keys)
    for (auto& y : x) {
      const auto first = hn::MulEven(hn::BitCast(narrow, y[0]), multiplier0);
      const auto second = hn::MulEven(hn::BitCast(narrow, y[2]), multiplier1);
      y[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(second), y[1]), key[0]);
      y[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(first), y[3]), key[1]);
      y[1] = second;
      y[3] = first;
    }
  const auto joined = [&](auto lower, auto upper) HWY_ATTR {
    return hn::BitCast(
        d, hn::OddEven(hn::BitCast(narrow, hn::ShiftLeft<32>(upper)), hn::BitCast(narrow, lower)));
  };
  for (int v = 0; v < kVectors; ++v)
    hn::StoreInterleaved2(joined(x[v][0], x[v][1]), joined(x[v][2], x[v][3]), d,
                          reinterpret_cast<uint64_t*>(words + 4 * v * lanes));
}

void philox(const PhiloxCounters& counters, int64_t n, uint32_t* words) {
  constexpr int kTogether = 3;  // 12 registers
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const PhiloxKeys keys(counters.key);
  int64_t i = 0;
  for (; i + kTogether * lanes <= n; i += kTogether * lanes)
    philox_group<kTogether>(keys, counters.low + static_cast<uint64_t>(i), counters.high,
                            words + 4 * i);
  for (; i < n; i += lanes) {
    HWY_ALIGN uint32_t last[4 * HWY_MAX_BYTES / sizeof(uint64_t)];
    philox_group<1>(keys, counters.low + static_cast<uint64_t>(i), counters.high, last);
    std::copy_n(last, 4 * std::min(lanes, n - i), words + 4 * i);
  }
}

#else

void philox(const PhiloxCounters& counters, int64_t n, uint32_t* words) {
  for (int64_t i = 0; i < n; ++i, words += 4) {
    auto key0 = static_cast<uint32_t>(counters.key);
    auto key1 = static_cast<uint32_t>(counters.key >> 32);
    const uint64_t low = counters.low + static_cast<uint64_t>(i);
    uint32_t x[4] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                     static_cast<uint32_t>(counters.high),
                     static_cast<uint32_t>(counters.high >> 32)};
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const uint64_t first = uint64_t(x[0]) * kPhiloxMultipliers[0];
      const uint64_t second = uint64_t(x[2]) * kPhiloxMultipliers[1];
      x[0] = static_cast<uint32_t>(second >> 32) ^ x[1] ^ key0;
      x[1] = static_cast<uint32_t>(second);
      x[2] = static_cast<uint32_t>(first >> 32) ^ x[3] ^ key1;
      x[3] = static_cast<uint32_t>(first);
      key0 += kPhiloxKeySteps[0];
      key1 += kPhiloxKeySteps[1];
    }
    std::copy_n(x, 4, words);
  }
}

#endif

#if HWY_TARGET <= HWY_AVX2 && HWY_TARGET != HWY_SCALAR  // with fused multiply-adds

template <class Half>
HWY_ATTR auto log_of(Half u1) {
  const hn::ScalableTag<double> d;
  const hn::RebindToSigned<decltype(d)> wide;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<float, decltype(d)> df;
  const auto bits = hn::BitCast(di, u1);
  const auto above = hn::Sub(bits, hn::Set(di, kLeast));
  const auto whole = hn::And(above, hn::Set(di, kPowerBits));
  const auto z = hn::PromoteTo(d, hn::BitCast(df, hn::Sub(bits, whole)));
  const auto place =
      hn::PromoteTo(wide, hn::And(hn::ShiftRight<19>(above), hn::Set(di, kCentres - 1)));
  const auto power = hn::PromoteTo(d, hn::ShiftRight<23>(above));
  const auto r = hn::MulSub(z, hn::GatherIndex(d, kInverse, place), hn::Set(d, 1.0));
  const auto square = hn::Mul(r, r);
  const auto start = hn::MulAdd(power, hn::Set(d, kLog2), hn::GatherIndex(d, kLog, place));
  const auto tail = hn::MulAdd(hn::Set(d, kLogTerms[0]), square,
                               hn::MulAdd(hn::Set(d, kLogTerms[1]), r, hn::Set(d, kLogTerms[2])));
  return hn::DemoteTo(df, hn::MulAdd(tail, square, hn::Add(start, r)));
}

template <class Half>
HWY_ATTR auto cosine_of(Half angle) {
  const hn::ScalableTag<double> d;
  const hn::RebindToSigned<decltype(d)> wide;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<float, decltype(d)> df;
  const auto x = hn::PromoteTo(d, angle);
  const auto turned = hn::ShiftRight<24>(hn::Add(
      hn::DemoteTo(di, hn::Mul(x, hn::Set(d, kPerQuarter * 0x1p24))), hn::Set(di, 0x800000)));
  const auto small = hn::Lt(hn::BitCast(di, angle), hn::Set(di, kEighthBits));
  const auto quarter = hn::IfThenZeroElse(small, turned);
  const auto rest = hn::NegMulAdd(hn::PromoteTo(d, quarter), hn::Set(d, kQuarter), x);
  const auto x2 = hn::Mul(rest, rest);
  const auto x3 = hn::Mul(rest, x2), x4 = hn::Mul(x2, x2);
  const auto sine = hn::MulAdd(hn::Mul(x3, x2),
                               hn::MulAdd(x2, hn::Set(d, kSinTerms[2]), hn::Set(d, kSinTerms[1])),
                               hn::MulAdd(x3, hn::Set(d, kSinTerms[0]), rest));
  const auto cosine = hn::MulAdd(
      hn::Mul(x4, x2), hn::MulAdd(x2, hn::Set(d, kCosTerms[4]), hn::Set(d, kCosTerms[3])),
      hn::MulAdd(x4, hn::Set(d, kCosTerms[2]),
                 hn::MulAdd(x2, hn::Set(d, kCosTerms[1]), hn::Set(d, kCosTerms[0]))));
  const auto odd = hn::PromoteTo(wide, hn::And(quarter, hn::Set(di, 1)));
  const auto size = hn::DemoteTo(
      df, hn::IfThenElse(hn::RebindMask(d, hn::Eq(odd, hn::Set(wide, 1))), sine, cosine));
  // Negative in the second and third quarter: where bit 1 of quarter + 1 is set.
  const auto sign = hn::ShiftLeft<30>(hn::And(hn::Add(quarter, hn::Set(di, 1)), hn::Set(di, 2)));
  return hn::Xor(size, hn::BitCast(df, sign));
}

void numbers(const uint32_t* words0, const uint32_t* words1, int64_t n, float* result) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<uint32_t, decltype(d)> du;
  const hn::Rebind<float, decltype(d)> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto fraction = [&](const uint32_t* words) HWY_ATTR {
    return hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(du, words))));
  };
  const auto unit = hn::Set(df, 0x1p-24F);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto u1 = hn::Mul(hn::Add(fraction(words0 + i), hn::Set(df, 1.0F)), unit);
    const auto angle = hn::Mul(hn::Set(df, kTurn), hn::Mul(fraction(words1 + i), unit));
    const auto radius = hn::Sqrt(hn::Mul(hn::Set(df, -2.0F), log_of(u1)));
    hn::StoreU(hn::Mul(radius, cosine_of(angle)), df, result + i);
  }
}

#else

float log_of(float u1) {
  const auto bits = std::bit_cast<int32_t>(u1);
  const int32_t above = bits - kLeast;
  const auto place = static_cast<uint32_t>(above >> 19) % kCentres;
  const double z = std::bit_cast<float>(bits - (above & kPowerBits));
  const double r = std::fma(z, kInverse[place], -1.0), square = r * r;
  const double start = std::fma(static_cast<double>(above >> 23), kLog2, kLog[place]);
  const double tail = std::fma(kLogTerms[0], square, std::fma(kLogTerms[1], r, kLogTerms[2]));
  return static_cast<float>(std::fma(tail, square, start + r));
}

float cosine_of(float angle) {
  const double x = angle;
  const bool small = std::bit_cast<int32_t>(angle) < kEighthBits;
  const int32_t turned = (static_cast<int32_t>(x * (kPerQuarter * 0x1p24)) + 0x800000) >> 24;
  const int32_t quarter = small ? 0 : turned;
  const double rest = std::fma(-static_cast<double>(quarter), kQuarter, x), x2 = rest * rest;
  const double x3 = rest * x2, x4 = x2 * x2;
  const double sine =
      std::fma(x3 * x2, std::fma(x2, kSinTerms[2], kSinTerms[1]), std::fma(x3, kSinTerms[0], rest));
  const double cosine =
      std::fma(x4 * x2, std::fma(x2, kCosTerms[4], kCosTerms[3]),
               std::fma(x4, kCosTerms[2], std::fma(x2, kCosTerms[1], kCosTerms[0])));
  const auto size = static_cast<float>(quarter % 2 == 0 ? cosine : sine);
  return quarter == 1 || quarter == 2 ? -size : size;
}

void numbers(const uint32_t* words0, const uint32_t* words1, int64_t n, float* result) {
  for (int64_t i = 0; i < n; ++i) {
    const float u1 = (static_cast<float>(words0[i] >> 8) + 1) * 0x1p-24F;
    const float angle = kTurn * (static_cast<float>(words1[i] >> 8) * 0x1p-24F);
    result[i] = std::sqrt(-2 * log_of(u1)) * cosine_of(angle);
  }
}

#endif

}  // namespace

decltype(&threefry_words) find_words() { return words; }
decltype(&philox_words) find_philox() { return philox; }
decltype(&normal_numbers) find_numbers() { return numbers; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_words);
HWY_EXPORT(find_philox);
HWY_EXPORT(find_numbers);

void threefry_words(const ThreefryCounters& counters, int64_t n, uint32_t* words0,
                    uint32_t* words1) {
  static const auto function = HWY_DYNAMIC_DISPATCH(find_words)();
  function(counters, n, words0, words1);
}

void philox_words(const PhiloxCounters& counters, int64_t n, uint32_t* words) {
  static const auto function = HWY_DYNAMIC_DISPATCH(find_philox)();
  function(counters, n, words);
}

void normal_numbers(const uint32_t* words0, const uint32_t* words1, int64_t n, float* numbers) {
  static const auto function = HWY_DYNAMIC_DISPATCH(find_numbers)();
  function(words0, words1, n, numbers);
}

}  // namespace gspmd
#endif
