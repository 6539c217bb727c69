#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/rows.h"
#include "kernels/stream.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// How elements are read into what is added up, and stored.
template <class T>
struct Stored {
  static constexpr int64_t kSize = sizeof(T);
  static constexpr bool kInPairs = false;
  using Added = T;
  template <class D>
  static GSPMD_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  }
  template <bool kStreamed, class D>
  static GSPMD_INLINE void store(D d, hn::Vec<D> value, std::byte* to) {
    if constexpr (kStreamed)
      hn::Stream(value, d, reinterpret_cast<T*>(to));
    else
      hn::StoreU(value, d, reinterpret_cast<T*>(to));
  }
};

#if HWY_TARGET != HWY_SCALAR

// 16-bit floats are added up in f32 and rounded once, to nearest even; NaN stays NaN.
struct BrainFloats {
  // Where two stand in turn in 32 bits: each other one, from the lower half or the upper.
  template <class D>
  static GSPMD_INLINE hn::Vec<D> lower(D d, hn::Vec<hn::RebindToUnsigned<D>> pair) {
    return hn::BitCast(d, hn::ShiftLeft<16>(pair));
  }
  template <class D>
  static GSPMD_INLINE hn::Vec<D> upper(D d, hn::Vec<hn::RebindToUnsigned<D>> pair) {
    const hn::RebindToUnsigned<D> wide;
    return hn::BitCast(d, hn::And(pair, hn::Set(wide, 0xffff0000u)));
  }
  // Rounded, in the upper half; the lower half is rubbish.
  template <class D>
  static GSPMD_INLINE hn::Vec<hn::RebindToUnsigned<D>> rounded(D, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> wide;
    const auto bits = hn::BitCast(wide, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1));
    const auto nearest = hn::Add(hn::Add(bits, hn::Set(wide, 0x7fff)), odd);
    const auto nan = hn::Or(bits, hn::Set(wide, 0x400000));
    return hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(value)), nan, nearest);
  }
  template <class D>
  static GSPMD_INLINE hn::Vec<D> read(D d, hn::Vec<hn::Rebind<uint16_t, D>> bits) {
    const hn::RebindToUnsigned<D> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
  }
  template <class D>
  static GSPMD_INLINE hn::Vec<hn::Rebind<uint16_t, D>> round(D d, hn::Vec<D> value) {
    const hn::RebindToSigned<D> whole;
    return hn::DemoteTo(hn::Rebind<uint16_t, D>(),
                        hn::BitCast(whole, hn::ShiftRight<16>(rounded(d, value))));
  }
};
struct HalfFloats {
  template <class D>
  static GSPMD_INLINE hn::Vec<D> read(D d, hn::Vec<hn::Rebind<uint16_t, D>> bits) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  }
  template <class D>
  static GSPMD_INLINE hn::Vec<hn::Rebind<uint16_t, D>> round(D, hn::Vec<D> value) {
    return hn::BitCast(hn::Rebind<uint16_t, D>(),
                       hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value));
  }
};
template <class Floats>
struct StoredHalves {
  static constexpr int64_t kSize = 2;
  static constexpr bool kInPairs = std::is_same_v<Floats, BrainFloats>;
  using Added = float;
  template <class D>
  static GSPMD_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    const hn::Rebind<uint16_t, D> narrow;
    return Floats::read(d, hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from)));
  }
  template <bool kStreamed, class D>
  static GSPMD_INLINE void store(D d, hn::Vec<D> value, std::byte* to) {
    const hn::Rebind<uint16_t, D> narrow;
    const auto bits = Floats::round(d, value);
    if constexpr (kStreamed)
      hn::Stream(bits, narrow, reinterpret_cast<uint16_t*>(to));
    else
      hn::StoreU(bits, narrow, reinterpret_cast<uint16_t*>(to));
  }
};

#endif

// Rows of so many sources; kMany 0: as many as there are.
template <class Elements, size_t kMany>
class Sums {
 public:
  Sums(std::span<std::byte* const> targets, std::span<const std::byte* const> sources)
      : targets_(targets), many_(kMany == 0 ? sources.size() : kMany), sources_(sources.data()) {}

