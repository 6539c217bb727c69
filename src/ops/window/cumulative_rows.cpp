// What cumulative windows combine, in vectors: of f32, f64, s32 and s64. Other types are converted
// to one of these, so that few loops are compiled for every instruction set.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/window/cumulative_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <array>
#include <limits>

#include "hwy/cache_control.h"
#include "kernels/extrema-inl.h"
#include "kernels/stream.h"
#include "ops/common/combine_values.h"
#include "ops/window/cumulative_rows.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kAhead = 2048;  // bytes of a line from behind that are fetched ahead

template <Combiner kCombiner>
constexpr bool kExtreme = kCombiner == Combiner::max || kCombiner == Combiner::min;

// What is folded: of extrema of floats integers in the order of the numbers, which one instruction
// compares.
template <Combiner kCombiner, class T>
using FoldType =
    std::conditional_t<!kExtreme<kCombiner>, AccumulatorOf<T>,
                       std::conditional_t<std::is_same_v<T, double>, int64_t,
                                          std::conditional_t<is_float_v<T>, int32_t, T>>>;

// Vectors of T in memory, of what is folded in registers.
template <Combiner kCombiner, class T>
struct Fold {
  using A = FoldType<kCombiner, T>;
  static constexpr bool kOrdered = kExtreme<kCombiner> && std::is_floating_point_v<T>;
  // -0 below +0, NaN beyond all on the side of the combiner.
  static constexpr A kNaN =
      kCombiner == Combiner::max ? std::numeric_limits<A>::max() : std::numeric_limits<A>::min();

  template <class D>
  static GSPMD_INLINE hn::Vec<D> load(D d, const T* from) {
    const hn::Rebind<T, D> stored;
    const auto x = hn::LoadU(stored, from);
    if constexpr (kOrdered)
      return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), hn::Set(d, kNaN),
                            in_order(d, hn::BitCast(d, x)));
    else if constexpr (sizeof(A) != sizeof(T))
      return hn::PromoteTo(d, x);
    else
      return x;
  }
  template <class D>
  static GSPMD_INLINE void store(D d, hn::Vec<D> value, T* to) {
    const hn::Rebind<T, D> stored;
    if constexpr (kOrdered)
      hn::StoreU(hn::BitCast(stored, in_order(d, value)), stored, to);
    else if constexpr (sizeof(A) != sizeof(T))
      hn::StoreU(hn::DemoteTo(stored, value), stored, to);
    else
      hn::StoreU(value, stored, to);
  }
  template <class D>
  static GSPMD_INLINE hn::Vec<D> combine(D d, hn::Vec<D> a, hn::Vec<D> b) {
    if constexpr (kCombiner == Combiner::sum)
      return hn::Add(a, b);
    else if constexpr (kCombiner == Combiner::product && std::is_same_v<A, int64_t>)
      return multiply(d, a, b);
    else if constexpr (kCombiner == Combiner::product)
      return hn::Mul(a, b);
    else if constexpr (kCombiner == Combiner::max)
      return hn::Max(a, b);
    else if constexpr (kCombiner == Combiner::min)
      return hn::Min(a, b);
    else if constexpr (kCombiner == Combiner::logical_and)
      return hn::And(a, b);
    else
      return hn::Or(a, b);
  }
  // Not every instruction set has products of 64 bits.
  template <class D>
  static GSPMD_INLINE hn::Vec<D> multiply(D d, hn::Vec<D> a, hn::Vec<D> b) {
    alignas(64) std::array<A, hn::MaxLanes(D())> x, y;
    hn::Store(a, d, x.data());
    hn::Store(b, d, y.data());
    for (size_t i = 0; i < x.size(); ++i) x[i] = multiply_elements(x[i], y[i]);
    return hn::Load(d, x.data());
  }
};

template <Combiner kCombiner, bool kPlain, class T, class D>
GSPMD_INLINE void add_vectors(D d, const FoldedRows& rows, int64_t i, const T* start,
                              FoldType<kCombiner, T>* so_far) {
  using F = Fold<kCombiner, T>;
  const hn::CappedTag<FoldType<kCombiner, T>, 1> one;
  auto sum = hn::LoadU(d, so_far + i);
  [[maybe_unused]] const auto init = hn::Set(d, hn::GetLane(F::load(one, start)));
  const auto* const from = reinterpret_cast<const T*>(rows.from);
  T* to = reinterpret_cast<T*>(rows.to) + i;
  for (int64_t k = 0; k < rows.count; ++k) {
    if (from != nullptr) sum = F::combine(d, sum, F::load(d, from + k * rows.from_step + i));
    if constexpr (kPlain)
      F::store(d, sum, to);
    else
      F::store(d, F::combine(d, init, sum), to);
    to += rows.to_step;
  }
  hn::StoreU(sum, d, so_far + i);
}

