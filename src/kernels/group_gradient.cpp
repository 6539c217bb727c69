// Gradients of the kernels of grouped convolutions: for each group products of what the taps read
// and of the gradient of the result, both as planes, with positions in the lanes.
#include <algorithm>
#include <memory>
#include <optional>

#include "gspmd/base/shape.h"
#include "kernels/convolution_direct.h"
#include "kernels/group_plan.h"
#include "kernels/group_planes.h"

namespace gspmd {
namespace {

constexpr double kGroupGradientFlops = 4e6;  // of a part
constexpr int64_t kMostGradientParts = 8;
constexpr int64_t kMostGradientTaps = 1024;

// c[group, i, tap, o] = sum over images and positions of x[image, group, i, what the tap reads] *
// g[image, group, o, position].
struct GroupGradient {
  GroupLayout x, g;  // of blocks of the same positions
  GroupGroups groups;
  int64_t images = 1, in = 1, out = 1;
  int64_t at_a_time = 1;  // images of a block
  DType operand = DType::f32, result = DType::f32;
  int64_t x_image = 0, x_feature = 0, g_image = 0, g_feature = 0;
  int64_t c_in = 0, c_out = 0;
  std::vector<int64_t> pairs;   // what feature i reads at a tap, by i and tap
  std::vector<int64_t> c_taps;  // where each tap of the result is