  // `to` and `from`: where the row begins in targets and sources.
  template <bool kStreamed>
  GSPMD_INLINE void row(int64_t to, int64_t from, int64_t bytes) const {
    const hn::ScalableTag<Added> d;
    const auto step = static_cast<int64_t>(hn::Lanes(d)) * kSize;
    const auto store = [&](auto value, std::byte* at)
                           HWY_ATTR { Elements::template store<kStreamed>(d, value, at); };
    int64_t i = 0;
    if constexpr (kStreamed)  // up to where whole vectors begin
      i = rest<1>(to, from, 0,
                  std::min(bytes, -reinterpret_cast<intptr_t>(targets_[0] + to) & kPast));
#if HWY_TARGET != HWY_SCALAR
    if constexpr (Elements::kInPairs) i = pairs<kStreamed>(to, from, i, bytes);
#endif
    // Four vectors at a time: each waits for its own sums only.
    for (; i + 4 * step <= bytes; i += 4 * step) {
      const auto a = sum(d, from + i), b = sum(d, from + i + step);
      const auto c = sum(d, from + i + 2 * step), e = sum(d, from + i + 3 * step);
      for (std::byte* const target : targets_) {
        std::byte* const at = target + to + i;
        store(a, at);
        store(b, at + step);
        store(c, at + 2 * step);
        store(e, at + 3 * step);
      }
    }
    i = rest<64 / kSize>(to, from, i, bytes);
    i = rest<32 / kSize>(to, from, i, bytes);
    i = rest<16 / kSize>(to, from, i, bytes);
    rest<1>(to, from, i, bytes);
  }

  // Whether whole vectors begin at the same places in all targets.
  bool alike() const {
    return std::all_of(targets_.begin(), targets_.end(), [&](const std::byte* target) {
      return ((reinterpret_cast<intptr_t>(target) ^ reinterpret_cast<intptr_t>(targets_[0])) &
              kPast) == 0;
    });
  }

 private:
  static constexpr int64_t kSize = Elements::kSize;
  using Added = typename Elements::Added;
  static constexpr intptr_t kPast = 63;  // of an address: bytes behind the beginning of a line

  // Elements at `at` of all sources, added up in their order.
  template <class D>
  GSPMD_INLINE auto sum(D d, int64_t at) const {
    const auto load = [&](size_t i) HWY_ATTR { return Elements::load(d, sources_[i] + at); };
    auto total = load(0);
    if constexpr (kMany == 0) {
      for (size_t i = 1; i < many_; ++i) total = hn::Add(total, load(i));
    } else {
#pragma GCC unroll 8
      for (size_t i = 1; i < kMany; ++i) total = hn::Add(total, load(i));
    }
    return total;
  }

#if HWY_TARGET != HWY_SCALAR

  // Two vectors of pairs of bf16 at a time, from `i`, as far as whole ones go: without a step
  // between lanes, in two sums each.
  template <bool kStreamed>
  GSPMD_INLINE int64_t pairs(int64_t to, int64_t from, int64_t i, int64_t bytes) const {
    const hn::ScalableTag<float> d;
    const hn::RebindToUnsigned<decltype(d)> wide;
    const auto step = static_cast<int64_t>(hn::Lanes(d)) * 4;
    const auto total = [&](int64_t at) HWY_ATTR {
      const auto load = [&](size_t m) HWY_ATTR {
        return hn::LoadU(wide, reinterpret_cast<const uint32_t*>(sources_[m] + at));
      };
      const auto first = load(0);
      auto lower = BrainFloats::lower(d, first), upper = BrainFloats::upper(d, first);
      for (size_t m = 1; m < (kMany == 0 ? many_ : kMany); ++m) {
        const auto next = load(m);
        lower = hn::Add(lower, BrainFloats::lower(d, next));
        upper = hn::Add(upper, BrainFloats::upper(d, next));
      }
      return hn::Or(hn::ShiftRight<16>(BrainFloats::rounded(d, lower)),
                    hn::And(BrainFloats::rounded(d, upper), hn::Set(wide, 0xffff0000u)));
    };
    const auto store = [&](auto value, std::byte* at) HWY_ATTR {
      if constexpr (kStreamed)
        hn::Stream(value, wide, reinterpret_cast<uint32_t*>(at));
      else
        hn::StoreU(value, wide, reinterpret_cast<uint32_t*>(at));
    };
    for (; i + 2 * step <= bytes; i += 2 * step) {
      const auto a = total(from + i), b = total(from + i + step);
      for (std::byte* const target : targets_) {
        store(a, target + to + i);
        store(b, target + to + i + step);
      }
    }
    return i;
  }

#endif

