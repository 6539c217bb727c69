// Convolutions of groups of features, and gradients of their kernels, against the sums that define
// them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "gspmd/base/shape.h"
#include "kernels/convolution_sums.h"
#include "kernels/group_planes.h"
#include "kernels/run_kernel.h"
#include "kernels/walled.h"

namespace gspmd {
namespace {

struct GroupNumbers {
  std::mt19937_64 engine;
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_in(int64_t n) { return (*this)(1, n) == 1; }
  Array array(DType dtype, int64_t size) {
    Array a(Shape(dtype, {size}));
    for (int64_t i = 0; i < size; ++i) a.set(i, static_cast<double>((*this)(-4, 4)));
    return a;
  }
};

// Dims of an array: features last, or first, or in any order.
std::vector<int64_t> steps_in_some_order(GroupNumbers& random, const std::vector<int64_t>& sizes) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const int64_t kind = random(0, 2);
  if (kind == 0) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  if (kind == 1) std::shuffle(order.begin(), order.end(), random.engine);
  return dense_steps(order, sizes);
}

void lie_somehow(GroupNumbers& random, ConvolutionCase& c) {
  ConvolutionSpec& s = c.spec;
  std::vector<int64_t> input{s.batch * s.batch_groups, s.in_features * s.feature_groups};
  std::vector<int64_t> kernel{s.out_features, s.in_features}, result{s.batch, s.out_features};
  for (const ConvolutionAxis& a : s.axes) {
    input.push_back(a.input);
    kernel.push_back(a.kernel);
    result.push_back(a.output);
  }
  const auto in = steps_in_some_order(random, input), by = steps_in_some_order(random, kernel),
             out = steps_in_some_order(random, result);
  s.input_batch = in[0], s.input_feature = in[1];
  s.kernel_output = by[0], s.kernel_input = by[1];
  s.output_batch = out[0], s.output_feature = out[1];
  for (size_t i = 0; i < s.axes.size(); ++i) {
    s.axes[i].input_step = in[i + 2];
    s.axes[i].kernel_step = by[i + 2];
    s.axes[i].output_step = out[i + 2];
  }
  c.input = count_of_sizes(input), c.kernel = count_of_sizes(kernel);
  c.result = count_of_sizes(result);
}

void take_types(GroupNumbers& random, ConvolutionSpec& s) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  s.operand = kTypes[random(0, 2)];
  s.result = random.one_in(4) ? DType::f32 : s.operand;
}

int64_t features_of_group(GroupNumbers& random) {
  return random.one_in(5) ? random(10, 40) : random(1, 9);
}

ConvolutionCase group_case(GroupNumbers& random) {
  ConvolutionCase c;
  ConvolutionSpec& s = c.spec;
  take_types(random, s);
  const int64_t groups = random(2, 19), axes = random(1, 3);
  s.batch = random(1, 3);
  s.in_features = features_of_group(random);
  s.out_features = groups * features_of_group(random);
  (random.one_in(5) ? s.batch_groups : s.feature_groups) = groups;
  while (static_cast<int64_t>(s.axes.size()) < axes) {
    ConvolutionAxis a;
    a.input = random(1, axes == 1 ? 90 : axes == 2 ? 17 : 5);
    a.kernel = random(1, 4);
    a.pad_low = random(-2, 5);
    a.output = random(1, a.input + 3);
    a.stride = random.one_in(3) ? random(2, 3) : 1;
    a.base_dilation = random.one_in(4) ? random(2, 4) : 1;
    a.window_dilation = random.one_in(4) ? random(2, 3) : 1;
    a.reversal = random.one_in(4);
    s.axes.push_back(a);
  }
  lie_somehow(random, c);
  return c;
}

ConvolutionCase gradient_case(GroupNumbers& random) {
  ConvolutionCase c;
  ConvolutionSpec& s = c.spec;
  take_types(random, s);
  const int64_t axes = random(1, 3);
  s.batch_groups = random(2, 19);
  s.batch = features_of_group(random);
  s.in_features = random(1, 5);  // images
  s.out_features = s.batch_groups * features_of_group(random);
  while (static_cast<int64_t>(s.axes.size()) < axes) {
    ConvolutionAxis a;
    a.input = random(2, axes == 1 ? 90 : axes == 2 ? 17 : 5);
    a.kernel = random(2, a.input + 2);
    a.output = random(1, 4);
    a.pad_low = random(-1, 4);
    a.stride = random.one_in(4) ? 2 : 1;
    a.window_dilation = random.one_in(3) ? random(2, 3) : 1;
    s.axes.push_back(a);
  }
  lie_somehow(random, c);
  return c;
}

