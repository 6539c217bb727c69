#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/pool_windows.h"

namespace gspmd {
namespace {

constexpr int64_t kShortPoolRow = 8;  // rows shorter than this leave most of a vector empty
constexpr int64_t kLanes = 16;        // planes side by side
constexpr int64_t kFewLanes = 4;      // not worth the turns
constexpr int64_t kMostPlaneBytes = int64_t{4} << 20;  // of planes side by side

int64_t size_of(const PoolAxis& axis) { return static_cast<int64_t>(axis.positions.size()); }

// Whether position n reads element n and nothing else.
bool is_apart(const PoolAxis& axis) {
  for (size_t n = 0; n < axis.positions.size(); ++n) {
    const PoolRun& run = axis.positions[n];
    if (run.count != 1 || run.first != static_cast<int64_t>(n)) return false;
  }
  return true;
}

}  // namespace

PoolPlan::PoolPlan(PoolSpec spec) : spec_(std::move(spec)) {
  reads_ = static_cast<double>(spec_.inner);
  for (const PoolAxis& axis : spec_.axes) {
    double reads = 0;
    for (const PoolRun& run : axis.positions) reads += static_cast<double>(run.count);
    reads_ *= reads;
  }
  // Axes from the outermost one on whose planes follow each other.
  size_t apart = 0;
  int64_t planes = 1;
  while (apart < spec_.axes.size() && is_apart(spec_.axes[apart]) &&
         (apart == 0 ||
          spec_.axes[apart - 1].step == spec_.axes[apart].step * size_of(spec_.axes[apart])))
    planes *= size_of(spec_.axes[apart++]);
  const bool may_turn = apart > 0 && apart < spec_.axes.size() && spec_.inner < kShortPoolRow;
  const int64_t plane = may_turn ? spec_.axes[apart - 1].step : 1;
  const int64_t lanes = std::min(
      {kLanes, planes, kMostPlaneBytes / std::max<int64_t>(plane * dtype_size(spec_.dtype), 1)});
  if (may_turn && lanes >= kFewLanes) {
    planes_ = planes;
    lanes_ = lanes;
    groups_ = ceil_div(planes, lanes);
    plane_in_ = plane;
    spec_.axes.erase(spec_.axes.begin(), spec_.axes.begin() + static_cast<std::ptrdiff_t>(apart));
  }
  for (const PoolAxis& axis : spec_.axes) positions_ *= size_of(axis);
  plane_out_ = positions_ * spec_.inner;
  if (!spec_.axes.empty()) find_repeats(spec_.axes.back());
}

void PoolPlan::find_repeats(const PoolAxis& axis) {
  repeats_.resize(axis.positions.size());
  for (size_t i = repeats_.size(); i-- > 0;) {
    if (i + 1 == repeats_.size()) continue;
    const PoolRun &here = axis.positions[i], &next = axis.positions[i + 1];
    if (here.count != next.count || here.step != next.step) continue;
    const int64_t advance = (next.first - here.first) * axis.step;
    const PoolRepeat& behind = repeats_[i + 1];
    repeats_[i] = {behind.count > 1 && behind.advance != advance ? 2 : behind.count + 1, advance};
  }
}

PoolRepeat PoolPlan::repeat_at(int64_t position) const {
  if (repeats_.empty()) return {};
  return repeats_[static_cast<size_t>(position % std::ssize(repeats_))];
}

PoolOffsets::PoolOffsets(const PoolSpec& spec, int64_t lanes, int64_t position)
    : spec_(spec),
      lanes_(lanes),
      index_(spec.axes.size(), 0),
      begins_(spec.axes.size(), 0),
      shape_(spec.axes.size()) {
  for (size_t d = index_.size(); d-- > 0;) {
    index_[d] = position % size_of(spec.axes[d]);
    position /= size_of(spec.axes[d]);
  }
  list(0, 0);
  place(0);
}

void PoolOffsets::list(size_t axis, int64_t offset) {
  if (axis == 0) offsets_.clear();
  if (axis == index_.size()) {
    offsets_.push_back(offset * lanes_);
    return;
  }
  const PoolRun& r = shape_[axis] = run(axis);
  for (int64_t i = 0; i < r.count; ++i) list(axis + 1, offset + i * r.step * spec_.axes[axis].step);
}

void PoolOffsets::place(size_t from) {
  bool same = true;
  for (size_t d = from; d < index_.size(); ++d) {
    const PoolRun& r = run(d);
    const int64_t begin = r.first * spec_.axes[d].step * lanes_;
    first_ += begin - begins_[d];
    begins_[d] = begin;
    same = same && r.count == shape_[d].count && r.step == shape_[d].step;
  }
  if (!same) list(0, 0);
}

void PoolOffsets::skip(int64_t windows) {
  size_t d = index_.size();
  for (int64_t by = windows; d > 0; by = 1) {
    --d;
    if ((index_[d] += by) < size_of(spec_.axes[d])) break;
    index_[d] = 0;
  }
  place(d);
}

void turn_planes(int64_t element_size, int64_t plane, int64_t lanes, bool back,
                 const std::byte* from, std::byte* to) {
  if (plane == 1 || lanes == 1) {
    std::copy_n(from, plane * lanes * element_size, to);
    return;
  }
  // As `simplified` gives it.
  const int64_t rows = back ? lanes : plane, columns = back ? plane : lanes;
  run_copy({element_size, {rows, columns}, {1, rows}, {columns, 1}}, from, to);
}

}  // namespace gspmd
