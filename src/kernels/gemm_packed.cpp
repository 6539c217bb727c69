// Products over any strides: b is packed into strips as wide as a block of registers, panel
// by panel, so that the innermost loop reads it in order; a is read where it lies if its rows are
// contiguous along k, else packed as well (Goto and van de Geijn, Anatomy of High-Performance
// Matrix Multiplication, 2008).
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_packed.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>
#include <type_traits>

#include "gspmd/base/error.h"
#include "gspmd/kernels/loop_program.h"
#include "kernels/gemm_pack-inl.h"
#include "kernels/gemm_product.h"

#ifndef GSPMD_GEMM_PACKED_TYPES
#define GSPMD_GEMM_PACKED_TYPES
namespace gspmd {

// Of one type of elements.
struct PackedFunctions {
  void (*run)(const PackedExtents& e, const std::byte* a, const std::byte* b, std::byte* c,
              std::byte* scratch);
  int64_t (*scratch)(const PackedExtents& e);  // bytes
};

struct PackedFamily {
  PackedFunctions f32, f64, u32;
  int64_t lanes;  // of f32
  StripFunctions strips;
};

}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

// Extents of what is used at a time: rows of a, and a panel of b (in the second-level cache, where
// that is large). A strip of b stays in the first-level cache, as far as it has room; where it has
// none the strip comes from the second, which costs less than to write results in more turns.
constexpr bool kWide = HWY_MAX_BYTES == 64;
constexpr int64_t kPanelRows = kWide ? 120 : 96, kPanelColumns = 512;
template <class T>
constexpr int64_t kPanelK = 2048 / static_cast<int64_t>(sizeof(T));
constexpr int64_t kFewStrips = 4;  // of b: reading rows of a so often costs less than packing them

// How rows of a lie: packed, contiguous along k, or contiguous along the rows.
enum class Lie { packed, along_k, along_rows };

// Whether a panel's sums go on from those of the panels before, as the loops of gemm_loops.cpp sum,
// so that bits do not depend on which of them a shape takes. Sums of f32 begin anew, and are added.
template <class T>
constexpr bool kGoesOn = !std::is_same_v<T, float>;

template <class T, class V>
GSPMD_INLINE V with_product(V sum, V x, V y) {
  if constexpr (std::is_integral_v<T>)
    return hn::Add(hn::Mul(x, y), sum);
  else
    return hn::MulAdd(x, y, sum);
}

// One block of registers: c[strip of rows, strip of columns] = or += a * strip of b. `step`: from
// one row of a to the next, or, of what is contiguous along the rows, from one k to the next. A
// function of its own: what is around it would take its registers.
template <bool kAdd, Lie kLie, class T>
HWY_NOINLINE void register_block(int64_t k, const T* HWY_RESTRICT a, int64_t a_step,
                                 const T* HWY_RESTRICT b, T* HWY_RESTRICT c, int64_t c_row) {
  const LaneTag<T> d;
  using V = hn::Vec<LaneTag<T>>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V x[kStripRows][kStripVectors];
  for (int64_t i = 0; i < kStripRows; ++i)
    for (int64_t v = 0; v < kStripVectors; ++v) {
      if constexpr (kAdd && kGoesOn<T>) {
        x[i][v] = hn::LoadU(d, c + i * c_row + v * lanes);
      } else {
        x[i][v] = hn::Zero(d);
        __builtin_prefetch(c + i * c_row + v * lanes);
      }
    }
  // Few registers hold addresses: every third row, and one and two rows behind it.
  const T* rows[kStripRows / 3];
  for (int64_t i = 0; i < kStripRows / 3; ++i) rows[i] = a + 3 * i * a_step;
  const auto element = [&](int64_t i, int64_t p) {
    if constexpr (kLie == Lie::packed) return a[p * kStripRows + i];
    if constexpr (kLie == Lie::along_k) return rows[i / 3][(i % 3) * a_step + p];
    return a[p * a_step + i];
  };
  const auto step = [&](int64_t p) HWY_ATTR {
    V u[kStripVectors];
    for (int64_t v = 0; v < kStripVectors; ++v)
      u[v] = hn::Load(d, b + (p * kStripVectors + v) * lanes);
    for (int64_t i = 0; i < kStripRows; ++i) {
      const V r = hn::Set(d, element(i, p));
      for (int64_t v = 0; v < kStripVectors; ++v) x[i][v] = with_product<T>(x[i][v], r, u[v]);
    }
  };
  // Of 16 registers 15 are taken: where more of k follows at once, compilers move loads ahead and
  // sums to memory for it.
  constexpr int64_t kTurn = kWide ? 4 : 2;
  int64_t p = 0;
  for (; p + kTurn <= k; p += kTurn) {
    step(p);
    step(p + 1);
    if constexpr (kTurn == 4) {
      step(p + 2);
      step(p + 3);
    }
  }
  for (; p < k; ++p) step(p);
  for (int64_t i = 0; i < kStripRows; ++i)
    for (int64_t v = 0; v < kStripVectors; ++v) {
      T* const to = c + i * c_row + v * lanes;
      if constexpr (kAdd && !kGoesOn<T>) x[i][v] = hn::Add(hn::LoadU(d, to), x[i][v]);
      hn::StoreU(x[i][v], d, to);
    }
}

