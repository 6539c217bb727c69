// The loops of group_planes.h.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/group_sums.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <utility>

#include "gspmd/base/shape.h"
#include "kernels/group_planes.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using GroupTag = hn::ScalableTag<float>;
using GroupVector = hn::Vec<GroupTag>;

int64_t group_lanes() { return static_cast<int64_t>(hn::Lanes(GroupTag())); }

// --- element types: numbers as they are stored

struct GroupF32 {
  using Stored = float;
  template <class D>
  static GSPMD_INLINE hn::Vec<D> load([[maybe_unused]] D d, const float* from) {
    return hn::LoadU(d, from);
  }
  template <class D>
  static GSPMD_INLINE void store([[maybe_unused]] D d, hn::Vec<D> v, float* to) {
    hn::StoreU(v, d, to);
  }
  static float wide(float x) { return x; }
};

struct GroupBf16 {
  using Stored = uint16_t;
  template <class D>
  static GSPMD_INLINE hn::Vec<D> load(D d, const uint16_t* from) {
    const hn::Rebind<uint16_t, D> narrow;
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(narrow, from))));
  }
  // To the nearest, of two the even one; what is NaN stays so.
  template <class D>
  static GSPMD_INLINE void store([[maybe_unused]] D d, hn::Vec<D> v, uint16_t* to) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> narrow;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffU)));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    const auto whole = hn::IfThenElse(nan, hn::Or(bits, hn::Set(du, 0x400000U)), rounded);
    hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(whole)), narrow, to);
  }
};

struct GroupF16 {
  using Stored = uint16_t;
  template <class D>
  static GSPMD_INLINE hn::Vec<D> load(D d, const uint16_t* from) {
    const hn::Rebind<uint16_t, D> bits;
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::LoadU(bits, from)));
  }
  template <class D>
  static GSPMD_INLINE void store([[maybe_unused]] D d, hn::Vec<D> v, uint16_t* to) {
    const hn::Rebind<uint16_t, D> bits;
    hn::StoreU(hn::BitCast(bits, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v)), bits, to);
  }
};

using GroupOne = hn::CappedTag<float, 1>;

// `count` numbers one after the other, some steps apart.
template <class Type>
void load_each(const typename Type::Stored* from, int64_t step, int64_t count, float* to,
               int64_t to_step) {
  const GroupOne one;
  for (int64_t i = 0; i < count; ++i)
    hn::StoreU(Type::load(one, from + i * step), one, to + i * to_step);
}

template <class Type>
void store_each(const float* from, int64_t step, int64_t count, typename Type::Stored* to,
                int64_t to_step) {
  const GroupOne one;
  for (int64_t i = 0; i < count; ++i)
    Type::store(one, hn::LoadU(one, from + i * step), to + i * to_step);
}

// Positions of features that follow one another; `next`: elements to the row that is read next.
template <class Stored>
struct TurnedRow {
  const Stored* x;
  int64_t position, next, count, features;
};

// --- blocks that are turned: four features by four or eight positions

#if HWY_TARGET != HWY_SCALAR

// In each quarter of a register the four by four numbers of four registers.
template <class D>
GSPMD_INLINE void turn_quarters(D d, hn::Vec<D> (&v)[4]) {
  const auto a = hn::InterleaveLower(d, v[0], v[2]), b = hn::InterleaveUpper(d, v[0], v[2]);
  const auto p = hn::InterleaveLower(d, v[1], v[3]), q = hn::InterleaveUpper(d, v[1], v[3]);
  v[0] = hn::InterleaveLower(d, a, p);
  v[1] = hn::InterleaveUpper(d, a, p);
  v[2] = hn::InterleaveLower(d, b, q);
  v[3] = hn::InterleaveUpper(d, b, q);
}

