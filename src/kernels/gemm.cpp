#include "gspmd/kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/kernels/loop_program.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/gemm_plan.h"
#include "kernels/gemm_product.h"
#include "kernels/lines.h"
#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"

namespace gspmd {
namespace {

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

PackedExtents dense_steps(const GemmExtents& e) {
  PackedExtents packed{e.rows, e.n, e.k, e.k, 1, e.b_step(), 1, e.c_step()};
  if (e.b_transposed) std::swap(packed.b_k, packed.b_n);
  return packed;
}

std::unique_ptr<GemmProduct> library_product_of(const GemmPlan& plan, const GemmExtents& extents) {
  if (!is_half_dtype(plan.operand))
    return plan.uses_library() ? library_product(plan.operand, plan.result, extents)
                               : loop_product(plan.operand, extents);
  GemmExtents wide = extents;
  wide.b_line = 0;
  if (is_half_dtype(plan.result)) wide.c_line = 0;
  if (!plan.uses_library())
    return widened_product(loop_product(DType::f32, wide), plan.operand, plan.result, extents);
  if (auto direct = library_product(plan.operand, plan.result, extents)) return direct;
  auto widened = plan.packs_widened() ? packed_product(DType::f32, dense_steps(wide))
                                      : library_product(DType::f32, DType::f32, wide);
  return widened_product(std::move(widened), plan.operand, plan.result, extents);
}

std::unique_ptr<GemmProduct> prepacked_product_of(const GemmPlan& plan,
                                                  const GemmExtents& extents) {
  if (plan.strips() != StripKind::widened)
    return prepacked_product(plan.operand, plan.result, extents);
  auto wide = prepacked_product(DType::f32, DType::f32, extents);
  if (wide == nullptr) return nullptr;
  return widened_product(std::move(wide), plan.operand, plan.result, extents, true);
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
  return plan.in_place ? strip_product(extents) : packed_product(plan.operand, extents);
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
  plan.choose_packing();
  plan.choose_blocks();
  return prepare_products(plan);
}

void prepare_best(GemmPlan& plan) {
  if (plan.take_few()) {
    prepare_as(plan, Way::few);
    return;
  }
  plan.in_place = plan.reads_in_place();
  if (!plan.in_place && plan.is_prepacked() && prepare_as(plan, Way::prepacked)) return;
  prepare_as(plan, plan.take_groups() || plan.is_packed() ? Way::packed : Way::plain);
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
  kernel.shared_bytes = prepacked_bytes(extents.n, extents.k, plan->strips());
  kernel.prepare_parts = parts;
  kernel.prepare = [=, kind = plan->strips(),
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
  if (plan->m.size > 1 && plan->m.c == 1 && (!n_fits || plan->n.size == 1)) plan->swap_operands();
  prepare_best(*plan);
  PreparedKernel kernel;
  kernel.parts = plan->parts;
  kernel.scratch_bytes = plan->bytes_a + plan->bytes_b + plan->bytes_c + plan->bytes_library;
  const double flops = plan->flops() * static_cast<double>(plan->outer_count);
  const bool fast = spec.dtype == DType::f32 || is_half_dtype(spec.dtype);
  kernel.cost = 100 + flops / (fast ? 200 : plan->way == Way::packed ? 100 : 10);
  if (plan->way == Way::few) kernel.cost = 100 + plan->bytes_of_b() / 16;
  if (plan->way == Way::prepacked) add_prepacking(plan, kernel);
  kernel.run = [plan = std::shared_ptr<const GemmPlan>(std::move(plan))](const KernelArgs& args) {
    run_part(*plan, args);
  };
  return kernel;
}

}  // namespace gspmd
