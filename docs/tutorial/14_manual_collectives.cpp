//! # 14. Manual collectives
//!
//! Lesson 12 let each device work by itself. Here devices talk: you write the collectives. It is
//! rarely needed, since partitioning writes them for you, but sometimes you know an order of work
//! that no annotation says: which block comes next round a ring, for instance.
//!
//! `shard_map` makes a function of whole tensors from a function of one device's parts. Names are
//! those of JAX.

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"data", 4}, {"model", 2}};
const Array x = random_normal_array({DType::f32, {8, 6}}, 1);
const Array w = random_normal_array({DType::f32, {6, 10}}, 2);

//! ## Parts in, parts out
//!
//! Batch normalisation again, this time with the statistics of the whole batch. A device has two of
//! the eight rows, so the means of the parts are averaged: `pmean` over `data`.
//!
//! `in_specs` has a layout for each argument, `out_specs` one for the result, written as for
//! `mesh_split`. The last argument names the axes that are manual; `model` stays automatic.

Tensor normalized(Tensor part) {
  CHECK(part.dims() == Dims{2, 6});
  const Tensor centred = part - pmean(mean(part, {.axes = 0, .keep_dims = true}), "data");
  const Tensor variance = pmean(mean(square(centred), {.axes = 0, .keep_dims = true}), "data");
  return centred * rsqrt(variance + 1e-6);
}

void statistics_of_the_whole_batch() {
  const auto whole = [](Tensor t) {
    const Tensor centred = t - mean(t, {.axes = 0, .keep_dims = true});
    return centred * rsqrt(mean(square(centred), {.axes = 0, .keep_dims = true}) + 1e-6);
  };
  const auto by_parts = shard_map(normalized, mesh, {{"data", _}}, {"data", _}, {"data"});
  const auto step = compile(by_parts, {.mesh = mesh}, x);
  CHECK(expect_close({step(x)}, reference_results(whole, x), {1e-5, 1e-5}));
  CHECK(expect_collectives(step, {{"all-reduce", "data", 2}}));
}

//! ## A ring
//!
//! A product whose right side is cut by rows needs all of it on every device. All at once that is
//! an `all_gather`: every device then holds the whole of `w`. Round a ring it is a block at a
//! time: multiply by the block that is there, hand it to the next device, and go on with the one
//! that comes. The loop is `scan`, the way from device to device `ppermute`.

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

Tensor ring_product(Tensor rows, Tensor block) {  // [8/n,6], [6/n,10]
  const int64_t n = axis_size("ring"), width = block.dim(0);
  Pairs next;
  for (int64_t d = 0; d < n; ++d) next.emplace_back(d, (d + 1) % n);
  const auto step = [&](std::pair<Tensor, Tensor> carry, Tensor i) {
    const auto& [total, here] = carry;
    const Tensor from = remainder(axis_index("ring") - i + n, n);  // whose block this is
    const Tensor columns = dynamic_slice(rows, {0, from * width}, {rows.dim(0), width});
    const std::pair after{total + matmul(columns, here), ppermute(here, "ring", next)};
    return std::pair{after, Nothing{}};
  };
  const Tensor none = full({DType::f32, {rows.dim(0), block.dim(1)}}, 0);
  return scan(step, std::pair{none, block}, iota({DType::s32, {n}}, 0)).first.first;
}

const Mesh ring{{"ring", 2}};
const auto product = shard_map(ring_product, ring, {{"ring", _}, {"ring", _}}, {"ring", _});

void a_ring() {
  const auto step = compile(product, {.mesh = ring}, x, w);
  const auto plain = [](Tensor a, Tensor b) { return einsum("bm,mh->bh", a, b); };
  CHECK(expect_close({step(x, w)}, reference_results(plain, x, w), {1e-5, 1e-5}));
  for (const CollectiveStats& c : step.stats().collectives) CHECK(c.kind == "collective-permute");
}

//! ## Its gradient
//!
//! Collectives have transposes, and the gradient is that of the function on whole tensors: what was
//! sent comes back, so the gradient of the ring is a ring the other way round.

void its_gradient() {
  const auto loss = [](auto f) {
    return grad([f](Tensor b, Tensor a) { return sum(square(f(a, b))); });
  };
  const auto by_ring = compile(loss(product), {.mesh = ring}, w, x);
  const auto plain = loss([](Tensor a, Tensor b) { return einsum("bm,mh->bh", a, b); });
  CHECK(expect_close({by_ring(w, x)}, reference_results(plain, w, x), {1e-4, 1e-4}));
}

//! Inside of the function `grad` works too: take the gradient of a device's own loss, and average
//! with `pmean` what comes out. (Not of a loss that was averaged before: seen from one device, its
//! value goes into the losses of all, and their gradients add up.)

void gradients_inside() {
  const auto train = [](Tensor weight, Tensor part) {
    const auto own = [&](Tensor v) { return mean(square(matmul(part, v))); };
    return pmean(grad(own)(weight), "data");
  };
  const auto by_parts = shard_map(train, mesh, {{}, {"data", _}}, {}, {"data"});
  const auto whole = [](Tensor weight, Tensor all) {
    return grad([&](Tensor v) { return mean(square(matmul(all, v))); })(weight);
  };
  const Array gradient = compile(by_parts, {.mesh = mesh}, w, x)(w, x);
  CHECK(expect_close({gradient}, reference_results(whole, w, x), {1e-5, 1e-5}));
}

//! ## What is checked
//!
//! A result that no axis of `out_specs` cuts has to be the same on all devices. Without the sum it
//! would not be, and a branch that only some devices take may not hold a collective between them.

void what_is_checked() {
  show(error_of([] {
    const auto forgotten = [](Tensor part) { return sum(part); };
    trace(shard_map(forgotten, mesh, {{"data", _}}, {}, {"data"}), x.shape());
  }));
  show(error_of([] {
    const auto alone = [](Tensor part) {
      return cond(
          axis_index("data") < 1, [](Tensor t) { return psum(t, "data"); },
          [](Tensor t) { return t; }, part);
    };
    trace(shard_map(alone, mesh, {{"data", _}}, {"data", _}, {"data"}), x.shape());
  }));
}

int main() {
  statistics_of_the_whole_batch();
  a_ring();
  its_gradient();
  gradients_inside();
  what_is_checked();
}
