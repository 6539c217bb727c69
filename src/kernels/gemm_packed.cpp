// Products of f32 over any strides: both operands are packed into strips as wide as a block of
// registers, panel by panel, so that the innermost loop reads memory in order, whatever order the
// operands are in (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008).
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_packed.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>

#include "gspmd/kernels/loop_program.h"
#include "kernels/gemm_product.h"

#ifndef GSPMD_GEMM_PACKED_TYPES
#define GSPMD_GEMM_PACKED_TYPES
namespace gspmd {

constexpr int64_t kStripRows = 6;  // of a, in one block of registers
// Extents of what is packed at a time: of a (kept in the second-level cache) and b (in the last).
constexpr int64_t kPanelRows = 96, kPanelK = 320, kPanelColumns = 1024;

struct PackedFunctions {
  void (*run)(const PackedExtents& e, const float* a, const float* b, float* c, float* scratch);
  int64_t strip_columns;  // of b, in one block of registers
};

}  // namespace gspmd
#endif

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

int64_t strip_columns() { return 2 * static_cast<int64_t>(hn::Lanes(Tag())); }

// One block of registers: c[6, two vectors] = or += strip of a * strip of b.
template <bool kAdd>
void register_block(int64_t k, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                    float* HWY_RESTRICT c, int64_t c_row) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector x0 = hn::Zero(d), x1 = x0, x2 = x0, x3 = x0, x4 = x0, x5 = x0;
  Vector y0 = x0, y1 = x0, y2 = x0, y3 = x0, y4 = x0, y5 = x0;
  for (int64_t i = 0; i < kStripRows; ++i) {
    __builtin_prefetch(c + i * c_row);
    __builtin_prefetch(c + i * c_row + 2 * lanes - 1);
  }
  const auto step = [&](int64_t i) HWY_ATTR {
    const float* const s = a + i * kStripRows;
    const Vector p = hn::Load(d, b + i * 2 * lanes), q = hn::Load(d, b + (i * 2 + 1) * lanes);
    Vector r = hn::Set(d, s[0]);
    x0 = hn::MulAdd(r, p, x0), y0 = hn::MulAdd(r, q, y0), r = hn::Set(d, s[1]);
    x1 = hn::MulAdd(r, p, x1), y1 = hn::MulAdd(r, q, y1), r = hn::Set(d, s[2]);
    x2 = hn::MulAdd(r, p, x2), y2 = hn::MulAdd(r, q, y2), r = hn::Set(d, s[3]);
    x3 = hn::MulAdd(r, p, x3), y3 = hn::MulAdd(r, q, y3), r = hn::Set(d, s[4]);
    x4 = hn::MulAdd(r, p, x4), y4 = hn::MulAdd(r, q, y4), r = hn::Set(d, s[5]);
    x5 = hn::MulAdd(r, p, x5), y5 = hn::MulAdd(r, q, y5);
  };
  for (; k >= 4; k -= 4, a += 4 * kStripRows, b += 8 * lanes) {
    step(0);
    step(1);
    step(2);
    step(3);
  }
  for (int64_t i = 0; i < k; ++i) step(i);
  const auto put = [&](int64_t row, Vector x, Vector y) HWY_ATTR {
    float* const to = c + row * c_row;
    if constexpr (kAdd) x = hn::Add(hn::LoadU(d, to), x), y = hn::Add(hn::LoadU(d, to + lanes), y);
    hn::StoreU(x, d, to);
    hn::StoreU(y, d, to + lanes);
  };
  put(0, x0, y0);
  put(1, x1, y1);
  put(2, x2, y2);
  put(3, x3, y3);
  put(4, x4, y4);
  put(5, x5, y5);
}

#if HWY_TARGET != HWY_SCALAR

// rows[i][j] = r{j}[i], 0 <= i, j < 4.
struct Four {
  hn::Vec<hn::FixedTag<float, 4>> rows[4];
};
HWY_INLINE Four transposed(const float* r0, const float* r1, const float* r2, const float* r3) {
  const hn::FixedTag<float, 4> d;
  const auto a = hn::LoadU(d, r0), b = hn::LoadU(d, r1), c = hn::LoadU(d, r2), e = hn::LoadU(d, r3);
  const auto ac = hn::InterleaveLower(d, a, c), AC = hn::InterleaveUpper(d, a, c);
  const auto be = hn::InterleaveLower(d, b, e), BE = hn::InterleaveUpper(d, b, e);
  return {{hn::InterleaveLower(d, ac, be), hn::InterleaveUpper(d, ac, be),
           hn::InterleaveLower(d, AC, BE), hn::InterleaveUpper(d, AC, BE)}};
}

