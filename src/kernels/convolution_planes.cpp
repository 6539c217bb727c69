// Convolutions of images whose positions are contiguous (channels first), as products of the
// kernel, a row for each output feature, and of what each position reads, gathered into strips that
// stay in the second-level cache.
#include "kernels/convolution_planes.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include "gspmd/base/shape.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/gemm_product.h"
#include "kernels/summed_parts.h"

namespace gspmd {
namespace {

constexpr double kPlanePartFlops = 8e6;
constexpr int64_t kMostPlaneParts = 4;
constexpr int64_t kPlaneRows = 512;         // features times taps that are summed at a time
constexpr int64_t kPlaneColumns = 512;      // gathered at a time, or summed by a gradient
constexpr int64_t kPlaneFloats = 40 << 10;  // of the strips of a block
constexpr int64_t kLineFloats = 16;         // pieces of scratch begin at lines
// Gradients of kernels up to this size are summed from parts of the positions.
constexpr int64_t kPlaneSummedBytes = int64_t{1} << 20;
constexpr int64_t kMostExtent = int64_t{1} << 26;  // offsets are of 32 bits
constexpr int64_t kMostOffset = int64_t{1} << 30;
constexpr int64_t kLeastIn = 8, kLeastOut = 16;  // features; with fewer the library is faster

int64_t parts_of_planes(double flops) {
  return std::clamp<int64_t>(static_cast<int64_t>(flops / kPlanePartFlops), 1, kMostPlaneParts);
}

int64_t padded_floats(int64_t floats) { return ceil_div(floats, kLineFloats) * kLineFloats; }

int64_t product_of(const ConvolutionSpec& spec, int64_t ConvolutionAxis::*size) {
  int64_t product = 1;
  for (const ConvolutionAxis& axis : spec.axes) product = saturating_multiply(product, axis.*size);
  return product;
}

bool is_of_planes(const ConvolutionSpec& spec) {
  if (spec.operand != DType::f32 || spec.result != DType::f32 || spec.axes.empty() ||
      spec.axes.size() > kDirectAxes || spec.feature_groups * spec.batch_groups > 1)
    return false;
  return spec.axes.back().input_step == 1 &&
         std::all_of(spec.axes.begin(), spec.axes.end(),
                     [](const ConvolutionAxis& a) { return a.base_dilation == 1; });
}

bool fits(const Planes& e) {
  const int64_t image = e.images > 1 ? e.x_image : 0;
  int64_t farthest = image * 2 * kLineFloats;
  for (const Planes::Axis& a : e.axes) {
    for (const int64_t extent : {a.input, a.positions * a.stride, a.taps * a.dilation})
      if (extent > kMostExtent) return false;
    if (std::abs(a.pad) > kMostExtent || a.taps > kMostPlaneTaps) return false;
    const int64_t reach = a.positions * a.stride + a.taps * a.dilation + std::abs(a.pad);
    farthest += std::max(a.input, reach) * a.x_step;
  }
  return farthest < kMostOffset;
}

Planes::Axis& axis_at(Planes& e, const ConvolutionSpec& spec, size_t i) {
  return e.axes[kDirectAxes - spec.axes.size() + i];
}

// --- convolutions

struct PlaneConvolution {
  Planes planes;
  int64_t out = 1;
  int64_t y_image = 0, y_out = 0;
  // The kernel as rows of planes.features * planes.taps(), copied where it lies otherwise.
  bool copies = false;
  StridedCopy copy;
  int64_t copy_from = 0;
  // Columns of a block, and features of a panel; what a part is.
  int64_t columns = 0, features = 0;
  int64_t column_parts = 1, row_parts = 1;

