//! # 12. Manual regions
//!
//! Sometimes you want to say what each device does, and not what all of them compute together.
//! Batch normalisation is an example: statistics over the whole batch need communication in every
//! layer, so most systems take those of each device's part. That is another function, not another
//! layout, so no annotation can say it. A *manual region* can. JAX calls it `shard_map`.

#include "gspmd/gspmd.h"
#include "gspmd/ir/text.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"data", 4}, {"model", 2}};
const Shape kBatch(DType::f32, {16, 6});

//! ## Automatic
//!
//! Written on whole tensors, the mean is that of the whole batch. Where the batch is cut, that is a
//! sum over devices: one all-reduce for the mean, one for the variance.

Tensor normalized(Tensor x) {  // b,m: every column gets mean 0 and variance 1
  const Tensor centred = x - mean(x, {.axes = 0, .keep_dims = true});
  return centred * rsqrt(mean(square(centred), {.axes = 0, .keep_dims = true}) + 1e-6);
}

Tensor over_the_batch(Tensor x) { return normalized(mesh_split(x, mesh, {"data", _})); }

void automatic() {
  const auto step = compile(over_the_batch, {.mesh = mesh, .prepare = false}, kBatch);
  CHECK(step.stats().collective_count == 2);
  for (const CollectiveStats& c : step.stats().collectives) CHECK(c.axes == "data");
}

//! ## Manual
//!
//! Between `auto_to_manual` and `manual_to_auto` a tensor is what one device has. The layout
//! outside is given on both sides, and the axes that become manual: here `data`. Note the shapes:
//! 16 rows outside, 4 inside. The same function now normalises the rows of a device, and sends
//! nothing.

Tensor per_device(Tensor x) {
  const Tensor part = auto_to_manual(x, mesh, {"data", _}, {"data"});
  CHECK(part.dims() == Dims{4, 6});
  return manual_to_auto(normalized(part), mesh, {"data", _}, {"data"});
}

void manual() {
  const Array x = random_normal_array(kBatch, 1);
  const auto step = compile(per_device, {.mesh = mesh}, x);
  CHECK(step.stats().collective_count == 0);
  const Array y = step(x);
  CHECK(y.dims() == Dims{16, 6});

  double first_four = 0, all = 0;  // of the first column
  for (int64_t row = 0; row < 16; ++row) {
    all += y.at(row * 6);
    if (row < 4) first_four += y.at(row * 6);
  }
  CHECK(std::abs(first_four) < 1e-5);  // the mean of each device's rows is zero
  CHECK(std::abs(all) < 1e-5);
}

//! And it is another function: the numbers differ from those of the whole batch.

void another_function() {
  const Array x = random_normal_array(kBatch, 1);
  const Array whole = compile(over_the_batch, {.mesh = mesh}, x)(x);
  const Array parts = compile(per_device, {.mesh = mesh}, x)(x);
  CHECK(!expect_close({parts}, {whole}, {1e-2, 1e-2}));
}

//! ## Manual on some axes, automatic on the others
//!
//! Only `data` is manual above. Along `model` the region is still automatic: a product inside it is
//! partitioned as always, and its partial sums are added up over `model` alone.

void mixed() {
  const auto layer = [](Tensor x, Tensor w) {
    const Tensor part = auto_to_manual(x, mesh, {"data", "model"}, {"data"});
    CHECK(part.dims() == Dims{4, 6});  // cut by `data` only, as far as the code sees
    const Tensor weight = auto_to_manual(w, mesh, {"model", _}, {"data"});
    return manual_to_auto(einsum("bm,mn->bn", normalized(part), weight), mesh, {"data", _},
                          {"data"});
  };
  const auto step =
      compile(layer, {.mesh = mesh, .prepare = false}, kBatch, Shape(DType::f32, {6, 8}));
  CHECK(step.stats().collectives.size() == 1);
  CHECK(step.stats().collectives[0].kind == "all-reduce");
  CHECK(step.stats().collectives[0].axes == "model");
}

//! ## A collective of your own, and its gradient
//!
//! Inside of a region the code may communicate. Any HLO operation can be written as text and called
//! ([lesson 11](11_spatial_partitioning.md)), collectives too. Here each device holds 4 of the 16
//! rows of a matrix, and gathers all of them before it multiplies: what fully sharded training does
//! for each layer. Device ids count `model` first, so that a row of `data` is 0, 2, 4, 6.

Tensor gathered(Tensor rows) {  // [4,8] on each device -> [16,8]
  const auto module = parse_module(
      "HloModule gather, num_partitions=8\n"
      "ENTRY main {\n"
      "  rows = f32[4,8] parameter(0)\n"
      "  ROOT whole = f32[16,8] all-gather(rows), channel_id=1, dimensions={0},\n"
      "    replica_groups={{0,2,4,6},{1,3,5,7}}, use_global_device_ids=true\n"
      "}\n");
  return call_hlo(*module, {rows}).at(0);
}

Tensor by_hand(Tensor w, Tensor x) {  // w is m,n and x b,m; both cut into rows
  const Tensor rows = auto_to_manual(w, mesh, {"data", _}, {"data"});
  const Tensor part = auto_to_manual(x, mesh, {"data", _}, {"data"});
  const Tensor y = einsum("bm,mn->bn", part, gathered(rows));
  return sum(square(manual_to_auto(y, mesh, {"data", _}, {"data"})));
}

//! The transpose of a gather is a sum that leaves each device its rows, a *reduce-scatter*. Nobody
//! wrote it; the gradient by `w` is the same as that of the product without a region, forward and
//! backward.

void a_collective_and_its_gradient() {
  const Array w = random_normal_array(Shape(DType::f32, {16, 8}), 2);
  const Array x = random_normal_array(Shape(DType::f32, {16, 16}), 3);
  const auto step = compile(value_and_grad(by_hand), {.mesh = mesh}, w, x);
  for (const CollectiveStats& c : step.stats().uncombined)
    show(fmt::format("{}: {} over {}", c.backward ? "backward" : "forward", c.kind, c.axes));

  const auto plain = [](Tensor a, Tensor b) { return sum(square(einsum("bm,mn->bn", b, a))); };
  const auto [value, gradient] = step(w, x);
  CHECK(expect_close({value, gradient}, reference_results(value_and_grad(plain), w, x),
                     {1e-4, 1e-3}));
}

//! ## The border is checked
//!
//! What becomes manual has to divide, because a device's code sees its shape: there is no place for
//! a tail.

void the_border_is_checked() {
  show(error_of([] { trace(per_device, Shape(DType::f32, {18, 6})); }));
}

int main() {
  automatic();
  manual();
  another_function();
  mixed();
  a_collective_and_its_gradient();
  the_border_is_checked();
}
