#include "kernels/row_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "gspmd/base/shape.h"
#include "kernels/gemm_product.h"
#include "kernels/lines.h"
#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"

namespace gspmd {
namespace {

constexpr int64_t kMostRows = 60, kLeastRows = 12, kRowMultiple = 6;  // of a block
constexpr int64_t kTileBytes = 384 << 10;  // all tiles of a block: in the second-level cache
// Of blocks whose tiles are not, and of strips that are not either.
constexpr int64_t kMostSpilledRows = 120, kSpilledTileBytes = 4 << 20, kStripBytes = 1 << 20;
constexpr int64_t kTileMoves = 4;  // how often a tile is written and read
constexpr int64_t kParts = 8;      // as many as there may be, where batches are fewer
constexpr size_t kMostOuter = 12;

bool is_half(const BlockArray& array) { return is_half_dtype(array.dtype); }

// What one worker needs, in bytes from its scratch on.
class Layout {
 public:
  int64_t take(int64_t bytes) { return std::exchange(bytes_, bytes_ + in_lines(bytes)); }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

// A matrix of f32, and its steps.
struct Matrix {
  const float* data = nullptr;
  int64_t major = 0, minor = 0;
};

class RowBlocks {
 public:
  explicit RowBlocks(RowBlockSpec spec)
      : s_(std::move(spec)), strips_(strip_functions()), pairs_(pair_functions()) {}

  bool prepare() {
    if (s_.outer.size() > kMostOuter) return false;
    for (size_t d = 0; d < s_.outer.size(); ++d)
      (static_cast<int64_t>(d) < s_.batch ? batches_ : more_) *= s_.outer[d];
    block_ = row_block_rows(s_);
    blocks_ = ceil_div(s_.rows, block_);
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t first = b * block_, last = std::min(s_.rows, first + block_);
      const BlockColumns columns = s_.live ? s_.live(first, last) : whole();
      if (!add_variant(last - first, columns) || !add_variant(last - first, whole())) return false;
      live_.push_back(columns);
    }
    lay_out();
    const int64_t units = more_ * blocks_;
    splits_ = 1;
    if (s_.column_sums.empty() && batches_ < kParts)
      splits_ = std::min(units, ceil_div(kParts, batches_));
    return true;
  }

  int64_t parts() const { return batches_ * splits_; }
  int64_t scratch_bytes() const { return layout_.bytes(); }
  double cost() const {
    double products = 0;
    for (const auto* list : {&s_.scores, &s_.row_sums, &s_.column_sums})
      for (const BlockProduct& product : *list) products += static_cast<double>(product.inner);
    double elements = static_cast<double>(s_.rows) * static_cast<double>(s_.columns);
    elements *= static_cast<double>(batches_ * more_);
    return elements * (products / 100 + 2);
  }

  void run(const KernelArgs& args) const {
    Run r(args);
    int64_t batch = args.part / splits_;
    for (auto d = static_cast<size_t>(s_.batch); d-- > 0;) {
      r.index[d] = batch % s_.outer[d];
      batch /= s_.outer[d];
    }
    begin_batch(r);
    const int64_t units = more_ * blocks_, split = args.part % splits_;
    for (int64_t u = split * units / splits_; u < (split + 1) * units / splits_; ++u) {
      int64_t more = u / blocks_;
      for (size_t d = s_.outer.size(); d-- > static_cast<size_t>(s_.batch);) {
        r.index[d] = more % s_.outer[d];
        more /= s_.outer[d];
      }
      const int64_t b = u % blocks_;
      r.first_row = b * block_;
      r.rows = std::min(s_.rows, r.first_row + block_) - r.first_row;
      r.columns = live_[static_cast<size_t>(b)];
      if (run_block(r)) continue;
      r.columns = whole();
      run_block(r);
    }
    end_batch(r);
  }

 private:
  // Where a part is.
  struct Run {
    explicit Run(const KernelArgs& given) : args(given) {}
    const KernelArgs& args;
    std::array<int64_t, kMostOuter> index = {};
    int64_t first_row = 0, rows = 0;
    BlockColumns columns;
    int64_t count() const { return columns.last - columns.first; }
  };

  BlockColumns whole() const { return {0, s_.columns}; }
  bool is_whole(const BlockColumns& c) const { return c.first == 0 && c.last == s_.columns; }

  // --- Made ready