  int64_t sums() const { return planes.features * planes.taps(); }
  int64_t blocks() const { return ceil_div(planes.columns(), columns); }
  int64_t rows_of_part() const { return ceil_div(out, row_parts); }
};

void read_kernel(const ConvolutionSpec& spec, PlaneConvolution& e) {
  bool reversed = false;
  e.copy.dims = {spec.out_features, spec.in_features};
  e.copy.source = {spec.kernel_output, spec.kernel_input};
  for (const ConvolutionAxis& a : spec.axes) {
    const bool turned = a.reversal && a.kernel > 1;
    reversed = reversed || turned;
    if (turned) e.copy_from += (a.kernel - 1) * a.kernel_step;
    e.copy.dims.push_back(a.kernel);
    e.copy.source.push_back(turned ? -a.kernel_step : a.kernel_step);
  }
  const int64_t taps = e.planes.taps();
  e.copies = reversed || (spec.out_features > 1 && spec.kernel_output != e.sums()) ||
             (spec.in_features > 1 && spec.kernel_input != taps) ||
             !lie_densely(spec, &ConvolutionAxis::kernel, &ConvolutionAxis::kernel_step);
  e.copy.target = row_major_strides(e.copy.dims);
  e.copy = simplified(std::move(e.copy));
}

// Blocks whose strips stay in the cache; parts are of blocks, or of rows where columns are few.
void cut(PlaneConvolution& e, double flops) {
  const int64_t taps = e.planes.taps(), wide = strip_functions().columns;
  const int64_t most = std::max<int64_t>(1, kPlaneRows / taps);
  e.features = ceil_div(e.planes.features, ceil_div(e.planes.features, most));
  const int64_t strips = std::max<int64_t>(1, kPlaneFloats / (e.features * taps * wide));
  e.columns = std::min(strips * wide, kPlaneColumns);
  const int64_t parts = parts_of_planes(flops), all = ceil_div(e.planes.columns(), wide);
  if (all < 2 * parts && e.out >= 2 * kLeastOut * parts) {
    e.row_parts = parts;
    return;
  }
  e.columns = std::min(e.columns, ceil_div(all, parts) * wide);
  e.column_parts = std::min(parts, e.blocks());
}

std::optional<PlaneConvolution> planes_of(const ConvolutionSpec& spec) {
  if (!is_of_planes(spec) || spec.out_features < kLeastOut) return std::nullopt;
  if (!lie_densely(spec, &ConvolutionAxis::output, &ConvolutionAxis::output_step))
    return std::nullopt;
  PlaneConvolution e;
  e.planes.images = spec.batch;
  e.planes.features = spec.in_features;
  e.planes.x_image = spec.input_batch;
  e.planes.x_feature = spec.input_feature;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const ConvolutionAxis& a = spec.axes[i];
    axis_at(e.planes, spec, i) = {a.input,           a.kernel,  a.output,    a.stride,
                                  a.window_dilation, a.pad_low, a.input_step};
  }
  if (!fits(e.planes) || e.planes.features < kLeastIn || e.planes.taps() > kPlaneRows)
    return std::nullopt;
  e.out = spec.out_features;
  e.y_image = spec.output_batch;
  e.y_out = spec.output_feature;
  read_kernel(spec, e);
  cut(e, convolution_flops(spec));
  return e;
}

// Floats of scratch: strips, what the product takes, and a block of y that is of several images.
struct PlaneScratch {
  int64_t strips, product, block;
  int64_t bytes() const { return (strips + product + block) * 4; }
};

StripExtents strips_of(const PlaneConvolution& e, int64_t rows, int64_t columns, int64_t k) {
  return {rows, columns, k, e.sums(), 1, e.y_out, strip_functions().step(k)};
}

PlaneScratch scratch_of(const PlaneConvolution& e) {
  const StripFunctions& f = strip_functions();
  const int64_t k = e.features * e.planes.taps(), rows = e.rows_of_part();
  return {padded_floats(ceil_div(e.columns, f.columns) * f.step(k)),
          padded_floats(f.scratch(strips_of(e, rows, e.columns, k))),
          rows * padded_floats(e.columns)};
}

// Columns first to first + count of a block, whose rows are `row` apart, to where they belong.
void scatter(const PlaneConvolution& e, int64_t rows, int64_t first, int64_t count,
             const float* block, int64_t row, float* y) {
  const int64_t positions = e.planes.positions();
  for (int64_t done = 0; done < count;) {
    const int64_t image = (first + done) / positions, position = (first + done) % positions;
    const int64_t length = std::min(count - done, positions - position);
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(block + i * row + done, length, y + image * e.y_image + i * e.y_out + position);
    done += length;
  }
}

void run_block(const PlaneConvolution& e, int64_t block, int64_t first_row, int64_t rows,
               const float* x, const float* w, float* y, float* scratch) {
  const StripFunctions& f = strip_functions();
  const PlaneScratch room = scratch_of(e);
  float* const product = scratch + room.strips;
  const int64_t first = block * e.columns, taps = e.planes.taps();
  const int64_t count = std::min(e.columns, e.planes.columns() - first);
  const int64_t positions = e.planes.positions(), image = first / positions;
  const bool together = image == (first + count - 1) / positions;  // in one image
  y += first_row * e.y_out;
  float* const c = together ? y + image * e.y_image + first % positions : product + room.product;
  const int64_t c_row = together ? e.y_out : padded_floats(e.columns);
  for (int64_t i = 0; i < e.planes.features; i += e.features) {
    const int64_t features = std::min(e.features, e.planes.features - i);
    StripExtents extents = strips_of(e, rows, count, features * taps);
    extents.c_row = c_row;
    gather_planes(e.planes, {first, count, i, features}, x, {f.columns, extents.strip}, scratch);
    f.multiply(extents, i > 0, w + first_row * e.sums() + i * taps, scratch, c, product);
  }
  if (!together) scatter(e, rows, first, count, c, c_row, y);
}

void run_planes(const PlaneConvolution& e, int64_t part, const float* x, const float* w, float* y,
                float* scratch) {
  const int64_t column_part = part / e.row_parts, row_part = part % e.row_parts;
  const int64_t first_row = row_part * e.out / e.row_parts;
  const int64_t rows = (row_part + 1) * e.out / e.row_parts - first_row;
  const int64_t last = (column_part + 1) * e.blocks() / e.column_parts;
  for (int64_t b = column_part * e.blocks() / e.column_parts; b < last; ++b)
    run_block(e, b, first_row, rows, x, w, y, scratch);
}

// --- gradients of kernels

// c[o, feature, tap] = sum over columns of g[image, o, position] and what the tap reads there.
struct PlaneGradient {
  Planes planes;
  int64_t out = 1;
  int64_t g_image = 0, g_out = 0, c_out = 0;
  // Of a block: columns of one image, or several whole images.
  int64_t columns = 0, features = 0;
  int64_t feature_parts = 1, block_parts = 1;

