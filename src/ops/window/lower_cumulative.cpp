// Cumulative sums and the like along one dim: each element once, what has been combined so far in
// registers or in one row.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/window/lower_cumulative.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "gspmd/base/error.h"
#include "hwy/cache_control.h"
#include "kernels/stream.h"
#include "kernels/transpose_block.h"
#include "ops/common/combine_values.h"
#include "ops/window/cumulative.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <Combiner kCombiner>
constexpr bool kExtreme = kCombiner == Combiner::max || kCombiner == Combiner::min;

// What is folded: of extrema of floats integers in the order of the numbers, which one instruction
// compares.
template <Combiner kCombiner, class T>
using FoldType =
    std::conditional_t<!kExtreme<kCombiner>, AccumulatorOf<T>,
                       std::conditional_t<std::is_same_v<T, double>, int64_t,
                                          std::conditional_t<is_float_v<T>, int32_t, T>>>;

// -0 below +0, NaN beyond all on the side of the combiner.
template <Combiner kCombiner, class A>
constexpr A kNaNFold = kCombiner == Combiner::max ? std::numeric_limits<A>::max()
                                                  : std::numeric_limits<A>::min();

// Negative floats are ordered the other way round; it is its own inverse.
template <class A>
A turn_negative(A bits) {
  constexpr int kSign = sizeof(A) * 8 - 1;
  return static_cast<A>(bits ^ ((bits >> kSign) & std::numeric_limits<A>::max()));
}

template <Combiner kCombiner, class T>
FoldType<kCombiner, T> to_fold(T value) {
  using A = FoldType<kCombiner, T>;
  if constexpr (kExtreme<kCombiner> && is_float_v<T>) {
    using Float = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto x = static_cast<Float>(value);
    return std::isnan(x) ? kNaNFold<kCombiner, A> : turn_negative(std::bit_cast<A>(x));
  } else {
    return convert_element<A>(value);
  }
}

template <Combiner kCombiner, class T>
T from_fold(FoldType<kCombiner, T> value) {
  if constexpr (kExtreme<kCombiner> && is_float_v<T>) {
    using Float = std::conditional_t<std::is_same_v<T, double>, double, float>;
    return convert_element<T>(std::bit_cast<Float>(turn_negative(value)));
  } else {
    return convert_element<T>(value);
  }
}

template <Combiner kCombiner, class A>
A folded(A a, A b) {
  if constexpr (kCombiner == Combiner::sum) return add_elements(a, b);
  if constexpr (kCombiner == Combiner::product) return multiply_elements(a, b);
  if constexpr (kCombiner == Combiner::max) return a > b ? a : b;
  if constexpr (kCombiner == Combiner::min) return a < b ? a : b;
  if constexpr (std::is_integral_v<A> && kCombiner == Combiner::logical_and)
    return static_cast<A>(a & b);
  if constexpr (std::is_integral_v<A> && kCombiner == Combiner::logical_or)
    return static_cast<A>(a | b);
  return a;
}

// The same of vectors, for the types that most programs have: what is folded stays in registers.
template <Combiner kCombiner, class T>
struct VectorFold {
  static constexpr bool kAny =
      (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t>)&&(
          kExtreme<kCombiner> || kCombiner == Combiner::sum || kCombiner == Combiner::product);
  static constexpr bool kOrdered = kExtreme<kCombiner> && std::is_floating_point_v<T>;
  using A = FoldType<kCombiner, T>;

  template <class D>
  static HWY_INLINE hn::Vec<D> turn(D d, hn::Vec<D> bits) {
    const auto most = hn::Set(d, std::numeric_limits<A>::max());
    return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), most));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    const hn::Rebind<T, D> stored;
    const auto x = hn::LoadU(stored, from);
    if constexpr (kOrdered)
      return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), hn::Set(d, kNaNFold<kCombiner, A>),
                            turn(d, hn::BitCast(d, x)));
    else if constexpr (sizeof(A) != sizeof(T))
      return hn::PromoteTo(d, x);
    else
      return x;
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> value, T* to) {
    const hn::Rebind<T, D> stored;
    if constexpr (kOrdered)
      hn::StoreU(hn::BitCast(stored, turn(d, value)), stored, to);
    else if constexpr (sizeof(A) != sizeof(T))
      hn::StoreU(hn::DemoteTo(stored, value), stored, to);
    else
      hn::StoreU(value, stored, to);
  }
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    if constexpr (kCombiner == Combiner::sum) return hn::Add(a, b);
    if constexpr (kCombiner == Combiner::product) return hn::Mul(a, b);
    if constexpr (kCombiner == Combiner::max) return hn::Max(a, b);
    return hn::Min(a, b);
  }
};

// Rows one after the other: of the input, of the result.
template <class T>
struct Rows {
  const T* from;
  int64_t from_step;
  T* to;
  int64_t to_step;
  int64_t count;
};

