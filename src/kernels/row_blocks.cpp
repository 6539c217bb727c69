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
  explicit RowBlocks(RowBlockSpec spec) : s_(std::move(spec)), strips_(strip_functions()) {}

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
    const int64_t wide = strips_.columns, rows = std::min(block_, s_.rows);
    int64_t spare = 0, scratch = 0;  // floats: of what is widened, and of products
    const auto product = [&](int64_t m, int64_t n, int64_t k, int64_t a_row, int64_t a_k) {
      scratch = std::max(scratch, strips_.scratch({m, n, k, a_row, a_k, n, 0}));
    };
    for (const BlockProduct& p : s_.scores) {
      score_strips_.push_back(layout_.take(ceil_div(s_.columns, wide) * strips_.step(p.inner) * 4));
      if (is_half(p.x)) spare = std::max(spare, rows * p.inner);
      if (is_half(p.y)) spare = std::max(spare, s_.columns * p.inner);
      product(rows, s_.columns, p.inner, p.x.row, p.x.inner);
      product(rows, s_.columns, p.inner, p.inner, 1);
      product(rows, s_.columns, p.inner, 1, rows);
    }
    for (const BlockProduct& p : s_.row_sums) {
      sum_strips_.push_back(layout_.take(ceil_div(p.inner, wide) * strips_.step(s_.columns) * 4));
      if (is_half(p.x)) spare = std::max(spare, rows * p.inner);
      if (is_half(p.y)) spare = std::max(spare, s_.columns * p.inner);
      product(rows, p.inner, s_.columns, s_.columns, 1);
    }
    int64_t strips = 0;
    for (const BlockProduct& p : s_.column_sums) {
      strips = std::max(strips, ceil_div(p.inner, wide) * strips_.step(rows));
      if (is_half(p.x)) spare = std::max(spare, rows * p.inner);
      sums_.push_back(is_half(p.y) ? layout_.take(s_.columns * p.inner * 4) : 0);
      product(s_.columns, p.inner, rows, 1, s_.columns);
    }
    column_strips_ = layout_.take(strips * 4);
    for (int64_t t = 0; t < s_.tiles; ++t) tiles_.push_back(layout_.take(rows * s_.columns * 4));
    for (const DType dtype : s_.row_values)
      row_values_.push_back(layout_.take(rows * dtype_size(dtype)));
    positions_ = layout_.take(std::ssize(s_.loop_operands) * 8);
    pointers_ = layout_.take((std::ssize(s_.loop_operands) + std::ssize(s_.loop_results)) * 8);
    spare_ = layout_.take(spare * 4);
    product_scratch_ = layout_.take(scratch * 4);
    loop_scratch_ = layout_.take(loop_bytes_);
  }

  // --- Where things are

  float* floats(const Run& r, int64_t offset) const {
    return reinterpret_cast<float*>(r.args.scratch + offset);
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

  void begin_batch(Run& r) const {
    for (size_t i = 0; i < s_.scores.size(); ++i) {
      const BlockProduct& p = s_.scores[i];
      const Matrix y =
          widened_matrix(p.y, base_of(r, p.y), p.y.column, s_.columns, p.inner, floats(r, spare_));
      strips_.lay_out({1, s_.columns, p.inner, 0, 0, y.minor, y.major, 0}, y.data,
                      floats(r, score_strips_[i]));
    }
    for (size_t i = 0; i < s_.row_sums.size(); ++i) {
      const BlockProduct& p = s_.row_sums[i];
      const Matrix y =
          widened_matrix(p.y, base_of(r, p.y), p.y.column, s_.columns, p.inner, floats(r, spare_));
      strips_.lay_out({1, p.inner, s_.columns, 0, 0, y.major, y.minor, 0}, y.data,
                      floats(r, sum_strips_[i]));
    }
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
        round(p.y, floats(r, sums_[i]), base_of(r, p.y), p.y.column, s_.columns, p.inner);
    }
  }

  static void round(const BlockArray& array, const float* from, std::byte* to, int64_t step,
                    int64_t lines, int64_t length) {
    const LoopFunction write = find_loop_function(LoopOp::convert, DType::f32, array.dtype);
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
    const Matrix x =
        widened_matrix(p.x, place_of(r, p.x), p.x.row, r.rows, p.inner, floats(r, spare_));
    const int64_t strip = strips_.step(p.inner);
    strips_.multiply({r.rows, r.count(), p.inner, x.major, x.minor, r.count(), strip}, false,
                     x.data,
                     floats(r, score_strips_[i]) + r.columns.first / strips_.columns * strip,
                     floats(r, tiles_[static_cast<size_t>(p.tile)]), floats(r, product_scratch_));
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
    float* const to = is_half(p.x) ? floats(r, spare_) : reinterpret_cast<float*>(x);
    const int64_t step = is_half(p.x) ? p.inner : p.x.row;
    strips_.multiply({r.rows, p.inner, r.count(), r.count(), 1, step, strips_.step(s_.columns)},
                     false, floats(r, tiles_[static_cast<size_t>(p.tile)]),
                     floats(r, sum_strips_[i]) + r.columns.first * strips_.columns, to,
                     floats(r, product_scratch_));
    if (is_half(p.x)) round(p.x, to, x, p.x.row, r.rows, p.inner);
  }

  void run_column_sum(const Run& r, size_t i) const {
    const BlockProduct& p = s_.column_sums[i];
    const Matrix x =
        widened_matrix(p.x, place_of(r, p.x), p.x.row, r.rows, p.inner, floats(r, spare_));
    float* const strips = floats(r, column_strips_);
    strips_.lay_out({1, p.inner, r.rows, 0, 0, x.major, x.minor, 0}, x.data, strips);
    const auto [sums, step] = summed_columns(r, i);
    strips_.multiply({r.count(), p.inner, r.rows, 1, r.count(), step, strips_.step(r.rows)}, true,
                     floats(r, tiles_[static_cast<size_t>(p.tile)]), strips,
                     sums + r.columns.first * step, floats(r, product_scratch_));
  }

  RowBlockSpec s_;
  const StripFunctions& strips_;
  int64_t batches_ = 1, more_ = 1;  // indices of the outer dims: of batches, and of what else
  int64_t block_ = 1, blocks_ = 1;  // rows of a block; blocks
  int64_t splits_ = 1;              // of a batch
  std::vector<BlockColumns> live_;  // by block
  std::map<std::pair<int64_t, int64_t>, PreparedKernel> loops_;  // by rows and columns
  int64_t loop_bytes_ = 0;
  Layout layout_;
  std::vector<int64_t> score_strips_, sum_strips_, sums_, tiles_, row_values_;
  int64_t column_strips_ = 0, positions_ = 0, pointers_ = 0, spare_ = 0;
  int64_t product_scratch_ = 0, loop_scratch_ = 0;
};

}  // namespace

// Each block reads all strips again, from behind the second-level cache where they are large. Then
// tiles that go there too cost less, if blocks become so much higher by it.
int64_t row_block_rows(const RowBlockSpec& spec) {
  const int64_t tiles = std::max<int64_t>(1, spec.tiles), row_bytes = spec.columns * 4 * tiles;
  const auto rows_in = [&](int64_t bytes, int64_t most) {
    return std::clamp(bytes / row_bytes / kRowMultiple * kRowMultiple, kLeastRows, most);
  };
  const int64_t rows = rows_in(kTileBytes, kMostRows);
  const int64_t more = rows_in(kSpilledTileBytes, kMostSpilledRows);
  int64_t inner = 0;
  for (const auto* list : {&spec.scores, &spec.row_sums, &spec.column_sums})
    for (const BlockProduct& product : *list) inner += product.inner;
  if (spec.columns * 4 * inner <= kStripBytes) return rows;
  // Of a column, for one row: floats of strips, and floats of tiles.
  const double saved = double(inner) / double(rows) - double(inner) / double(more);
  return saved > double(kTileMoves * tiles) ? more : rows;
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
