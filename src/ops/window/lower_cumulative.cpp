// Cumulative sums and the like along one dim: each element once, what has been combined so far in
// registers or in one row.
#include <algorithm>
#include <array>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/stream.h"
#include "ops/window/cumulative.h"
#include "ops/window/cumulative_rows.h"

namespace gspmd {
namespace {

class CumulativeRun {
 public:
  CumulativeRun(const Cumulative& c, const KernelArgs& args)
      : c_(c), in_(args.operands[0]), out_(args.results[0]), size_(dtype_size(c.dtype)) {
    // Only sums and products of floats round differently where they begin with the initial value.
    rows_ = cumulative_rows(c.combiner, c.dtype, false);
    wide_size_ = dtype_size(rows_.wide);
    widen(args.operands[1], 1, init_.data());
    if (begins_with_identity()) rows_ = cumulative_rows(c.combiner, c.dtype, true);
    if (is_streamed(c.outer * c.positions * c.inner * size_)) stream_ = stream_rows_function();
  }

  // Groups [first, last): lines where they are contiguous, else columns.
  void run_groups(int64_t first, int64_t last) const {
    const int64_t groups = ceil_div(c_.inner, kCumulativeRow);
    for (int64_t group = first; group < last; ++group) {
      if (c_.inner == 1) {
        run_line(in_ + group * c_.size * size_, out_ + group * c_.positions * size_);
        continue;
      }
      const int64_t outer = group / groups, column = group % groups * kCumulativeRow;
      run_columns(in_ + (outer * c_.size * c_.inner + column) * size_,
                  out_ + (outer * c_.positions * c_.inner + column) * size_,
                  std::min(kCumulativeRow, c_.inner - column));
    }
  }

 private:
  static constexpr int64_t kRows = 8;
  static constexpr int64_t kChunk = 64;    // columns of a row at a time
  static constexpr int64_t kPiece = 1024;  // elements of a line at a time
  static constexpr int64_t kFoldSize = 8;  // of a lane, at most
  using Folded = std::array<std::byte, kCumulativeRow * kFoldSize>;

  bool begins_with_identity() const {
    if (!is_floating(rows_.wide)) return false;
    const double init = rows_.wide == DType::f32 ? *reinterpret_cast<const float*>(init_.data())
                                                 : *reinterpret_cast<const double*>(init_.data());
    return (c_.combiner == Combiner::sum && init == 0) ||
           (c_.combiner == Combiner::product && init == 1);
  }

  // Rows of `lanes` neighbours, kRows of them at a time: as many reads of memory are under way.
  void run_columns(const std::byte* in, std::byte* out, int64_t lanes) const {
    alignas(64) Folded so_far;
    start(in, lanes, so_far.data());
    int64_t rows = rows_inside(0);
    for (int64_t n = 0; n < c_.positions;) {
      const int64_t after = n + std::max<int64_t>(rows, 1), next = rows_inside(after);
      for (int64_t i = 0; i < lanes; i += kChunk) {
        const int64_t count = std::min(kChunk, lanes - i);
        prefetch_rows(in + i * size_, after, next, count);
        run_chunk(in + i * size_, n, rows, count, so_far.data() + i * rows_.fold_size,
                  out + i * size_);
      }
      n = after;
      rows = next;
    }
  }

  void widen(const std::byte* from, int64_t count, std::byte* to) const {
    if (rows_.widen != nullptr)
      rows_.widen(from, count, to);
    else
      std::memcpy(to, from, static_cast<size_t>(count * size_));
  }
  int64_t direction() const { return c_.form.reverse ? -1 : 1; }