template <Combiner kCombiner, bool kPlain, class T>
void add_rows(const FoldedRows& rows, int64_t lanes, const std::byte* init, std::byte* so_far) {
  using A = FoldType<kCombiner, T>;
  const auto* const start = reinterpret_cast<const T*>(init);
  auto* const sums = reinterpret_cast<A*>(so_far);
  const hn::ScalableTag<A> d;
  const hn::CappedTag<A, 1> one;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = lanes / step * step;
  for (int64_t i = 0; i < whole; i += step) add_vectors<kCombiner, kPlain>(d, rows, i, start, sums);
  for (int64_t i = whole; i < lanes; ++i) add_vectors<kCombiner, kPlain>(one, rows, i, start, sums);
}

// Of each lane the one so many lanes before it (in reverse: behind it), and whether there is one.
template <class Index, size_t kLanes>
struct Neighbours {
  alignas(64) std::array<Index, kLanes> lane{};
  alignas(64) std::array<Index, kLanes> exists{};  // all bits or none

  constexpr Neighbours(size_t apart, bool reverse) {
    for (size_t i = 0; i < kLanes; ++i) {
      const bool there = reverse ? i + apart < kLanes : i >= apart;
      exists[i] = there ? Index{-1} : Index{0};
      lane[i] = static_cast<Index>(!there ? i : reverse ? i + apart : i - apart);
    }
  }
};

// Each lane of a vector combined with those before it, or behind it, in as many steps as its
// lanes' number has bits.
template <Combiner kCombiner, class T>
class Prefixes {
 public:
  using F = Fold<kCombiner, T>;
  using A = typename F::A;
  using D = hn::ScalableTag<A>;
  using V = hn::Vec<D>;
  static constexpr size_t kLanes = hn::MaxLanes(D());

  GSPMD_INLINE explicit Prefixes(bool reverse)
      : steps_{Step(reverse ? kBehind[0] : kBefore[0]), Step(reverse ? kBehind[1] : kBefore[1]),
               Step(reverse ? kBehind[2] : kBefore[2]), Step(reverse ? kBehind[3] : kBefore[3])},
        last_(hn::SetTableIndices(D(), reverse ? kFirstLane.data() : kLastLane.data())) {}

  GSPMD_INLINE V of(V x) const {
    if constexpr (kLanes > 1) x = steps_[0].run(x);
    if constexpr (kLanes > 2) x = steps_[1].run(x);
    if constexpr (kLanes > 4) x = steps_[2].run(x);
    if constexpr (kLanes > 8) x = steps_[3].run(x);
    return x;
  }
  // What all lanes come to, in each.
  GSPMD_INLINE V all(V prefixes) const { return hn::TableLookupLanes(prefixes, last_); }

  static GSPMD_INLINE V identity() {
    const D d;
    if constexpr (kCombiner == Combiner::sum)
      return std::is_floating_point_v<A> ? hn::Set(d, static_cast<A>(-0.0)) : hn::Zero(d);
    else if constexpr (kCombiner == Combiner::product)
      return hn::Set(d, A{1});
    else if constexpr (kCombiner == Combiner::max)
      return hn::Set(d, std::numeric_limits<A>::lowest());
    else if constexpr (kCombiner == Combiner::min)
      return hn::Set(d, std::numeric_limits<A>::max());
    else if constexpr (kCombiner == Combiner::logical_and)
      return hn::Set(d, static_cast<A>(-1));
    else
      return hn::Zero(d);
  }

