#include "kernels/gemm_plan.h"

#include <algorithm>

namespace gspmd {
namespace {

constexpr int64_t kRowBlock = 256;  // rows of one product when rows are cut into parts
// m * n * k below this: plain loops, also where blocks of rows and vectors are full and what a call
// of the library costs counts.
constexpr int64_t kLibraryWork = 8192, kLibraryBlocks = 262144;
// The least work of a part; of one that packs operands, which others pack too.
constexpr double kPartFlops = 4e6, kPackedPartFlops = 256e6;
// Products with as many rows, columns and summands hide what packing their operands costs.
constexpr int64_t kPackedRows = 48, kPackedColumns = 48, kPackedK = 32;
// Where loops are what packing competes with: those of f64 are as quick while b is near, those of
// integers never are.
struct LeastPacked {
  int64_t rows, columns, k;
};
constexpr LeastPacked kLeastDoubles{12, 16, 32}, kLeastIntegers{6, 8, 8};
constexpr int64_t kNearElements = 8192;
// The least that a part of such a product has; its rows and columns are whole blocks of registers.
constexpr int64_t kPartRows = 96, kPartColumns = 64, kBlockRows = 12, kBlockColumns = 64;
// What it costs to read an element of a again, beside packing one.
constexpr double kReadShare = 0.25;

// Operand b is laid out once for all rows where these are many, and it does not take much memory;
// nor a block of rows of a that are not dense.
constexpr int64_t kPrepackedRows = 256, kPrepackedMultiple = 16;
constexpr int64_t kPrepackedBytes = int64_t{16} << 20, kPrepackedRowBytes = int64_t{4} << 20;

// A few columns of b in strips for all rows of a that is contiguous along its rows and read where
// it lies: what stays in the second-level cache, and behind it.
constexpr int64_t kStripColumns = 128, kStripBytes = int64_t{1} << 20;
constexpr int64_t kRowsInPlaceBytes = int64_t{4} << 20, kPageFloats = 1024;

// Where rows are too few to be parts, columns are: the library does better with many at once.
constexpr int64_t kPlainColumns = 256, kPlainParts = 4;

// Few rows times a matrix, which is read once and takes the time: rows, elements, bytes of a part.
constexpr int64_t kFewRows = 16, kFewColumns = 64, kFewK = 16, kFewElements = int64_t{1} << 14;
constexpr int64_t kFewPartBytes = int64_t{1} << 18;

// Of types of which the library has nothing.
bool packs_loops(const GemmPlan& plan) {
  return packed_lanes() >= 8 &&
         (plan.operand == DType::f64 || plan.operand == DType::s32 || plan.operand == DType::u32);
}

bool is_worth_packing(const GemmPlan& plan) {
  if (packs_loops(plan)) {
    const bool is_float = plan.operand == DType::f64;
    if (is_float && plan.n.size * plan.k_size < kNearElements) return false;
    const LeastPacked& least = is_float ? kLeastDoubles : kLeastIntegers;
    return plan.m.size >= least.rows && plan.n.size >= least.columns && plan.k_size >= least.k;
  }
  return plan.m.size >= kPackedRows && plan.n.size >= kPackedColumns && plan.k_size >= kPackedK;
}

int64_t parts_of(double flops, double least) {
  return std::clamp<int64_t>(static_cast<int64_t>(flops / least), 1, 8);
}

int64_t rows_of(const GemmPlan& plan) { return plan.groups.size * plan.m.size; }

bool is_dense(const GemmLoop& row, int64_t row_step, const GemmLoop& column, int64_t step) {
  return (column.size == 1 || step == 1) && (row.size == 1 || row_step == column.size);
}

int64_t strip_columns_of(const GemmPlan& plan) {
  const int64_t columns = std::min(kStripColumns, kStripBytes / 4 / plan.k_size);
  return std::min(columns, plan.n.size / 2) / kBlockColumns * kBlockColumns;
}

int64_t prepacked_block(const GemmPlan& plan) {
  return plan.m.size < kPrepackedRows * kPrepackedParts ? kPrepackedRows / 2 : kPrepackedRows;
}

void cut_rows(GemmPlan& plan, int64_t blocks, int64_t multiple = 1) {
  plan.block = ceil_div(ceil_div(plan.m.size, blocks), multiple) * multiple;
  plan.blocks = ceil_div(plan.m.size, plan.block);
}

void cut_columns(GemmPlan& plan, int64_t blocks, int64_t multiple) {
  plan.column_block =
      std::min(plan.n.size, ceil_div(ceil_div(plan.n.size, blocks), multiple) * multiple);
  plan.column_blocks = ceil_div(plan.n.size, plan.column_block);
}

// Each part packs its columns of b, and its rows of a unless it reads them where they lie: the grid
// of parts for which that is least.
void choose_grid(GemmPlan& plan, int64_t parts) {
  const double k = static_cast<double>(plan.k_size);
  const double a = k * static_cast<double>(rows_of(plan)), b = k * static_cast<double>(plan.n.size);
  const bool reads_a = plan.k.size() == 1 && plan.k[0].a == 1;
  for (; parts > 1; --parts) {
    double least = 0;
    int64_t best = 0;
    for (int64_t rows = 1; rows <= parts; ++rows) {
      const int64_t columns = parts / rows;
      if (rows * columns != parts || (rows > 1 && plan.m.size < rows * kPartRows) ||
          (columns > 1 &&
           (plan.pack_c || plan.k.size() > 1 || plan.n.size < columns * kPartColumns)))
        continue;
      const double cost = b * static_cast<double>(rows) +
                          a * static_cast<double>(columns) * (reads_a ? kReadShare : 1.0);
      if (best == 0 || cost < least) best = rows, least = cost;
    }
    if (best == 0) continue;
    cut_rows(plan, best, kBlockRows);
    return cut_columns(plan, parts / best, kBlockColumns);
  }
}

}  // namespace

// With vectors of 8 lanes our own code is the faster one; with 16 it is the library's, unless it
// would have a transposed before.
bool GemmPlan::is_packed() const {
  if (!is_worth_packing(*this)) return false;
  if (packs_loops(*this)) return true;
  if (operand != DType::f32) return false;
  return packed_lanes() == 8 || (packed_lanes() == 16 && k.size() == 1 && m.a == 1);
}

double GemmPlan::flops() const {
  return 2.0 * static_cast<double>(rows_of(*this)) * static_cast<double>(n.size) *
         static_cast<double>(k_size);
}

StripKind GemmPlan::strips() const {
  if (operand != DType::bf16) return StripKind::floats;
  return multiplies_bf16() ? StripKind::halves : StripKind::widened;
}

// Gradients of weights: a would have to be turned round for the library, and b to be laid out in
// memory, which takes a tenth of the time. Lines a multiple of a page apart share few sets of the
// caches.
bool GemmPlan::reads_in_place() const {
  return operand == DType::f32 && packed_lanes() == 16 && is_worth_packing(*this) &&
         outer_count == 1 && groups.size == 1 && k.size() == 1 && m.a == 1 &&
         k[0].a % kPageFloats != 0 && n.c == 1 && strip_columns_of(*this) > 0 &&
         m.size * k_size * 4 <= kRowsInPlaceBytes && parts_of(flops(), kPartFlops) >= 2;
}

bool GemmPlan::is_prepacked() const {
  if (packed_lanes() != 16 || (operand != DType::f32 && operand != DType::bf16)) return false;
  if (!is_worth_packing(*this) || outer_count != 1 || k.size() != 1 || m.size < kPrepackedRows ||
      parts_of(flops(), kPartFlops) < 2)
    return false;
  const bool is_dense_a = is_dense(m, m.a, k[0], k[0].a);
  return prepacked_bytes(n.size, k_size, strips()) <= kPrepackedBytes &&
         (is_dense_a || prepacked_block(*this) * k_size * operand_size <= kPrepackedRowBytes);
}

bool GemmPlan::take_groups() {
  if ((operand != DType::f32 && !packs_loops(*this)) || packed_lanes() < 8 || k.size() != 1 ||
      (n.size > 1 && n.c != 1))
    return false;
  size_t best = outer.size();
  for (size_t i = 0; i < outer.size(); ++i) {
    const GemmLoop& loop = outer[i];
    if (loop.b == 0 && (best == outer.size() || loop.size > outer[best].size)) best = i;
  }
  if (best == outer.size()) return false;
  groups = outer[best];
  if (rows_of(*this) < kPackedRows || n.size < kPackedColumns || k_size < kPackedK) {
    groups = {};
    return false;
  }
  outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(best));
  outer_count /= groups.size;
  return true;
}