template <class Type, int64_t kPositions>
GSPMD_INLINE void turn_in(const typename Type::Stored* from, int64_t position, float* to,
                          int64_t feature) {
  const hn::FixedTag<float, 4> quarter;
  const hn::FixedTag<float, kPositions> d;
  hn::Vec<decltype(d)> v[4];
  for (int64_t i = 0; i < 4; ++i) {
    if constexpr (kPositions == 8)
      v[i] = hn::Combine(d, Type::load(quarter, from + (i + 4) * position),
                         Type::load(quarter, from + i * position));
    else
      v[i] = Type::load(quarter, from + i * position);
  }
  turn_quarters(d, v);
  for (int64_t i = 0; i < 4; ++i) hn::StoreU(v[i], d, to + i * feature);
}

template <class Type, int64_t kPositions>
GSPMD_INLINE void turn_out(const float* from, int64_t feature, typename Type::Stored* to,
                           int64_t position) {
  const hn::FixedTag<float, 4> quarter;
  const hn::FixedTag<float, kPositions> d;
  hn::Vec<decltype(d)> v[4];
  for (int64_t i = 0; i < 4; ++i) v[i] = hn::LoadU(d, from + i * feature);
  turn_quarters(d, v);
  for (int64_t i = 0; i < 4; ++i) {
    if constexpr (kPositions == 8) {
      Type::store(quarter, hn::LowerHalf(quarter, v[i]), to + i * position);
      Type::store(quarter, hn::UpperHalf(quarter, v[i]), to + (i + 4) * position);
    } else {
      Type::store(quarter, v[i], to + i * position);
    }
  }
}

constexpr int64_t kTurned = HWY_MAX_BYTES >= 32 ? 8 : 4;  // positions

// Lines of positions, which lie too far apart for the processor to fetch them itself.
template <int kWrite, class Stored>
GSPMD_INLINE void fetch_positions(const Stored* at, int64_t position) {
  for (int64_t i = 0; i < kTurned; ++i) __builtin_prefetch(at + i * position, kWrite);
}
template <class Type>
constexpr int64_t kLineOf = 64 / int64_t{sizeof(typename Type::Stored)};

// Calls turn(wide, position, feature) for blocks that cover all positions and features, the last
// ones maybe twice. Whether there are enough of both.
template <class Turn>
GSPMD_INLINE bool turn_all(int64_t positions, int64_t features, Turn&& turn) {
  if (positions < 4 || features < 4) return false;
  const bool wide = positions >= kTurned;
  const int64_t step = wide ? kTurned : 4;
  for (int64_t p = 0; p < positions; p += step)
    for (int64_t f = 0; f < features; f += 4)
      turn(wide, std::min(p, positions - step), std::min(f, features - 4));
  return true;
}

template <class Type>
bool turn_row_in(const TurnedRow<typename Type::Stored>& row, float* to, int64_t to_feature) {
  return turn_all(row.count, row.features, [&](bool wide, int64_t p, int64_t f) HWY_ATTR {
    const auto* const from = row.x + p * row.position + f;
    float* const at = to + f * to_feature + p;
    if (f % kLineOf<Type> == 0) fetch_positions<0>(from + row.next, row.position);
    wide ? turn_in<Type, kTurned>(from, row.position, at, to_feature)
         : turn_in<Type, 4>(from, row.position, at, to_feature);
  });
}

template <class Type>
bool turn_row_out(const GroupRow& row, typename Type::Stored* to) {
  return turn_all(row.positions, row.features, [&](bool wide, int64_t p, int64_t f) HWY_ATTR {
    const float* const from = row.from + f * row.from_feature + p;
    auto* const at = to + p * row.to_position + f;
    if (f % kLineOf<Type> == 0) fetch_positions<1>(at + row.next, row.to_position);
    wide ? turn_out<Type, kTurned>(from, row.from_feature, at, row.to_position)
         : turn_out<Type, 4>(from, row.from_feature, at, row.to_position);
  });
}