 private:
  using Index = hn::TFromD<hn::RebindToSigned<D>>;
  using Table = Neighbours<Index, kLanes>;
  static_assert(kLanes <= 16);
  static constexpr std::array<Table, 4> kBefore{Table(1, false), Table(2, false), Table(4, false),
                                                Table(8, false)};
  static constexpr std::array<Table, 4> kBehind{Table(1, true), Table(2, true), Table(4, true),
                                                Table(8, true)};
  static constexpr std::array<Index, kLanes> filled(Index value) {
    std::array<Index, kLanes> lanes{};
    for (Index& lane : lanes) lane = value;
    return lanes;
  }
  alignas(64) static constexpr std::array<Index, kLanes> kFirstLane = filled(0);
  alignas(64) static constexpr std::array<Index, kLanes> kLastLane = filled(kLanes - 1);

  struct Step {
    GSPMD_INLINE explicit Step(const Table& table)
        : lane(hn::SetTableIndices(D(), table.lane.data())),
          exists(hn::RebindMask(
              D(), hn::MaskFromVec(hn::Load(hn::RebindToSigned<D>(), table.exists.data())))) {}
    GSPMD_INLINE V run(V x) const {
      const V other = hn::IfThenElse(exists, hn::TableLookupLanes(x, lane), identity());
      return F::combine(D(), other, x);
    }
    decltype(hn::SetTableIndices(D(), std::declval<const Index*>())) lane;
    hn::Mask<D> exists;
  };

  Step steps_[4];
  decltype(Step::lane) last_;
};

template <Combiner kCombiner, bool kPlain, class T>
void scan_line(const ScannedLine& line, const std::byte* init, std::byte* so_far) {
  using P = Prefixes<kCombiner, T>;
  using F = typename P::F;
  const typename P::D d;
  const hn::CappedTag<typename P::A, 1> one;
  const P prefixes(line.reverse);
  auto* const sum = reinterpret_cast<typename P::A*>(so_far);
  [[maybe_unused]] const auto start =
      hn::Set(d, hn::GetLane(F::load(one, reinterpret_cast<const T*>(init))));
  auto before = hn::Set(d, *sum);
  const auto scan = [&](auto x, T* to) HWY_ATTR {
    const auto found = prefixes.of(x), results = F::combine(d, before, found);
    before = F::combine(d, before, prefixes.all(found));
    if constexpr (kPlain)
      F::store(d, results, to);
    else
      F::store(d, F::combine(d, start, results), to);
  };
  const auto* const from = reinterpret_cast<const T*>(line.from);
  T* const to = reinterpret_cast<T*>(line.to);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t rest = line.count % lanes, whole = line.count - rest;
  for (int64_t i = 0; i < whole; i += lanes) {
    const int64_t at = line.reverse ? line.count - lanes - i : i;
    if (line.reverse) {  // the processor follows lines only upwards
      hwy::Prefetch(from + at - kAhead / sizeof(T));
      hwy::Prefetch(to + at - kAhead / sizeof(T));
    }
    scan(F::load(d, from + at), to + at);
  }
  if (rest > 0) {  // beside lanes that change nothing
    HWY_ALIGN std::array<T, P::kLanes> some{};
    const int64_t at = line.reverse ? 0 : whole, lane = line.reverse ? lanes - rest : 0;
    std::copy_n(from + at, rest, some.data() + lane);
    const auto first = hn::FirstN(d, static_cast<size_t>(line.reverse ? lanes - rest : rest));
    const auto x = F::load(d, some.data());
    scan(line.reverse ? hn::IfThenElse(first, P::identity(), x)
                      : hn::IfThenElse(first, x, P::identity()),
         some.data());
    std::copy_n(some.data() + lane, rest, to + at);
  }
  *sum = hn::GetLane(before);
}

template <Combiner kCombiner, bool kPlain, class T>
void begin_rows(const std::byte* init, int64_t lanes, std::byte* so_far) {
  const hn::CappedTag<FoldType<kCombiner, T>, 1> one;
  const T neutral = kCombiner == Combiner::sum ? T(-0.0) : T(1);
  const T* const start = kPlain ? reinterpret_cast<const T*>(init) : &neutral;
  auto* const sums = reinterpret_cast<FoldType<kCombiner, T>*>(so_far);
  std::fill_n(sums, lanes, hn::GetLane(Fold<kCombiner, T>::load(one, start)));
}