  // What is combined before the first position's own element.
  void start(const std::byte* in, int64_t lanes, std::byte* so_far) const {
    rows_.begin(init_.data(), lanes, so_far);
    const int64_t step = direction(), end = c_.position(0) + c_.form.shift;
    for (int64_t e = c_.form.reverse ? c_.size - 1 : 0;
         e * step < end * step && e >= 0 && e < c_.size; e += step)
      for (int64_t i = 0; i < lanes; ++i) {
        std::array<std::byte, kFoldSize> value, unused;
        widen(in + (e * c_.inner + i) * size_, 1, value.data());
        rows_.add({value.data(), 1, unused.data(), 1, 1}, 1, init_.data(),
                  so_far + i * rows_.fold_size);
      }
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
  void run_chunk(const std::byte* in, int64_t n, int64_t rows, int64_t lanes, std::byte* so_far,
                 std::byte* out) const {
    alignas(64) std::array<std::byte, kChunk * kRows * kFoldSize> wide, sums;
    FoldedRows folded{element(in, n), direction() * c_.inner, sums.data(), kChunk,
                      std::max<int64_t>(rows, 1)};
    if (rows_.widen != nullptr) {
      for (int64_t k = 0; k < rows; ++k)
        rows_.widen(element(in, n + k), lanes, wide.data() + k * kChunk * wide_size_);
      folded.from = folded.to = wide.data();
      folded.from_step = kChunk;
    }
    if (rows == 0) folded.from = nullptr;
    rows_.add(folded, lanes, init_.data(), so_far);
    if (rows_.narrow != nullptr)
      for (int64_t k = 0; k < folded.count; ++k)
        rows_.narrow(wide.data() + k * kChunk * wide_size_, lanes,
                     sums.data() + k * kChunk * size_);
    put_rows(sums.data(), kChunk, out + c_.position(n) * c_.inner * size_, direction() * c_.inner,
             lanes, folded.count);
  }

  // The n-th position's own, of columns.
  const std::byte* element(const std::byte* in, int64_t n) const {
    return in + (c_.position(n) + c_.form.shift) * c_.inner * size_;
  }
  // Inlined: a call without effects is left out.
  HWY_INLINE void prefetch_rows(const std::byte* in, int64_t n, int64_t rows, int64_t lanes) const {
    const std::byte* row = element(in, n);
    const int64_t step = direction() * c_.inner * size_, bytes = lanes * size_;
    for (int64_t k = 0; k < rows; ++k, row += step)
      for (int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(row + i);
  }

  // Rows of `count` elements, past the caches where the result is large; steps in elements.
  void put_rows(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step,
                int64_t count, int64_t rows) const {
    if (stream_ != nullptr)
      return stream_(from, from_step * size_, to, to_step * size_, count * size_, rows);
    for (int64_t k = 0; k < rows; ++k)
      std::memcpy(to + k * to_step * size_, from + k * from_step * size_,
                  static_cast<size_t>(count * size_));
  }

  // One after the other: pieces of positions with an element of their own, and of those without.
  void run_line(const std::byte* in, std::byte* out) const {
    alignas(8) std::array<std::byte, kFoldSize> so_far;
    start(in, 1, so_far.data());
    const int64_t behind = c_.positions - 1 + c_.form.shift;  // the element of the last position
    const int64_t begin = c_.form.reverse ? behind - c_.size + 1 : -c_.form.shift;
    const int64_t end = begin + c_.size;  // positions [begin, end) have elements
    for (int64_t n = 0; n < c_.positions;) {
      const bool inside = n >= begin && n < end;
      const int64_t until = std::min(n < begin ? begin : inside ? end : c_.positions, c_.positions);
      const int64_t piece = std::min(kPiece, until - n);
      // The piece from its first element in memory on.
      const int64_t first = c_.form.reverse ? c_.position(n + piece - 1) : c_.position(n);
      run_piece(inside ? in + (first + c_.form.shift) * size_ : nullptr, piece, so_far.data(),
                out + first * size_);
      n += piece;
    }
  }
  void run_piece(const std::byte* in, int64_t count, std::byte* so_far, std::byte* out) const {
    alignas(64) std::array<std::byte, kPiece * kFoldSize> wide;
    if (in != nullptr && rows_.widen != nullptr) widen(in, count, wide.data());
    std::byte* const results = rows_.widen != nullptr ? wide.data() : out;
    if (in != nullptr)
      rows_.scan({rows_.widen != nullptr ? wide.data() : in, results, count, c_.form.reverse},
                 init_.data(), so_far);
    else
      rows_.add({nullptr, 0, results, 1, count}, 1, init_.data(), so_far);
    if (rows_.narrow != nullptr) rows_.narrow(results, count, out);
  }

  const Cumulative& c_;
  const std::byte* in_;
  std::byte* out_;
  int64_t size_, wide_size_ = 0;  // bytes of an element
  CumulativeRows rows_;
  alignas(8) std::array<std::byte, kFoldSize> init_;
  StreamRows stream_ = nullptr;  // of large results
};

}  // namespace

PreparedKernel lower_cumulative(const Node& node) {
  const auto combiner = recognize_combiner(*node.called[0]);
  const Shape& x = node.operand(0)->shape;
  if (!combiner || !is_computable(x.dtype) || is_complex(x.dtype)) return {};
  if (cumulative_rows(*combiner, x.dtype, true).add == nullptr) return {};
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
  const int64_t groups = c.inner == 1 ? c.outer : c.outer * ceil_div(c.inner, kCumulativeRow);
  PreparedKernel kernel;
  kernel.cost = 100 + static_cast<double>(node.shape.elements_count());
  kernel.parts = std::min<int64_t>(groups, 8);
  kernel.run = [c, groups, parts = kernel.parts](const KernelArgs& args) {
    CumulativeRun(c, args).run_groups(args.part * groups / parts, (args.part + 1) * groups / parts);
    flush_stream();
  };
  return kernel;
}

}  // namespace gspmd
