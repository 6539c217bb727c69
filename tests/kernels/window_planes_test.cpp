// Depthwise convolutions, channels first and last, and pools that sum, against the sums that define
// them.
#include "kernels/window_planes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "gspmd/base/shape.h"
#include "kernels/convolution_sums.h"
#include "kernels/depthwise_rows.h"
#include "kernels/run_kernel.h"
#include "kernels/walled.h"

namespace gspmd {
namespace {

struct WindowNumbers {
  std::mt19937_64 engine;
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  // Sums of their products are exact in f32; many of them lie half-way between two bf16.
  Array whole(int64_t size, DType dtype) {
    Array a(Shape(dtype, {size}));
    for (int64_t i = 0; i < size; ++i) a.set(i, static_cast<double>((*this)(-20, 20)));
    return a;
  }
};

ConvolutionCase depthwise_case(WindowNumbers& random, bool features_last) {
  ConvolutionCase c;
  ConvolutionSpec& s = c.spec;
  const int64_t axes = random(1, 3);
  s.batch = random(1, 3);
  s.feature_groups = random(2, features_last ? 40 : 9);
  s.out_features = s.feature_groups * (features_last ? 1 : random(1, 2));
  std::vector<int64_t> input{s.batch, s.feature_groups}, kernel{s.out_features},
      result{s.batch, s.out_features};
  for (int64_t i = 0; i < axes; ++i) {
    ConvolutionAxis a;
    a.input = random(1, axes == 1 ? 90 : axes == 2 ? 40 : 10);
    a.kernel = random(1, axes == 3 ? 3 : 5);
    a.output = random(1, a.input + 3);
    a.pad_low = random(-1, 4);
    a.stride = random(0, 1) == 0 ? 1 : random(2, 4);
    a.window_dilation = random(0, 2) == 0 ? random(2, 3) : 1;
    a.reversal = random(0, 3) == 0;
    s.axes.push_back(a);
    input.push_back(a.input);
    kernel.push_back(a.kernel);
    result.push_back(a.output);
  }
  std::vector<size_t> order(input.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<size_t> of_kernel(order.begin(), order.end() - 1);
  if (random(0, 1) == 0) std::shuffle(of_kernel.begin(), of_kernel.end(), random.engine);
  if (features_last) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  const auto in = dense_steps(order, input), by = dense_steps(of_kernel, kernel),
             out = dense_steps(order, result);
  s.input_batch = in[0], s.input_feature = in[1];
  s.kernel_output = by[0], s.kernel_input = 1;
  s.output_batch = out[0], s.output_feature = out[1];
  for (size_t i = 0; i < s.axes.size(); ++i) {
    s.axes[i].input_step = in[i + 2];
    s.axes[i].kernel_step = by[i + 1];
    s.axes[i].output_step = out[i + 2];
  }
  c.input = count_of_sizes(input), c.kernel = count_of_sizes(kernel),
  c.result = count_of_sizes(result);
  return c;
}

using PrepareConvolution = PreparedKernel (*)(const ConvolutionSpec& spec);

void check_depthwise(PrepareConvolution prepare, bool features_last, DType operand, DType result) {
  WindowNumbers random{std::mt19937_64(features_last ? 21 : 22)};
  const int count = 250;
  int taken = 0;
  for (int n = 0; n < count; ++n) {
    ConvolutionCase c = depthwise_case(random, features_last);
    c.spec.operand = operand;
    c.spec.result = result;
    const PreparedKernel kernel = prepare(c.spec);
    if (!kernel.run) continue;
    ++taken;
    const Array x = random.whole(c.input, operand), w = random.whole(c.kernel, operand);
    INFO("case " << n);
    const Array expected = convolution_sums(c, x, w);
    for (const bool before : {true, false})
      CHECK(bitwise_equal(
          run_kernel(kernel, {walled(x, before), walled(w, before)}, {expected.shape()})[0],
          expected));
  }
  INFO(taken << " of " << count);
  CHECK(taken > (features_last ? count - 1 : count / 2));
}

}  // namespace

TEST_CASE("depthwise convolutions of channels last are the sums that define them",
          "[convolution]") {
  check_depthwise(prepare_depthwise_rows, true, DType::f32, DType::f32);
  check_depthwise(prepare_depthwise_rows, true, DType::bf16, DType::bf16);
  check_depthwise(prepare_depthwise_rows, true, DType::bf16, DType::f32);
  check_depthwise(prepare_depthwise_rows, true, DType::f16, DType::f16);
  check_depthwise(prepare_depthwise_rows, true, DType::f16, DType::f32);
}

// Results past the caches, where whole vectors fit into their rows, and where they do not.
TEST_CASE("large depthwise convolutions of channels last are the sums that define them",
          "[convolution]") {
  WindowNumbers random{std::mt19937_64(23)};
  for (const int64_t features : {64, 72}) {
    constexpr int64_t kRows = 130, kColumns = 131, kImages = 2;
    ConvolutionCase c;
    ConvolutionSpec& s = c.spec;
    s.operand = s.result = DType::f32;
    s.batch = kImages;
    s.feature_groups = s.out_features = features;
    s.input_batch = s.output_batch = kRows * kColumns * features;
    s.input_feature = s.output_feature = s.kernel_output = s.kernel_input = 1;
    ConvolutionAxis rows, columns;
    rows.input = rows.output = kRows, columns.input = columns.output = kColumns;
    rows.input_step = rows.output_step = kColumns * features;
    columns.input_step = columns.output_step = features;
    rows.kernel = columns.kernel = 3, rows.pad_low = columns.pad_low = 1;
    rows.kernel_step = 3 * features, columns.kernel_step = features;
    s.axes = {rows, columns};
    c.input = c.result = kImages * kRows * kColumns * features, c.kernel = 9 * features;
    const Array x = random.whole(c.input, DType::f32), w = random.whole(c.kernel, DType::f32);
    const Array expected = convolution_sums(c, x, w);
    INFO(features << " features");
    CHECK(bitwise_equal(run_kernel(prepare_depthwise_rows(s), {x, w}, {expected.shape()})[0],
                        expected));
  }
}

TEST_CASE("depthwise convolutions of channels first are the sums that define them",
          "[convolution]") {
  check_depthwise(prepare_depthwise_planes, false, DType::f32, DType::f32);
}

namespace {

struct PoolCase {
  PoolSpec spec;
  int64_t input = 1, result = 1;
};

// Windows over the last of the dims, as HLO describes them.
PoolCase pool_case(WindowNumbers& random, DType dtype) {
  PoolCase c;
  c.spec.dtype = dtype;
  c.spec.op = PoolOp::sum;
  const int64_t apart = random(0, 2), axes = random(1, 3);
  for (int64_t d = 0; d < apart + axes; ++d) {
    PoolAxis axis;
    const bool alone = d < apart;
    const int64_t input = random(1, alone ? 4 : axes == 1 ? 90 : axes == 2 ? 40 : 10);
    const int64_t taps = alone ? 1 : random(1, 4), stride = alone ? 1 : random(1, 3);
    const int64_t dilation = random(0, 2) == 0 && !alone ? 2 : 1, pad = alone ? 0 : random(-1, 3);
    const int64_t positions = alone ? input : random(1, input + 2);
    for (int64_t p = 0; p < positions; ++p) {
      PoolRun run{0, dilation, 0};
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t at = p * stride + k * dilation - pad;
        if (at < 0 || at >= input) continue;
        if (run.count++ == 0) run.first = at;
      }
      axis.positions.push_back(run);
    }
    for (PoolAxis& outer : c.spec.axes) outer.step *= input;
    c.spec.axes.push_back(std::move(axis));
    c.input *= input;
    c.result *= positions;
  }
  return c;
}

// Element after element.
template <class T>
Array pooled_in_turn(const PoolCase& c, const Array& x, T init) {
  std::vector<int64_t> positions;
  for (const PoolAxis& axis : c.spec.axes) positions.push_back(std::ssize(axis.positions));
  Array y(Shape(c.spec.dtype, {c.result}));
  T* to = y.data<T>().data();
  each_index(positions, [&](const std::vector<int64_t>& p) {
    T sum = init;
    std::vector<int64_t> counts;
    for (size_t d = 0; d < p.size(); ++d)
      counts.push_back(c.spec.axes[d].positions[static_cast<size_t>(p[d])].count);
    each_index(counts, [&](const std::vector<int64_t>& k) {
      int64_t at = 0;
      for (size_t d = 0; d < p.size(); ++d) {
        const PoolRun& run = c.spec.axes[d].positions[static_cast<size_t>(p[d])];
        at += (run.first + k[d] * run.step) * c.spec.axes[d].step;
      }
      sum = static_cast<T>(sum + x.data<T>()[static_cast<size_t>(at)]);
    });
    *to++ = sum;
  });
  return y;
}

template <class T>
void check_pools(DType dtype) {
  WindowNumbers random{std::mt19937_64(31)};
  const int count = 250;
  int taken = 0;
  for (int n = 0; n < count; ++n) {
    const PoolCase c = pool_case(random, dtype);
    const PreparedKernel kernel = prepare_pool_planes(c.spec);
    if (!kernel.run) continue;
    ++taken;
    Array x(Shape(dtype, {c.input})), init(Shape(dtype, {}));
    for (T& e : x.data<T>())  // sums depend on the order; zeros of both signs
      e = static_cast<T>(random(0, 5) == 0 ? -0.0 : static_cast<double>(random(-999, 999)) / 7);
    if (n % 7 == 0 && std::is_floating_point_v<T>)
      x.set(random(0, c.input - 1), std::numeric_limits<double>::infinity());
    init.set(0, n % 3 == 0 ? 1.25 : n % 3 == 1 ? 0.0 : -0.0);
    INFO("case " << n);
    const Array expected = pooled_in_turn<T>(c, x, init.data<T>()[0]);
    for (const bool before : {true, false})
      CHECK(bitwise_equal(run_kernel(kernel, {walled(x, before), init}, {expected.shape()})[0],
                          expected));
  }
  INFO(taken << " of " << count);
  CHECK(taken > count / 2);
}

}  // namespace

TEST_CASE("pools that sum planes add in the order of their windows", "[pool]") {
  check_pools<float>(DType::f32);
  check_pools<double>(DType::f64);
  check_pools<int32_t>(DType::s32);
}

TEST_CASE("depthwise convolutions keep what is not finite where it is read", "[convolution]") {
  ConvolutionSpec spec;
  spec.operand = spec.result = DType::bf16;
  spec.feature_groups = spec.out_features = 3;
  spec.input_feature = spec.output_feature = spec.kernel_output = 1;
  ConvolutionAxis axis;
  axis.input = 12, axis.kernel = 2, axis.output = 12, axis.pad_low = 1;
  axis.input_step = axis.kernel_step = axis.output_step = 3;
  spec.axes = {axis};
  Array x = Array::full(Shape(DType::bf16, {36}), 1), w = Array::full(Shape(DType::bf16, {6}), 1);
  x.set(3 * 5 + 1, std::numeric_limits<double>::quiet_NaN());
  x.set(3 * 8 + 2, std::numeric_limits<double>::infinity());
  w.set(0, std::numeric_limits<double>::infinity());  // position 0 does not read it
  const Array y = run_kernel(prepare_depthwise_rows(spec), {x, w}, {x.shape()})[0];
  CHECK(y.at(0) == 1);
  for (int64_t p = 0; p < 12; ++p) {
    INFO(p);
    if (p > 0) CHECK(std::isinf(y.at(3 * p)));
    CHECK(std::isnan(y.at(3 * p + 1)) == (p == 5 || p == 6));
    CHECK(std::isinf(y.at(3 * p + 2)) == (p == 8 || p == 9));
  }
}

}  // namespace gspmd