// Rows of a for one panel product: where they lie, or packed. What is left behind the last full
// strip is packed in either case.
template <class T>
struct RowsOfA {
  Lie lie;
  const T* full;  // full strips
  int64_t strip;  // from one to the next
  int64_t step;   // inside them, as register_block has it
  const T* last;  // the packed strip that is not full
};

template <bool kAdd, class T>
void block_of(Lie lie, int64_t k, const T* a, int64_t a_step, const T* b, T* c, int64_t c_row) {
  if (lie == Lie::packed) return register_block<kAdd, Lie::packed>(k, a, a_step, b, c, c_row);
  if (lie == Lie::along_k) return register_block<kAdd, Lie::along_k>(k, a, a_step, b, c, c_row);
  register_block<kAdd, Lie::along_rows>(k, a, a_step, b, c, c_row);
}

// Memory that the next panel product reads, fetched bit by bit during this one.
template <class T>
class Ahead {
 public:
  Ahead() = default;
  // Of `rows` rows of `floats`; `blocks`: how often `fetch` will be called.
  Ahead(const T* from, int64_t row, int64_t rows, int64_t floats, int64_t blocks)
      : from_(from),
        row_(row),
        lines_(ceil_div(floats, kLine)),
        left_(rows * lines_),
        share_(ceil_div(left_, std::max<int64_t>(blocks, 1))) {}
  void fetch() {
    for (int64_t n = std::min(share_, left_); n > 0; --n, --left_) {
      __builtin_prefetch(from_ + at_ * kLine, 0, 2);
      if (++at_ == lines_) at_ = 0, from_ += row_;
    }
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(T);
  const T* from_ = nullptr;
  int64_t row_ = 0, lines_ = 1, left_ = 0, share_ = 0, at_ = 0;
};

// The packed strips of a panel of b, `step` elements from one to the next. Where there is a `to`,
// the same place, they are made when they are read for the first time, from elements that lie as
// `extents` says: these are waited for while the strip before is multiplied.
template <class T>
struct StripsOfB {
  const T* strips;
  int64_t step;
  const PackedExtents* extents = nullptr;
  const T* from = nullptr;
  T* to = nullptr;

