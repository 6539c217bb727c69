//! # 11. Spatial partitioning
//!
//! Large images and volumes do not fit on one device, even one at a time. So the image itself is
//! cut: each device has some rows of it. A convolution then needs a few rows of the neighbours, the
//! halo of [lesson 5](05_uneven_sizes.md), and sizes are rarely multiples of anything. The method
//! is that of [arXiv:2105.04663](https://arxiv.org/abs/2105.04663), 4.3.

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"rows", 4}};
constexpr int64_t kRows = 30, kColumns = 16, kChannels = 4;

//! ## A convolution
//!
//! `conv` slides a window over the dims between the batch and the channels: x is b,h,w,c and the
//! kernel h,w,c,d. Its strides make the image smaller, and the padding keeps an odd window in the
//! middle.

Tensor convolution(Tensor x, Tensor kernel, int64_t stride = 1) {
  const int64_t margin = kernel.dim(0) / 2;
  return conv(x, kernel, "NHWC,HWIO->NHWC",
              {.strides = {stride, stride}, .padding = {{margin, margin}, {margin, margin}}});
}

Shape image() { return Shape(DType::f32, {1, kRows, kColumns, kChannels}); }
Shape kernel(int64_t size) { return Shape(DType::f32, {size, size, kChannels, kChannels}); }

//! ## A convolution on cut rows
//!
//! 30 rows over 4 devices are 8, 8, 8 and 6. A window of 3 rows looks one row up and one row down:
//! two permutes, one in each direction, of one row each. A window of 5 looks two rows away.

Tensor one_layer(Tensor x, Tensor k) {
  return convolution(mesh_split(x, mesh, {_, "rows", _, _}), k);
}

void rows_of_the_neighbours() {
  const int64_t row = kColumns * kChannels * 4;  // bytes
  for (const int64_t size : {3, 5}) {
    const auto step = compile(one_layer, {.mesh = mesh, .prepare = false}, image(), kernel(size));
    CHECK(step.result_sharding(0) == sharding_of(mesh, {_, "rows", _, _}));
    int64_t permutes = 0;
    for (const CollectiveStats& c : step.stats().collectives) {
      CHECK(c.kind == "collective-permute");
      permutes += c.count;
    }
    CHECK(permutes == 2);
    CHECK(step.stats().collective_bytes == 2 * (size / 2) * row);
  }
}

//! Nothing in that depends on the number of devices or on the number of rows: a halo is as wide as
//! the window says. That is why cutting an image costs little when the image is large.
//!
//! ## Strides and uneven halos
//!
//! With a stride of 2, 30 rows become 15, in shards of 4, 4, 4 and 3. Rows of the result and of the
//! image no longer begin in step, so devices need halos of different widths. All devices run one
//! program, so each sends what the neediest one wants, cuts out its part by its position, and masks
//! what is not there.

void strides() {
  const auto layer = [](Tensor x, Tensor k) {
    return convolution(mesh_split(x, mesh, {_, "rows", _, _}), k, 2);
  };
  const Array x = random_normal_array(image(), 1), k = random_normal_array(kernel(3), 2);
  const auto step = compile(layer, {.mesh = mesh, .poison = true}, x, k);
  const Array y = step(x, k);
  CHECK(y.dims() == Dims{1, 15, 8, kChannels});
  CHECK(sharding_of(y) == sharding_of(mesh, {_, "rows", _, _}));
  CHECK(expect_close({y}, reference_results(layer, x, k), {1e-5, 1e-5}));
  for (const CollectiveStats& c : step.stats().collectives)
    show(fmt::format("{} over {}: {} bytes", c.kind, c.axes, c.bytes));
}

//! ## A small network
//!
//! Three layers, from one annotation: the cut of the rows is carried through convolutions, strides
//! and activations, and neither images nor activations are ever gathered. Only the loss, a mean
//! over everything, is summed over devices. Gradients need no more: those of the images take halos
//! the other way, and those of the kernels are sums over all rows, one all-reduce each.

Tensor loss(std::vector<Tensor> kernels, Tensor x) {
  x = mesh_split(x, mesh, {_, "rows", _, _});
  x = relu(convolution(x, kernels[0]));
  x = relu(convolution(x, kernels[1], 2));
  return mean(square(convolution(x, kernels[2])));
}

void a_small_network() {
  const std::vector<Array> kernels = {random_normal_array(kernel(3), 1),
                                      random_normal_array(kernel(3), 2),
                                      random_normal_array(kernel(5), 3)};
  const Array x = random_normal_array(image(), 4);
  const auto step = compile(loss, {.mesh = mesh}, kernels, x);
  std::map<std::string, int64_t> count;
  for (const CollectiveStats& c : step.stats().collectives) count[c.kind] += c.count;
  for (const auto& [kind, n] : count) show(fmt::format("{} x {}", n, kind));
  CHECK(count.size() == 2);
  CHECK(count.at("all-reduce") == 1);
  CHECK(count.at("collective-permute") == 5);  // two, one and two
  CHECK(expect_close({step(kernels, x)}, reference_results(loss, kernels, x), {1e-3, 1e-3}));

  const auto training = compile(grad(loss), {.mesh = mesh}, kernels, x);
  count.clear();
  for (const CollectiveStats& c : training.stats().collectives) count[c.kind] += c.count;
  for (const auto& [kind, n] : count) show(fmt::format("with gradients: {} x {}", n, kind));
  CHECK(count.count("all-gather") == 0);
  CHECK(
      expect_close(training(kernels, x), reference_results(grad(loss), kernels, x), {1e-3, 1e-3}));
}

//! ## Two cut dims
//!
//! Rows over one axis and columns over another: halos are exchanged one dim after the other, and
//! the second exchange sends what the first one has brought, so the corners come along. With two
//! parts per dim a device has one neighbour each way, and one permute does for a dim: a row of 8
//! columns, then a column of 15 rows and their 2 halo rows.

void two_cut_dims() {
  const Mesh grid{{"rows", 2}, {"columns", 2}};
  const auto layer = [&](Tensor x, Tensor k) {
    return convolution(mesh_split(x, grid, {_, "rows", "columns", _}), k);
  };
  const Array x = random_normal_array(image(), 1), k = random_normal_array(kernel(3), 2);
  const auto step = compile(layer, {.mesh = grid}, x, k);
  int64_t permutes = 0;
  for (const CollectiveStats& c : step.stats().collectives) permutes += c.count;
  CHECK(permutes == 2);
  CHECK(step.stats().collective_bytes == (8 + 15 + 2) * kChannels * 4);
  CHECK(expect_close({step(x, k)}, reference_results(layer, x, k), {1e-5, 1e-5}));
}

int main() {
  rows_of_the_neighbours();
  strides();
  a_small_network();
  two_cut_dims();
}