void check_case(const ConvolutionCase& c, const PreparedKernel& kernel, const Array& x,
                const Array& w) {
  const Array expected = convolution_sums(c, x, w);
  for (const bool before : {true, false})
    CHECK(bitwise_equal(run_kernel(kernel, {walled(x, before), walled(w, before)},
                                   {Shape(c.spec.result, {c.result})})[0],
                        expected));
}

}  // namespace

TEST_CASE("convolutions of groups are the sums that define them", "[convolution]") {
  GroupNumbers random{std::mt19937_64(21)};
  int taken = 0;
  for (int n = 0; n < 400; ++n) {
    const ConvolutionCase c = group_case(random);
    const PreparedKernel kernel = prepare_group_convolution(c.spec);
    if (!kernel.run) continue;
    ++taken;
    INFO("case " << n);
    check_case(c, kernel, random.array(c.spec.operand, c.input),
               random.array(c.spec.operand, c.kernel));
  }
  CHECK(taken > 300);
}

TEST_CASE("gradients of kernels of groups are the sums that define them", "[convolution]") {
  GroupNumbers random{std::mt19937_64(22)};
  int taken = 0;
  for (int n = 0; n < 240; ++n) {
    const ConvolutionCase c = gradient_case(random);
    const PreparedKernel kernel = prepare_group_gradient(c.spec);
    if (!kernel.run) continue;
    ++taken;
    INFO("case " << n);
    check_case(c, kernel, random.array(c.spec.operand, c.input),
               random.array(c.spec.operand, c.kernel));
  }
  CHECK(taken > 120);
}

// Images too large for a block of rows, so that several are laid out.
TEST_CASE("convolutions of groups go through large images in blocks", "[convolution]") {
  GroupNumbers random{std::mt19937_64(23)};
  for (const int64_t axes : {2, 3})
    for (const bool gradient : {false, true}) {
      ConvolutionCase c;
      ConvolutionSpec& s = c.spec;
      const int64_t side = axes == 2 ? 60 : 13;
      s.out_features = 3 * 9;
      (gradient ? s.batch_groups : s.feature_groups) = 3;
      (gradient ? s.batch : s.in_features) = 9;
      for (int64_t i = 0; i < axes; ++i) {
        ConvolutionAxis a;
        a.input = side + i;
        a.kernel = gradient ? side + i : 3;
        a.output = gradient ? 3 : side + i;
        a.pad_low = 1;
        s.axes.push_back(a);
      }
      lie_somehow(random, c);
      INFO("axes " << axes << ", gradient " << gradient);
      const PreparedKernel kernel =
          gradient ? prepare_group_gradient(s) : prepare_group_convolution(s);
      REQUIRE(kernel.run);
      check_case(c, kernel, random.array(s.operand, c.input), random.array(s.operand, c.kernel));
    }
}

TEST_CASE("infinities reach what a convolution of groups sums them into, and nothing else",
          "[convolution]") {
  GroupNumbers random{std::mt19937_64(24)};
  for (int n = 0; n < 60; ++n) {
    const bool gradient = n % 2 == 1;
    const ConvolutionCase c = gradient ? gradient_case(random) : group_case(random);
    const PreparedKernel kernel =
        gradient ? prepare_group_gradient(c.spec) : prepare_group_convolution(c.spec);
    if (!kernel.run) continue;
    Array x = random.array(c.spec.operand, c.input);
    const Array w = random.array(c.spec.operand, c.kernel);
    for (int i = 0; i < 3; ++i)
      x.set(random(0, c.input - 1), std::numeric_limits<double>::infinity());
    const Array expected = convolution_sums(c, x, w);
    const Array got = run_kernel(kernel, {x, w}, {Shape(c.spec.result, {c.result})})[0];
    INFO("case " << n);
    for (int64_t i = 0; i < c.result; ++i) {
      const double a = expected.at(i), b = got.at(i);
      if (a != b && !(std::isnan(a) && std::isnan(b))) FAIL_CHECK(i << ": " << b << ", not " << a);
    }
  }
}

}  // namespace gspmd
