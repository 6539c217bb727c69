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
#include <cstring>

#include "gspmd/base/error.h"
#include "kernels/extrema.h"
#include "kernels/stream.h"
#include "kernels/transpose_block.h"
#include "ops/common/combine_values.h"
#include "ops/window/cumulative.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

// Extrema need no more precision than the elements have.
template <Combiner kCombiner, class T>
using FoldType =
    std::conditional_t<kCombiner == Combiner::max || kCombiner == Combiner::min,
                       std::conditional_t<is_float16_v<T>, float, T>, AccumulatorOf<T>>;

template <Combiner kCombiner, class A>
A folded(A a, A b) {
  if constexpr (kCombiner == Combiner::sum) return add_elements(a, b);
  if constexpr (kCombiner == Combiner::product) return multiply_elements(a, b);
  if constexpr (kCombiner == Combiner::max) return larger(a, b);
  if constexpr (kCombiner == Combiner::min) return smaller(a, b);
  if constexpr (std::is_integral_v<A> && kCombiner == Combiner::logical_and)
    return static_cast<A>(a & b);
  if constexpr (std::is_integral_v<A> && kCombiner == Combiner::logical_or)
    return static_cast<A>(a | b);
  return a;
}

// kPlain: the initial value changes nothing where sums begin with it.
template <Combiner kCombiner, bool kPlain, class T>
class Fold {
 public:
  using A = FoldType<kCombiner, T>;
  Fold(const Cumulative& c, A init) : c_(c), init_(init) {
    if (is_streamed(c.outer * c.positions * c.inner * static_cast<int64_t>(sizeof(T))))
      stream_ = stream_function();
  }

  // Rows of `lanes` neighbours, one after the other.
  void run_columns(const T* in, T* out, int64_t lanes) const {
    std::array<A, kCumulativeRow> so_far;
    std::array<T, kCumulativeRow> row;
    start(in, 1, lanes, so_far.data());
    for (int64_t n = 0; n < c_.positions; ++n) {
      const int64_t position = c_.position(n), element = position + c_.form.shift;
      T* const to = out + position * c_.inner;
      if (element >= 0 && element < c_.size)
        add_row(in + element * c_.inner, lanes, so_far.data(), stream_ ? row.data() : to);
      else
        for (int64_t i = 0; i < lanes; ++i)
          (stream_ ? row.data() : to)[i] = result(so_far[static_cast<size_t>(i)]);
      if (stream_) put(row.data(), lanes, to);
    }
  }

  // kCumulativeLines lines side by side, in square tiles that are turned around where all of a tile
  // is inside; the rest, and other sizes of elements, one by one.
  void run_lines(const T* in, T* out, int64_t lines) const {
    std::array<A, kCumulativeLines> so_far;
    start(in, c_.size, lines, so_far.data());
    for (int64_t n = 0; n < c_.positions; n += kCumulativeLines) {
      const int64_t count = std::min(kCumulativeLines, c_.positions - n);
      const int64_t first = c_.form.reverse ? c_.positions - n - count : n;
      const int64_t element = first + c_.form.shift;
      if (sizeof(T) == 4 && lines == kCumulativeLines && count == kCumulativeLines &&
          element >= 0 && element + kCumulativeLines <= c_.size) {
        run_tile(in + element, so_far.data(), out + first);
        continue;
      }
      for (int64_t line = 0; line < lines; ++line)
        run_line(in + line * c_.size, n, count, so_far[static_cast<size_t>(line)],
                 out + line * c_.positions);
    }
  }

 private:
  T result(A value) const {
    return convert_element<T>(kPlain ? value : folded<kCombiner>(init_, value));
  }

  // What is combined before the first position's own element; lanes are `lane` elements apart.
  void start(const T* in, int64_t lane, int64_t lanes, A* so_far) const {
    std::fill_n(so_far, lanes,
                kPlain ? init_ : convert_element<A>(neutral_contribution(kCombiner, c_.dtype)));
    const int64_t step = c_.form.reverse ? -1 : 1, end = c_.position(0) + c_.form.shift;
    for (int64_t e = c_.form.reverse ? c_.size - 1 : 0;
         e * step < end * step && e >= 0 && e < c_.size; e += step)
      for (int64_t i = 0; i < lanes; ++i)
        so_far[i] = folded<kCombiner>(so_far[i], convert_element<A>(in[e * c_.inner + i * lane]));
  }

  void add_row(const T* __restrict from, int64_t lanes, A* __restrict so_far,
               T* __restrict to) const {
    for (int64_t i = 0; i < lanes; ++i) {
      so_far[i] = folded<kCombiner>(so_far[i], convert_element<A>(from[i]));
      to[i] = result(so_far[i]);
    }
  }

  void run_tile(const T* in, A* so_far, T* out) const {
    alignas(64) std::array<T, kCumulativeLines * kCumulativeLines> tile, sums;
    const TransposeBlock turn = transpose_block_function(4);
    turn(reinterpret_cast<const std::byte*>(in), c_.size, reinterpret_cast<std::byte*>(tile.data()),
         kCumulativeLines);
    for (int64_t n = 0; n < kCumulativeLines; ++n) {
      const int64_t row = c_.form.reverse ? kCumulativeLines - 1 - n : n;
      add_row(tile.data() + row * kCumulativeLines, kCumulativeLines, so_far,
              sums.data() + row * kCumulativeLines);
    }
    const bool whole_lines = stream_ != nullptr && reinterpret_cast<uintptr_t>(out) % 64 == 0 &&
                             c_.positions % kCumulativeLines == 0;
    transpose_block_function(4, whole_lines)(reinterpret_cast<const std::byte*>(sums.data()),
                                             kCumulativeLines, reinterpret_cast<std::byte*>(out),
                                             c_.positions);
  }

  void put(const T* row, int64_t count, T* to) const {
    stream_(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(row),
            count * static_cast<int64_t>(sizeof(T)));
  }

  void run_line(const T* in, int64_t n, int64_t count, A& so_far, T* out) const {
    for (int64_t end = n + count; n < end; ++n) {
      const int64_t position = c_.position(n), element = position + c_.form.shift;
      if (element >= 0 && element < c_.size)
        so_far = folded<kCombiner>(so_far, convert_element<A>(in[element]));
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
      const int64_t line = group * kCumulativeLines;
      fold.run_lines(in + line * c.size, out + line * c.positions,
                     std::min(kCumulativeLines, c.outer - line));
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
  using A = FoldType<kCombiner, T>;
  const auto* const in = reinterpret_cast<const T*>(args.operands[0]);
  auto* const out = reinterpret_cast<T*>(args.results[0]);
  const A init = convert_element<A>(*reinterpret_cast<const T*>(args.operands[1]));
  // Sums of floats round differently where they begin with anything but their identity.
  bool plain = !is_float_v<T> || kCombiner == Combiner::max || kCombiner == Combiner::min;
  plain = plain || (kCombiner == Combiner::sum && init == A(0)) ||
          (kCombiner == Combiner::product && init == A(1));
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
  const int64_t groups = c.inner == 1 ? ceil_div(c.outer, kCumulativeLines)
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