// kPlain: the initial value changes nothing where sums begin with it.
template <Combiner kCombiner, bool kPlain, class T>
class Fold {
 public:
  using A = FoldType<kCombiner, T>;
  Fold(const Cumulative& c, T init) : c_(c), init_(to_fold<kCombiner>(init)) {
    if (is_streamed(c.outer * c.positions * c.inner * kSize)) stream_ = stream_function();
  }

  // Rows of `lanes` neighbours, kRows of them at a time: as many reads of memory are under way.
  void run_columns(const T* in, T* out, int64_t lanes) const {
    std::array<A, kCumulativeRow> so_far;
    start(in, 1, lanes, so_far.data());
    int64_t rows = rows_inside(0);
    for (int64_t n = 0; n < c_.positions;) {
      const int64_t after = n + std::max<int64_t>(rows, 1), next = rows_inside(after);
      for (int64_t i = 0; i < lanes; i += kChunk) {
        const int64_t count = std::min(kChunk, lanes - i);
        prefetch_rows(in + i, after, next, count);
        run_chunk(in + i, n, rows, count, so_far.data() + i, out + i);
      }
      n = after;
      rows = next;
    }
  }

  // `lines` of kLines side by side, in square tiles that are turned around where all of kTiles
  // tiles is inside; the rest one by one.
  void run_lines(const T* in, T* out, int64_t lines) const {
    std::array<A, kLines> so_far;
    start(in, c_.size, lines, so_far.data());
    constexpr int64_t kWide = kTiles * kLines;
    for (int64_t n = 0; n < c_.positions; n += kWide) {
      const int64_t count = std::min(kWide, c_.positions - n);
      const int64_t first = c_.form.reverse ? c_.positions - n - count : n;
      const int64_t element = first + c_.form.shift;
      if (lines == kLines && count == kWide && element >= 0 && element + kWide <= c_.size) {
        run_tiles(in + element, so_far.data(), out + first);
        continue;
      }
      for (int64_t line = 0; line < lines; ++line)
        run_line(in + line * c_.size, n, count, so_far[static_cast<size_t>(line)],
                 out + line * c_.positions);
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kRows = 8;
  static constexpr int64_t kChunk = 64;  // columns of a row at a time
  static constexpr int64_t kLines = cumulative_lines(kSize);
  static constexpr int64_t kTiles = 4;  // side by side: neighbouring lines of memory together

  T result(A value) const {
    return from_fold<kCombiner, T>(kPlain ? value : folded<kCombiner>(init_, value));
  }

  // What is combined before the first position's own element; lanes are `lane` elements apart.
  void start(const T* in, int64_t lane, int64_t lanes, A* so_far) const {
    const A neutral =
        to_fold<kCombiner>(convert_element<T>(neutral_contribution(kCombiner, c_.dtype)));
    std::fill_n(so_far, lanes, kPlain ? init_ : neutral);
    const int64_t step = c_.form.reverse ? -1 : 1, end = c_.position(0) + c_.form.shift;
    for (int64_t e = c_.form.reverse ? c_.size - 1 : 0;
         e * step < end * step && e >= 0 && e < c_.size; e += step)
      for (int64_t i = 0; i < lanes; ++i)
        so_far[i] = folded<kCombiner>(so_far[i], to_fold<kCombiner>(in[e * c_.inner + i * lane]));
  }

  // Positions from the n-th on, at most kRows, that have an element of their own.
  int64_t rows_inside(int64_t n) const {
    int64_t rows = 0;
    for (; rows < std::min(kRows, c_.positions - n); ++rows) {
      const int64_t element = c_.position(n + rows) + c_.form.shift;
      if (element < 0 || element >= c_.size) break;
    }
    return rows;
  }

  // `rows` positions from the n-th on of at most kChunk lanes; one without an element if 0.
  void run_chunk(const T* in, int64_t n, int64_t rows, int64_t lanes, A* so_far, T* out) const {
    alignas(64) std::array<T, kChunk * kRows> sums;
    if (rows > 0)
      add_rows({element(in, n), direction() * c_.inner, sums.data(), kChunk, rows}, lanes, so_far);
    else
      for (int64_t i = 0; i < lanes; ++i) sums[static_cast<size_t>(i)] = result(so_far[i]);
    for (int64_t k = 0; k < std::max<int64_t>(rows, 1); ++k)
      put<kChunk>(sums.data() + k * kChunk, lanes, out + c_.position(n + k) * c_.inner);
  }

  int64_t direction() const { return c_.form.reverse ? -1 : 1; }
  // The n-th position's own, of columns.
  const T* element(const T* in, int64_t n) const {
    return in + (c_.position(n) + c_.form.shift) * c_.inner;
  }
  // Inlined: a call without effects is left out.
  HWY_INLINE void prefetch_rows(const T* in, int64_t n, int64_t rows, int64_t lanes) const {
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t i = 0; i < lanes; i += 64 / kSize) hwy::Prefetch(element(in, n + k) + i);
  }

  void add_rows(const Rows<T>& rows, int64_t lanes, A* so_far) const {
    if constexpr (VectorFold<kCombiner, T>::kAny) {
      const hn::ScalableTag<A> d;
      const hn::CappedTag<A, 1> one;
      const auto step = static_cast<int64_t>(hn::Lanes(d));
      const int64_t whole = lanes / step * step;
      for (int64_t i = 0; i < whole; i += step) add_vectors(d, rows, i, so_far);
      for (int64_t i = whole; i < lanes; ++i) add_vectors(one, rows, i, so_far);
    } else {
      for (int64_t k = 0; k < rows.count; ++k) {
        const T* const from = rows.from + k * rows.from_step;
        T* const to = rows.to + k * rows.to_step;
        GSPMD_IVDEP
        for (int64_t i = 0; i < lanes; ++i) {
          so_far[i] = folded<kCombiner>(so_far[i], to_fold<kCombiner>(from[i]));
          to[i] = result(so_far[i]);
        }
      }
    }
  }

  template <class D>
  HWY_INLINE void add_vectors(D d, const Rows<T>& rows, int64_t i, A* so_far) const {
    using F = VectorFold<kCombiner, T>;
    auto sum = hn::LoadU(d, so_far + i);
    const auto init = hn::Set(d, init_);
    for (int64_t k = 0; k < rows.count; ++k) {
      sum = F::combine(sum, F::load(d, rows.from + k * rows.from_step + i));
      F::store(d, kPlain ? sum : F::combine(init, sum), rows.to + k * rows.to_step + i);
    }
    hn::StoreU(sum, d, so_far + i);
  }

  // kLines rows of as many elements, turned around.
  static void turn(const T* from, int64_t from_row, T* to, int64_t to_row) {
    static const TransposeBlock block = transpose_block_function(kSize);
    constexpr int64_t kSide = block_side(kSize);
    for (int64_t i = 0; i < kLines; i += kSide)
      for (int64_t j = 0; j < kLines; j += kSide)
        block(reinterpret_cast<const std::byte*>(from + j * from_row + i), from_row,
              reinterpret_cast<std::byte*>(to + i * to_row + j), to_row);
  }

  void run_tiles(const T* in, A* so_far, T* out) const {
    alignas(64) std::array<T, kLines * kLines> tile, sums;
    alignas(64) std::array<T, kLines * kLines * kTiles> results;
    // As many tiles on are fetched, or, beyond the end, asked for in vain.
    for (int64_t t = 0; t < kTiles; ++t) {
      const int64_t at = (c_.form.reverse ? kTiles - 1 - t : t) * kLines;
      for (int64_t line = 0; line < kLines; ++line)
        for (int64_t i = 0; i < kLines; i += 64 / kSize)
          hwy::Prefetch(in + line * c_.size + at + direction() * kTiles * kLines + i);
      turn(in + at, c_.size, tile.data(), kLines);
      const int64_t first = c_.form.reverse ? (kLines - 1) * kLines : 0,
                    step = direction() * kLines;
      add_rows({tile.data() + first, step, sums.data() + first, step, kLines}, kLines, so_far);
      turn(sums.data(), kLines, results.data() + at, kLines * kTiles);
    }
    constexpr int64_t kWide = kTiles * kLines;
    for (int64_t line = 0; line < kLines; ++line)
      put<kWide>(results.data() + line * kWide, kWide, out + line * c_.positions);
  }

  // Past the caches where a large result is written in whole lines.
  template <int64_t kMost>
  HWY_INLINE void put(const T* row, int64_t count, T* to) const {
    const hn::ScalableTag<uint8_t> d;
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    const auto* const from = reinterpret_cast<const uint8_t*>(row);
    if (stream_ == nullptr) {
      std::copy_n(row, count, to);
    } else if (count == kMost && kMost * kSize % 64 == 0 &&
               reinterpret_cast<uintptr_t>(to) % 64 == 0) {
      for (int64_t i = 0; i < kMost * kSize; i += step)
        hn::Stream(hn::Load(d, from + i), d, reinterpret_cast<uint8_t*>(to) + i);
    } else {
      stream_(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(row),
              count * kSize);
    }
  }

  void run_line(const T* in, int64_t n, int64_t count, A& so_far, T* out) const {
    for (int64_t end = n + count; n < end; ++n) {
      const int64_t position = c_.position(n), element = position + c_.form.shift;
      if (element >= 0 && element < c_.size)
        so_far = folded<kCombiner>(so_far, to_fold<kCombiner>(in[element]));
      out[position] = result(so_far);
    }
  }

  const Cumulative& c_;
  A init_;
  StreamFunction stream_ = nullptr;  // of large results
};

// Groups [first, last) of lines where they are contiguous, else of columns.
template <class F, class T>
void run_groups(const Cumulative& c, const F& fold, const T* in, T* out, int64_t first,
                int64_t last) {
  const int64_t groups = ceil_div(c.inner, kCumulativeRow);
  for (int64_t group = first; group < last; ++group) {
    if (c.inner == 1) {
      const int64_t lines = cumulative_lines(sizeof(T)), line = group * lines;
      fold.run_lines(in + line * c.size, out + line * c.positions, std::min(lines, c.outer - line));
      continue;
    }
    const int64_t outer = group / groups, column = group % groups * kCumulativeRow;
    fold.run_columns(in + outer * c.size * c.inner + column,
                     out + outer * c.positions * c.inner + column,
                     std::min(kCumulativeRow, c.inner - column));
  }
}

template <Combiner kCombiner, class T>
void run_typed(const Cumulative& c, const KernelArgs& args, int64_t first, int64_t last) {
  const auto* const in = reinterpret_cast<const T*>(args.operands[0]);
  auto* const out = reinterpret_cast<T*>(args.results[0]);
  const T init = *reinterpret_cast<const T*>(args.operands[1]);
  // Sums of floats round differently where they begin with anything but their identity.
  bool plain = !is_float_v<T> || kExtreme<kCombiner>;
  plain = plain || (kCombiner == Combiner::sum && init == T(0)) ||
          (kCombiner == Combiner::product && init == T(1));
  if constexpr (is_float_v<T> && (kCombiner == Combiner::sum || kCombiner == Combiner::product))
    if (!plain) return run_groups(c, Fold<kCombiner, false, T>(c, init), in, out, first, last);
  run_groups(c, Fold<kCombiner, true, T>(c, init), in, out, first, last);
}

template <Combiner kCombiner>
void run_combiner(const Cumulative& c, const KernelArgs& args, int64_t first, int64_t last) {
  visit_dtype(c.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr bool kBits = kCombiner == Combiner::logical_and || kCombiner == Combiner::logical_or;
    if constexpr (!kBits || std::is_integral_v<T>) run_typed<kCombiner, T>(c, args, first, last);
  });
}

