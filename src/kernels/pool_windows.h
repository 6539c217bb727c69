#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "gspmd/kernels/pool.h"

namespace gspmd {

// The elements of a window: in[offsets[n] + i] for n < count, rows of `inner` elements i.
struct PoolWindow {
  const std::byte* in = nullptr;
  const int64_t* offsets = nullptr;  // in elements
  int64_t count = 0, inner = 0;
};

// out[i] = init combined with the elements of the window, in order.
using PoolFunction = void (*)(const PoolWindow& window, const std::byte* init, std::byte* out);

// Windows along a row of neighbours: position i reads the elements i * stride + k * step, k <
// count.
struct PoolLine {
  int64_t positions = 0, stride = 1, count = 1, step = 1;
  // Elements of the row: those of the input from `first` on, and what lies before and behind them.
  int64_t first = 0, input = 0, before = 0, behind = 0;
};
// out[i] = the extreme element of window i; reads up to pool_line_room() elements of the row.
constexpr int64_t pool_line_room(const PoolLine& line) {
  constexpr int64_t kMostLanes = 64;
  return (line.positions + 2 * kMostLanes) * std::max<int64_t>(line.stride, 2) +
         line.count * line.step;
}
using PoolLineFunction = void (*)(const PoolLine& line, const std::byte* row, std::byte* out);

struct PoolFunctions {
  PoolFunction window = nullptr;    // nullptr: not f32, f64, s32
  PoolLineFunction line = nullptr;  // nullptr: sums, whose order is that of windows
};
PoolFunctions pool_functions(DType dtype, PoolOp op);

// A window and those like it that follow, so many elements on each time.
struct PoolRepeat {
  int64_t count = 1, advance = 0;
};
// Of each of so many windows of rows, whose `inner` is the line's input, one after the other:
// out[i] = the extreme element of window i of the line over them, and of `init`.
using PoolRowsFunction = void (*)(const PoolLine& line, const PoolWindow& window,
                                  const PoolRepeat& repeat, const std::byte* init, std::byte* out);
// For the windows that models have; nullptr: not for these.
PoolRowsFunction pool_rows_function(DType dtype, PoolOp op, const PoolLine& line);

// out[offset + i] += source[i] at the first of the largest elements of the window: a later one
// takes over unless the kept one is at least as large (NaN is at least as large as nothing).
using PoolGradientFunction = void (*)(const PoolWindow& window, const std::byte* source,
                                      std::byte* out);
PoolGradientFunction pool_gradient_function(DType dtype);  // nullptr: not f32, f64

class PoolOffsets;

// How a spec runs: position after position; where rows are short and the outermost axes only count
// planes apart from each other, on planes turned so that several lie side by side in a row.
class PoolPlan {
 public:
  explicit PoolPlan(PoolSpec spec);

  const PoolSpec& spec() const { return spec_; }  // of one plane, or of several side by side
  int64_t positions() const { return positions_; }
  double reads() const { return reads_; }  // elements read, of all planes

  int64_t planes() const { return planes_; }        // 1: everything
  int64_t groups() const { return groups_; }        // of planes
  int64_t plane_in() const { return plane_in_; }    // elements of a plane
  int64_t plane_out() const { return plane_out_; }  // positions of one, with their rows
  // Whole groups, whose planes are turned block by block, and what is left.
  int64_t first_plane(int64_t group) const { return std::min(group * lanes_, planes_); }
  int64_t most_lanes() const { return lanes_; }
  bool turns() const { return groups_ > 0; }

  // f(window, position, offset of its first element) for positions [first, last), rows and steps
  // `lanes` times as long.
  template <class F>
  void for_each_window(const std::byte* in, int64_t lanes, int64_t first, int64_t last,
                       F&& f) const;
  // The same of all positions. `window` is at the first of them, and is so afterwards.
  template <class F>
  void for_all_windows(const std::byte* in, PoolOffsets& window, F&& f) const;
  // f(window, its repeats, position) of those windows, of one plane.
  template <class F>
  void for_each_repeat(const std::byte* in, int64_t first, int64_t last, F&& f) const;

 private:
  template <class F>
  void for_windows(const std::byte* in, PoolOffsets& window, int64_t first, int64_t last,
                   F&& f) const;
  void find_repeats(const PoolAxis& axis);
  PoolRepeat repeat_at(int64_t position) const;

  PoolSpec spec_;
  int64_t positions_ = 1, planes_ = 1, groups_ = 0, lanes_ = 1, plane_in_ = 0, plane_out_ = 0;
  double reads_ = 0;
  std::vector<PoolRepeat> repeats_;  // along the innermost axis, from each position on
};

// Offsets of the elements of one window after the other; those of windows of one shape are computed
// once.
class PoolOffsets {
 public:
  PoolOffsets(const PoolSpec& spec, int64_t lanes, int64_t position);
  // Of the window: in elements from its first one.
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t first() const { return first_; }  // the first element's own offset
  void next() { skip(1); }                  // behind the last comes the first
  int64_t lanes() const { return lanes_; }
  void skip(int64_t windows);  // no further than to the next row of the innermost axis

 private:
  const PoolRun& run(size_t axis) const {
    return spec_.axes[axis].positions[static_cast<size_t>(index_[axis])];
  }
  void place(size_t from);  // the axes from there on have moved
  void list(size_t axis, int64_t offset);

  const PoolSpec& spec_;
  int64_t lanes_, first_ = 0;
  std::vector<int64_t> index_, begins_, offsets_;  // begins_: by axis, the first element's offset
  std::vector<PoolRun> shape_;                     // of the windows that `offsets_` holds for
};

constexpr double kPoolSplitReads = 1e5;  // elements read below which one worker does it all

// Bytes of scratch, whole cache lines.
constexpr int64_t pool_scratch(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// `lanes` planes of `plane` elements, one after the other, turned so that element e of lane l comes
// to e * lanes + l; `back`: the other way.
void turn_planes(int64_t element_size, int64_t plane, int64_t lanes, bool back,
                 const std::byte* from, std::byte* to);

template <class F>
void PoolPlan::for_windows(const std::byte* in, PoolOffsets& window, int64_t first, int64_t last,
                           F&& f) const {
  const int64_t size = dtype_size(spec_.dtype);
  for (int64_t position = first; position < last; ++position) {
    f(PoolWindow{in + window.first() * size, window.offsets().data(),
                 static_cast<int64_t>(window.offsets().size()), spec_.inner * window.lanes()},
      position, window.first());
    window.next();
  }
}

template <class F>
void PoolPlan::for_each_window(const std::byte* in, int64_t lanes, int64_t first, int64_t last,
                               F&& f) const {
  PoolOffsets window(spec_, lanes, first);
  for_windows(in, window, first, last, f);
}

template <class F>
void PoolPlan::for_all_windows(const std::byte* in, PoolOffsets& window, F&& f) const {
  for_windows(in, window, 0, positions_, f);
}

template <class F>
void PoolPlan::for_each_repeat(const std::byte* in, int64_t first, int64_t last, F&& f) const {
  PoolOffsets window(spec_, 1, first);
  const int64_t size = dtype_size(spec_.dtype);
  for (int64_t position = first; position < last;) {
    PoolRepeat repeat = repeat_at(position);
    repeat.count = std::min(repeat.count, last - position);
    f(PoolWindow{in + window.first() * size, window.offsets().data(),
                 static_cast<int64_t>(window.offsets().size()), spec_.inner},
      repeat, position);
    window.skip(repeat.count);
    position += repeat.count;
  }
}

}  // namespace gspmd
