#include "kernels/group_plan.h"

#include <cstdlib>

namespace gspmd {
namespace {

constexpr int64_t kMostGroupExtent = int64_t{1} << 26;
// With as many lanes the library has kernels for groups of whole vectors (nobody has compared
// them).
constexpr int64_t kLibraryLanes = 16;
constexpr int64_t kLineFeatures = 32;  // of two lines of memory

}  // namespace

int64_t GroupAxis::phase_of(int64_t shift) const {
  const auto at = std::lower_bound(phases.begin(), phases.end(), (shift - low) % stride);
  return static_cast<int64_t>(at - phases.begin());
}

int64_t GroupLayout::offset_of(const std::array<int64_t, kGroupAxes>& shifts) const {
  const int64_t places = block[0] + axes[0].span();
  const int64_t place = axes[0].phase_of(shifts[0]) * places + axes[0].place_of(shifts[0]);
  const int64_t which =
      axes[1].phase_of(shifts[1]) * axes[2].phase_count() + axes[2].phase_of(shifts[2]);
  return place * outer() + which * plane + axes[1].place_of(shifts[1]) * pitch +
         axes[2].place_of(shifts[2]);
}

void set_shifts(GroupAxis& axis, const std::vector<int64_t>& shifts) {
  axis.phases.clear();
  if (shifts.empty()) {
    axis.low = axis.high = 0;
    axis.phases = {0};
    return;
  }
  axis.low = *std::min_element(shifts.begin(), shifts.end());
  axis.high = *std::max_element(shifts.begin(), shifts.end());
  for (const int64_t shift : shifts) axis.phases.push_back((shift - axis.low) % axis.stride);
  std::sort(axis.phases.begin(), axis.phases.end());
  axis.phases.erase(std::unique(axis.phases.begin(), axis.phases.end()), axis.phases.end());
}

void set_pitch(GroupLayout& layout) {
  const GroupAxis& axis = layout.axes[2];
  const int64_t extent = axis.positions + axis.span();
  int64_t begin = extent, end = 0;  // of what is inside of x, in any phase
  for (const int64_t phase : axis.phases) {
    const int64_t first = phase + axis.low, last = axis.input - 1 - first;
    begin = std::min(begin, first < 0 ? ceil_div(-first, axis.stride) : 0);
    end = std::max(end, last < 0 ? 0 : std::min(extent, last / axis.stride + 1));
  }
  layout.pitch = std::max({axis.positions, end, extent - begin});
}

void set_block(GroupLayout& layout, int64_t outer, int64_t inner) {
  layout.block = {outer, inner};
  // The last vector may be as far behind the last position as it is long.
  const int64_t floats = (inner + layout.axes[1].span()) * layout.pitch + layout.axes[2].span() +
                         group_functions().lanes;
  layout.plane = ceil_div(floats, int64_t{16}) * 16;
}

bool is_of_groups(const ConvolutionSpec& spec) {
  const DType x = spec.operand;
  if (x != DType::f32 && x != DType::bf16 && x != DType::f16) return false;
  if (spec.result != x && spec.result != DType::f32) return false;
  const int64_t out = spec.out_features / (spec.feature_groups * spec.batch_groups);
  const int64_t in = spec.batch_groups > 1 ? spec.batch : spec.in_features;
  if (x != DType::f16 && group_functions().lanes >= kLibraryLanes && in % kLibraryLanes == 0 &&
      out % kLibraryLanes == 0)
    return false;
  if (spec.axes.empty() || spec.axes.size() > kGroupAxes) return false;
  if (spec.batch < 1 || spec.in_features < 1 || spec.out_features < 1) return false;
  if (spec.batch > kMostGroupExtent || spec.in_features > kMostGroupExtent) return false;
  return std::all_of(spec.axes.begin(), spec.axes.end(), [](const ConvolutionAxis& a) {
    for (const int64_t size : {a.input, a.kernel, a.output, a.stride, a.base_dilation,
                               a.window_dilation, std::abs(a.pad_low) + 1})
      if (size < 1 || size > kMostGroupExtent) return false;
    return true;
  });
}

int64_t groups_together(int64_t groups, int64_t in, int64_t out) {
  const int64_t together = std::min(groups, ceil_div(kLineFeatures, std::min(in, out)));
  return ceil_div(groups, ceil_div(groups, together));
}

}  // namespace gspmd