void run_cumulative(const Cumulative& c, const KernelArgs& args, int64_t first, int64_t last) {
  switch (c.combiner) {
    case Combiner::sum:
      return run_combiner<Combiner::sum>(c, args, first, last);
    case Combiner::product:
      return run_combiner<Combiner::product>(c, args, first, last);
    case Combiner::max:
      return run_combiner<Combiner::max>(c, args, first, last);
    case Combiner::min:
      return run_combiner<Combiner::min>(c, args, first, last);
    case Combiner::logical_and:
      return run_combiner<Combiner::logical_and>(c, args, first, last);
    case Combiner::logical_or:
      return run_combiner<Combiner::logical_or>(c, args, first, last);
  }
}

}  // namespace

CumulativeFunction find_cumulative() { return run_cumulative; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {

HWY_EXPORT(find_cumulative);

PreparedKernel lower_cumulative(const Node& node) {
  const auto combiner = recognize_combiner(*node.called[0]);
  const Shape& x = node.operand(0)->shape;
  if (!combiner || !is_computable(x.dtype) || is_complex(x.dtype)) return {};
  Cumulative c;
  c.combiner = *combiner;
  c.dtype = x.dtype;
  int64_t found = -1;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const WindowDim& window = node.attrs.window[static_cast<size_t>(d)];
    const int64_t size = x.dims[static_cast<size_t>(d)];
    if (is_trivial(window) && node.dim(d) == size) {
      (found < 0 ? c.outer : c.inner) *= size;
      continue;
    }
    const auto form = cumulative_dim(window, size, node.dim(d));
    if (found >= 0 || !form) return {};
    found = d;
    c.size = size;
    c.positions = node.dim(d);
    c.form = *form;
  }
  if (found < 0) return {};
  const int64_t groups = c.inner == 1 ? ceil_div(c.outer, cumulative_lines(dtype_size(c.dtype)))
                                      : c.outer * ceil_div(c.inner, kCumulativeRow);
  PreparedKernel kernel;
  kernel.cost = 100 + static_cast<double>(node.shape.elements_count());
  kernel.parts = std::min<int64_t>(groups, 8);
  kernel.run = [c, groups, parts = kernel.parts,
                function = HWY_DYNAMIC_DISPATCH(find_cumulative)()](const KernelArgs& args) {
    function(c, args, args.part * groups / parts, (args.part + 1) * groups / parts);
    flush_stream();
  };
  return kernel;
}

}  // namespace gspmd
#endif