// A strip of six rows that are contiguous along k. The second store of each k writes two values too
// many, which what follows overwrites.
int64_t pack_six_rows(const float* a, int64_t row, int64_t k, float* to) {
  const hn::FixedTag<float, 4> d;
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    const float* const p = a + i;
    const Four low = transposed(p, p + row, p + 2 * row, p + 3 * row);
    const Four high = transposed(p + 4 * row, p + 5 * row, p + 4 * row, p + 5 * row);
    for (int64_t j = 0; j < 4; ++j) {
      hn::StoreU(low.rows[j], d, to + (i + j) * kStripRows);
      hn::StoreU(high.rows[j], d, to + (i + j) * kStripRows + 4);
    }
  }
  return i;
}

// A strip of b whose columns are contiguous along k.
int64_t pack_columns(const float* b, int64_t column, int64_t k, int64_t wide, float* to) {
  const hn::FixedTag<float, 4> d;
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    for (int64_t j = 0; j < wide; j += 4) {
      const float* const p = b + j * column + i;
      const Four block = transposed(p, p + column, p + 2 * column, p + 3 * column);
      for (int64_t r = 0; r < 4; ++r) hn::StoreU(block.rows[r], d, to + (i + r) * wide + j);
    }
  }
  return i;
}

#else

int64_t pack_six_rows(const float*, int64_t, int64_t, float*) { return 0; }
int64_t pack_columns(const float*, int64_t, int64_t, int64_t, float*) { return 0; }

#endif

// Strips of `wide` values for each k: `from` has steps of `step` along them and `step_k` along k.
void pack_any(const float* from, int64_t step, int64_t step_k, int64_t count, int64_t first_k,
              int64_t k, int64_t wide, float* to) {
  for (int64_t i = first_k; i < k; ++i) {
    const float* const p = from + i * step_k;
    for (int64_t j = 0; j < wide; ++j) to[i * wide + j] = j < count ? p[j * step] : 0.0F;
  }
}

// The full strips of what is contiguous along them, all strips of some k at a time: memory is read
// in order. How many values of each k that was.
int64_t pack_rows_of_a(const PackedExtents& e, const float* a, int64_t rows, int64_t k, float* to) {
  const int64_t full = rows / kStripRows * kStripRows;
  for (int64_t i = 0; i < k; ++i) {
    const float* const from = a + i * e.a_k;
    float* strip = to + i * kStripRows;
    for (int64_t j = 0; j < full; j += kStripRows, strip += k * kStripRows) {
#if HWY_TARGET == HWY_SCALAR
      std::copy_n(from + j, kStripRows, strip);
#else
      const hn::FixedTag<float, 4> d;
      hn::StoreU(hn::LoadU(d, from + j), d, strip);
      hn::StoreU(hn::LoadU(d, from + j + 2), d, strip + 2);
#endif
    }
  }
  return full;
}

int64_t pack_rows_of_b(const PackedExtents& e, const float* b, int64_t k, int64_t columns,
                       float* to) {
  constexpr int64_t kTogether = 4;
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t wide = 2 * lanes, full = columns / wide * wide;
  for (int64_t i = 0; i < k; i += kTogether) {
    const int64_t end = std::min(k, i + kTogether);
    float* strip = to;
    for (int64_t j = 0; j < full; j += wide, strip += k * wide) {
      for (int64_t r = i; r < end; ++r) {
        const float* const p = b + r * e.b_k + j;
        hn::Store(hn::LoadU(d, p), d, strip + r * wide);
        hn::Store(hn::LoadU(d, p + lanes), d, strip + r * wide + lanes);
      }
    }
  }
  return full;
}

void pack_a(const PackedExtents& e, const float* a, int64_t rows, int64_t k, float* to) {
  int64_t i = e.a_row == 1 ? pack_rows_of_a(e, a, rows, k, to) : 0;
  for (to += i * k; i < rows; i += kStripRows, to += k * kStripRows) {
    const int64_t count = std::min(kStripRows, rows - i);
    const float* const strip = a + i * e.a_row;
    int64_t done = 0;
    if (count == kStripRows && e.a_k == 1) done = pack_six_rows(strip, e.a_row, k, to);
    pack_any(strip, e.a_row, e.a_k, count, done, k, kStripRows, to);
  }
}

