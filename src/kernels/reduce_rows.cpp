#include "kernels/reduce_rows.h"

#include <algorithm>
#include <cstring>

#include "gspmd/base/error.h"
#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"

namespace gspmd {
namespace {

constexpr int64_t kShortReducedRow = 64, kFewRows = 8;  // the loop program serves those as well
constexpr int64_t kColumns = 1024;                      // that stay in the first-level cache
constexpr int64_t kRows = 64;                           // summed up before they join the total
constexpr int64_t kPagesRow = 2048, kPiece = 64;        // bytes, columns: see fold_rows

struct RowsPlan {
  ReduceRows spec;
  int64_t size = 4;                                // bytes of an element
  LoopFunction combine = nullptr;                  // of what is summed in
  FoldRows fold = nullptr;                         // of kFoldRows at once
  LoopFunction widen = nullptr, narrow = nullptr;  // of 16-bit floats
  int64_t columns = 1, blocks = 1;                 // per block; per outer index

  // `first`: the sum begins with this row.
  void add(std::byte* sum, const std::byte* row, std::byte* room, int64_t n, bool first) const {
    if (widen != nullptr) {
      widen(first ? sum : room, row, nullptr, nullptr, n, 0);
      if (!first) combine(sum, sum, room, nullptr, n, 0);
    } else if (first) {
      std::memcpy(sum, row, static_cast<size_t>(n * size));
    } else {
      combine(sum, sum, row, nullptr, n, 0);
    }
  }

  // kFoldRows rows. The processor reads ahead in few lines of a page, so that of rows of which a
  // page holds several the next ones are asked for, in the order in which they lie.
  void fold_rows(const KernelArgs& args, const std::byte* rows, int64_t n, bool first,
                 std::byte* sum) const {
    if (n < spec.inner || n * size > kPagesRow) return fold(sum, rows, spec.inner, n, first);
    const int64_t bytes = kFoldRows * n * size, held = widen != nullptr ? 4 : size;
    const std::byte* const end = args.operands[0] + spec.outer * spec.rows * n * size;
    const int64_t behind = std::min<int64_t>(end - rows, 2 * bytes);
    int64_t asked = bytes;
    for (int64_t i = 0; i < n; i += kPiece) {
      const int64_t m = std::min(kPiece, n - i);
      for (const int64_t until = std::min(bytes + (i + m) * size * kFoldRows, behind);
           asked < until; asked += 64)
        __builtin_prefetch(rows + asked);
      fold(sum + i * held, rows + i * size, n, m, first);
    }
  }

  void run_block(const KernelArgs& args, int64_t block) const {
    const int64_t outer = block / blocks, column = block % blocks * columns;
    const int64_t n = std::min(columns, spec.inner - column);
    std::byte* const total = args.scratch;
    std::byte* const part = total + columns * 8;
    std::byte* const room = part + columns * 8;
    const std::byte* const in = args.operands[0] + (outer * spec.rows * spec.inner + column) * size;
    for (int64_t row = 0; row < spec.rows; row += kRows) {
      std::byte* const sum = row == 0 ? total : part;
      const int64_t end = std::min(spec.rows, row + kRows);
      int64_t r = row;
      for (; fold != nullptr && r + kFoldRows <= end; r += kFoldRows)
        fold_rows(args, in + r * spec.inner * size, n, r == row, sum);
      for (; r < end; ++r) add(sum, in + r * spec.inner * size, room, n, r == row);
      if (row > 0) combine(total, total, part, nullptr, n, 0);
    }
    std::byte* const out = args.results[0] + (outer * spec.inner + column) * size;
    constexpr uint32_t kFirstIsScalar = 1;
    if (widen == nullptr) {
      combine(out, args.operands[1], total, nullptr, n, kFirstIsScalar);
      return;
    }
    widen(part, args.operands[1], nullptr, nullptr, 1, 0);
    combine(total, part, total, nullptr, n, kFirstIsScalar);
    narrow(out, total, nullptr, nullptr, n, 0);
  }
};

}  // namespace

PreparedKernel prepare_reduce_rows(const ReduceRows& spec) {
  if (!has_loop_functions(spec.dtype) || spec.inner < kShortReducedRow || spec.rows < kFewRows)
    return {};
  RowsPlan plan;
  plan.spec = spec;
  plan.size = dtype_size(spec.dtype);
  DType held = spec.dtype;
  if (is_half_dtype(spec.dtype)) {
    held = DType::f32;
    plan.widen = find_loop_function(LoopOp::convert, spec.dtype, held);
    plan.narrow = find_loop_function(LoopOp::convert, held, spec.dtype);
    if (plan.widen == nullptr || plan.narrow == nullptr) return {};
  }
  plan.combine = find_loop_function(combining_op(spec.reduce), held, held);
  if (plan.combine == nullptr) return {};
  plan.fold = find_fold_rows(spec.reduce, spec.dtype);
  // Enough blocks for the workers, of whole cache lines.
  const int64_t wanted = spec.outer >= 4 ? spec.inner : ceil_div(spec.inner, 4 * 64) * 64;
  plan.columns = std::min(wanted, kColumns);
  plan.blocks = ceil_div(spec.inner, plan.columns);
  const int64_t blocks = plan.blocks * spec.outer;
  const double elements = static_cast<double>(spec.outer) * static_cast<double>(spec.rows) *
                          static_cast<double>(spec.inner);
  PreparedKernel kernel;
  kernel.cost = 100 + 0.2 * elements;
  kernel.parts = elements > 1e4 ? std::min<int64_t>(blocks, 8) : 1;
  kernel.scratch_bytes = 3 * plan.columns * 8;
  kernel.run = [plan, blocks, parts = kernel.parts](const KernelArgs& args) {
    for (int64_t block = args.part * blocks / parts; block < (args.part + 1) * blocks / parts;
         ++block)
      plan.run_block(args, block);
  };
  return kernel;
}

}  // namespace gspmd
