// Windows by any computation: results are lanes of the combiner.
#include <algorithm>
#include <memory>

#include "ops/common/combiner_lanes.h"
#include "ops/window/window.h"

namespace gspmd {
namespace {

constexpr int64_t kMostWindowLanes = 128;
constexpr int64_t kMostPlaces = 16;      // of a window for each element that it meets
constexpr int64_t kFewWindowLanes = 16;  // fewer lanes are no faster than the evaluator

// A dim with a window.
struct CalledAxis {
  size_t dim = 0;
  int64_t stride = 1;  // of the input, in elements
  std::vector<WindowRun> runs;
  int64_t first = 0, last = 0;  // of the window's indices, those that meet an element anywhere

  CalledAxis(size_t at, int64_t input_stride, std::vector<WindowRun> all)
      : dim(at), stride(input_stride), runs(std::move(all)) {
    for (const WindowRun& run : runs) {
      if (run.count == 0) continue;
      const int64_t end = run.window_first + (run.count - 1) * run.window_step + 1;
      first = last == 0 ? run.window_first : std::min(first, run.window_first);
      last = std::max(last, end);
    }
  }

  // Where the element that window index `w` meets at a position lies along the dim; -1: none.
  int64_t offset(int64_t position, int64_t w) const {
    const WindowRun& run = runs[static_cast<size_t>(position)];
    int64_t i = w - run.window_first;
    if (run.window_step != 1) {
      if (i % run.window_step != 0) return -1;
      i /= run.window_step;
    }
    return i < 0 || i >= run.count ? -1 : (run.input_first + i * run.input_step) * stride;
  }
};

// Lanes are results, but of cumulative windows lines of them: each result goes on from the one
// before.
class CalledWindow {
 public:
  explicit CalledWindow(const Node& node) : node_(node), along_(prefix_dim(node)) {
    const Dims& input = node.operand(0)->dims();
    positions_ = leaf_shapes(node.shape)[0].dims;
    const Dims strides = row_major_strides(input);
    result_strides_ = row_major_strides(positions_);
    steps_ = Dims(input.size(), 0);
    for (size_t d = 0; d < input.size(); ++d) {
      const WindowDim& dim = node.attrs.window[d];
      if (is_trivial(dim)) {
        steps_[d] = strides[d];
        inner_ *= positions_[d];
      } else {
        inner_ = 1;
        axes_.emplace_back(d, strides[d], window_runs(dim, input[d], positions_[d]));
      }
      if (static_cast<int64_t>(d) != along_) results_ *= positions_[d];
    }
    lanes_ = std::clamp(ceil_div(results_, 8 * kFewWindowLanes) * kFewWindowLanes, kFewWindowLanes,
                        kMostWindowLanes);
    loop_ = prepare_combiner_loop(*node.called[0], lanes_);
  }

  int64_t batches() const { return ceil_div(results_, lanes_); }
  int64_t lanes() const { return std::min(lanes_, results_); }
  // Places of the window that meet an element anywhere, and holes between them.
  int64_t window_size() const {
    int64_t size = 1;
    for (const CalledAxis& axis : axes_) size = saturating_multiply(size, axis.last - axis.first);
    return size;
  }
  bool is_cumulative() const { return along_ >= 0; }
  // Windows that meet few elements each, and not the same, are the evaluator's.
  bool is_sparse() const {
    int64_t most = 1;
    for (const CalledAxis& axis : axes_) {
      int64_t count = 0;
      for (const WindowRun& run : axis.runs) count = std::max(count, run.count);
      most = saturating_multiply(most, count);
    }
    return !is_cumulative() && window_size() / kMostPlaces > most;
  }

  void run(const KernelArgs& args, int64_t first, int64_t last) const {
    CombinerLanes lanes(*node_.called[0], loop_, static_cast<size_t>(lanes_));
    for (int64_t batch = first; batch < last; ++batch) {
      Batch b{args, lanes};
      place(b, batch * lanes_, std::min(results_, (batch + 1) * lanes_));
      for (size_t i = 0; i < lanes.inputs(); ++i)
        lanes.fill(i, args.operands[lanes.inputs() + i], b.count);
      if (is_cumulative())
        go_along(b);
      else
        go_through_window(b);
    }
  }

 private:
  // Lanes side by side: along the dims behind all windows.
  struct Group {
    size_t lane, count;
    int64_t result, base;  // elements of the first
  };
  struct Batch {
    const KernelArgs& args;
    CombinerLanes& lanes;
    std::vector<Group> groups = {};
    Dims offsets = {};                              // of each group: of what it reads next
    std::vector<Dims> positions = {}, places = {};  // of each axis, of each group
    size_t count = 0;                               // lanes
  };