  // From `i`, so many elements at a time, as far as whole ones go.
  template <size_t kElements>
  GSPMD_INLINE int64_t rest(int64_t to, int64_t from, int64_t i, int64_t bytes) const {
    const hn::CappedTag<Added, kElements> d;
    const auto step = static_cast<int64_t>(hn::Lanes(d)) * kSize;
    for (; i + step <= bytes; i += step) {
      const auto total = sum(d, from + i);
      for (std::byte* const target : targets_)
        Elements::template store<false>(d, total, target + to + i);
    }
    return i;
  }

  std::span<std::byte* const> targets_;
  size_t many_;
  const std::byte* const* sources_;
};

template <class Elements, size_t kMany>
void sums_of(const RowBlock& block, std::span<std::byte* const> targets, int64_t target_step,
             std::span<const std::byte* const> sources, int64_t source_step, bool streamed) {
  const Sums<Elements, kMany> sums(targets, sources);
  const bool past = streamed && sums.alike();
  for (int64_t r = 0; r < block.rows; ++r) {
    if (past)
      sums.template row<true>(r * target_step, r * source_step, block.bytes);
    else
      sums.template row<false>(r * target_step, r * source_step, block.bytes);
  }
}

template <class Elements>
void sums(const RowBlock& block, std::span<std::byte* const> targets, int64_t target_step,
          std::span<const std::byte* const> sources, int64_t source_step, bool streamed) {
  const auto run = [&](auto of) {
    of(block, targets, target_step, sources, source_step, streamed);
  };
  switch (sources.size()) {
    case 2:
      return run(sums_of<Elements, 2>);
    case 4:
      return run(sums_of<Elements, 4>);
    case 8:
      return run(sums_of<Elements, 8>);
    default:
      return run(sums_of<Elements, 0>);
  }
}

template <int64_t kBytes>
void short_rows(int64_t rows, std::byte* to, int64_t to_step, const std::byte* from,
                int64_t from_step) {
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_step, from + r * from_step, kBytes);
}

using ShortRows = decltype(&short_rows<1>);
// nullptr: not for rows of so many bytes. A call for each of such rows costs more than the row.
ShortRows find_short_rows(int64_t bytes) {
  switch (bytes) {
#define GSPMD_SHORT(n) \
  case n:              \
    return short_rows<n>;
    GSPMD_SHORT(1)
    GSPMD_SHORT(2)
    GSPMD_SHORT(4)
    GSPMD_SHORT(6)
    GSPMD_SHORT(8)
    GSPMD_SHORT(12)
    GSPMD_SHORT(16)
    GSPMD_SHORT(20)
    GSPMD_SHORT(24)
    GSPMD_SHORT(32)
    GSPMD_SHORT(40)
    GSPMD_SHORT(48)
    GSPMD_SHORT(64)
    GSPMD_SHORT(96)
    GSPMD_SHORT(128)
    GSPMD_SHORT(192)
    GSPMD_SHORT(256)
#undef GSPMD_SHORT
    default:
      return nullptr;
  }
}

void copies(const RowBlock& block, std::byte* to, int64_t to_step, const std::byte* from,
            int64_t from_step, bool streamed) {
  if (const ShortRows known = find_short_rows(block.bytes))
    return known(block.rows, to, to_step, from, from_step);
  const StreamFunction stream = stream_function();
  for (int64_t r = 0; r < block.rows; ++r) {
    if (streamed)
      stream(to + r * to_step, from + r * from_step, block.bytes);
    else
      std::memcpy(to + r * to_step, from + r * from_step, static_cast<size_t>(block.bytes));
  }
}

constexpr int64_t kLine = 64;
constexpr int64_t kStage = 1 << 14;  // bytes that leave at once: half of the nearest cache
constexpr int64_t kTurn = 1 << 13;   // bytes of rows that one source after the other adds to
constexpr int64_t kBurst = 1 << 10;  // bytes of rows that leave before the next target's turn
constexpr int64_t kApart = 1 << 9;   // bytes that may leave by themselves
constexpr int64_t kLong = 1 << 13;   // bytes of a row that need not wait for others

