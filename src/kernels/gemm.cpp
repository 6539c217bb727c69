#include "gspmd/kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/kernels/loop_program.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/gemm_product.h"
#include "kernels/lines.h"
#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"

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
// The least that a part of such a product has; its rows and columns are whole blocks of registers.
constexpr int64_t kPartRows = 96, kPartColumns = 64, kBlockRows = 12, kBlockColumns = 64;
// What it costs to read an element of a again, beside packing one.
constexpr double kReadShare = 0.25;

// Operand b is laid out once for all rows where these are many, and it does not take much memory;
// nor a block of rows of a that are not dense.
constexpr int64_t kPrepackedRows = 256, kPrepackedParts = 8, kPrepackedMultiple = 16;
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

using Step = int64_t GemmLoop::*;

int64_t product(const std::vector<GemmLoop>& loops) {
  int64_t n = 1;
  for (const GemmLoop& loop : loops) n = saturating_multiply(n, loop.size);
  return n;
}

// Size-1 loops dropped, the rest sorted by the step of `major`, neighbours merged where all chain.
std::vector<GemmLoop> merged(std::vector<GemmLoop> loops, Step major) {
  std::erase_if(loops, [](const GemmLoop& loop) { return loop.size == 1; });
  std::stable_sort(loops.begin(), loops.end(),
                   [&](const GemmLoop& x, const GemmLoop& y) { return x.*major > y.*major; });
  std::vector<GemmLoop> out;
  for (const GemmLoop& loop : loops) {
    const int64_t n = loop.size;
    if (!out.empty() && out.back().a == loop.a * n && out.back().b == loop.b * n &&
        out.back().c == loop.c * n) {
      out.back() = {out.back().size * n, loop.a, loop.b, loop.c};
    } else {
      out.push_back(loop);
    }
  }
  return out;
}

// The loop that the products run over; the others join the outer loops.
GemmLoop take_main(std::vector<GemmLoop>& loops, std::vector<GemmLoop>& outer) {
  if (loops.empty()) return {};
  size_t best = loops.size() - 1;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (loops[i].size > loops[best].size) best = i;
  }
  const GemmLoop main = loops[best];
  loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(best));
  outer.insert(outer.end(), loops.begin(), loops.end());
  return main;
}

// What products read: operands that are dense, or copied to be; operands of any steps, which they
// pack themselves; dense rows of a, and b as it was laid out for all of them before; or few rows of
// a, and b as it lies.
enum class Way : uint8_t { plain, packed, prepacked, few };

// A product as it runs: outer loops around blocks of rows, operands packed where they are not
// dense.
struct GemmPlan {
  DType operand = DType::f32, result = DType::f32;
  int64_t operand_size = 4, result_size = 4;  // bytes per element
  std::vector<GemmLoop> outer;
  int64_t outer_count = 1;
  GemmLoop m, n;
  GemmLoop groups;  // more rows, which read the same b and stay out of the outer loops
  std::vector<GemmLoop> k;
  int64_t k_size = 1;
  bool swapped = false;  // operand 1 plays a
  bool pack_a = false, pack_b = false, pack_c = false;
  bool b_transposed = false;
  Way way = Way::plain;
  bool in_place = false;          // packed: rows of a are read where they lie, by parts of columns
  int64_t block = 1, blocks = 1;  // rows
  int64_t column_block = 1, column_blocks = 1;  // columns; one part each
  int64_t outer_parts = 1, row_parts = 1, parts = 1;
  StridedCopy copy_a[2], copy_b, copy_c[2];  // [1]: of the last, shorter block
  // By rows and columns; [1]: of the last, smaller block.
  std::unique_ptr<GemmProduct> products[2][2];
  int64_t bytes_a = 0, bytes_b = 0, bytes_c = 0, bytes_library = 0;

  int64_t rows(int64_t i) const { return std::min(block, m.size - i * block); }
  int64_t columns(int64_t i) const { return std::min(column_block, n.size - i * column_block); }
};