  bool add_variant(int64_t rows, const BlockColumns& columns) {
    const int64_t count = columns.last - columns.first;
    if (s_.loop.values.empty() || loops_.contains({rows, count})) return true;
    LoopProgram program = s_.loop;
    program.dims = {rows, count};
    program.reduced = {false, true};
    for (LoopValue& value : program.values) {
      if (value.op != LoopOp::operand) continue;
      const BlockArray& array = s_.loop_operands.at(static_cast<size_t>(value.operand));
      if (array.kind == BlockArray::tile)
        value.strides = {count, 1};
      else if (array.kind == BlockArray::row_values)
        value.strides = {1, 0};
      else if (array.kind == BlockArray::position)
        value.strides = {0, 0};
      else
        value.strides = {array.row, array.column};
    }
    PreparedKernel loop = prepare_loop(program);
    if (!loop.run || loop.prepare) return false;
    loop_bytes_ = std::max(loop_bytes_, loop.scratch_bytes);
    loops_.emplace(std::pair(rows, count), std::move(loop));
    return true;
  }

  void lay_out() {
    const int64_t rows = std::min(block_, s_.rows);
    for (const BlockProduct& p : s_.scores) {
      score_strips_.push_back(layout_.take(strip_bytes(s_.columns, p.inner, pairs_score(p))));
      lay_out_score(p, rows);
    }
    for (const BlockProduct& p : s_.row_sums) {
      sum_strips_.push_back(layout_.take(strip_bytes(p.inner, s_.columns, pairs_row_sum(p))));
      if (pairs_row_sum(p)) continue;
      if (is_half(p.x)) spare_floats_ = std::max(spare_floats_, rows * p.inner);
      if (is_half(p.y)) spare_floats_ = std::max(spare_floats_, s_.columns * p.inner);
      need_wide(p, rows);
      for (const BlockColumns& columns : live_) {
        const int64_t count = columns.last - columns.first;
        need_product(rows, p.inner, count, count, 1);
      }
      need_product(rows, p.inner, s_.columns, s_.columns, 1);
    }
    int64_t strips = 0;
    for (const BlockProduct& p : s_.column_sums) {
      strips = std::max(strips, strip_bytes(p.inner, rows, pairs_column_sum(p)));
      sums_.push_back(is_half(p.y) ? layout_.take(s_.columns * p.inner * 4) : 0);
      if (pairs_column_sum(p)) {
        spare_floats_ = std::max(spare_floats_, ceil_div(rows, 2) * s_.columns);
        continue;
      }
      if (is_half(p.x)) spare_floats_ = std::max(spare_floats_, rows * p.inner);
      need_wide(p, rows);
      need_product(s_.columns, p.inner, rows, 1, s_.columns);
    }
    column_strips_ = layout_.take(strips);
    for (const DType dtype : s_.tiles)
      tiles_.push_back(layout_.take(rows * s_.columns * dtype_size(dtype)));
    for (const DType dtype : s_.row_values)
      row_values_.push_back(layout_.take(rows * dtype_size(dtype)));
    positions_ = layout_.take(std::ssize(s_.loop_operands) * 8);
    pointers_ = layout_.take((std::ssize(s_.loop_operands) + std::ssize(s_.loop_results)) * 8);
    spare_ = layout_.take(spare_floats_ * 4);
    wide_ = layout_.take(wide_floats_ * 4);
    product_scratch_ = layout_.take(product_floats_ * 4);
    loop_scratch_ = layout_.take(loop_bytes_);
  }

  void lay_out_score(const BlockProduct& p, int64_t rows) {
    if (pairs_score(p)) {
      if (!has_pairs(p)) spare_floats_ = std::max(spare_floats_, ceil_div(p.inner, 2) * rows);
      return;
    }
    if (is_half(p.x))
      spare_floats_ = std::max({spare_floats_, rows * p.inner, s_.columns * p.inner});
    need_wide(p, rows);
    need_product(rows, s_.columns, p.inner, p.x.row, p.x.inner);
    need_product(rows, s_.columns, p.inner, p.inner, 1);
    need_product(rows, s_.columns, p.inner, 1, rows);
  }

  void need_product(int64_t m, int64_t n, int64_t k, int64_t a_row, int64_t a_k) {
    product_floats_ = std::max(product_floats_, strips_.scratch({m, n, k, a_row, a_k, n, 0}));
  }
  // A tile of 16-bit floats is multiplied as one of f32.
  void need_wide(const BlockProduct& p, int64_t rows) {
    if (is_half_dtype(tile_type(p))) wide_floats_ = std::max(wide_floats_, rows * s_.columns);
  }

