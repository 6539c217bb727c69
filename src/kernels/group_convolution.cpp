// Convolutions of groups: a few groups of an image, and some rows, are laid out as planes, summed
// feature by feature, and written where they belong.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>

#include "gspmd/base/shape.h"
#include "kernels/convolution_direct.h"
#include "kernels/group_plan.h"
#include "kernels/group_planes.h"

namespace gspmd {
namespace {

constexpr double kGroupPartFlops = 4e6;
constexpr int64_t kMostGroupParts = 8;
constexpr int64_t kMostGroupTaps = 256, kMostGroupClasses = 64;
constexpr int64_t kPackedPart = 16 << 10;  // weights that a part packs, about

// Positions first, first + step, ... along an axis, which fall on the same place between elements
// of a dilated input, and the taps that read elements there.
struct AxisClass {
  struct Tap {
    int64_t weight, shift;
  };
  int64_t first = 0, count = 0;
  std::vector<Tap> taps;
};

// One class of each axis.
struct GroupClass {
  std::array<int64_t, kGroupAxes> first = {}, count = {};
  std::vector<int64_t> taps, weights;  // where each tap reads, and where its weights lie
  int64_t before = 0;                  // taps of the classes before
};

struct GroupConvolution {
  GroupLayout layout;
  GroupGroups groups;
  int64_t images = 1, in = 1, out = 1;
  DType operand = DType::f32, result = DType::f32;
  int64_t x_image = 0, x_group = 0, x_feature = 0;
  int64_t w_in = 0, w_out = 0;
  int64_t y_image = 0, y_feature = 0;
  std::array<int64_t, kGroupAxes> y_step = {}, step = {1, 1, 1};  // and of a class's positions
  std::vector<GroupClass> classes;
  int64_t taps = 0;