void pack_b(const PackedExtents& e, const float* b, int64_t k, int64_t columns, float* to) {
  const int64_t wide = strip_columns();
  int64_t j = e.b_n == 1 ? pack_rows_of_b(e, b, k, columns, to) : 0;
  for (to += j * k; j < columns; j += wide, to += k * wide) {
    const int64_t count = std::min(wide, columns - j);
    const float* const strip = b + j * e.b_n;
    int64_t done = 0;
    if (count == wide && e.b_k == 1 && wide % 4 == 0)
      done = pack_columns(strip, e.b_n, k, wide, to);
    pack_any(strip, e.b_n, e.b_k, count, done, k, wide, to);
  }
}

// c[rows, columns] = or += packed a * packed b.
template <bool kAdd>
void panel_product(int64_t rows, int64_t k, int64_t columns, const float* a, const float* b,
                   float* c, int64_t c_row) {
  const int64_t wide = strip_columns();
  alignas(64) float edge[kStripRows * 2 * HWY_MAX_BYTES / sizeof(float)];
  for (int64_t j = 0; j < columns; j += wide) {
    for (int64_t i = 0; i < rows; i += kStripRows) {
      float* const to = c + i * c_row + j;
      if (i + kStripRows <= rows && j + wide <= columns) {
        register_block<kAdd>(k, a + i * k, b + j * k, to, c_row);
        continue;
      }
      register_block<false>(k, a + i * k, b + j * k, edge, wide);
      const int64_t row_count = std::min(kStripRows, rows - i), count = std::min(wide, columns - j);
      for (int64_t y = 0; y < row_count; ++y)
        for (int64_t x = 0; x < count; ++x)
          to[y * c_row + x] = edge[y * wide + x] + (kAdd ? to[y * c_row + x] : 0.0F);
    }
  }
}

void run_packed(const PackedExtents& e, const float* a, const float* b, float* c, float* scratch) {
  const int64_t panels = ceil_div(e.k, kPanelK), k_step = ceil_div(ceil_div(e.k, panels), 4) * 4;
  float* const packed_b = scratch;
  float* const packed_a =
      packed_b + k_step * ceil_div(std::min(kPanelColumns, e.n), strip_columns()) * strip_columns();
  for (int64_t j = 0; j < e.n; j += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, e.n - j);
    for (int64_t p = 0; p < e.k; p += k_step) {
      const int64_t k = std::min(k_step, e.k - p);
      pack_b(e, b + p * e.b_k + j * e.b_n, k, columns, packed_b);
      for (int64_t i = 0; i < e.rows; i += kPanelRows) {
        const int64_t rows = std::min(kPanelRows, e.rows - i);
        pack_a(e, a + i * e.a_row + p * e.a_k, rows, k, packed_a);
        float* const to = c + i * e.c_row + j;
        if (p == 0)
          panel_product<false>(rows, k, columns, packed_a, packed_b, to, e.c_row);
        else
          panel_product<true>(rows, k, columns, packed_a, packed_b, to, e.c_row);
      }
    }
  }
}

}  // namespace

PackedFunctions find_packed() { return {run_packed, strip_columns()}; }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {

HWY_EXPORT(find_packed);

class PackedProduct final : public GemmProduct {
 public:
  PackedProduct(const PackedFunctions& functions, const PackedExtents& extents)
      : functions_(functions), extents_(extents) {}

  int64_t scratch_bytes() const override {
    const int64_t wide = functions_.strip_columns;
    const int64_t k = std::min(kPanelK, ceil_div(extents_.k, 4) * 4);
    const int64_t columns = ceil_div(std::min(kPanelColumns, extents_.n), wide) * wide;
    const int64_t rows = ceil_div(std::min(kPanelRows, extents_.rows), kStripRows) * kStripRows;
    return (k * (columns + rows) + 16) * 4;  // 16: what the last store writes too many
  }

  void run(const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    functions_.run(extents_, reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
                   reinterpret_cast<float*>(c), reinterpret_cast<float*>(scratch));
  }

 private:
  PackedFunctions functions_;
  PackedExtents extents_;
};

}  // namespace

bool packs_products() {
  static const bool packs = HWY_DYNAMIC_DISPATCH(find_packed)().strip_columns == 16;
  return packs;
}

std::unique_ptr<GemmProduct> packed_product(const PackedExtents& extents) {
  return std::make_unique<PackedProduct>(HWY_DYNAMIC_DISPATCH(find_packed)(), extents);
}

}  // namespace gspmd
#endif