  // --- Which products take bf16 as they are

  DType tile_type(const BlockProduct& p) const { return s_.tiles[static_cast<size_t>(p.tile)]; }

  // X in pairs along its inner dim where it lies, or two lines of rows put together.
  bool pairs_score(const BlockProduct& p) const {
    return pairs_ != nullptr && p.x.dtype == DType::bf16 && (has_pairs(p) || p.x.row == 1);
  }
  static bool has_pairs(const BlockProduct& p) { return p.x.inner == 1 && p.inner % 2 == 0; }
  // The tile in pairs of columns where it lies.
  bool pairs_row_sum(const BlockProduct& p) const {
    return pairs_column_sum(p) && s_.columns % 2 == 0;
  }
  // Two of the tile's rows put together.
  bool pairs_column_sum(const BlockProduct& p) const {
    return pairs_ != nullptr && tile_type(p) == DType::bf16;
  }

  int64_t strip_bytes(int64_t n, int64_t k, bool in_pairs) const {
    if (in_pairs) return prepacked_bytes(n, k, StripKind::halves);
    return ceil_div(n, strips_.columns) * strips_.step(k) * 4;
  }

  // --- Where things are

  float* floats(const Run& r, int64_t offset) const {
    return reinterpret_cast<float*>(r.args.scratch + offset);
  }
  std::byte* tile_of(const Run& r, const BlockProduct& p) const {
    return r.args.scratch + tiles_[static_cast<size_t>(p.tile)];
  }

  // Of an operand or a result, at the outer dims' index; rows and columns not yet counted.
  std::byte* base_of(const Run& r, const BlockArray& array) const {
    int64_t at = 0;
    for (size_t d = 0; d < array.outer.size(); ++d) at += r.index[d] * array.outer[d];
    const auto index = static_cast<size_t>(array.index);
    std::byte* const base = array.kind == BlockArray::result
                                ? r.args.results[index]
                                : const_cast<std::byte*>(r.args.operands[index]);
    return base + at * dtype_size(array.dtype);
  }

  // Of the block's first row and column.
  std::byte* place_of(const Run& r, const BlockArray& array) const {
    const auto index = static_cast<size_t>(array.index);
    if (array.kind == BlockArray::tile) return r.args.scratch + tiles_[index];
    if (array.kind == BlockArray::row_values) return r.args.scratch + row_values_[index];
    const int64_t at = r.first_row * array.row + r.columns.first * array.column;
    return base_of(r, array) + at * dtype_size(array.dtype);
  }

  // `major` x `minor` elements as f32: where they are, or widened into `to`, dense along the dim
  // that is dense in memory.
  static Matrix widened_matrix(const BlockArray& array, const std::byte* from, int64_t major_step,
                               int64_t major, int64_t minor, float* to) {
    if (!is_half(array)) return {reinterpret_cast<const float*>(from), major_step, array.inner};
    const LoopFunction read = find_loop_function(LoopOp::convert, array.dtype, DType::f32);
    const bool along_minor = array.inner == 1;
    const int64_t lines = along_minor ? major : minor, length = along_minor ? minor : major;
    const int64_t step = along_minor ? major_step : array.inner;
    for (int64_t i = 0; i < lines; ++i)
      read(reinterpret_cast<std::byte*>(to + i * length), from + i * step * 2, nullptr, nullptr,
           length, 0);
    return along_minor ? Matrix{to, length, 1} : Matrix{to, 1, length};
  }

  // --- Run

  // Y of a score, or of a sum over columns, in strips.
  void lay_out_strips(const Run& r, const BlockProduct& p, bool sums_columns, bool in_pairs,
                      int64_t strips) const {
    const std::byte* const from = base_of(r, p.y);
    PackedExtents e{1, s_.columns, p.inner, 0, 0, p.y.inner, p.y.column};
    Matrix y;
    if (!in_pairs) {
      y = widened_matrix(p.y, from, p.y.column, s_.columns, p.inner, floats(r, spare_));
      e.b_k = y.minor, e.b_n = y.major;
    }
    if (sums_columns) std::swap(e.n, e.k), std::swap(e.b_n, e.b_k);
    if (in_pairs)
      prepack(e, StripKind::halves, from, 0, ceil_div(e.n, kStripOfLibrary),
              r.args.scratch + strips);
    else
      strips_.lay_out(e, y.data, floats(r, strips));
  }