  int64_t blocks(size_t axis) const {
    return ceil_div(layout.axes[axis].positions, layout.block[axis]);
  }
  int64_t units() const { return images * blocks(0) * blocks(1) * groups.blocks(); }
  // Floats of a row of sums.
  int64_t row() const {
    const int64_t floats = layout.block[1] * layout.pitch + group_functions().lanes;
    return ceil_div(floats, int64_t{16}) * 16 + GroupLayout::kGroupSkew;
  }
  int64_t planes_floats() const { return groups.together * in * layout.feature(); }
  int64_t floats() const { return planes_floats() + groups.together * out * row(); }
  int64_t weights() const { return groups.count * out * in * taps; }
};

std::vector<AxisClass> classes_of(const ConvolutionAxis& a, int64_t step, int64_t stride) {
  std::vector<AxisClass> classes;
  for (int64_t c = 0; c < std::min(step, a.output); ++c) {
    AxisClass made{c, ceil_div(a.output - c, step), {}};
    for (int64_t t = 0; t < a.kernel; ++t) {
      const int64_t at = c * a.stride + t * a.window_dilation - a.pad_low;
      if (at % a.base_dilation != 0) continue;
      const int64_t shift = at / a.base_dilation;
      if (shift < a.input && shift + (made.count - 1) * stride >= 0)  // else it reads nothing
        made.taps.push_back({a.reversal ? a.kernel - 1 - t : t, shift});
    }
    classes.push_back(std::move(made));
  }
  return classes;
}

using AxesClasses = std::array<std::vector<AxisClass>, kGroupAxes>;

void combine(GroupConvolution& e, const AxesClasses& all,
             const std::array<int64_t, kGroupAxes>& w_step) {
  for (const AxisClass& a : all[0])
    for (const AxisClass& b : all[1])
      for (const AxisClass& c : all[2]) {
        GroupClass made;
        made.first = {a.first, b.first, c.first};
        made.count = {a.count, b.count, c.count};
        made.before = e.taps;
        for (const auto& i : a.taps)
          for (const auto& j : b.taps)
            for (const auto& k : c.taps) {
              made.taps.push_back(e.layout.offset_of({i.shift, j.shift, k.shift}));
              made.weights.push_back(i.weight * w_step[0] + j.weight * w_step[1] +
                                     k.weight * w_step[2]);
            }
        e.taps += static_cast<int64_t>(made.taps.size());
        e.classes.push_back(std::move(made));
      }
}

bool has_groups(const ConvolutionSpec& spec) {
  const int64_t groups = spec.feature_groups * spec.batch_groups;
  const bool depthwise = spec.in_features == 1 && spec.out_features == groups;
  return groups > 1 && !depthwise && is_of_groups(spec);
}

// As many positions of a block as stay in the second-level cache; whether it is enough.
bool cut(GroupConvolution& e) {
  const int64_t rows = e.layout.axes[1].positions;
  for (int64_t blocks = 1; blocks <= rows; ++blocks) {
    set_block(e.layout, 1, ceil_div(rows, blocks));
    if (e.floats() <= kGroupFloats) break;
  }
  if (e.layout.block[1] == rows)
    for (int64_t n = e.layout.axes[0].positions; n > 1; n = ceil_div(n, 2)) {
      set_block(e.layout, n, rows);
      if (e.floats() <= kGroupFloats) break;
      set_block(e.layout, 1, rows);
    }
  return e.floats() <= kGroupFloats;
}

std::optional<GroupConvolution> group_convolution_of(const ConvolutionSpec& spec) {
  if (!has_groups(spec)) return std::nullopt;
  GroupConvolution e;
  e.operand = spec.operand, e.result = spec.result;
  e.images = spec.batch;
  e.in = spec.in_features;
  e.groups.count = spec.feature_groups * spec.batch_groups;
  e.out = spec.out_features / e.groups.count;
  e.groups.together = groups_together(e.groups.count, e.in, e.out);
  e.x_image = spec.input_batch, e.x_feature = spec.input_feature;
  e.x_group = spec.batch_groups > 1 ? spec.batch * spec.input_batch : e.in * spec.input_feature;
  e.w_in = spec.kernel_input, e.w_out = spec.kernel_output;
  e.y_image = spec.output_batch, e.y_feature = spec.output_feature;
  AxesClasses classes;
  classes.fill({AxisClass{0, 1, {{0, 0}}}});
  std::array<int64_t, kGroupAxes> w_step = {};
  int64_t taps = 1, all = 1;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const ConvolutionAxis& a = spec.axes[i];
    const size_t to = kGroupAxes - spec.axes.size() + i;
    const int64_t shared = std::gcd(a.base_dilation, a.stride);
    taps = saturating_multiply(taps, a.kernel);
    all = saturating_multiply(all, a.base_dilation / shared);
    if (taps > kMostGroupTaps || all > kMostGroupClasses) return std::nullopt;
    GroupAxis& axis = e.layout.axes[to];
    axis.input = a.input;
    axis.stride = a.stride / shared;
    axis.x_step = a.input_step;
    e.step[to] = a.base_dilation / shared;
    e.y_step[to] = a.output_step;
    w_step[to] = a.kernel_step;
    classes[to] = classes_of(a, e.step[to], axis.stride);
    axis.positions = classes[to].front().count;
    std::vector<int64_t> shifts;
    for (const AxisClass& made : classes[to])
      for (const AxisClass::Tap& tap : made.taps) shifts.push_back(tap.shift);
    set_shifts(axis, shifts);
  }
  for (size_t i = 0; i + spec.axes.size() < kGroupAxes; ++i) set_shifts(e.layout.axes[i], {0});
  set_pitch(e.layout);
  while (!cut(e) && e.groups.together > 1) e.groups.together = ceil_div(e.groups.together, 2);
  if (e.floats() > kMostGroupFloats) return std::nullopt;
  combine(e, classes, w_step);
  return e;
}

// --- the kernel: by group, four output features, class, input feature, tap, and output feature

// Taps of an input feature and some output features: `from` the first of these, `to` where the
// group's weights begin.
template <class T>
void pack_taps(const GroupConvolution& e, const T* from, int64_t i, int64_t first, int64_t last,
               float* to) {
  const int64_t sums = e.in * e.taps;
  for (const GroupClass& c : e.classes) {
    float* const at = to + first * sums;
    const auto count = static_cast<int64_t>(c.weights.size());
    for (int64_t t = 0; t < count; ++t) {
      const T* const tap = from + c.weights[static_cast<size_t>(t)];
      const int64_t place = e.in * c.before + i * count + t;
      for (int64_t o = first; o < last; o += kGroupRows) {
        float* const row = at + (o - first) * sums;
        const int64_t rows = std::min(kGroupRows, e.out - o);
        if (rows == kGroupRows && e.w_out == 1) {
          for (int64_t r = 0; r < kGroupRows; ++r)
            row[place * kGroupRows + r] = static_cast<float>(tap[o + r]);
        } else {
          for (int64_t r = 0; r < rows; ++r)
            row[place * rows + r] = static_cast<float>(tap[(o + r) * e.w_out]);
        }
      }
    }
  }
}

// Input features of all groups are what parts are of. As many output features at a time as are in
// a line of memory: of more the places that are written lie on few sets of the first-level cache.
void pack(const GroupConvolution& e, int64_t part, int64_t parts, const std::byte* w, float* to) {
  constexpr int64_t kAtATime = 16;
  const int64_t all = e.groups.count * e.in;
  visit_group_type(e.operand, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t n = part * all / parts; n < (part + 1) * all / parts; ++n) {
      const int64_t first = n / e.in * e.out, i = n % e.in;
      const T* const from = reinterpret_cast<const T*>(w) + first * e.w_out + i * e.w_in;
      for (int64_t o = 0; o < e.out; o += kAtATime)
        pack_taps(e, from, i, o, std::min(e.out, o + kAtATime), to + first * e.in * e.taps);
    }
  });
}

// --- units: groups beside each other, of a block of an image

struct GroupUnit {
  int64_t image = 0, group = 0, groups = 0;
  GroupBlock block;
};

GroupUnit unit_at(const GroupConvolution& e, int64_t unit) {
  GroupUnit made;
  made.group = unit % e.groups.blocks() * e.groups.together;
  made.groups = std::min(e.groups.together, e.groups.count - made.group);
  unit /= e.groups.blocks();
  for (size_t axis = 2; axis-- > 0;) {
    const int64_t first = unit % e.blocks(axis) * e.layout.block[axis];
    made.block.first[axis] = first;
    made.block.count[axis] = std::min(e.layout.block[axis], e.layout.axes[axis].positions - first);
    unit /= e.blocks(axis);
  }
  made.image = unit;
  return made;
}