  void place(Batch& b, int64_t first, int64_t last) const {
    b.count = static_cast<size_t>(last - first);
    b.positions.resize(axes_.size());
    for (int64_t result = first; result < last;) {
      const int64_t count = std::min(last - result, inner_ - result % inner_);
      int64_t rest = result;
      Group group{static_cast<size_t>(result - first), static_cast<size_t>(count), 0, 0};
      Dims index(positions_.size(), 0);
      for (size_t d = positions_.size(); d-- > 0;) {
        if (static_cast<int64_t>(d) == along_) continue;
        index[d] = rest % positions_[d];
        rest /= positions_[d];
        group.result += index[d] * result_strides_[d];
        group.base += index[d] * steps_[d];
      }
      b.groups.push_back(group);
      for (size_t a = 0; a < axes_.size(); ++a) b.positions[a].push_back(index[axes_[a].dim]);
      result += count;
    }
    b.offsets.resize(b.groups.size());
    b.places.assign(axes_.size(), Dims(b.groups.size(), 0));
  }

  static void add(Batch& b) {
    for (size_t i = 0; i < b.lanes.inputs(); ++i) {
      if (b.groups.size() == b.count) {
        b.lanes.gather(i, b.args.operands[i], b.offsets, b.count);
        continue;
      }
      const size_t size = b.lanes.size(i);
      for (size_t g = 0; g < b.groups.size(); ++g)
        std::memcpy(b.lanes.values(i) + b.groups[g].lane * size,
                    b.args.operands[i] + b.offsets[g] * static_cast<int64_t>(size),
                    b.groups[g].count * size);
    }
    b.lanes.combine(b.count);
  }

  // Results `step` elements behind those of the lanes.
  static void store(const Batch& b, int64_t step) {
    for (size_t i = 0; i < b.lanes.inputs(); ++i) {
      const size_t size = b.lanes.size(i);
      for (const Group& group : b.groups)
        std::memcpy(b.args.results[i] + (group.result + step) * static_cast<int64_t>(size),
                    b.lanes.sums(i) + group.lane * size, group.count * size);
    }
  }

  void go_along(Batch& b) const {
    const CalledAxis& axis = axes_[0];
    int64_t step = 0;
    for (const WindowRun& run : axis.runs) {
      for (int64_t i = step == 0 ? 0 : run.count - 1; i < run.count; ++i) {
        const int64_t at = (run.input_first + i * run.input_step) * axis.stride;
        for (size_t g = 0; g < b.groups.size(); ++g) b.offsets[g] = b.groups[g].base + at;
        add(b);
      }
      store(b, step);
      step += result_strides_[axis.dim];
    }
  }

  void go_through_window(Batch& b) const {
    Dims at;
    for (const CalledAxis& axis : axes_) at.push_back(axis.first);
    for (size_t a = 0; a < axes_.size(); ++a) find_places(b, a, at[a]);
    for (bool more = window_size() > 0; more;) {
      add_present(b);
      more = false;
      for (size_t a = axes_.size(); a-- > 0 && !more;) {
        more = ++at[a] < axes_[a].last;
        if (!more) at[a] = axes_[a].first;
        find_places(b, a, at[a]);
      }
    }
    store(b, 0);
  }
  void find_places(Batch& b, size_t a, int64_t w) const {
    for (size_t g = 0; g < b.groups.size(); ++g)
      b.places[a][g] = axes_[a].offset(b.positions[a][g], w);
  }

  // In lanes whose windows have no such element nothing changes.
  void add_present(Batch& b) const {
    std::vector<size_t> absent;
    for (size_t g = 0; g < b.groups.size(); ++g) {
      b.offsets[g] = b.groups[g].base;
      bool is_present = true;
      for (const Dims& places : b.places) {
        b.offsets[g] += places[g];
        is_present &= places[g] >= 0;
      }
      if (is_present) continue;
      b.offsets[g] = b.groups[g].base;
      absent.push_back(g);
    }
    if (absent.size() == b.groups.size()) return;
    add(b);
    for (const size_t g : absent) b.lanes.take_back(b.groups[g].lane, b.groups[g].count);
  }

  const Node& node_;
  int64_t along_;  // -1: not cumulative
  Dims positions_, result_strides_;
  Dims steps_;  // of the input per position, along dims without windows
  std::vector<CalledAxis> axes_;
  int64_t results_ = 1;  // or lines of them
  int64_t inner_ = 1;    // of them side by side
  int64_t lanes_ = kFewWindowLanes;
  PreparedKernel loop_;
};

}  // namespace

PreparedKernel lower_called_window(const Node& node) {
  const auto all = std::make_shared<CalledWindow>(node);
  if (all->lanes() < kFewWindowLanes || all->is_sparse()) return {};
  const double each = all->is_cumulative() ? 1 : static_cast<double>(all->window_size());
  PreparedKernel kernel;
  kernel.parts = std::min<int64_t>(all->batches(), 16);
  kernel.cost = 2e3 * static_cast<double>(kernel.parts) +
                5.0 * each * static_cast<double>(leaf_shapes(node.shape)[0].elements_count());
  kernel.run = [all, parts = kernel.parts](const KernelArgs& args) {
    const int64_t n = all->batches();
    all->run(args, args.part * n / parts, (args.part + 1) * n / parts);
  };
  return kernel;
}

}  // namespace gspmd