  void begin_batch(Run& r) const {
    for (size_t i = 0; i < s_.scores.size(); ++i)
      lay_out_strips(r, s_.scores[i], false, pairs_score(s_.scores[i]), score_strips_[i]);
    for (size_t i = 0; i < s_.row_sums.size(); ++i)
      lay_out_strips(r, s_.row_sums[i], true, pairs_row_sum(s_.row_sums[i]), sum_strips_[i]);
    for (size_t i = 0; i < s_.column_sums.size(); ++i) {
      const auto [data, step] = summed_columns(r, i);
      const auto bytes = static_cast<size_t>(s_.column_sums[i].inner * 4);
      for (int64_t c = 0; c < s_.columns; ++c) std::memset(data + c * step, 0, bytes);
    }
  }

  // Where column sum i is added up: in the result, or in f32 where that is rounded.
  std::pair<float*, int64_t> summed_columns(const Run& r, size_t i) const {
    const BlockProduct& p = s_.column_sums[i];
    if (is_half(p.y)) return {floats(r, sums_[i]), p.inner};
    return {reinterpret_cast<float*>(base_of(r, p.y)), p.y.column};
  }

  void end_batch(const Run& r) const {
    for (size_t i = 0; i < s_.column_sums.size(); ++i) {
      const BlockProduct& p = s_.column_sums[i];
      if (is_half(p.y))
        round(p.y.dtype, floats(r, sums_[i]), base_of(r, p.y), p.y.column, s_.columns, p.inner);
    }
  }

  static void round(DType type, const float* from, std::byte* to, int64_t step, int64_t lines,
                    int64_t length) {
    const LoopFunction write = find_loop_function(LoopOp::convert, DType::f32, type);
    for (int64_t i = 0; i < lines; ++i)
      write(to + i * step * 2, reinterpret_cast<const std::byte*>(from + i * length), nullptr,
            nullptr, length, 0);
  }

  // False: the guards do not hold, and nothing that lasts was written.
  bool run_block(const Run& r) const {
    for (size_t i = 0; i < s_.scores.size(); ++i) run_scores(r, i);
    if (!s_.loop.values.empty()) run_loop(r);
    if (!is_whole(r.columns) && !guards_hold(r)) return false;
    for (size_t i = 0; i < s_.row_sums.size(); ++i) run_row_sum(r, i);
    for (size_t i = 0; i < s_.column_sums.size(); ++i) run_column_sum(r, i);
    return true;
  }

  void run_scores(const Run& r, size_t i) const {
    const BlockProduct& p = s_.scores[i];
    if (pairs_score(p)) return run_score_in_pairs(r, i);
    const DType type = tile_type(p);
    float* const to =
        is_half_dtype(type) ? floats(r, wide_) : reinterpret_cast<float*>(tile_of(r, p));
    const Matrix x =
        widened_matrix(p.x, place_of(r, p.x), p.x.row, r.rows, p.inner, floats(r, spare_));
    const int64_t strip = strips_.step(p.inner);
    strips_.multiply({r.rows, r.count(), p.inner, x.major, x.minor, r.count(), strip}, false,
                     x.data,
                     floats(r, score_strips_[i]) + r.columns.first / strips_.columns * strip, to,
                     floats(r, product_scratch_));
    if (is_half_dtype(type)) round(type, to, tile_of(r, p), 0, 1, r.rows * r.count());
  }

  void run_score_in_pairs(const Run& r, size_t i) const {
    const BlockProduct& p = s_.scores[i];
    const std::byte* x = place_of(r, p.x);
    PairExtents e{r.rows, r.count(), ceil_div(p.inner, 2), p.x.row * 2, 4, r.count()};
    if (!has_pairs(p)) {
      std::byte* const lines = r.args.scratch + spare_;
      pairs_->interleave(x, p.x.inner * 2, p.inner, r.rows, lines);
      x = lines;
      e.a_row = 4, e.a_pair = r.rows * 4;
    }
    e.strip = strip_bytes(1, p.inner, true);
    pairs_->multiply(
        e, tile_type(p), false, x,
        r.args.scratch + score_strips_[i] + r.columns.first / kStripOfLibrary * e.strip,
        tile_of(r, p));
  }