// Whole lines, to where a line begins, while as many are fetched from `next` unless it is null.
template <bool kStreamed>
GSPMD_INLINE void copy_lines(std::byte* to, const std::byte* from, int64_t bytes,
                             const std::byte* next) {
  const hn::CappedTag<uint8_t, kLine> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](int64_t i) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const uint8_t*>(from) + i);
  };
  const auto store = [&](auto value, int64_t i) HWY_ATTR {
    if constexpr (kStreamed)
      hn::Stream(value, d, reinterpret_cast<uint8_t*>(to) + i);
    else
      hn::Store(value, d, reinterpret_cast<uint8_t*>(to) + i);
  };
  for (int64_t i = 0; next != nullptr && i < bytes; i += kLine) hwy::Prefetch(next + i);
  int64_t i = 0;
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    const auto a = load(i), b = load(i + lanes), c = load(i + 2 * lanes), e = load(i + 3 * lanes);
    store(a, i);
    store(b, i + lanes);
    store(c, i + 2 * lanes);
    store(e, i + 3 * lanes);
  }
  for (; i < bytes; i += lanes) store(load(i), i);
}

class Join {
 public:
  Join(const JoinedRows& joined, std::span<std::byte* const> targets,
       std::span<const int64_t> offsets, std::span<const std::byte* const> sources, bool streamed)
      : joined_(joined),
        targets_(targets),
        offsets_(offsets),
        sources_(sources),
        members_(std::ssize(sources)),
        streamed_(streamed) {}

  void run() const {
    const int64_t bytes = joined_.bytes;
    const bool dense = joined_.place_step == bytes && joined_.target_step == members_ * bytes;
    const bool once = offsets_.empty() && targets_.size() > 1;
    if (!once && bytes < kLong && has_lines())
      streamed_ ? by_lines<true>() : by_lines<false>();
    else if (dense && bytes < kLong)
      staged();
    else if (once)
      by_parts();
    else
      by_rows();
  }

 private:
  bool has_lines() const {
    if (joined_.bytes % kLine != 0 || joined_.place_step % kLine != 0 ||
        joined_.target_step % kLine != 0)
      return false;
    return std::all_of(targets_.begin(), targets_.end(), [](const std::byte* target) {
      return reinterpret_cast<uintptr_t>(target) % kLine == 0;
    });
  }
  const std::byte* source(int64_t m, int64_t r, size_t target) const {
    return sources_[static_cast<size_t>(m)] + r * joined_.source_step +
           (offsets_.empty() ? 0 : offsets_[target]);
  }
  int64_t place(int64_t r, int64_t m) const {
    return r * joined_.target_step + m * joined_.place_step;
  }