  bool whole_images() const { return columns >= planes.positions(); }
  int64_t blocks_of_image() const { return ceil_div(planes.positions(), columns); }
  int64_t blocks() const {
    return whole_images() ? ceil_div(planes.columns(), columns) : planes.images * blocks_of_image();
  }
  PlaneBlock block_at(int64_t b) const {
    const int64_t all = planes.columns(), positions = planes.positions();
    if (whole_images()) return {b * columns, std::min(columns, all - b * columns), 0, 0};
    const int64_t at = b % blocks_of_image() * columns;
    return {b / blocks_of_image() * positions + at, std::min(columns, positions - at), 0, 0};
  }
};

std::optional<PlaneGradient> plane_gradient_of(const ConvolutionSpec& spec) {
  if (!is_of_planes(spec) || spec.out_features < kLeastOut) return std::nullopt;
  const int64_t taps = product_of(spec, &ConvolutionAxis::output);
  if (product_of(spec, &ConvolutionAxis::kernel) <= taps || taps > kPlaneRows) return std::nullopt;
  if (!lie_densely(spec, &ConvolutionAxis::output, &ConvolutionAxis::output_step) ||
      !lie_densely(spec, &ConvolutionAxis::kernel, &ConvolutionAxis::kernel_step) ||
      (spec.batch > 1 && spec.output_batch != taps))
    return std::nullopt;
  PlaneGradient e;
  e.planes.images = spec.in_features;
  e.planes.features = spec.batch;
  e.planes.x_image = spec.input_feature;
  e.planes.x_feature = spec.input_batch;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const ConvolutionAxis& a = spec.axes[i];
    if (a.reversal) return std::nullopt;
    axis_at(e.planes, spec, i) = {a.input,  a.output,  a.kernel,    a.window_dilation,
                                  a.stride, a.pad_low, a.input_step};
  }
  if (!fits(e.planes) || e.planes.features < kLeastIn) return std::nullopt;
  e.out = spec.out_features;
  e.g_image = spec.kernel_input;
  e.g_out = spec.kernel_output;
  e.c_out = spec.output_feature;
  const int64_t positions = e.planes.positions();
  e.columns = positions <= kPlaneColumns / 2
                  ? std::min(e.planes.images, kPlaneColumns / positions) * positions
                  : ceil_div(positions, ceil_div(positions, kPlaneColumns));
  e.features = std::clamp<int64_t>(kPlaneFloats / 2 / (e.columns * taps), 1, e.planes.features);
  return e;
}