  // The tile as f32.
  const float* wide_tile(const Run& r, const BlockProduct& p) const {
    const DType type = tile_type(p);
    if (!is_half_dtype(type)) return reinterpret_cast<const float*>(tile_of(r, p));
    find_loop_function(LoopOp::convert, type, DType::f32)(r.args.scratch + wide_, tile_of(r, p),
                                                          nullptr, nullptr, r.rows * r.count(), 0);
    return floats(r, wide_);
  }

  void run_loop(const Run& r) const {
    auto* const operands = reinterpret_cast<const std::byte**>(r.args.scratch + pointers_);
    auto* const results =
        reinterpret_cast<std::byte**>(r.args.scratch + pointers_) + s_.loop_operands.size();
    for (size_t i = 0; i < s_.loop_operands.size(); ++i) {
      const BlockArray& array = s_.loop_operands[i];
      operands[i] = array.kind == BlockArray::position ? write_position(r, i) : place_of(r, array);
    }
    for (size_t i = 0; i < s_.loop_results.size(); ++i)
      results[i] = place_of(r, s_.loop_results[i]);
    const PreparedKernel& loop = loops_.at({r.rows, r.count()});
    KernelArgs args{operands, results, r.args.scratch + loop_scratch_, r.args.device};
    for (; args.part < loop.parts; ++args.part) loop.run(args);
  }

  const std::byte* write_position(const Run& r, size_t operand) const {
    const BlockArray& array = s_.loop_operands[operand];
    const int64_t at = array.index == kFirstRow      ? r.first_row
                       : array.index == kFirstColumn ? r.columns.first
                                                     : r.index[static_cast<size_t>(array.index)];
    std::byte* const to = r.args.scratch + positions_ + static_cast<int64_t>(operand) * 8;
    const auto write = [&](auto value) { std::memcpy(to, &value, sizeof value); };
    if (array.dtype == DType::f32)
      write(static_cast<float>(at));
    else if (array.dtype == DType::f64)
      write(static_cast<double>(at));
    else if (dtype_size(array.dtype) == 8)
      write(at);
    else
      write(static_cast<int32_t>(at));
    return to;
  }

  bool guards_hold(const Run& r) const {
    for (const BlockGuard& guard : s_.guards) {
      const std::byte* const values = place_of(r, guard.value);
      const int64_t step = guard.value.kind == BlockArray::row_values ? 1 : guard.value.row;
      const int64_t size = dtype_size(guard.value.dtype);
      for (int64_t i = 0; i < r.rows; ++i) {
        uint32_t bits = 0;  // a bf16 is the upper half of a float
        std::memcpy(reinterpret_cast<std::byte*>(&bits) + 4 - size, values + i * step * size,
                    static_cast<size_t>(size));
        const auto x = std::bit_cast<float>(bits);
        if (guard.is_divisor ? x == 0 || std::isnan(x) : !(x >= guard.least)) return false;
      }
    }
    return true;
  }

  void run_row_sum(const Run& r, size_t i) const {
    const BlockProduct& p = s_.row_sums[i];
    std::byte* const x = place_of(r, p.x);
    if (pairs_row_sum(p)) {
      const PairExtents e{r.rows,
                          p.inner,
                          r.count() / 2,
                          r.count() * 2,
                          4,
                          p.x.row,
                          strip_bytes(1, s_.columns, true)};
      const int64_t first = r.columns.first / 2 * kStripOfLibrary * 4;
      return pairs_->multiply(e, p.x.dtype, false, tile_of(r, p),
                              r.args.scratch + sum_strips_[i] + first, x);
    }
    float* const to = is_half(p.x) ? floats(r, spare_) : reinterpret_cast<float*>(x);
    const int64_t step = is_half(p.x) ? p.inner : p.x.row;
    strips_.multiply({r.rows, p.inner, r.count(), r.count(), 1, step, strips_.step(s_.columns)},
                     false, wide_tile(r, p),
                     floats(r, sum_strips_[i]) + r.columns.first * strips_.columns, to,
                     floats(r, product_scratch_));
    if (is_half(p.x)) round(p.x.dtype, to, x, p.x.row, r.rows, p.inner);
  }