  // Strip `i` of k lines and so many columns.
  void make(int64_t i, int64_t k, int64_t columns) const {
    const int64_t wide = strip_columns<T>();
    pack_b(*extents, from + i * wide * extents->b_n, k, columns, {wide, step}, to + i * step);
  }
  // What it is made of, during so many blocks of registers.
  Ahead<T> ahead(int64_t i, int64_t k, int64_t columns, int64_t blocks) const {
    const T* const begin = from + i * strip_columns<T>() * extents->b_n;
    if (extents->b_n == 1) return {begin, extents->b_k, k, columns, blocks};
    if (extents->b_k == 1) return {begin, extents->b_n, columns, k, blocks};
    return {};
  }
};

// c[rows, columns] = or += a * b.
template <bool kAdd, class T>
void panel_product(int64_t rows, int64_t k, int64_t columns, const RowsOfA<T>& a,
                   const StripsOfB<T>& b, T* c, int64_t c_row, Ahead<T> ahead) {
  const int64_t wide = strip_columns<T>();
  alignas(64) T edge[kStripRows * kStripVectors * HWY_MAX_BYTES / sizeof(T)];
  for (int64_t at = 0; at * wide < columns; ++at) {
    const int64_t j = at * wide, count = std::min(wide, columns - j);
    const T* const strip_b = b.strips + at * b.step;
    Ahead<T> next_strip;
    if (b.to != nullptr) {
      b.make(at, k, count);
      if (j + wide < columns)
        next_strip =
            b.ahead(at + 1, k, std::min(wide, columns - j - wide), ceil_div(rows, kStripRows));
    }
    const T* strip = a.full;
    for (int64_t i = 0; i < rows; i += kStripRows, strip += a.strip) {
      T* const to = c + i * c_row + j;
      ahead.fetch();
      next_strip.fetch();
      const bool is_full = i + kStripRows <= rows;
      if (is_full && count == wide) {
        block_of<kAdd>(a.lie, k, strip, a.step, strip_b, to, c_row);
        continue;
      }
      const int64_t row_count = std::min(kStripRows, rows - i);
      if constexpr (kAdd && kGoesOn<T>) {
        std::fill(std::begin(edge), std::end(edge), T(0));
        for (int64_t y = 0; y < row_count; ++y) std::copy_n(to + y * c_row, count, edge + y * wide);
      }
      block_of<kAdd && kGoesOn<T>>(is_full ? a.lie : Lie::packed, k, is_full ? strip : a.last,
                                   a.step, strip_b, edge, wide);
      for (int64_t y = 0; y < row_count; ++y)
        for (int64_t x = 0; x < count; ++x)
          to[y * c_row + x] = edge[y * wide + x] + (kAdd && !kGoesOn<T> ? to[y * c_row + x] : T(0));
    }
  }
}

// Where nothing is read in order a is packed if many columns read it. With long vectors also where
// rows are a multiple of a page apart, and share few sets of the second-level cache.
template <class T>
Lie lie_of(const PackedExtents& e) {
  const bool is_reread = e.n > kFewStrips * strip_columns<T>();
  const bool shares_sets = kWide && e.a_row % (4096 / static_cast<int64_t>(sizeof(T))) == 0;
  if (e.a_k == 1 && !(is_reread && shares_sets)) return Lie::along_k;
  return e.a_row == 1 && !is_reread ? Lie::along_rows : Lie::packed;
}

// Where a panel product begins.
struct Panel {
  int64_t group = 0, row = 0, k = 0;
};

// The rows of a behind a panel's: of its group, of the next one, or of the next values of k.
template <class T>
Ahead<T> next_rows(const PackedExtents& e, const T* a, Panel at, int64_t k_step, int64_t columns) {
  const int64_t blocks = ceil_div(std::min(kPanelRows, e.rows - at.row), kStripRows) *
                         ceil_div(columns, strip_columns<T>());
  at.row += kPanelRows;
  if (at.row >= e.rows) at.row = 0, ++at.group;
  if (at.group >= e.groups) at.group = 0, at.k += k_step;
  if (at.k >= e.k) return {};
  const int64_t rows = std::min(kPanelRows, e.rows - at.row), k = std::min(k_step, e.k - at.k);
  const T* const from = a + at.group * e.a_group + at.row * e.a_row + at.k * e.a_k;
  if (e.a_k == 1) return {from, e.a_row, rows, k, blocks};
  if (e.a_row == 1) return {from, e.a_k, k, rows, blocks};
  return {};
}

template <class T>
RowsOfA<T> rows_of_a(const PackedExtents& e, const T* a, int64_t rows, int64_t k, T* packed) {
  const Lie lie = lie_of<T>(e);
  const int64_t full = rows / kStripRows * kStripRows;
  if (lie == Lie::packed) {
    pack_a(e, a, rows, k, packed);
    return {lie, packed, strip_of_a<T>(k), 0, packed + full / kStripRows * strip_of_a<T>(k)};
  }
  if (full < rows) pack_a(e, a + full * e.a_row, rows - full, k, packed);
  return {lie, a, kStripRows * e.a_row, lie == Lie::along_k ? e.a_row : e.a_k, packed};
}

template <class T>
int64_t panel_k(const PackedExtents& e) {
  return ceil_div(ceil_div(e.k, ceil_div(e.k, kPanelK<T>)), 4) * 4;
}

template <class T>
int64_t elements_of_b(const PackedExtents& e) {
  return ceil_div(std::min(kPanelColumns, e.n), strip_columns<T>()) * strip_of_b<T>(panel_k<T>(e));
}

template <class T>
int64_t scratch_elements(const PackedExtents& e) {
  const int64_t rows = lie_of<T>(e) == Lie::packed ? std::min(kPanelRows, e.rows) : kStripRows;
  return elements_of_b<T>(e) + ceil_div(rows, kStripRows) * strip_of_a<T>(panel_k<T>(e));
}

template <class T>
void run_packed(const PackedExtents& e, const T* a, const T* b, T* c, T* scratch) {
  const int64_t k_step = panel_k<T>(e);
  T* const packed_b = scratch;
  T* const packed_a = packed_b + elements_of_b<T>(e);
  const auto run_panel = [&](const Panel& at, int64_t j) {
    const int64_t columns = std::min(kPanelColumns, e.n - j), k = std::min(k_step, e.k - at.k);
    const int64_t rows = std::min(kPanelRows, e.rows - at.row);
    const T* const from = a + at.group * e.a_group + at.row * e.a_row + at.k * e.a_k;
    const RowsOfA<T> panel = rows_of_a(e, from, rows, k, packed_a);
    const Ahead<T> ahead = next_rows(e, a, at, k_step, columns);
    StripsOfB<T> strips{packed_b, strip_of_b<T>(k)};
    if (at.group == 0 && at.row == 0)
      strips = {packed_b, strip_of_b<T>(k), &e, b + at.k * e.b_k + j * e.b_n, packed_b};
    T* const to = c + at.group * e.c_group + at.row * e.c_row + j;
    if (at.k == 0)
      panel_product<false>(rows, k, columns, panel, strips, to, e.c_row, ahead);
    else
      panel_product<true>(rows, k, columns, panel, strips, to, e.c_row, ahead);
  };
  for (int64_t j = 0; j < e.n; j += kPanelColumns)
    for (int64_t p = 0; p < e.k; p += k_step)
      for (int64_t g = 0; g < e.groups; ++g)
        for (int64_t i = 0; i < e.rows; i += kPanelRows) run_panel({g, i, p}, j);
}

// --- b laid out once

PackedExtents extents_of(const StripExtents& e) {
  return {e.rows, e.n, e.k, e.a_row, e.a_k, 0, 0, e.c_row};
}

void lay_out_strips(const PackedExtents& e, const float* b, float* strips) {
  pack_b(e, b, e.k, e.n, {strip_columns(), strip_of_b(e.k)}, strips);
}

int64_t strips_scratch(const StripExtents& strips) {
  const PackedExtents e = extents_of(strips);
  const int64_t rows = lie_of<float>(e) == Lie::packed ? std::min(kPanelRows, e.rows) : kStripRows;
  return ceil_div(rows, kStripRows) * strip_of_a(std::min(kPanelK<float>, ceil_div(e.k, 4) * 4));
}

void multiply_strips(const StripExtents& strips, bool adds, const float* a, const float* b,
                     float* c, float* scratch) {
  const PackedExtents e = extents_of(strips);
  const int64_t k_step = panel_k<float>(e);
  for (int64_t p = 0; p < e.k; p += k_step) {
    const int64_t k = std::min(k_step, e.k - p);
    for (int64_t i = 0; i < e.rows; i += kPanelRows) {
      const int64_t rows = std::min(kPanelRows, e.rows - i);
      const RowsOfA<float> panel = rows_of_a(e, a + i * e.a_row + p * e.a_k, rows, k, scratch);
      const StripsOfB<float> from{b + p * strip_columns(), strips.strip};
      float* const to = c + i * e.c_row;
      if (adds || p > 0)
        panel_product<true>(rows, k, e.n, panel, from, to, e.c_row, {});
      else
        panel_product<false>(rows, k, e.n, panel, from, to, e.c_row, {});
    }
  }
}

template <class T>
PackedFunctions packed_functions() {
  return {[](const PackedExtents& e, const std::byte* a, const std::byte* b, std::byte* c,
             std::byte* scratch) {
            run_packed(e, reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b),
                       reinterpret_cast<T*>(c), reinterpret_cast<T*>(scratch));
          },
          [](const PackedExtents& e) {
            return scratch_elements<T>(e) * static_cast<int64_t>(sizeof(T));
          }};
}

}  // namespace

