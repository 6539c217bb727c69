#include "kernels/reduce_lines.h"

#include <algorithm>
#include <cstring>

#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"
#include "kernels/sum_lines.h"
#include "kernels/transpose_block.h"

namespace gspmd {
namespace {

constexpr int64_t kMostElements = 256;  // of a line: of longer ones a loop's own costs are small
constexpr int64_t kFewLines = 64;

// What is combined. Of preds as numbers: each op that combines them leaves 0 where it has to.
DType held_in(DType dtype) {
  if (is_half_dtype(dtype)) return DType::f32;
  const bool is_short = dtype == DType::pred || is_integer(dtype);
  return is_short && dtype_size(dtype) < 4 ? DType::s32 : dtype;
}

struct LinesPlan {
  int64_t lines = 0, n = 0;    // elements of a line
  int64_t size = 4, held = 4;  // bytes of an element, and of what is combined
  LoopFunction combine = nullptr, widen = nullptr, narrow = nullptr;  // the last two: or none
  SumLines sum = nullptr;                                             // or none
  FoldTurned fold = nullptr;
  TransposeBlock turn = nullptr;

  int64_t turned_bytes() const { return n * kTurnedLines * held; }
  int64_t results_bytes() const { return kTurnedLines * held; }

  // `count` lines from `first` on, at most kTurnedLines.
  void run(const KernelArgs& args, int64_t first, int64_t count) const {
    std::byte* const turned = args.scratch;
    std::byte* const results = turned + turned_bytes();
    std::byte* const wide = results + 2 * results_bytes();
    const std::byte* from = args.operands[0] + first * n * size;
    if (widen != nullptr) {
      widen(wide, from, nullptr, nullptr, n * count, 0);
      from = wide;
    }
    if (sum != nullptr && count == kTurnedLines) {
      for (int64_t l = 0; l < count; l += kSummedLines)
        sum(results + l * held, from + l * n * held, n);
    } else {
      if (held == 4)
        turn_lines<uint32_t>(from, count, turned);
      else
        turn_lines<uint64_t>(from, count, turned);
      fold(results, turned, n);
    }
    join_initial(args.operands[1], results, count, args.results[0] + first * size);
  }

  // So that element e of line l comes to e * kTurnedLines + l. Blocks of whole cache lines, then
  // single elements; where lines lack, elements are zeros.
  template <class T>
  void turn_lines(const std::byte* from, int64_t count, std::byte* turned) const {
    constexpr int64_t kSide = block_side(sizeof(T));
    const T* const source = reinterpret_cast<const T*>(from);
    T* const target = reinterpret_cast<T*>(turned);
    const int64_t whole = count == kTurnedLines ? n / kSide * kSide : 0;
    for (int64_t e = 0; e < whole; e += kSide)
      for (int64_t l = 0; l < kTurnedLines; l += kSide)
        turn(reinterpret_cast<const std::byte*>(source + l * n + e), n,
             reinterpret_cast<std::byte*>(target + e * kTurnedLines + l), kTurnedLines);
    for (int64_t e = whole; e < n; ++e)
      for (int64_t l = 0; l < kTurnedLines; ++l)
        target[e * kTurnedLines + l] = l < count ? source[l * n + e] : T{0};
  }

  void join_initial(const std::byte* initial, std::byte* results, int64_t count,
                    std::byte* out) const {
    constexpr uint32_t kFirstIsScalar = 1;
    if (widen == nullptr) return combine(out, initial, results, nullptr, count, kFirstIsScalar);
    std::byte* const wide_initial = results + results_bytes();
    widen(wide_initial, initial, nullptr, nullptr, 1, 0);
    combine(results, wide_initial, results, nullptr, count, kFirstIsScalar);
    narrow(out, results, nullptr, nullptr, count, 0);
  }
};

}  // namespace

PreparedKernel prepare_reduce_lines(DType dtype, LoopOp reduce, int64_t lines, int64_t elements) {
  if (elements < 2 || elements > kMostElements || lines < kFewLines) return {};
  LinesPlan plan;
  plan.lines = lines;
  plan.n = elements;
  plan.size = plan.held = dtype_size(dtype);
  const DType held = held_in(dtype);
  plan.held = dtype_size(held);
  if (held != dtype) {
    const DType read = dtype == DType::pred ? DType::u8 : dtype;  // in vectors
    plan.widen = find_loop_function(LoopOp::convert, read, held);
    plan.narrow = find_loop_function(LoopOp::convert, held, dtype);
    if (plan.widen == nullptr || plan.narrow == nullptr) return {};
  }
  plan.combine = find_loop_function(combining_op(reduce), held, held);
  plan.fold = find_fold_turned(reduce, held);
  if (reduce == LoopOp::reduce_sum) plan.sum = find_sum_lines(held, elements);
  if (plan.combine == nullptr || plan.fold == nullptr) return {};
  plan.turn = transpose_block_function(plan.held);
  const int64_t groups = ceil_div(lines, kTurnedLines);
  PreparedKernel kernel;
  kernel.cost = 100 + 0.2 * static_cast<double>(lines) * static_cast<double>(elements);
  kernel.parts = lines * elements > 10'000 ? std::min<int64_t>(groups, 8) : 1;
  kernel.scratch_bytes = plan.turned_bytes() + 2 * plan.results_bytes() +
                         (plan.widen != nullptr ? plan.turned_bytes() : 0);
  kernel.run = [plan, groups, parts = kernel.parts](const KernelArgs& args) {
    for (int64_t g = args.part * groups / parts; g < (args.part + 1) * groups / parts; ++g)
      plan.run(args, g * kTurnedLines, std::min(kTurnedLines, plan.lines - g * kTurnedLines));
  };
  return kernel;
}

}  // namespace gspmd