  int64_t features_in() const { return groups.together * in; }
  int64_t features_out() const { return groups.together * out; }
  int64_t x_floats() const { return features_in() * x.feature(); }  // of an image
  int64_t g_floats() const { return features_out() * g.feature(); }
  int64_t c_floats() const { return ceil_div(features_out() * count_of_pairs(), int64_t{16}) * 16; }
  int64_t floats() const { return at_a_time * (x_floats() + g_floats()); }
  int64_t count_of_pairs() const { return in * static_cast<int64_t>(c_taps.size()); }
};

void set_blocks(GroupGradient& e, int64_t outer, int64_t inner) {
  set_block(e.x, outer, inner);
  set_block(e.g, outer, inner);
}

// Several images where they are small, else as many rows as stay in the second-level cache.
void cut(GroupGradient& e) {
  const int64_t outer = e.x.axes[0].positions, rows = e.x.axes[1].positions;
  set_blocks(e, outer, rows);
  if (e.floats() > kGroupFloats) {
    for (int64_t blocks = 1; blocks <= rows; ++blocks) {
      set_blocks(e, 1, ceil_div(rows, blocks));
      if (e.floats() <= kGroupFloats) break;
    }
    return;
  }
  const int64_t most = std::clamp<int64_t>(kGroupFloats / e.floats(), 1, e.images);
  e.at_a_time = ceil_div(e.images, ceil_div(e.images, most));
}

void add_axis(GroupGradient& e, const ConvolutionAxis& a, size_t to) {
  GroupAxis& x = e.x.axes[to];
  GroupAxis& g = e.g.axes[to];
  x.input = a.input;
  x.positions = g.positions = g.input = a.kernel;
  x.stride = a.window_dilation;
  x.x_step = a.input_step;
  g.x_step = a.kernel_step;
  std::vector<int64_t> shifts;
  for (int64_t t = 0; t < a.output; ++t) shifts.push_back(t * a.stride - a.pad_low);
  set_shifts(x, shifts);
}

// Taps of all axes, the last one innermost.
void add_taps(GroupGradient& e, const ConvolutionSpec& spec) {
  std::vector<int64_t> reads;
  std::array<ConvolutionAxis, kGroupAxes> axes;
  std::copy(spec.axes.begin(), spec.axes.end(),
            axes.end() - static_cast<std::ptrdiff_t>(spec.axes.size()));
  const auto shift = [&](size_t axis, int64_t t) {
    return t * axes[axis].stride - axes[axis].pad_low;
  };
  for (int64_t i = 0; i < axes[0].output; ++i)
    for (int64_t j = 0; j < axes[1].output; ++j)
      for (int64_t k = 0; k < axes[2].output; ++k) {
        reads.push_back(e.x.offset_of({shift(0, i), shift(1, j), shift(2, k)}));
        e.c_taps.push_back(i * axes[0].output_step + j * axes[1].output_step +
                           k * axes[2].output_step);
      }
  for (int64_t i = 0; i < e.in; ++i)
    for (const int64_t read : reads) e.pairs.push_back(i * e.x.feature() + read);
}

std::optional<GroupGradient> group_gradient_of(const ConvolutionSpec& spec) {
  if (spec.batch_groups == 1 || spec.feature_groups > 1 || !is_of_groups(spec)) return std::nullopt;
  GroupGradient e;
  e.operand = spec.operand, e.result = spec.result;
  e.images = spec.in_features;
  e.groups.count = spec.batch_groups;
  e.in = spec.batch;
  e.out = spec.out_features / e.groups.count;
  if (e.in == 1 && e.out == 1) return std::nullopt;  // the library's are faster
  e.groups.together = groups_together(e.groups.count, e.in, e.out);
  e.x_image = spec.input_feature, e.x_feature = spec.input_batch;
  e.g_image = spec.kernel_input, e.g_feature = spec.kernel_output;
  e.c_in = spec.output_batch, e.c_out = spec.output_feature;
  for (GroupAxis& axis : e.x.axes) set_shifts(axis, {0});
  for (GroupAxis& axis : e.g.axes) set_shifts(axis, {0});
  int64_t taps = 1, positions = 1;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const ConvolutionAxis& a = spec.axes[i];
    taps = saturating_multiply(taps, a.output);
    positions = saturating_multiply(positions, a.kernel);
    if (a.base_dilation != 1 || a.reversal || taps > kMostGradientTaps) return std::nullopt;
    add_axis(e, a, kGroupAxes - spec.axes.size() + i);
  }
  if (positions <= taps) return std::nullopt;
  set_pitch(e.x);
  e.g.pitch = e.x.pitch;
  cut(e);
  while (e.floats() + e.c_floats() > kGroupFloats && e.groups.together > 1) {
    e.groups.together = ceil_div(e.groups.together, 2);
    cut(e);
  }
  if (e.floats() + e.c_floats() > kMostGroupFloats) return std::nullopt;
  add_taps(e, spec);
  return e;
}

// Some images of some groups, whose features are laid out one after the other.
struct GradientBlock {
  int64_t image = 0, images = 0, group = 0, groups = 0;
  GroupBlock at;
};

void add_block(const GroupGradient& e, const GradientBlock& block, const KernelArgs& args, float* x,
               float* g, float* c) {
  const GroupFunctions& f = group_functions();
  const int64_t size = dtype_size(e.operand);
  for (int64_t n = 0; n < block.images; ++n) {
    const int64_t image = block.image + n;
    f.lay_out(e.x, block.at, e.operand,
              args.operands[0] + (image * e.x_image + block.group * e.in * e.x_feature) * size,
              e.x_feature, block.groups * e.in, x + n * e.x_floats());
    f.lay_out(e.g, block.at, e.operand,
              args.operands[1] + (image * e.g_image + block.group * e.out * e.g_feature) * size,
              e.g_feature, block.groups * e.out, g + n * e.g_floats());
  }
  GroupProducts products;
  products.loops = {
      {{block.images, e.x_floats(), e.g_floats()}, {block.at.count[0], e.x.outer(), e.g.outer()}}};
  products.rows = block.at.count[1];
  products.positions = e.x.axes[2].positions;
  products.pitch = e.x.pitch;
  products.pairs = e.pairs.data();
  products.pair_count = e.count_of_pairs();
  products.out = e.out;
  products.g_feature = e.g.feature();
  for (int64_t i = 0; i < block.groups; ++i) {
    products.x = x + i * e.in * e.x.feature();
    products.g = g + i * e.out * e.g.feature();
    products.c = c + i * e.out * e.count_of_pairs();
    f.multiply(products);
  }
}

void write_groups(const GroupGradient& e, int64_t group, int64_t groups, const float* c,
                  std::byte* to) {
  GroupRow row;
  row.positions = e.out;
  row.to_position = e.c_out;
  for (int64_t i = group; i < group + groups; ++i)
    for (int64_t in = 0; in < e.in; ++in)
      for (const int64_t tap : e.c_taps) {
        row.from = c;
        const int64_t at = i * e.out * e.c_out + in * e.c_in + tap;
        group_functions().write(row, e.result, to + at * dtype_size(e.result));
        c += e.out;
      }
}

// Groups that lie beside each other, over all images.
void run_groups(const GroupGradient& e, int64_t which, const KernelArgs& args) {
  auto* const c = reinterpret_cast<float*>(args.scratch);
  float* const x = c + e.c_floats();
  float* const g = x + e.at_a_time * e.x_floats();
  std::fill_n(c, e.c_floats(), 0.0F);
  GradientBlock block;
  block.group = which * e.groups.together;
  block.groups = std::min(e.groups.together, e.groups.count - block.group);
  const int64_t outer = e.x.axes[0].positions, rows = e.x.axes[1].positions;
  for (int64_t n = 0; n < e.images; n += e.at_a_time)
    for (int64_t i = 0; i < outer; i += e.x.block[0])
      for (int64_t j = 0; j < rows; j += e.x.block[1]) {
        block.image = n;
        block.images = std::min(e.at_a_time, e.images - n);
        block.at = {{i, j}, {std::min(e.x.block[0], outer - i), std::min(e.x.block[1], rows - j)}};
        add_block(e, block, args, x, g, c);
      }
  write_groups(e, block.group, block.groups, c, args.results[0]);
}

}  // namespace

PreparedKernel prepare_group_gradient(const ConvolutionSpec& spec) {
  std::optional<GroupGradient> made = group_gradient_of(spec);
  if (!made) return {};
  const auto plan = std::make_shared<const GroupGradient>(std::move(*made));
  const double flops = convolution_flops(spec);
  PreparedKernel kernel;
  kernel.cost = 1000 + flops / 100;
  kernel.scratch_bytes = (plan->c_floats() + plan->floats()) * 4;
  kernel.parts = std::clamp<int64_t>(static_cast<int64_t>(flops / kGroupGradientFlops), 1,
                                     std::min(plan->groups.blocks(), kMostGradientParts));
  kernel.run = [plan, parts = kernel.parts](const KernelArgs& args) {
    const int64_t blocks = plan->groups.blocks();
    for (int64_t b = args.part * blocks / parts; b < (args.part + 1) * blocks / parts; ++b)
      run_groups(*plan, b, args);
  };
  return kernel;
}

}  // namespace gspmd