void lay_out_unit(const GroupConvolution& e, const GroupUnit& unit, const std::byte* x,
                  float* planes) {
  const int64_t size = dtype_size(e.operand);
  const bool side_by_side = e.x_group == e.in * e.x_feature;
  const int64_t calls = side_by_side ? 1 : unit.groups;
  const int64_t features = side_by_side ? unit.groups * e.in : e.in;
  for (int64_t g = 0; g < calls; ++g)
    group_functions().lay_out(e.layout, unit.block, e.operand,
                              x + (unit.image * e.x_image + (unit.group + g) * e.x_group) * size,
                              e.x_feature, features, planes + g * e.in * e.layout.feature());
}

// Rows of positions of a class, `outer` along the outer axis, of all features of a unit.
void sum_class(const GroupConvolution& e, const GroupUnit& unit, const GroupClass& c, int64_t outer,
               const float* planes, const float* w, float* sums, std::byte* y) {
  const GroupFunctions& f = group_functions();
  const int64_t first = unit.block.first[1];
  const int64_t rows = std::min(unit.block.count[1], c.count[1] - first);
  if (outer >= c.count[0] || rows <= 0) return;
  GroupSums a;
  a.taps = c.taps.data();
  a.tap_count = static_cast<int64_t>(c.taps.size());
  a.in = e.in;
  a.x_feature = e.layout.feature();
  a.y_row = e.row();
  a.vectors = ceil_div((rows - 1) * e.layout.pitch + c.count[2], f.lanes);
  for (int64_t g = 0; g < unit.groups; ++g)
    for (int64_t o = 0; o < e.out; o += kGroupRows) {
      a.rows = std::min(kGroupRows, e.out - o);
      a.x = planes + g * e.in * a.x_feature + (outer - unit.block.first[0]) * e.layout.outer();
      a.w = w + ((unit.group + g) * e.out + o) * e.in * e.taps + a.rows * e.in * c.before;
      a.y = sums + (g * e.out + o) * a.y_row;
      f.sum(a);
    }
  GroupRow row;
  row.from_feature = a.y_row;
  row.features = unit.groups * e.out;
  row.positions = c.count[2];
  row.to_position = e.y_step[2] * e.step[2];
  row.to_feature = e.y_feature;
  row.next = e.y_step[1] * e.step[1];
  const int64_t at = unit.image * e.y_image + unit.group * e.out * e.y_feature +
                     (c.first[0] + outer * e.step[0]) * e.y_step[0] + c.first[2] * e.y_step[2];
  for (int64_t r = 0; r < rows; ++r) {
    row.from = sums + r * e.layout.pitch;
    const int64_t to = at + (c.first[1] + (first + r) * e.step[1]) * e.y_step[1];
    f.write(row, e.result, y + to * dtype_size(e.result));
  }
}

void run_part(const GroupConvolution& e, int64_t part, int64_t parts, const KernelArgs& args) {
  auto* const planes = reinterpret_cast<float*>(args.scratch);
  float* const sums = planes + e.planes_floats();
  const auto* const w = reinterpret_cast<const float*>(args.shared);
  for (int64_t u = part * e.units() / parts; u < (part + 1) * e.units() / parts; ++u) {
    const GroupUnit unit = unit_at(e, u);
    lay_out_unit(e, unit, args.operands[0], planes);
    const int64_t first = unit.block.first[0];
    for (int64_t outer = first; outer < first + unit.block.count[0]; ++outer)
      for (const GroupClass& c : e.classes)
        sum_class(e, unit, c, outer, planes, w, sums, args.results[0]);
  }
}

}  // namespace

PreparedKernel prepare_group_convolution(const ConvolutionSpec& spec) {
  std::optional<GroupConvolution> made = group_convolution_of(spec);
  if (!made) return {};
  const auto plan = std::make_shared<const GroupConvolution>(std::move(*made));
  const double flops = convolution_flops(spec);
  PreparedKernel kernel;
  kernel.cost = 1000 + flops / 100;
  kernel.scratch_bytes = plan->floats() * 4;
  kernel.shared_bytes = ceil_div(plan->weights() * 4, int64_t{64}) * 64;
  kernel.prepare_parts = std::clamp<int64_t>(plan->weights() / kPackedPart, 1, kMostGroupParts);
  kernel.prepare = [plan, parts = kernel.prepare_parts](const KernelArgs& args) {
    pack(*plan, args.part, parts, args.operands[1], reinterpret_cast<float*>(args.shared));
  };
  kernel.parts = std::clamp<int64_t>(static_cast<int64_t>(flops / kGroupPartFlops), 1,
                                     std::min(plan->units(), kMostGroupParts));
  kernel.run = [plan, parts = kernel.parts](const KernelArgs& args) {
    run_part(*plan, args.part, parts, args);
  };
  return kernel;
}

}  // namespace gspmd
