// Convolutions of channels first, and gradients of their kernels, against the sums that define
// them.
#include "kernels/convolution_planes.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "gspmd/base/shape.h"
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

// A spec and how many elements its arrays have.
struct PlaneCase {
  ConvolutionSpec spec;
  int64_t input = 1, kernel = 1, result = 1;
};

// Steps of a dense array whose dims are `sizes`, in the order that `order` says, major first.
std::vector<int64_t> steps_in(const std::vector<size_t>& order, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> steps(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    steps[order[i]] = step;
    step *= sizes[order[i]];
  }
  return steps;
}

int64_t all_of(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Of `axes` axes; windows as large as the images where `gradient` says so.
PlaneCase plane_case(PlaneNumbers& random, bool gradient) {
  PlaneCase c;
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
  const auto in = steps_in(of_input, input), by = steps_in(of_kernel, kernel),
             out = steps_in(of_result, result);
  s.input_batch = in[0], s.input_feature = in[1];
  s.kernel_output = by[0], s.kernel_input = by[1];
  s.output_batch = out[0], s.output_feature = out[1];
  for (size_t i = 0; i < s.axes.size(); ++i) {
    s.axes[i].input_step = in[i + 2];
    s.axes[i].kernel_step = by[i + 2];
    s.axes[i].output_step = out[i + 2];
  }
  c.input = all_of(input), c.kernel = all_of(kernel), c.result = all_of(result);
  return c;
}

// Calls f(index) for all indices below `sizes`.
template <class F>
void each_below(const std::vector<int64_t>& sizes, F&& f) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t n = all_of(sizes); n > 0; --n) {
    f(index);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

Array sums_of(const PlaneCase& c, const Array& x, const Array& w) {
  const ConvolutionSpec& s = c.spec;
  std::vector<double> sums(static_cast<size_t>(c.result), 0.0);
  std::vector<int64_t> positions, taps;
  for (const ConvolutionAxis& a : s.axes) positions.push_back(a.output), taps.push_back(a.kernel);
  each_below(positions, [&](const std::vector<int64_t>& o) {
    each_below(taps, [&](const std::vector<int64_t>& k) {
      int64_t from = 0, by = 0, to = 0;
      for (size_t i = 0; i < s.axes.size(); ++i) {
        const ConvolutionAxis& a = s.axes[i];
        const int64_t at = o[i] * a.stride + k[i] * a.window_dilation - a.pad_low;
        if (at < 0 || at >= a.input) return;
        from += at * a.input_step;
        by += (a.reversal ? a.kernel - 1 - k[i] : k[i]) * a.kernel_step;
        to += o[i] * a.output_step;
      }
      const auto *const xs = x.data<float>().data(), *const ws = w.data<float>().data();
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t f = 0; f < s.out_features; ++f)
          for (int64_t i = 0; i < s.in_features; ++i)
            sums[static_cast<size_t>(to + b * s.output_batch + f * s.output_feature)] +=
                double{xs[from + b * s.input_batch + i * s.input_feature]} *
                double{ws[by + f * s.kernel_output + i * s.kernel_input]};
    });
  });
  Array y(Shape(DType::f32, {c.result}));
  for (int64_t i = 0; i < c.result; ++i) y.set(i, sums[static_cast<size_t>(i)]);
  return y;
}

void check_planes(bool gradient, int count, int least) {
  PlaneNumbers random{std::mt19937_64(gradient ? 11 : 12)};
  int taken = 0;
  for (int n = 0; n < count; ++n) {
    const PlaneCase c = plane_case(random, gradient);
    const PreparedKernel kernel =
        gradient ? prepare_planes_gradient(c.spec) : prepare_planes(c.spec);
    if (!kernel.run) continue;
    ++taken;
    const Array x = random.array(c.input), w = random.array(c.kernel);
    INFO("case " << n);
    const Array expected = sums_of(c, x, w);
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