// The even ones of 2 * count - 1 numbers, as far as vectors go; how many.
template <class Type>
int64_t load_even(const typename Type::Stored* from, int64_t count, float* to) {
  int64_t done = 0;
  if constexpr (sizeof(typename Type::Stored) == sizeof(float)) {
    const GroupTag d;
    const int64_t lanes = group_lanes();
    for (; done + lanes < count; done += lanes) {
      GroupVector even, odd;
      hn::LoadInterleaved2(d, from + 2 * done, even, odd);
      hn::StoreU(even, d, to + done);
    }
  }
  return done;
}

#else

template <class Type>
bool turn_row_in(const TurnedRow<typename Type::Stored>&, float*, int64_t) {
  return false;
}
template <class Type>
bool turn_row_out(const GroupRow&, typename Type::Stored*) {
  return false;
}
template <class Type>
int64_t load_even(const typename Type::Stored*, int64_t, float*) {
  return 0;
}

#endif

// Calls move(tag, first) for vectors that cover `count` numbers, the last two maybe some twice.
// Whether there are enough for the shorter of them.
template <class Move>
GSPMD_INLINE bool move_vectors(int64_t count, Move&& move) {
  const auto all = [&](auto d) HWY_ATTR {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (count < lanes) return false;
    int64_t done = 0;
    for (; done + lanes <= count; done += lanes) move(d, done);
    if (done < count) move(d, count - lanes);
    return true;
  };
  return all(GroupTag()) || all(hn::CappedTag<float, 4>());
}

// `count` positions of a feature.
template <class Type>
void load_row(const typename Type::Stored* from, int64_t step, int64_t count, float* to) {
  const auto move = [&](auto d, int64_t at)
                        HWY_ATTR { hn::StoreU(Type::load(d, from + at), d, to + at); };
  if (step == 1 && move_vectors(count, move)) return;
  const int64_t done = step == 2 ? load_even<Type>(from, count, to) : 0;
  load_each<Type>(from + done * step, step, count - done, to + done, 1);
}

template <class Type>
void write_as(const GroupRow& row, typename Type::Stored* to) {
  if (row.to_feature == 1 && turn_row_out<Type>(row, to)) return;
  for (int64_t f = 0; f < row.features; ++f) {
    const float* const from = row.from + f * row.from_feature;
    auto* const at = to + f * row.to_feature;
    const auto move = [&](auto d, int64_t i)
                          HWY_ATTR { Type::store(d, hn::LoadU(d, from + i), at + i); };
    if (row.to_position != 1 || !move_vectors(row.positions, move))
      store_each<Type>(from, 1, row.positions, at, row.to_position);
  }
}

void write_row(const GroupRow& row, DType dtype, std::byte* to) {
  if (dtype == DType::f32) return write_as<GroupF32>(row, reinterpret_cast<float*>(to));
  auto* const narrow = reinterpret_cast<uint16_t*>(to);
  dtype == DType::bf16 ? write_as<GroupBf16>(row, narrow) : write_as<GroupF16>(row, narrow);
}

// --- planes

// Places [begin, end) of a phase are elements of x from `from` on.
struct Inside {
  int64_t begin, end, from;
};

Inside inside_of(const GroupAxis& axis, int64_t phase, int64_t places) {
  const int64_t first = phase + axis.low, last = axis.input - 1 - first;
  const int64_t begin = std::min(places, first < 0 ? ceil_div(-first, axis.stride) : 0);
  const int64_t end = last < 0 ? 0 : std::min(places, last / axis.stride + 1);
  return {begin, std::max(begin, end), begin * axis.stride + first};
}

// Of features whose elements follow one another all at once, of others one after the other.
template <class Type>
class PlaneRows {
 public:
  using Stored = typename Type::Stored;
  PlaneRows(const GroupLayout& layout, const GroupBlock& block, const Stored* x, int64_t x_feature,
            int64_t features)
      : e_(layout),
        block_(block),
        x_(x),
        feature_(layout.feature()),
        x_feature_(x_feature),
        features_(features) {}

  void run(float* to) {
    if (x_feature_ == 1) return lay_out_features(to);
    for (int64_t left = std::exchange(features_, 1); left > 0; --left) {
      lay_out_features(to);
      x_ += x_feature_;
      to += feature_;
    }
  }