bool GemmPlan::take_few() {
  const bool is_tall = n.size < m.size;
  const int64_t rows = std::min(m.size, n.size);
  const int64_t columns = std::max(m.size, n.size);
  if (k.size() != 1 || k_size < kFewK || saturating_multiply(columns, k_size) < kFewElements ||
      (!is_half_dtype(operand) && operand != DType::f32 && operand != DType::f64))
    return false;
  // Tall enough to be parts of rows, which the library reads as quickly.
  const bool is_library = operand == DType::f32 || operand == DType::bf16;
  if (is_tall && is_library && m.size >= 2 * kRowBlock && rows > kFewRows / 4) return false;
  if (is_tall) swap_operands();
  // The library is quicker for more rows of bf16, and for those of lines along the columns.
  const bool along_k = k[0].b == 1, along_n = n.b == 1 && columns >= kFewColumns;
  const bool more = operand == DType::f16 || (along_k && operand != DType::bf16);
  if ((along_k || along_n) && rows <= (more ? kFewRows : kFewRows / 2)) return true;
  if (is_tall) swap_operands();
  return false;
}

bool GemmPlan::packs_widened() const { return packed_lanes() == 8 && is_worth_packing(*this); }

double GemmPlan::bytes_of_b() const {
  return static_cast<double>(n.size) * static_cast<double>(k_size) *
         static_cast<double>(outer_count * operand_size);
}