void cut(PlaneGradient& e, double flops, int64_t bytes) {
  const int64_t parts = parts_of_planes(flops);
  if (bytes > kPlaneSummedBytes) e.feature_parts = std::min(parts, e.planes.features);
  e.block_parts = std::min(parts / e.feature_parts, e.blocks());
}

// Floats of scratch: what taps read, row by row, the same in strips, what the product takes, and
// the rows of g of several images.
struct GradientScratch {
  int64_t rows, strips, product, g;
  int64_t bytes() const { return (rows + strips + product + g) * 4; }
};

GradientScratch scratch_of(const PlaneGradient& e) {
  const StripFunctions& f = strip_functions();
  const int64_t columns = padded_floats(e.columns), n = e.features * e.planes.taps();
  const StripExtents extents{e.out, n, e.columns, e.g_out, 1, e.c_out, f.step(e.columns)};
  return {n * columns, padded_floats(ceil_div(n, f.columns) * f.step(e.columns)),
          padded_floats(f.scratch(extents)), e.whole_images() ? e.out * columns : 0};
}

// Rows of g, `row` apart, of the images of a block side by side.
void gather_rows(const PlaneGradient& e, const PlaneBlock& block, const float* g, int64_t row,
                 float* to) {
  const int64_t positions = e.planes.positions(), images = block.count / positions;
  g += block.first / positions * e.g_image;
  for (int64_t o = 0; o < e.out; ++o)
    for (int64_t i = 0; i < images; ++i)
      std::copy_n(g + i * e.g_image + o * e.g_out, positions, to + o * row + i * positions);
}

void run_gradient_part(const PlaneGradient& e, int64_t part, const float* x, const float* g,
                       float* c, float* scratch) {
  const StripFunctions& f = strip_functions();
  const GradientScratch room = scratch_of(e);
  float* const strips = scratch + room.rows;
  float* const product = strips + room.strips;
  float* const copied = product + room.product;
  const int64_t feature_part = part % e.feature_parts, block_part = part / e.feature_parts;
  const int64_t last = (feature_part + 1) * e.planes.features / e.feature_parts;
  const int64_t first_block = block_part * e.blocks() / e.block_parts;
  const int64_t last_block = (block_part + 1) * e.blocks() / e.block_parts;
  const int64_t taps = e.planes.taps(), wide = padded_floats(e.columns);
  for (int64_t b = first_block; b < last_block; ++b) {
    PlaneBlock block = e.block_at(b);
    const int64_t positions = e.planes.positions();
    const float* a = g + block.first / positions * e.g_image + block.first % positions;
    int64_t a_row = e.g_out;
    if (e.whole_images()) {
      gather_rows(e, block, g, wide, copied);
      a = copied;
      a_row = wide;
    }
    int64_t i = feature_part * e.planes.features / e.feature_parts;
    for (; i < last; i += e.features) {
      block.feature = i;
      block.features = std::min(e.features, last - i);
      const int64_t n = block.features * taps, strip = f.step(block.count);
      gather_planes(e.planes, block, x, {wide, 0}, scratch);
      f.lay_out({0, n, block.count, 0, 0, 1, wide}, scratch, strips);
      f.multiply({e.out, n, block.count, a_row, 1, e.c_out, strip}, b > first_block, a, strips,
                 c + i * taps, product);
    }
  }
}

}  // namespace

