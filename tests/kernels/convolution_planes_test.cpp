// Convolutions of channels first, and gradients of their kernels, against the sums that define
// them.
#include "kernels/convolution_planes.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "gspmd/base/shape.h"
#include "kernels/convolution_sums.h"
#include "kernels/run_kernel.h"
#include "kernels/walled.h"

namespace gspmd {
namespace {

struct PlaneNumbers {
  std::mt19937_64 engine;
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  Array array(int64_t size) {
    Array a(Shape(DType::f32, {size}));
    for (int64_t i = 0; i < size; ++i) a.set(i, static_cast<double>((*this)(-4, 4)));
    return a;
  }
};

// Of `axes` axes; windows as large as the images where `gradient` says so.
ConvolutionCase plane_case(PlaneNumbers& random, bool gradient) {
  ConvolutionCase c;
  ConvolutionSpec& s = c.spec;
  const int64_t axes = random(1, 3);
  s.batch = gradient ? random(6, 20) : random(1, 5);
  s.in_features = gradient ? random(1, 5) : random(6, 40);
  s.out_features = random(16, 50);
  std::vector<int64_t> input{s.batch, s.in_features}, kernel{s.out_features, s.in_features},
      result{s.batch, s.out_features};
  while (static_cast<int64_t>(s.axes.size()) < axes) {
    ConvolutionAxis a;
    const int64_t most = axes == 1 ? 600 : axes == 2 ? 24 : 7;
    a.input = random(gradient ? 5 : 1, random(0, 1) == 0 ? most : 12);
    a.pad_low = random(-1, 3);
    const int64_t taps = random(1, 4), positions = random(1, a.input + 2);
    a.kernel = gradient ? positions : taps;
    a.output = gradient ? taps : positions;
    (gradient ? a.window_dilation : a.stride) = random(0, 2) == 0 ? random(2, 3) : 1;
    (gradient ? a.stride : a.window_dilation) = random(0, 3) == 0 ? 2 : 1;
    a.reversal = !gradient && random(0, 4) == 0;
    s.axes.push_back(a);
    input.push_back(a.input);
    kernel.push_back(a.kernel);
    result.push_back(a.output);
  }
  std::vector<size_t> order(input.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<size_t> of_input = order, of_kernel = order, of_result = order;
  if (random(0, 2) == 0) std::swap(of_input[0], of_input[1]);
  if (!gradient && random(0, 1) == 0)
    std::shuffle(of_kernel.begin(), of_kernel.end(), random.engine);
  if (gradient ? random(0, 3) != 0 : random(0, 2) == 0) std::swap(of_result[0], of_result[1]);
  const auto in = dense_steps(of_input, input), by = dense_steps(of_kernel, kernel),
             out = dense_steps(of_result, result);
  s.input_batch = in[0], s.input_feature = in[1];
  s.kernel_output = by[0], s.kernel_input = by[1];
  s.output_batch = out[0], s.output_feature = out[1];
  for (size_t i = 0; i < s.axes.size(); ++i) {
    s.axes[i].input_step = in[i + 2];
    s.axes[i].kernel_step = by[i + 2];
    s.axes[i].output_step = out[i + 2];
  }
  c.input = count_of_sizes(input), c.kernel = count_of_sizes(kernel),
  c.result = count_of_sizes(result);
  return c;
}

void check_planes(bool gradient, int count, int least) {
  PlaneNumbers random{std::mt19937_64(gradient ? 11 : 12)};
  int taken = 0;
  for (int n = 0; n < count; ++n) {
    const ConvolutionCase c = plane_case(random, gradient);
    const PreparedKernel kernel =
        gradient ? prepare_planes_gradient(c.spec) : prepare_planes(c.spec);
    if (!kernel.run) continue;
    ++taken;
    const Array x = random.array(c.input), w = random.array(c.kernel);
    INFO("case " << n);
    const Array expected = convolution_sums(c, x, w);
    for (const bool before : {true, false})
      CHECK(bitwise_equal(run_kernel(kernel, {walled(x, before), walled(w, before)},
                                     {Shape(DType::f32, {c.result})})[0],
                          expected));
  }
  INFO(taken << " of " << count);
  CHECK(taken > least);
}

}  // namespace

TEST_CASE("convolutions of channels first are the sums that define them", "[convolution]") {
  check_planes(false, 300, 150);
}

TEST_CASE("gradients of kernels of channels first are the sums that define them", "[convolution]") {
  check_planes(true, 200, 60);
}

}  // namespace gspmd