 private:
  void lay_out_features(float* to) {
    const GroupAxis& outer = e_.axes[0];
    for (const int64_t phase : outer.phases) {
      for (int64_t k = 0; k < block_.count[0] + outer.span(); ++k, to += e_.outer())
        lay_out_planes((block_.first[0] + k) * outer.stride + phase + outer.low, to);
      to += (e_.block[0] - block_.count[0]) * e_.outer();
    }
  }

  void lay_out_planes(int64_t outer, float* to) {
    const GroupAxis& rows = e_.axes[1];
    const bool met = outer >= 0 && outer < e_.axes[0].input;
    for (const int64_t row_phase : rows.phases)
      for (const int64_t phase : e_.axes[2].phases) {
        const Inside inside = inside_of(e_.axes[2], phase, e_.pitch);
        const int64_t count = block_.count[1] + rows.span();
        for (int64_t k = 0; k < count; ++k) {
          const int64_t row = (block_.first[1] + k) * rows.stride + row_phase + rows.low;
          float* const at = to + k * e_.pitch;
          if (met && row >= 0 && row < rows.input)
            lay_out_row(x_ + outer * e_.axes[0].x_step + row * rows.x_step, inside, at);
          else
            clear(at, 0, e_.pitch);
        }
        // What the last row reads of the next one, or vectors behind its last position.
        clear(to, count * e_.pitch, count * e_.pitch + e_.axes[2].span() + group_lanes());
        to += e_.plane;
      }
  }

  void lay_out_row(const Stored* x, const Inside& inside, float* to) {
    clear(to, 0, inside.begin);
    clear(to, inside.end, e_.pitch);
    const int64_t step = e_.axes[2].stride * e_.axes[2].x_step, count = inside.end - inside.begin;
    if (count == 0) return;
    x += inside.from * e_.axes[2].x_step;
    to += inside.begin;
    const TurnedRow<Stored> turned{x, step, e_.axes[1].stride * e_.axes[1].x_step, count,
                                   features_};
    if (x_feature_ == 1 && turn_row_in<Type>(turned, to, feature_)) return;
    for (int64_t f = 0; f < features_; ++f)
      load_row<Type>(x + f * x_feature_, step, count, to + f * feature_);
  }

  // By whole vectors, which reach into what is written later. Mostly one.
  void clear(float* to, int64_t begin, int64_t end) {
    if (begin >= end) return;
    const GroupTag d;
    const int64_t lanes = group_lanes();
    to += begin;
    for (int64_t f = 0; f < features_; ++f) hn::StoreU(hn::Zero(d), d, to + f * feature_);
    for (int64_t p = lanes; p < end - begin; p += lanes)
      for (int64_t f = 0; f < features_; ++f) hn::StoreU(hn::Zero(d), d, to + p + f * feature_);
  }

  const GroupLayout& e_;
  const GroupBlock& block_;
  const Stored* x_;
  const int64_t feature_, x_feature_;
  int64_t features_;
};

void lay_out(const GroupLayout& layout, const GroupBlock& block, DType dtype, const std::byte* x,
             int64_t x_feature, int64_t features, float* to) {
  if (dtype == DType::f32)
    return PlaneRows<GroupF32>(layout, block, reinterpret_cast<const float*>(x), x_feature,
                               features)
        .run(to);
  const auto* const narrow = reinterpret_cast<const uint16_t*>(x);
  if (dtype == DType::bf16)
    return PlaneRows<GroupBf16>(layout, block, narrow, x_feature, features).run(to);
  PlaneRows<GroupF16>(layout, block, narrow, x_feature, features).run(to);
}

// --- sums

constexpr int64_t kGroupVectors = 3;  // 12 sums of 16 registers, as many rows as vectors and one