bool lie_densely(const ConvolutionSpec& spec, int64_t ConvolutionAxis::*size,
                 int64_t ConvolutionAxis::*step) {
  int64_t expected = 1;
  for (size_t i = spec.axes.size(); i-- > 0;) {
    const ConvolutionAxis& axis = spec.axes[i];
    if (axis.*size > 1 && axis.*step != expected) return false;
    expected *= axis.*size;
  }
  return true;
}

PreparedKernel prepare_planes(const ConvolutionSpec& spec) {
  const std::optional<PlaneConvolution> convolution = planes_of(spec);
  if (!convolution) return {};
  const auto plan = std::make_shared<const PlaneConvolution>(*convolution);
  PreparedKernel kernel;
  kernel.cost = 1000 + convolution_flops(spec) / 150;
  kernel.scratch_bytes = scratch_of(*plan).bytes();
  kernel.parts = plan->column_parts * plan->row_parts;
  kernel.run = [plan](const KernelArgs& args) {
    run_planes(*plan, args.part, reinterpret_cast<const float*>(args.operands[0]),
               reinterpret_cast<const float*>(plan->copies ? args.shared : args.operands[1]),
               reinterpret_cast<float*>(args.results[0]), reinterpret_cast<float*>(args.scratch));
  };
  if (!plan->copies) return kernel;
  kernel.shared_bytes = padded_floats(plan->out * plan->sums()) * 4;
  kernel.prepare_parts = 1;
  kernel.prepare = [plan](const KernelArgs& args) {
    run_copy(plan->copy, args.operands[1] + plan->copy_from * 4, args.shared);
  };
  return kernel;
}

PreparedKernel prepare_planes_gradient(const ConvolutionSpec& spec) {
  std::optional<PlaneGradient> gradient = plane_gradient_of(spec);
  if (!gradient) return {};
  const int64_t bytes = gradient->out * gradient->planes.features * gradient->planes.taps() * 4;
  cut(*gradient, convolution_flops(spec), bytes);
  const auto plan = std::make_shared<const PlaneGradient>(*gradient);
  PreparedKernel kernel;
  kernel.cost = 1000 + convolution_flops(spec) / 150;
  kernel.scratch_bytes = scratch_of(*plan).bytes();
  const auto run = [plan](const KernelArgs& args, std::byte* to) {
    run_gradient_part(*plan, args.part, reinterpret_cast<const float*>(args.operands[0]),
                      reinterpret_cast<const float*>(args.operands[1]),
                      reinterpret_cast<float*>(to), reinterpret_cast<float*>(args.scratch));
  };
  if (plan->block_parts == 1) {
    kernel.parts = plan->feature_parts;
    kernel.run = [run](const KernelArgs& args) { run(args, args.results[0]); };
    return kernel;
  }
  kernel.prepare_parts = plan->feature_parts * plan->block_parts;
  kernel.prepare = [run, columns = plan->feature_parts,
                    step = summed_step(bytes)](const KernelArgs& args) {
    run(args, args.shared + args.part / columns * step);
  };
  sum_parts(kernel, plan->block_parts, bytes);
  return kernel;
}

}  // namespace gspmd