void swap_operands(GemmPlan& plan) {
  plan.swapped = !plan.swapped;
  std::swap(plan.m, plan.n);
  for (GemmLoop* loop : {&plan.m, &plan.n}) std::swap(loop->a, loop->b);
  for (auto* loops : {&plan.outer, &plan.k}) {
    for (GemmLoop& loop : *loops) std::swap(loop.a, loop.b);
  }
}

// The copy that packs rows x the loops `columns` of one operand into a dense block.
StridedCopy pack(int64_t element_size, Step step, const std::vector<GemmLoop>& loops) {
  StridedCopy copy;
  copy.element_size = element_size;
  for (const GemmLoop& loop : loops) {
    copy.dims.push_back(loop.size);
    copy.source.push_back(loop.*step);
  }
  copy.target = row_major_strides(copy.dims);
  return simplified(std::move(copy));
}

std::vector<GemmLoop> joined(const GemmLoop& first, std::vector<GemmLoop> rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

bool is_worth_packing(const GemmPlan& plan) {
  return plan.m.size >= kPackedRows && plan.n.size >= kPackedColumns && plan.k_size >= kPackedK;
}

// With vectors of 8 lanes our own code is the faster one; with 16 it is the library's, unless it
// would have a transposed before.
bool is_packed(const GemmPlan& plan) {
  if (plan.operand != DType::f32 || !is_worth_packing(plan)) return false;
  return packed_lanes() == 8 || (packed_lanes() == 16 && plan.k.size() == 1 && plan.m.a == 1);
}

int64_t parts_of(double flops, double least) {
  return std::clamp<int64_t>(static_cast<int64_t>(flops / least), 1, 8);
}

int64_t rows_of(const GemmPlan& plan) { return plan.groups.size * plan.m.size; }

// Of one product of the outer loops.
double flops_of(const GemmPlan& plan) {
  return 2.0 * static_cast<double>(rows_of(plan)) * static_cast<double>(plan.n.size) *
         static_cast<double>(plan.k_size);
}

// As the library reads b where it is laid out before.
StripKind strips_of(const GemmPlan& plan) {
  if (plan.operand != DType::bf16) return StripKind::floats;
  return multiplies_bf16() ? StripKind::halves : StripKind::widened;
}

bool is_dense(const GemmLoop& row, int64_t row_step, const GemmLoop& column, int64_t step) {
  return (column.size == 1 || step == 1) && (row.size == 1 || row_step == column.size);
}

int64_t strip_columns_of(const GemmPlan& plan) {
  const int64_t columns = std::min(kStripColumns, kStripBytes / 4 / plan.k_size);
  return std::min(columns, plan.n.size / 2) / kBlockColumns * kBlockColumns;
}

// Gradients of weights: a would have to be turned round for the library, and b to be laid out in
// memory, which takes a tenth of the time. Lines a multiple of a page apart share few sets of the
// caches.
bool reads_in_place(const GemmPlan& plan) {
  return plan.operand == DType::f32 && packed_lanes() == 16 && is_worth_packing(plan) &&
         plan.outer_count == 1 && plan.groups.size == 1 && plan.k.size() == 1 && plan.m.a == 1 &&
         plan.k[0].a % kPageFloats != 0 && plan.n.c == 1 && strip_columns_of(plan) > 0 &&
         plan.m.size * plan.k_size * 4 <= kRowsInPlaceBytes &&
         parts_of(flops_of(plan), kPartFlops) >= 2;
}

int64_t prepacked_block(const GemmPlan& plan) {
  return plan.m.size < kPrepackedRows * kPrepackedParts ? kPrepackedRows / 2 : kPrepackedRows;
}

// The library reads b in strips where vectors have 16 lanes.
bool is_prepacked(const GemmPlan& plan) {
  if (packed_lanes() != 16 || (plan.operand != DType::f32 && plan.operand != DType::bf16))
    return false;
  if (!is_worth_packing(plan) || plan.outer_count != 1 || plan.k.size() != 1 ||
      plan.m.size < kPrepackedRows || parts_of(flops_of(plan), kPartFlops) < 2)
    return false;
  const bool is_dense_a = is_dense(plan.m, plan.m.a, plan.k[0], plan.k[0].a);
  return prepacked_bytes(plan.n.size, plan.k_size, strips_of(plan)) <= kPrepackedBytes &&
         (is_dense_a ||
          prepacked_block(plan) * plan.k_size * plan.operand_size <= kPrepackedRowBytes);
}

// Takes the outer loop that leaves b as it is, where there is one, so that b is packed once for all
// of its rows: several groups of rows by one matrix, as tokens by the weights of an expert. Whether
// it did.
bool take_groups(GemmPlan& plan) {
  if (plan.operand != DType::f32 || packed_lanes() < 8 || plan.k.size() != 1 ||
      (plan.n.size > 1 && plan.n.c != 1))
    return false;
  size_t best = plan.outer.size();
  for (size_t i = 0; i < plan.outer.size(); ++i) {
    const GemmLoop& loop = plan.outer[i];
    if (loop.b == 0 && (best == plan.outer.size() || loop.size > plan.outer[best].size)) best = i;
  }
  if (best == plan.outer.size()) return false;
  plan.groups = plan.outer[best];
  if (rows_of(plan) < kPackedRows || plan.n.size < kPackedColumns || plan.k_size < kPackedK) {
    plan.groups = {};
    return false;
  }
  plan.outer.erase(plan.outer.begin() + static_cast<std::ptrdiff_t>(best));
  plan.outer_count /= plan.groups.size;
  return true;
}

// Turns a product so that its rows are few, where either side has few, and the lines of the other
// operand lie in a row. Whether it is such a product.
bool take_few(GemmPlan& plan) {
  const bool is_tall = plan.n.size < plan.m.size;
  const int64_t rows = std::min(plan.m.size, plan.n.size);
  const int64_t columns = std::max(plan.m.size, plan.n.size);
  if (plan.k.size() != 1 || plan.k_size < kFewK ||
      saturating_multiply(columns, plan.k_size) < kFewElements ||
      (!is_half_dtype(plan.operand) && plan.operand != DType::f32 && plan.operand != DType::f64))
    return false;
  // Tall enough to be parts of rows, which the library reads as quickly.
  const bool is_library = plan.operand == DType::f32 || plan.operand == DType::bf16;
  if (is_tall && is_library && plan.m.size >= 2 * kRowBlock && rows > kFewRows / 4) return false;
  if (is_tall) swap_operands(plan);
  // The library is quicker for more rows of bf16, and for those of lines along the columns.
  const bool along_k = plan.k[0].b == 1, along_n = plan.n.b == 1 && columns >= kFewColumns;
  const bool more = plan.operand == DType::f16 || (along_k && plan.operand != DType::bf16);
  if ((along_k || along_n) && rows <= (more ? kFewRows : kFewRows / 2)) return true;
  if (is_tall) swap_operands(plan);
  return false;
}

// Of operands that are widened before.
bool packs_widened(const GemmPlan& plan) { return packed_lanes() == 8 && is_worth_packing(plan); }

PackedExtents dense_steps(const GemmExtents& e) {
  PackedExtents packed{e.rows, e.n, e.k, e.k, 1, e.b_step(), 1, e.c_step()};
  if (e.b_transposed) std::swap(packed.b_k, packed.b_n);
  return packed;
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

// Of what is read of operand b in all.
double bytes_read(const GemmPlan& plan) {
  return static_cast<double>(plan.n.size) * static_cast<double>(plan.k_size) *
         static_cast<double>(plan.outer_count * plan.operand_size);
}

void choose_blocks(GemmPlan& plan) {
  const double flops = flops_of(plan);
  plan.block = plan.m.size;
  plan.column_block = plan.n.size;
  const double all = flops * static_cast<double>(plan.outer_count);
  const int64_t wanted = plan.way == Way::few
                             ? parts_of(bytes_read(plan), static_cast<double>(kFewPartBytes))
                             : parts_of(all, kPartFlops);
  plan.outer_parts = std::min(plan.outer_count, wanted);
  const bool whole = plan.outer_parts >= wanted;
  if (plan.way == Way::prepacked) {
    cut_rows(plan, ceil_div(plan.m.size, prepacked_block(plan)), kPrepackedMultiple);
  } else if (plan.way == Way::packed && plan.in_place) {
    cut_columns(plan, ceil_div(plan.n.size, strip_columns_of(plan)), kBlockColumns);
  } else if (plan.way == Way::packed) {
    const int64_t parts = std::max(parts_of(all, kPackedPartFlops), std::min<int64_t>(2, wanted));
    if (!whole) choose_grid(plan, std::max<int64_t>(1, parts / plan.outer_parts));
  } else if (plan.m.size >= 2 * kRowBlock && flops >= 2 * kPartFlops) {
    // What is widened of operand b serves all rows of a part.
    const int64_t blocks = plan.m.size / kRowBlock;
    cut_rows(plan, !packs_widened(plan) ? blocks : whole ? 1 : std::min(blocks, wanted));
  } else if (!whole && !plan.pack_b && !plan.pack_c) {
    const int64_t columns = plan.way == Way::few
                                ? std::max<int64_t>(1, plan.n.size / kFewColumns)
                                : std::clamp<int64_t>(plan.n.size / kPlainColumns, 1, kPlainParts);
    cut_columns(plan, std::min(ceil_div(wanted, plan.outer_parts), columns), kBlockColumns);
  }
  plan.row_parts = whole ? 1 : plan.blocks;
  plan.parts = plan.outer_parts * plan.row_parts * plan.column_blocks;
}

bool use_library(const GemmPlan& plan) {
  if (plan.operand != DType::f32 && !is_half_dtype(plan.operand)) return false;
  const bool blocks =
      plan.operand == DType::f32 && plan.m.size >= 4 && plan.n.size >= 8 && plan.k_size <= 128;
  return saturating_multiply(saturating_multiply(plan.m.size, plan.n.size), plan.k_size) >=
         (blocks ? kLibraryBlocks : kLibraryWork);
}

std::unique_ptr<GemmProduct> library_product_of(const GemmPlan& plan, const GemmExtents& extents) {
  if (!is_half_dtype(plan.operand))
    return use_library(plan) ? library_product(plan.operand, plan.result, extents)
                             : loop_product(plan.operand, extents);
  GemmExtents wide = extents;
  wide.b_line = 0;
  if (is_half_dtype(plan.result)) wide.c_line = 0;
  if (!use_library(plan))
    return widened_product(loop_product(DType::f32, wide), plan.operand, plan.result, extents);
  if (auto direct = library_product(plan.operand, plan.result, extents)) return direct;
  auto widened = packs_widened(plan) ? packed_product(dense_steps(wide))
                                     : library_product(DType::f32, DType::f32, wide);
  return widened_product(std::move(widened), plan.operand, plan.result, extents);
}

std::unique_ptr<GemmProduct> prepacked_product_of(const GemmPlan& plan,
                                                  const GemmExtents& extents) {
  if (strips_of(plan) != StripKind::widened)
    return prepacked_product(plan.operand, plan.result, extents);
  auto wide = prepacked_product(DType::f32, DType::f32, extents);
  if (wide == nullptr) return nullptr;
  return widened_product(std::move(wide), plan.operand, plan.result, extents, true);
}

void choose_packing(GemmPlan& plan) {
  const bool library = use_library(plan);
  const GemmLoop k = plan.k.empty() ? GemmLoop{} : plan.k[0];
  const bool one_k = plan.k.size() <= 1;
  if (plan.way == Way::few) {
    plan.pack_a = plan.pack_b = plan.pack_c = plan.b_transposed = false;
    return;
  }
  if (plan.way == Way::packed) {
    plan.pack_a = plan.pack_b = !one_k;
    plan.pack_c = plan.n.size > 1 && plan.n.c != 1;
    return;
  }
  plan.pack_a = !one_k || !is_dense(plan.m, plan.m.a, k, k.a);
  plan.pack_c = !is_dense(plan.m, plan.m.c, plan.n, plan.n.c);
  if (plan.way == Way::prepacked) return;
  plan.b_transposed = (library || reads_transposed(plan.operand, plan.k_size)) && one_k &&
                      !is_dense(k, k.b, plan.n, plan.n.b) && is_dense(plan.n, plan.n.b, k, k.b);
  plan.pack_b = !plan.b_transposed && (!one_k || !is_dense(k, k.b, plan.n, plan.n.b));
}

std::unique_ptr<GemmProduct> packed_product_of(const GemmPlan& plan, int64_t rows,
                                               int64_t columns) {
  const GemmLoop k = plan.k.empty() ? GemmLoop{} : plan.k[0];
  PackedExtents extents{rows, columns, plan.k_size, plan.m.a, k.a, k.b, plan.n.b, plan.m.c};
  if (plan.pack_a) extents.a_row = plan.k_size, extents.a_k = 1;
  if (plan.pack_b) extents.b_k = plan.n.size, extents.b_n = 1;
  if (plan.pack_c) extents.c_row = plan.n.size;
  extents.groups = plan.groups.size;
  extents.a_group = plan.groups.a;
  extents.c_group = plan.groups.c;
  return plan.in_place ? strip_product(extents) : packed_product(extents);
}

std::unique_ptr<GemmProduct> few_rows_product_of(const GemmPlan& plan, int64_t rows,
                                                 int64_t columns) {
  const GemmLoop& k = plan.k[0];
  return few_rows_product(
      plan.operand, plan.result,
      {rows, columns, plan.k_size, plan.m.a, k.a, k.b, plan.n.b, plan.m.c, plan.n.c});
}

// False: the library has no product that reads what was laid out before.
bool prepare_products(GemmPlan& plan) {
  for (int i = 0; i < 2; ++i) {
    const int64_t rows = i == 0 ? plan.block : plan.rows(plan.blocks - 1);
    GemmLoop m = plan.m;
    m.size = rows;
    if (i == 1 && rows == plan.block) break;
    const int64_t last = plan.columns(plan.column_blocks - 1);
    for (int j = 0; j < (last == plan.column_block ? 1 : 2); ++j) {
      auto& made = plan.products[i][j];
      const int64_t columns = j == 0 ? plan.column_block : last;
      const GemmExtents extents{rows,
                                columns,
                                plan.k_size,
                                plan.b_transposed,
                                plan.b_transposed ? plan.k_size : plan.n.size,
                                plan.n.size};
      if (plan.way == Way::packed)
        made = packed_product_of(plan, rows, columns);
      else if (plan.way == Way::few)
        made = few_rows_product_of(plan, rows, columns);
      else if (plan.way == Way::prepacked)
        made = prepacked_product_of(plan, extents);
      else
        made = library_product_of(plan, extents);
      if (made == nullptr) return false;
      plan.bytes_library = std::max(plan.bytes_library, in_lines(made->scratch_bytes()));
    }
    if (plan.pack_a) plan.copy_a[i] = pack(plan.operand_size, &GemmLoop::a, joined(m, plan.k));
    if (plan.pack_c) {
      plan.copy_c[i] = pack(plan.result_size, &GemmLoop::c, {m, plan.n});
      // Packed block to its strided place.
      StridedCopy& copy = plan.copy_c[i];
      std::swap(copy.source, copy.target);
      copy = simplified(std::move(copy));
    }
  }
  if (plan.pack_b) {
    std::vector<GemmLoop> loops = plan.k;
    loops.push_back(plan.n);
    plan.copy_b = pack(plan.operand_size, &GemmLoop::b, loops);
  }
  if (plan.pack_a) plan.bytes_a = in_lines(plan.block * plan.k_size * plan.operand_size);
  if (plan.pack_b) plan.bytes_b = in_lines(plan.n.size * plan.k_size * plan.operand_size);
  if (plan.pack_c) plan.bytes_c = in_lines(plan.block * plan.n.size * plan.result_size);
  return true;
}

// False: that way is not there.
bool prepare_as(GemmPlan& plan, Way way) {
  plan.way = way;
  plan.blocks = plan.column_blocks = 1;
  plan.bytes_library = 0;
  for (auto& products : plan.products)
    for (auto& made : products) made = nullptr;
  choose_packing(plan);
  choose_blocks(plan);
  return prepare_products(plan);
}

void prepare_best(GemmPlan& plan) {
  if (take_few(plan)) {
    prepare_as(plan, Way::few);
    return;
  }
  plan.in_place = reads_in_place(plan);
  if (!plan.in_place && is_prepacked(plan) && prepare_as(plan, Way::prepacked)) return;
  prepare_as(plan, take_groups(plan) || is_packed(plan) ? Way::packed : Way::plain);
}

struct Blocks {
  int64_t first_rows = 0, last_rows = 0, columns = 0;
};

void run_outer(const GemmPlan& plan, int64_t outer, const Blocks& blocks, const std::byte* a,
               const std::byte* b, std::byte* c, std::byte* scratch, const std::byte* shared) {
  const int64_t e = plan.operand_size, e_result = plan.result_size;
  for (size_t i = plan.outer.size(); i-- > 0;) {
    const GemmLoop& loop = plan.outer[i];
    const int64_t at = outer % loop.size;
    outer /= loop.size;
    a += at * loop.a * e;
    b += at * loop.b * e;
    c += at * loop.c * e_result;
  }
  b += blocks.columns * plan.column_block * plan.n.b * e;
  c += blocks.columns * plan.column_block * plan.n.c * e_result;
  const size_t which_columns = plan.columns(blocks.columns) == plan.column_block ? 0 : 1;
  std::byte* packed_a = scratch;
  std::byte* packed_b = packed_a + plan.bytes_a;
  std::byte* packed_c = packed_b + plan.bytes_b;
  std::byte* library = packed_c + plan.bytes_c;
  if (plan.way == Way::prepacked) b = shared;
  if (plan.pack_b) run_copy(plan.copy_b, b, packed_b);
  for (int64_t i = blocks.first_rows; i < blocks.last_rows; ++i) {
    const size_t which = plan.rows(i) == plan.block ? 0 : 1;
    const std::byte* block_a = a + i * plan.block * plan.m.a * e;
    std::byte* block_c = c + i * plan.block * plan.m.c * e_result;
    if (plan.pack_a) run_copy(plan.copy_a[which], block_a, packed_a);
    plan.products[which][which_columns]->run(plan.pack_a ? packed_a : block_a,
                                             plan.pack_b ? packed_b : b,
                                             plan.pack_c ? packed_c : block_c, library);
    if (plan.pack_c) run_copy(plan.copy_c[which], packed_c, block_c);
  }
}

void run_part(const GemmPlan& plan, const KernelArgs& args) {
  const int64_t inner = plan.row_parts * plan.column_blocks;
  const int64_t outer_part = args.part / inner, row_part = args.part % inner / plan.column_blocks;
  const int64_t first = outer_part * plan.outer_count / plan.outer_parts;
  const int64_t last = (outer_part + 1) * plan.outer_count / plan.outer_parts;
  const Blocks blocks{row_part * plan.blocks / plan.row_parts,
                      (row_part + 1) * plan.blocks / plan.row_parts,
                      args.part % plan.column_blocks};
  const std::byte* a = args.operands[plan.swapped ? 1 : 0];
  const std::byte* b = args.operands[plan.swapped ? 0 : 1];
  for (int64_t i = first; i < last; ++i) {
    run_outer(plan, i, blocks, a, b, args.results[0], args.scratch, args.shared);
  }
}

// The first stage of products whose b is laid out before.
void add_prepacking(const std::shared_ptr<const GemmPlan>& plan, PreparedKernel& kernel) {
  const int64_t strips = ceil_div(plan->n.size, kStripOfLibrary);
  const int64_t parts = std::min(strips, kPrepackedParts);
  PackedExtents extents;
  extents.n = plan->n.size, extents.k = plan->k_size;
  extents.b_k = plan->k[0].b, extents.b_n = plan->n.b;
  kernel.shared_bytes = prepacked_bytes(extents.n, extents.k, strips_of(*plan));
  kernel.prepare_parts = parts;
  kernel.prepare = [=, kind = strips_of(*plan),
                    operand = plan->swapped ? 0 : 1](const KernelArgs& args) {
    prepack(extents, kind, args.operands[operand], args.part * strips / parts,
            (args.part + 1) * strips / parts, args.shared);
  };
}

// Nothing to sum: zeros.
PreparedKernel zeros(const GemmSpec& spec) {
  const int64_t bytes =
      product(spec.batch) * product(spec.m) * product(spec.n) * dtype_size(spec.result);
  PreparedKernel kernel;
  kernel.run = [bytes](const KernelArgs& args) {
    if (bytes > 0) std::memset(args.results[0], 0, static_cast<size_t>(bytes));
  };
  return kernel;
}

}  // namespace

PreparedKernel prepare_gemm(const GemmSpec& spec) {
  if (!has_loop_functions(spec.dtype) || spec.dtype == DType::pred) return {};
  if (spec.result != spec.dtype && !(is_half_dtype(spec.dtype) && spec.result == DType::f32))
    return {};
  for (const auto* loops : {&spec.batch, &spec.m, &spec.n, &spec.k}) {
    if (product(*loops) == 0) return zeros(spec);
  }
  auto plan = std::make_shared<GemmPlan>();
  plan->operand = spec.dtype;
  plan->result = spec.result;
  plan->operand_size = dtype_size(spec.dtype);
  plan->result_size = dtype_size(spec.result);
  std::vector<GemmLoop> m = merged(spec.m, &GemmLoop::c), n = merged(spec.n, &GemmLoop::c);
  plan->k = merged(spec.k, &GemmLoop::a);
  plan->k_size = product(plan->k);
  plan->outer = merged(spec.batch, &GemmLoop::c);
  plan->m = take_main(m, plan->outer);
  plan->n = take_main(n, plan->outer);
  plan->outer_count = product(plan->outer);
  // Rows of c are contiguous along n where possible.
  const bool n_fits = plan->n.size == 1 || plan->n.c == 1;
  if (plan->m.size > 1 && plan->m.c == 1 && (!n_fits || plan->n.size == 1)) swap_operands(*plan);
  prepare_best(*plan);
  PreparedKernel kernel;
  kernel.parts = plan->parts;
  kernel.scratch_bytes = plan->bytes_a + plan->bytes_b + plan->bytes_c + plan->bytes_library;
  const double flops = flops_of(*plan) * static_cast<double>(plan->outer_count);
  const bool fast = spec.dtype == DType::f32 || is_half_dtype(spec.dtype);
  kernel.cost = 100 + flops / (fast ? 200 : 10);
  if (plan->way == Way::few) kernel.cost = 100 + bytes_read(*plan) / 16;
  if (plan->way == Way::prepacked) add_prepacking(plan, kernel);
  kernel.run = [plan = std::shared_ptr<const GemmPlan>(std::move(plan))](const KernelArgs& args) {
    run_part(*plan, args);
  };
  return kernel;
}

}  // namespace gspmd
