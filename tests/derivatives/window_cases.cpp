#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kLine = f64({3, 5, 2}, 13, -1, 1);  // n, x, c
const Array kLines = f64({2, 2, 2}, 14, -1, 1);
const Array kImage = f64({1, 3, 5, 2}, 15, -1, 1);
const Array kKernel = f64({2, 2, 2, 2}, 16, -1, 1);
const Array kWindowAt = f64({3, 5}, 17);

// As cases of the input and, with a constant input, of the kernel.
void add_both(std::vector<Case>& cases, const std::string& name, const Array& x,
              const Array& kernel, const std::function<Tensor(Tensor, Tensor)>& fn) {
  cases.push_back({name, [=](Tensor t) { return fn(t, constant(kernel)); }, x});
  cases.push_back({name + " (kernel)", [=](Tensor t) { return fn(constant(x), t); }, kernel});
}

std::vector<Case> convolutions() {
  std::vector<Case> cases;
  const auto form = [&](const std::string& name, const Array& x, const Array& kernel,
                        const char* layout, const ConvOptions& options) {
    add_both(cases, "conv: " + name, x, kernel,
             [=](Tensor a, Tensor b) { return conv(a, b, layout, options); });
  };
  form("same", kImage, kKernel, "NHWC,HWIO->NHWC", {.strides = {1, 2}, .padding = Padding::same});
  form("dilated", kLine, kLines, "NxC,xIO->NCx", {.padding = {{1, 2}}, .dilation = {2}});
  form("of spread inputs", kLine, kLines, "NxC,xIO->NxC",
       {.strides = {2}, .padding = {{-1, 3}}, .input_dilation = {3}});
  form("depthwise", kLine, f64({2, 1, 4}, 18, -1, 1), "NxC,xIO->NxC", {.groups = 2});
  form("in groups", kLine, f64({2, 1, 2}, 19, -1, 1), "NxC,xIO->CNx",
       {.strides = {2}, .groups = 2});
  form("in groups of the batch", f64({2, 5, 2}, 20, -1, 1), f64({3, 2, 2}, 21, -1, 1),
       "NxC,xIO->NxC", {.batch_groups = 2});
  const auto transposed = [&](const std::string& name, const ConvTransposeOptions& options) {
    add_both(cases, "conv_transpose: " + name, kLine, kLines,
             [=](Tensor a, Tensor b) { return conv_transpose(a, b, "NxC,xIO->NxC", options); });
  };
  transposed("same", {.strides = {2}});
  transposed("of a transposed kernel",
             {.strides = {2}, .padding = Padding::valid, .transpose_kernel = true});
  add_both(cases, "Conv", kLine, kLines, [](Tensor a, Tensor b) {
    return Conv<Tensor>{b, b(0, 0)}(a, {.strides = {2}});
  });
  return cases;
}

Tensor times(Tensor a, Tensor b) { return a * b; }

std::vector<Case> windows() {
  return {
      GSPMD_CASE("reduce_window", kWindowAt, reduce_window(t + 0.3, 1., times, {2, 3})),
      GSPMD_CASE("reduce_window: dilated", kWindowAt,
                 reduce_window(t, 0., [](Tensor a, Tensor b) { return a + b; }, {2, 2},
                               {.strides = {1, 2},
                                .padding = Padding::same,
                                .base_dilation = {1, 2},
                                .window_dilation = {2, 1}}) *
                     2.),
      GSPMD_CASE("max_pool", kImage, max_pool(t, {2, 2}, {.strides = {1, 2}})),
      GSPMD_CASE("max_pool: same", kLine,
                 max_pool(t, {3}, {.strides = {2}, .padding = Padding::same})),
      GSPMD_CASE("max_pool: dilated", kLine, max_pool(t, {2}, {.dilation = {2}, .layout = "NxC"})),
      GSPMD_CASE("avg_pool", kImage, avg_pool(t * t, {2, 2}, {.strides = {2, 1}})),
      GSPMD_CASE("avg_pool: without padding", kLine,
                 avg_pool(t * t, {3}, {.padding = Padding::same, .count_include_pad = false})),
  };
}

}  // namespace

std::vector<Case> window_cases() {
  std::vector<Case> cases = convolutions();
  for (Case& more : windows()) cases.push_back(more);
  return cases;
}

}  // namespace gspmd::test