  void run_column_sum(const Run& r, size_t i) const {
    const BlockProduct& p = s_.column_sums[i];
    const std::byte* const from = place_of(r, p.x);
    const auto [sums, step] = summed_columns(r, i);
    float* const to = sums + r.columns.first * step;
    if (pairs_column_sum(p)) {
      std::byte* const strips = r.args.scratch + column_strips_;
      std::byte* const lines = r.args.scratch + spare_;
      prepack({1, p.inner, r.rows, 0, 0, p.x.row, p.x.inner}, StripKind::halves, from, 0,
              ceil_div(p.inner, kStripOfLibrary), strips);
      pairs_->interleave(tile_of(r, p), r.count() * 2, r.rows, r.count(), lines);
      const PairExtents e{r.count(),     p.inner, ceil_div(r.rows, 2),         4,
                          r.count() * 4, step,    strip_bytes(1, r.rows, true)};
      return pairs_->multiply(e, DType::f32, true, lines, strips, reinterpret_cast<std::byte*>(to));
    }
    const Matrix x = widened_matrix(p.x, from, p.x.row, r.rows, p.inner, floats(r, spare_));
    float* const strips = floats(r, column_strips_);
    strips_.lay_out({1, p.inner, r.rows, 0, 0, x.major, x.minor, 0}, x.data, strips);
    strips_.multiply({r.count(), p.inner, r.rows, 1, r.count(), step, strips_.step(r.rows)}, true,
                     wide_tile(r, p), strips, to, floats(r, product_scratch_));
  }

  RowBlockSpec s_;
  const StripFunctions& strips_;
  const PairFunctions* const pairs_;  // nullptr: bf16 is multiplied as f32
  int64_t batches_ = 1, more_ = 1;    // indices of the outer dims: of batches, and of what else
  int64_t block_ = 1, blocks_ = 1;    // rows of a block; blocks
  int64_t splits_ = 1;                // of a batch
  std::vector<BlockColumns> live_;    // by block
  std::map<std::pair<int64_t, int64_t>, PreparedKernel> loops_;  // by rows and columns
  int64_t loop_bytes_ = 0;
  Layout layout_;
  std::vector<int64_t> score_strips_, sum_strips_, sums_, tiles_, row_values_;
  int64_t column_strips_ = 0, positions_ = 0, pointers_ = 0, spare_ = 0, wide_ = 0;
  int64_t product_scratch_ = 0, loop_scratch_ = 0;
  // Of what is widened or put in pairs, of tiles as f32, and of products.
  int64_t spare_floats_ = 0, wide_floats_ = 0, product_floats_ = 0;
};

}  // namespace

// Each block reads all strips again, from behind the second-level cache where they are large. Then
// tiles that go there too cost less, if blocks become so much higher by it.
int64_t row_block_rows(const RowBlockSpec& spec) {
  int64_t tile_bytes = 0;  // of one element
  bool is_widened = false;
  for (const DType dtype : spec.tiles) {
    tile_bytes += dtype_size(dtype);
    is_widened |= is_half_dtype(dtype) && (dtype != DType::bf16 || pair_functions() == nullptr);
  }
  if (is_widened) tile_bytes += 4;
  const int64_t row_bytes = spec.columns * std::max<int64_t>(tile_bytes, 4);
  const auto rows_in = [&](int64_t bytes, int64_t most) {
    return std::clamp(bytes / row_bytes / kRowMultiple * kRowMultiple, kLeastRows, most);
  };
  const int64_t rows = rows_in(kTileBytes, kMostRows);
  const int64_t more = rows_in(kSpilledTileBytes, kMostSpilledRows);
  int64_t strip_bytes = 0;  // of one column
  for (const auto* list : {&spec.scores, &spec.row_sums, &spec.column_sums})
    for (const BlockProduct& product : *list) {
      const DType dtype = spec.tiles[static_cast<size_t>(product.tile)];
      strip_bytes += product.inner * (is_widened ? 4 : dtype_size(dtype));
    }
  if (spec.columns * strip_bytes <= kStripBytes) return rows;
  // Of a column, for one row: bytes of strips, and bytes of tiles.
  const double saved = double(strip_bytes) / double(rows) - double(strip_bytes) / double(more);
  return saved > double(kTileMoves * tile_bytes) ? more : rows;
}

PreparedKernel prepare_row_blocks(RowBlockSpec spec) {
  auto blocks = std::make_shared<RowBlocks>(std::move(spec));
  if (!blocks->prepare()) return {};
  PreparedKernel kernel;
  kernel.parts = blocks->parts();
  kernel.scratch_bytes = blocks->scratch_bytes();
  kernel.cost = blocks->cost();
  kernel.run = [blocks = std::shared_ptr<const RowBlocks>(std::move(blocks))](
                   const KernelArgs& args) { blocks->run(args); };
  return kernel;
}

}  // namespace gspmd