void GemmPlan::choose_blocks() {
  const double work = flops();
  block = m.size;
  column_block = n.size;
  const double all = work * static_cast<double>(outer_count);
  const int64_t wanted = way == Way::few
                             ? parts_of(bytes_of_b(), static_cast<double>(kFewPartBytes))
                             : parts_of(all, kPartFlops);
  outer_parts = std::min(outer_count, wanted);
  const bool whole = outer_parts >= wanted;
  if (way == Way::prepacked) {
    cut_rows(*this, ceil_div(m.size, prepacked_block(*this)), kPrepackedMultiple);
  } else if (way == Way::packed && in_place) {
    cut_columns(*this, ceil_div(n.size, strip_columns_of(*this)), kBlockColumns);
  } else if (way == Way::packed) {
    const int64_t packed = std::max(parts_of(all, kPackedPartFlops), std::min<int64_t>(2, wanted));
    if (!whole) choose_grid(*this, std::max<int64_t>(1, packed / outer_parts));
  } else if (m.size >= 2 * kRowBlock && work >= 2 * kPartFlops) {
    // What is widened of operand b serves all rows of a part.
    const int64_t most = m.size / kRowBlock;
    cut_rows(*this, !packs_widened() ? most : whole ? 1 : std::min(most, wanted));
  } else if (!whole && !pack_b && !pack_c) {
    const int64_t most = way == Way::few
                             ? std::max<int64_t>(1, n.size / kFewColumns)
                             : std::clamp<int64_t>(n.size / kPlainColumns, 1, kPlainParts);
    cut_columns(*this, std::min(ceil_div(wanted, outer_parts), most), kBlockColumns);
  }
  row_parts = whole ? 1 : blocks;
  parts = outer_parts * row_parts * column_blocks;
}

void GemmPlan::swap_operands() {
  swapped = !swapped;
  std::swap(m, n);
  for (GemmLoop* loop : {&m, &n}) std::swap(loop->a, loop->b);
  for (auto* loops : {&outer, &k}) {
    for (GemmLoop& loop : *loops) std::swap(loop.a, loop.b);
  }
}

bool GemmPlan::uses_library() const {
  if (operand != DType::f32 && !is_half_dtype(operand)) return false;
  const bool in_blocks = operand == DType::f32 && m.size >= 4 && n.size >= 8 && k_size <= 128;
  return saturating_multiply(saturating_multiply(m.size, n.size), k_size) >=
         (in_blocks ? kLibraryBlocks : kLibraryWork);
}

void GemmPlan::choose_packing() {
  const bool library = uses_library();
  const GemmLoop inner = k.empty() ? GemmLoop{} : k[0];
  const bool one_k = k.size() <= 1;
  if (way == Way::few) {
    pack_a = pack_b = pack_c = b_transposed = false;
    return;
  }
  if (way == Way::packed) {
    pack_a = pack_b = !one_k;
    pack_c = n.size > 1 && n.c != 1;
    return;
  }
  pack_a = !one_k || !is_dense(m, m.a, inner, inner.a);
  pack_c = !is_dense(m, m.c, n, n.c);
  if (way == Way::prepacked) return;
  b_transposed = (library || reads_transposed(operand, k_size)) && one_k &&
                 !is_dense(inner, inner.b, n, n.b) && is_dense(n, n.b, inner, inner.b);
  pack_b = !b_transposed && (!one_k || !is_dense(inner, inner.b, n, n.b));
}

}  // namespace gspmd