  void give(std::byte* to, const std::byte* from, int64_t bytes) const {
    if (streamed_)
      stream_(to, from, bytes);
    else
      std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  template <bool kStreamed>
  void by_lines() const {
    if (offsets_.empty())
      by_turns<kStreamed>(joined_.far && !kStreamed ? 2 * kTurn : kTurn);
    else if (kStreamed && joined_.bytes < kApart)
      by_turns<kStreamed>(kBurst);
    else
      by_sources<kStreamed>();
  }

  // So many bytes of rows of each target in turn: what one reads of a row brings near what the next
  // reads. Of each source one row after the other, and past the caches the next turn's are fetched.
  template <bool kStreamed>
  void by_turns(int64_t turn) const {
    const int64_t window = std::max<int64_t>(turn / joined_.target_step, 1);
    for (int64_t first = 0; first < joined_.rows; first += window) {
      const int64_t last = std::min(first + window, joined_.rows);
      for (size_t t = 0; t < targets_.size(); ++t)
        for (int64_t m = 0; m < members_; ++m)
          for (int64_t r = first; r < last; ++r)
            copy_lines<kStreamed>(
                targets_[t] + place(r, m), source(m, r, t), joined_.bytes,
                kStreamed && r + window < joined_.rows ? source(m, r + window, t) : nullptr);
    }
  }

  // A row of a source after the other, to all targets what is for them; where they come from
  // memory, the next source's is fetched.
  template <bool kStreamed>
  void by_sources() const {
    for (int64_t r = 0; r < joined_.rows; ++r)
      for (int64_t m = 0; m < members_; ++m) {
        const int64_t next = m + 1 < members_ ? m + 1 : 0, next_row = next == 0 ? r + 1 : r;
        const bool fetched = joined_.far && next_row < joined_.rows;
        for (size_t t = 0; t < targets_.size(); ++t)
          copy_lines<kStreamed>(targets_[t] + place(r, m), source(m, r, t), joined_.bytes,
                                fetched ? source(next, next_row, t) : nullptr);
      }
  }

  // Long rows, of a source one target's part after the other.
  void by_rows() const {
    for (int64_t r = 0; r < joined_.rows; ++r)
      for (int64_t m = 0; m < members_; ++m)
        for (size_t t = 0; t < targets_.size(); ++t)
          give(targets_[t] + place(r, m), source(m, r, t), joined_.bytes);
  }

  // The same to all targets, in parts that stay in the nearest cache until all have them.
  void by_parts() const {
    for (int64_t r = 0; r < joined_.rows; ++r)
      for (int64_t m = 0; m < members_; ++m)
        for (int64_t at = 0; at < joined_.bytes; at += kStage)
          for (std::byte* const target : targets_)
            give(target + place(r, m) + at, source(m, r, 0) + at,
                 std::min(kStage, joined_.bytes - at));
  }

  // Short rows come together in the nearest cache and leave as long ones.
  void staged() const {
    alignas(kLine) std::byte stage[kStage];
    const int64_t whole = kStage / joined_.target_step;
    const int64_t rows = std::max<int64_t>(whole, 1);
    const int64_t most = whole > 0 ? members_ : kStage / joined_.bytes;
    for (int64_t r = 0; r < joined_.rows; r += rows) {
      const int64_t n = std::min(rows, joined_.rows - r);
      for (int64_t m = 0; m < members_; m += most) {
        const int64_t some = std::min(most, members_ - m), step = some * joined_.bytes;
        for (size_t t = 0; t < targets_.size(); ++t) {
          for (int64_t i = 0; i < some && (t == 0 || !offsets_.empty()); ++i)
            copies({n, joined_.bytes}, stage + i * joined_.bytes, step, source(m + i, r, t),
                   joined_.source_step, false);
          give(targets_[t] + place(r, m), stage, n * step);
        }
      }
    }
  }

  const JoinedRows& joined_;
  std::span<std::byte* const> targets_;
  std::span<const int64_t> offsets_;
  std::span<const std::byte* const> sources_;
  int64_t members_;
  bool streamed_;
  StreamFunction stream_ = stream_function();
};

void joins(const JoinedRows& joined, std::span<std::byte* const> targets,
           std::span<const int64_t> offsets, std::span<const std::byte* const> sources,
           bool streamed) {
  Join(joined, targets, offsets, sources, streamed).run();
}

}  // namespace

decltype(&copy_rows) find_copies() { return copies; }
decltype(&join_rows) find_joins() { return joins; }
SumRows find_sums(DType dtype) {
  if (dtype == DType::f32) return sums<Stored<float>>;
  if (dtype == DType::s32) return sums<Stored<int32_t>>;
#if HWY_HAVE_FLOAT64
  if (dtype == DType::f64) return sums<Stored<double>>;
#endif
#if HWY_TARGET != HWY_SCALAR
  if (dtype == DType::bf16) return sums<StoredHalves<BrainFloats>>;
  if (dtype == DType::f16) return sums<StoredHalves<HalfFloats>>;
#endif
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_copies);
HWY_EXPORT(find_joins);
HWY_EXPORT(find_sums);

void copy_rows(const RowBlock& block, std::byte* to, int64_t to_step, const std::byte* from,
               int64_t from_step, bool streamed) {
  static const auto function = HWY_DYNAMIC_DISPATCH(find_copies)();
  if (block.bytes > 0) function(block, to, to_step, from, from_step, streamed);
}

void join_rows(const JoinedRows& joined, std::span<std::byte* const> targets,
               std::span<const int64_t> offsets, std::span<const std::byte* const> sources,
               bool streamed) {
  static const auto function = HWY_DYNAMIC_DISPATCH(find_joins)();
  if (joined.bytes > 0) function(joined, targets, offsets, sources, streamed);
}

SumRows find_sum_rows(DType dtype) { return HWY_DYNAMIC_DISPATCH(find_sums)(dtype); }

}  // namespace gspmd
#endif