// At least one tap and feature.
template <int64_t kRows, int64_t kVectors>
void sum_block(const GroupSums& a, int64_t first) {
  const GroupTag d;
  const int64_t lanes = group_lanes(), tap_count = a.tap_count, x_feature = a.x_feature;
  GroupVector sums[kRows][kVectors];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(d);
  const float* HWY_RESTRICT x = a.x + first;
  const float* HWY_RESTRICT w = a.w;
  const int64_t* const taps = a.taps;
  int64_t i = a.in;
  do {
    int64_t t = 0;
    do {
      const float* HWY_RESTRICT from = x + taps[t];
      GroupVector u[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) u[v] = hn::LoadU(d, from + v * lanes);
      for (int64_t r = 0; r < kRows; ++r) {
        const GroupVector f = hn::Set(d, w[r]);
        for (int64_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(f, u[v], sums[r][v]);
      }
      w += kRows;
    } while (++t < tap_count);
    x += x_feature;
  } while (--i > 0);
  float* HWY_RESTRICT to = a.y + first;
  const int64_t y_row = a.y_row;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, to + r * y_row + v * lanes);
}

template <int64_t kRows>
void sum_rows(const GroupSums& a) {
  const int64_t lanes = group_lanes();
  int64_t v = 0;
  // Two blocks of two rather than one of three and one that waits for each sum.
  const int64_t left = a.vectors % kGroupVectors;
  const int64_t full = a.vectors - left - (left == 1 && a.vectors > 1 ? kGroupVectors : 0);
  for (; v < full; v += kGroupVectors) sum_block<kRows, kGroupVectors>(a, v * lanes);
  for (; v + 2 <= a.vectors; v += 2) sum_block<kRows, 2>(a, v * lanes);
  for (; v < a.vectors; ++v) sum_block<kRows, 1>(a, v * lanes);
}

void sum_groups(const GroupSums& a) {
  if (a.tap_count == 0) {
    for (int64_t r = 0; r < a.rows; ++r)
      std::fill_n(a.y + r * a.y_row, a.vectors * group_lanes(), 0.0F);
    return;
  }
  switch (a.rows) {
    case 1:
      return sum_rows<1>(a);
    case 2:
      return sum_rows<2>(a);
    case 3:
      return sum_rows<3>(a);
    default:
      return sum_rows<kGroupRows>(a);
  }
}

// --- products over positions

// Calls add(x, g) with where each run of rows begins.
template <class Add>
GSPMD_INLINE void each_run(const GroupProducts& a, Add&& add) {
  for (int64_t n = 0; n < a.loops[0].count; ++n)
    for (int64_t p = 0; p < a.loops[1].count; ++p)
      add(a.x + n * a.loops[0].x_step + p * a.loops[1].x_step,
          a.g + n * a.loops[0].g_step + p * a.loops[1].g_step);
}

// Of one pair and feature, without what is behind the positions of rows: where x is infinite there,
// or NaN, times the zeros of g it is NaN.
float multiply_inside(const GroupProducts& a, int64_t pair, int64_t o) {
  const GroupTag d;
  const int64_t lanes = group_lanes();
  auto sum = hn::Zero(d);
  each_run(a, [&](const float* x, const float* g) HWY_ATTR {
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t p = 0; p < a.positions; p += lanes) {
        const int64_t at = r * a.pitch + p;
        const auto inside = hn::FirstN(d, static_cast<size_t>(std::min(lanes, a.positions - p)));
        sum = hn::MulAdd(hn::IfThenElseZero(inside, hn::LoadU(d, x + a.pairs[pair] + at)),
                         hn::IfThenElseZero(inside, hn::LoadU(d, g + o * a.g_feature + at)), sum);
      }
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

#if HWY_TARGET != HWY_SCALAR

// The sums of the lanes of four vectors.
GSPMD_INLINE hn::Vec<hn::FixedTag<float, 4>> sum_lanes(const GroupVector (&v)[4]) {
  const GroupTag d;
  const hn::FixedTag<float, 4> quarter;
  const auto a = hn::Add(hn::InterleaveLower(d, v[0], v[2]), hn::InterleaveUpper(d, v[0], v[2]));
  const auto b = hn::Add(hn::InterleaveLower(d, v[1], v[3]), hn::InterleaveUpper(d, v[1], v[3]));
  HWY_ALIGN float quarters[HWY_LANES(float)];
  hn::Store(hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)), d, quarters);
  auto sum = hn::Load(quarter, quarters);
  for (int64_t q = 4; q < group_lanes(); q += 4)
    sum = hn::Add(sum, hn::Load(quarter, quarters + q));
  return sum;
}