PackedFamily find_packed() {
  return {packed_functions<float>(),
          packed_functions<double>(),
          packed_functions<uint32_t>(),
          static_cast<int64_t>(hn::Lanes(Tag())),
          {strip_columns(), [](int64_t k) { return strip_of_b(k); }, lay_out_strips,
           multiply_strips, strips_scratch}};
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_packed);

const PackedFamily& family() {
  static const PackedFamily functions = HWY_DYNAMIC_DISPATCH(find_packed)();
  return functions;
}

class PackedProduct final : public GemmProduct {
 public:
  PackedProduct(const PackedFunctions& functions, const PackedExtents& extents)
      : functions_(functions), extents_(extents) {}

  int64_t scratch_bytes() const override { return functions_.scratch(extents_); }

  void run(const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    functions_.run(extents_, a, b, c, scratch);
  }

 private:
  const PackedFunctions& functions_;
  PackedExtents extents_;
};

class StripProduct final : public GemmProduct {
 public:
  explicit StripProduct(const PackedExtents& extents)
      : functions_(strip_functions()), extents_(extents) {}

  int64_t scratch_bytes() const override { return (floats_of_b() + functions_.scratch(e_)) * 4; }

  void run(const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    auto* const strips = reinterpret_cast<float*>(scratch);
    functions_.lay_out(extents_, reinterpret_cast<const float*>(b), strips);
    functions_.multiply(e_, false, reinterpret_cast<const float*>(a), strips,
                        reinterpret_cast<float*>(c), strips + floats_of_b());
  }

 private:
  int64_t floats_of_b() const { return ceil_div(e_.n, functions_.columns) * e_.strip; }

  const StripFunctions& functions_;
  PackedExtents extents_;
  StripExtents e_{extents_.rows,
                  extents_.n,
                  extents_.k,
                  extents_.a_row,
                  extents_.a_k,
                  extents_.c_row,
                  functions_.step(extents_.k)};
};

}  // namespace

const StripFunctions& strip_functions() { return family().strips; }

int64_t packed_lanes() { return family().lanes; }

std::unique_ptr<GemmProduct> strip_product(const PackedExtents& extents) {
  return std::make_unique<StripProduct>(extents);
}

std::unique_ptr<GemmProduct> packed_product(DType dtype, const PackedExtents& extents) {
  switch (dtype) {
    case DType::f32:
      return std::make_unique<PackedProduct>(family().f32, extents);
    case DType::f64:
      return std::make_unique<PackedProduct>(family().f64, extents);
    case DType::s32:
    case DType::u32:
      return std::make_unique<PackedProduct>(family().u32, extents);
    default:
      internal_error("gemm: no packed product of {}", dtype_name(dtype));
  }
}

}  // namespace gspmd
#endif