template <class T>
void find_loops(Combiner combiner, bool plain, CumulativeRows& rows) {
  const auto use = [&]<Combiner kCombiner, bool kPlain>() {
    rows.fold_size = sizeof(FoldType<kCombiner, T>);
    rows.wide = dtype_of<T>();
    rows.begin = begin_rows<kCombiner, kPlain, T>;
    rows.add = add_rows<kCombiner, kPlain, T>;
    rows.scan = scan_line<kCombiner, kPlain, T>;
  };
  const auto use_either = [&]<Combiner kCombiner>() {
    if constexpr (std::is_floating_point_v<T>)
      if (!plain) return use.template operator()<kCombiner, false>();
    use.template operator()<kCombiner, true>();
  };
  switch (combiner) {
    case Combiner::sum:
      return use_either.template operator()<Combiner::sum>();
    case Combiner::product:
      return use_either.template operator()<Combiner::product>();
    case Combiner::max:
      return use.template operator()<Combiner::max, true>();
    case Combiner::min:
      return use.template operator()<Combiner::min, true>();
    case Combiner::logical_and:
      if constexpr (std::is_integral_v<T>) use.template operator()<Combiner::logical_and, true>();
      return;
    case Combiner::logical_or:
      if constexpr (std::is_integral_v<T>) use.template operator()<Combiner::logical_or, true>();
      return;
  }
}

// `kFlip`: unsigned numbers in the order of signed ones.
template <class From, class To, bool kFlip>
void convert(const std::byte* from, int64_t count, std::byte* to) {
  const auto* const x = reinterpret_cast<const From*>(from);
  auto* const y = reinterpret_cast<To*>(to);
  GSPMD_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (kFlip)
      y[i] = static_cast<To>(x[i] ^ static_cast<From>(From(1) << (sizeof(From) * 8 - 1)));
    else
      y[i] = convert_element<To>(x[i]);
  }
}

template <class T, class Wide, bool kFlip = false>
void find_wide(Combiner combiner, bool plain, CumulativeRows& rows) {
  find_loops<Wide>(combiner, plain, rows);
  if constexpr (kFlip) {
    using Unsigned = std::make_unsigned_t<Wide>;
    rows.widen = convert<Unsigned, Unsigned, true>;
    rows.narrow = rows.widen;
  } else {
    rows.widen = convert<T, Wide, false>;
    rows.narrow = convert<Wide, T, false>;
  }
}

void stream_rows(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step,
                 int64_t bytes, int64_t rows) {
  static const StreamFunction any = stream_function();
  const hn::ScalableTag<uint8_t> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < rows; ++k, from += from_step, to += to_step) {
    if ((reinterpret_cast<uintptr_t>(to) | static_cast<uintptr_t>(bytes)) % 64 != 0) {
      any(to, from, bytes);
      continue;
    }
    for (int64_t i = 0; i < bytes; i += step)
      hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from) + i), d,
                 reinterpret_cast<uint8_t*>(to) + i);
  }
}

CumulativeRows find_rows(Combiner combiner, DType dtype, bool plain) {
  CumulativeRows rows;
  const bool extreme = combiner == Combiner::max || combiner == Combiner::min;
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) {  // sums of truth values are or, products and
      if (combiner == Combiner::sum) combiner = Combiner::logical_or;
      if (combiner == Combiner::product) combiner = Combiner::logical_and;
    }
    if constexpr (is_float16_v<T>) {
      if (extreme)
        find_wide<T, float>(combiner, plain, rows);
      else
        find_wide<T, double>(combiner, plain, rows);
    } else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, int32_t> ||
                         std::is_same_v<T, int64_t>) {
      find_loops<T>(combiner, plain, rows);
    } else if constexpr (sizeof(T) < 4) {
      find_wide<T, int32_t>(combiner, plain, rows);
    } else if (extreme) {
      find_wide<T, std::make_signed_t<T>, true>(combiner, plain, rows);
    } else {
      find_loops<std::make_signed_t<T>>(combiner, plain, rows);
    }
  });
  return rows;
}

}  // namespace

CumulativeRows find_cumulative_rows(Combiner combiner, DType dtype, bool plain) {
  return find_rows(combiner, dtype, plain);
}

StreamRows find_stream_rows() { return stream_rows; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_cumulative_rows);

CumulativeRows cumulative_rows(Combiner combiner, DType dtype, bool plain) {
  return HWY_DYNAMIC_DISPATCH(find_cumulative_rows)(combiner, dtype, plain);
}

HWY_EXPORT(find_stream_rows);

StreamRows stream_rows_function() { return HWY_DYNAMIC_DISPATCH(find_stream_rows)(); }

}  // namespace gspmd
#endif
