#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("convolutions of any rank, layout, stride, padding, dilation and number of groups",
          "[api][numpy]") {
  const NumpyCases cases("convolution");
  cases.check("valid", [](Tensor x, Tensor k) { return conv(x, k, "NHWC,HWIO->NHWC"); });
  cases.check("same", [](Tensor x, Tensor k) {
    return conv(x, k, "NHWC,HWIO->NHWC", {.strides = {2, 1}, .padding = Padding::same});
  });
  cases.check("dilated", [](Tensor x, Tensor k) {
    return conv(x, k, "NHWC,HWIO->NHWC",
                {.strides = {1, 2},
                 .padding = {{2, 1}, {0, 3}},
                 .dilation = {2, 3},
                 .input_dilation = {2, 1}});
  });
  cases.check("channels_first", [](Tensor x, Tensor k) {
    return conv(x, k, "NCHW,OIHW->NCHW", {.padding = {{1, 1}, {1, 1}}});
  });
  cases.check("grouped",
              [](Tensor x, Tensor k) { return conv(x, k, "NHWC,HWIO->NHWC", {.groups = 2}); });
  cases.check("depthwise",
              [](Tensor x, Tensor k) { return conv(x, k, "NHWC,HWIO->NHWC", {.groups = 4}); });
  cases.check("one_dim", [](Tensor x, Tensor k) {
    return conv(x, k, "NxC,xIO->NxC", {.strides = {2}, .padding = {{1, 0}}});
  });
  cases.check("no_dim", [](Tensor x, Tensor k) { return conv(x, k, "NC,IO->NC"); });
  cases.check("three_dims", [](Tensor x, Tensor k) { return conv(x, k, "NxyzC,xyzIO->NxyzC"); });
  cases.check("empty_batch", [](Tensor x, Tensor k) { return conv(x, k, "NHWC,HWIO->NHWC"); });
}

TEST_CASE("transposed convolutions are those of jax.lax.conv_transpose", "[api][numpy]") {
  const NumpyCases cases("convolution");
  cases.check("transpose_same", [](Tensor x, Tensor k) {
    return conv_transpose(x, k, "NHWC,HWIO->NHWC", {.strides = {2, 3}});
  });
  cases.check("transpose_valid", [](Tensor x, Tensor k) {
    return conv_transpose(x, k, "NHWC,HWIO->NHWC", {.strides = {1, 2}, .padding = Padding::valid});
  });
  cases.check("transpose_kernel", [](Tensor x, Tensor k) {
    return conv_transpose(x, k, "NHWC,HWIO->NHWC", {.strides = {2, 2}, .transpose_kernel = true});
  });
}

TEST_CASE("pools and windows give what their definition says", "[api][numpy]") {
  const NumpyCases cases("convolution");
  cases.check("max_pool", [](Tensor x) {
    return max_pool(x, {2, 3}, {.strides = {2, 1}, .padding = Padding::same});
  });
  cases.check("max_pool_nan", [](Tensor x) {
    return max_pool(x, {2, 3}, {.strides = {2, 1}, .padding = Padding::same});
  });
  cases.check("avg_pool", [](Tensor x) {
    return avg_pool(x, {3, 2}, {.strides = {1, 2}, .padding = {{1, 1}, {0, 0}}});
  });
  cases.check("avg_pool_inside", [](Tensor x) {
    return avg_pool(x, {3, 2}, {.padding = {{1, 1}, {0, 0}}, .count_include_pad = false});
  });
  const auto greater = [](Tensor a, Tensor b) { return maximum(maximum(a, b), 0.25); };
  cases.check("reduce_window", [&](Tensor x) {
    return reduce_window(x, -9., greater, {2, 3, 1},
                         {.strides = {1, 2, 1},
                          .padding = {{1, 0}, {0, 2}, {0, 0}},
                          .base_dilation = {1, 2, 1},
                          .window_dilation = {2, 1, 1}});
  });
}

TEST_CASE("batch groups are convolutions of parts of the batch, one behind the other", "[api]") {
  const Array x = random_array({DType::f64, {4, 5, 2}}, 1);
  const Array k = random_array({DType::f64, {3, 2, 6}}, 2);
  const char* layout = "NxC,xIO->NxC";
  const auto grouped = [&](Tensor a, Tensor b) { return conv(a, b, layout, {.batch_groups = 2}); };
  const auto apart = [&](Tensor a, Tensor b) {
    return concatenate({conv(a(range(0, 2)), b(ellipsis, range(0, 3)), layout),
                        conv(a(range(2, 4)), b(ellipsis, range(3, 6)), layout)},
                       2);
  };
  CHECK(expect_close({run(grouped, x, k)}, {run(apart, x, k)}, {1e-12, 1e-12}).message == "");
}
