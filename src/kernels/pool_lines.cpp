// Windows over images whose innermost dim they slide along: rows are combined as a whole first,
// then along themselves.
#include "kernels/pool_lines.h"

#include <algorithm>
#include <limits>

#include "gspmd/kernels/pool.h"

namespace gspmd {
namespace {

constexpr int64_t kShortInput = 16, kFewPositions = 8;  // planes side by side serve those as well
constexpr int64_t kMostRoom = int64_t{1} << 16;         // elements of a row that stay in a cache

// Whether element e of the dim is one of the run.
bool reads(const PoolRun& run, int64_t e) {
  const int64_t behind = e - run.first;
  const int64_t step = std::max<int64_t>(run.step, 1);
  return behind >= 0 && behind % step == 0 && behind / step < run.count;
}

// Whether position p of the axis reads what window p of the line has in the input.
bool is_window(const PoolLine& line, const PoolRun& run, int64_t p) {
  int64_t inside = 0;
  for (int64_t k = 0; k < line.count; ++k) {
    const int64_t e = line.first - line.before + p * line.stride + k * line.step;
    if (e < line.first || e >= line.first + line.input) continue;
    if (!reads(run, e)) return false;
    ++inside;
  }
  return inside == run.count;
}

}  // namespace

std::optional<PoolLine> pool_line_of(const PoolSpec& spec) {
  if (spec.inner != 1 || spec.axes.empty() || spec.axes.back().step != 1) return std::nullopt;
  const std::vector<PoolRun>& runs = spec.axes.back().positions;
  PoolLine line;
  line.positions = static_cast<int64_t>(runs.size());
  line.first = std::numeric_limits<int64_t>::max();
  line.count = 0;
  int64_t last = -1, begin = 0, end = 0;  // begin, end: positions of the longest runs
  for (int64_t p = 0; p < line.positions; ++p) {
    const PoolRun& run = runs[static_cast<size_t>(p)];
    if (run.count == 0) continue;
    line.first = std::min(line.first, run.first);
    last = std::max(last, run.first + (run.count - 1) * run.step);
    if (run.count > line.count) begin = p;
    if (run.count >= line.count) end = p;
    line.count = std::max(line.count, run.count);
  }
  line.input = last + 1 - line.first;
  if (last < 0 || begin == end || line.input < kShortInput || line.positions < kFewPositions)
    return std::nullopt;
  const PoolRun& longest = runs[static_cast<size_t>(begin)];
  if (line.count > 1) line.step = longest.step;
  line.stride = (runs[static_cast<size_t>(end)].first - longest.first) / (end - begin);
  line.before = line.first - (longest.first - begin * line.stride);
  line.behind = (line.positions - 1) * line.stride + (line.count - 1) * line.step + 1 -
                line.before - line.input;
  if (line.stride < 1 || line.step < 1 || line.before < 0 || line.behind < 0) return std::nullopt;
  if (pool_line_room(line) > kMostRoom) return std::nullopt;
  for (int64_t p = 0; p < line.positions; ++p)
    if (!is_window(line, runs[static_cast<size_t>(p)], p)) return std::nullopt;
  return line;
}

PreparedKernel prepare_pool_lines(PoolSpec spec, const PoolLine& line,
                                  const PoolFunctions& functions) {
  const int64_t size = dtype_size(spec.dtype);
  const PoolRowsFunction rows_function = pool_rows_function(spec.dtype, spec.op, line);
  spec.axes.pop_back();
  spec.inner = line.input;
  const auto plan = std::make_shared<const PoolPlan>(std::move(spec));
  const double reads = plan->reads() + static_cast<double>(plan->positions()) *
                                           static_cast<double>(line.positions) *
                                           static_cast<double>(line.count);
  PreparedKernel kernel;
  kernel.cost = 100 + 0.3 * reads;
  kernel.parts = reads > kPoolSplitReads ? std::min<int64_t>(plan->positions(), 8) : 1;
  const int64_t rows = plan->positions(), parts = kernel.parts;
  if (rows_function != nullptr) {
    kernel.run = [=](const KernelArgs& args) {
      plan->for_each_repeat(
          args.operands[0] + line.first * size, args.part * rows / parts,
          (args.part + 1) * rows / parts,
          [&](const PoolWindow& window, const PoolRepeat& repeat, int64_t position) {
            rows_function(line, window, repeat, args.operands[1],
                          args.results[0] + position * line.positions * size);
          });
    };
    return kernel;
  }
  kernel.scratch_bytes = pool_scratch(pool_line_room(line) * size);
  kernel.run = [=](const KernelArgs& args) {
    std::byte* const row = args.scratch;
    std::byte* const input = row + line.before * size;
    // Outside of the input lies what changes nothing.
    for (int64_t i = 0; i < line.before; ++i) std::copy_n(args.operands[1], size, row + i * size);
    for (int64_t i = 0; i < line.behind; ++i)
      std::copy_n(args.operands[1], size, input + (line.input + i) * size);
    plan->for_each_window(
        args.operands[0] + line.first * size, 1, args.part * rows / parts,
        (args.part + 1) * rows / parts, [&](const PoolWindow& window, int64_t position, int64_t) {
          functions.window(window, args.operands[1], input);
          functions.line(line, row, args.results[0] + position * line.positions * size);
        });
  };
  return kernel;
}

}  // namespace gspmd
