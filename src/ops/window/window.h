#pragma once

#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// The elements of one dim that one window position reads, in the order of the window: window index
// window_first + i * window_step meets element input_first + i * input_step, 0 <= i < count. What
// falls between (base dilation) or outside is left out.
struct WindowRun {
  int64_t window_first = 0, window_step = 1;
  int64_t input_first = 0, input_step = 1;
  int64_t count = 0;
};
WindowRun window_run(const WindowDim& dim, int64_t input_size, int64_t position);
// Of all positions.
std::vector<WindowRun> window_runs(const WindowDim& dim, int64_t input_size, int64_t positions);

// Size 1 that reads element i at position i.
bool is_trivial(const WindowDim& dim);

// How windows share work along one dim: position i reads what position i - 1 reads and one more
// element (cumulative sums), or what i + 1 reads and one more before it.
enum class Overlap : uint8_t { none, prefixes, suffixes };
Overlap overlap_of(const std::vector<WindowRun>& runs);
// The only dim of a reduce-window with a window, where its windows are prefixes of one another; -1:
// none.
int64_t prefix_dim(const Node& node);

// Checks the fields of `window`, which has to have as many dims as `dims`, and gives the number of
// positions per dim. UserError.
Dims window_positions(const Node& node, const std::vector<WindowDim>& window, const Dims& dims);

PreparedKernel lower_reduce_window(const Node& node);
PreparedKernel lower_cumulative(const Node& node);  // of windows that are cumulative
// By any computation, many results at once, each in the order of the evaluator.
PreparedKernel lower_called_window(const Node& node);
PreparedKernel lower_select_and_scatter(const Node& node);  // sums where the largest is
Value evaluate_reduce_window(const EvalContext& context);
Value evaluate_select_and_scatter(const EvalContext& context);

// A window dim in which every position has all elements up to it, or from it on: result[i] combines
// y[0..i] (reverse: y[i..]), where y[i] = x[i + shift], nothing outside of the dim. So cumulative
// sums are written; shift is 0 but for exclusive ones.
struct CumulativeDim {
  bool reverse = false;
  int64_t shift = 0;
};
std::optional<CumulativeDim> cumulative_dim(const WindowDim& w, int64_t size, int64_t positions);

// Cumulative sums and the like: on each device, and what the parts before come to.
std::optional<Partitioned> partition_cumulative(PartitionContext& context, Node& node);
// Each device chooses in all windows that touch its part: halos of elements and sources.
std::optional<Partitioned> partition_select_and_scatter(PartitionContext& context, Node& node);

}  // namespace gspmd