#endif

template <int64_t kOut>
GSPMD_INLINE void add_products(const GroupProducts& a, const GroupVector (&v)[kOut], int64_t pair,
                               int64_t o) {
  float* const c = a.c + pair * a.out + o;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kOut == 4) {
    const hn::FixedTag<float, 4> quarter;
    const auto sum = sum_lanes(v);
    if (hn::AllFalse(quarter, hn::IsNaN(sum)))
      return hn::StoreU(hn::Add(hn::LoadU(quarter, c), sum), quarter, c);
  }
#endif
  for (int64_t j = 0; j < kOut; ++j) {
    const float sum = hn::GetLane(hn::SumOfLanes(GroupTag(), v[j]));
    c[j] += std::isnan(sum) ? multiply_inside(a, pair, o + j) : sum;
  }
}

template <int64_t kPairs, int64_t kOut>
void multiply_block(const GroupProducts& a, int64_t pair, int64_t o) {
  const GroupTag d;
  const int64_t lanes = group_lanes(), g_feature = a.g_feature;
  const int64_t length = (a.rows - 1) * a.pitch + a.positions;
  const int64_t* const pairs = a.pairs + pair;
  GroupVector sums[kPairs][kOut];
  for (auto& of_pair : sums)
    for (auto& sum : of_pair) sum = hn::Zero(d);
  each_run(a, [&](const float* x, const float* g) HWY_ATTR {
    g += o * g_feature;
    for (int64_t v = 0; v < length; v += lanes) {
      GroupVector u[kOut];
      for (int64_t j = 0; j < kOut; ++j) u[j] = hn::LoadU(d, g + j * g_feature + v);
      for (int64_t k = 0; k < kPairs; ++k) {
        const GroupVector f = hn::LoadU(d, x + pairs[k] + v);
        for (int64_t j = 0; j < kOut; ++j) sums[k][j] = hn::MulAdd(f, u[j], sums[k][j]);
      }
    }
  });
  for (int64_t k = 0; k < kPairs; ++k) add_products<kOut>(a, sums[k], pair + k, o);
}

// All pairs by kOut features.
template <int64_t kOut, int64_t kPairs>
void multiply_pairs(const GroupProducts& a, int64_t o, int64_t pair) {
  for (; pair + kPairs <= a.pair_count; pair += kPairs) multiply_block<kPairs, kOut>(a, pair, o);
  if constexpr (kPairs > 3)
    multiply_pairs<kOut, 3>(a, o, pair);
  else if constexpr (kPairs > 1)
    multiply_pairs<kOut, 1>(a, o, pair);
}

void multiply_groups(const GroupProducts& a) {
  int64_t o = 0;
  for (; o + 4 <= a.out; o += 4) multiply_pairs<4, 3>(a, o, 0);
  if (a.out - o == 3) multiply_pairs<3, 3>(a, o, 0);
  if (a.out - o == 2) multiply_pairs<2, 6>(a, o, 0);
  if (a.out - o == 1) multiply_pairs<1, 9>(a, o, 0);
}

}  // namespace

GroupFunctions find_group_functions() {
  return {lay_out, sum_groups, write_row, multiply_groups, group_lanes()};
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_group_functions);

const GroupFunctions& group_functions() {
  static const GroupFunctions found = HWY_DYNAMIC_DISPATCH(find_group_functions)();
  return found;
}

}  // namespace gspmd
#endif
