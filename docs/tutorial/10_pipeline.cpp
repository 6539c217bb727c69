//! # 10. A pipeline
//!
//! In a pipeline, every device has some of the layers, and the batch comes in small pieces
//! (*microbatches*) that move from device to device. GSPMD needs no scheduler for it: a pipeline is
//! a computation with one more dim, the *stage*, that is cut over an axis
//! ([arXiv:2105.04663](https://arxiv.org/abs/2105.04663), 3.3). All stages compute at once, on
//! different microbatches, and then everything shifts by one stage.

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

constexpr int64_t kStages = 4, kMicrobatches = 6, kBatch = 8, kModel = 16;
const Mesh mesh{{"stage", 4}};

//! ## Without a pipeline
//!
//! What we want to compute: four layers one after the other. `weights` is l,m,n, one matrix per
//! layer; `x` is k,b,m, one piece per microbatch.

Tensor plain(Tensor weights, Tensor x) {
  for (int64_t layer = 0; layer < kStages; ++layer)
    x = tanh(einsum("kbm,mn->kbn", x, squeeze(slice_dim(weights, 0, layer, layer + 1), 0)));
  return x;
}

//! ## All stages at once
//!
//! `state` is l,b,m: what each stage works on. One einsum, with the letter `l` in both operands and
//! in the result, is all stages at once. Cut over `stage`, it needs no communication: each device
//! multiplies its piece by its weights.

Tensor all_stages(Tensor state, Tensor weights) {
  return tanh(einsum("lbm,lmn->lbn", state, weights));
}

//! ## The shift
//!
//! A new microbatch enters at stage 0 and the others move up by one. As a function of whole arrays
//! that is a slice, which drops the last stage, and a pad, which makes room at the first. On a cut
//! dim the two are one `collective-permute`: each device sends its piece to the next one.

Tensor is_stage(int64_t stage) {  // l,1,1
  return equal(iota(Shape(DType::s32, {kStages, 1, 1}), 0), stage);
}

Tensor shifted(Tensor entering, Tensor state) {  // b,m and l,b,m
  const Tensor moved = pad(slice_dim(state, 0, 0, kStages - 1), {{1, 0, 0}, {0, 0, 0}, {0, 0, 0}});
  return mesh_split(where(is_stage(0), entering, moved), mesh, {"stage", _, _});
}

//! ## The loop
//!
//! A microbatch needs four steps, and the last of six enters in the sixth: 9 steps. In the first
//! and last ones some stages work on nothing that counts: the *bubble*. What the last stage holds
//! is a result. It is read by a sum in which all other stages are zero, so that all devices get it.

Tensor pipelined(Tensor weights, Tensor x) {
  weights = mesh_split(weights, mesh, {"stage", _, _});
  x = mesh_split(x, mesh, {_, _, _});
  Tensor state = zeros(Shape(DType::f32, {kStages, kBatch, kModel}));
  std::vector<Tensor> results;
  for (int64_t step = 0; step < kMicrobatches + kStages - 1; ++step) {
    const int64_t i = std::min(step, kMicrobatches - 1);
    const Tensor entering = squeeze(slice_dim(x, 0, i, i + 1), 0);
    state = all_stages(shifted(entering, state), weights);
    if (step < kStages - 1) continue;
    results.push_back(sum(where(is_stage(kStages - 1), state, 0), {.axes = 0, .keep_dims = true}));
  }
  return concatenate(results, 0);
}

auto arguments() {
  return std::pair{random_normal_array(Shape(DType::f32, {kStages, kModel, kModel}), 1),
                   random_normal_array(Shape(DType::f32, {kMicrobatches, kBatch, kModel}), 2)};
}

void it_computes_the_same() {
  const auto [weights, x] = arguments();
  const auto step = compile(pipelined, {.mesh = mesh}, weights, x);
  CHECK(expect_close({step(weights, x)}, reference_results(plain, weights, x), {1e-4, 1e-5}));
}

//! ## What moves
//!
//! Weights never move: a device holds a quarter of them. In each step a device sends one piece to
//! its neighbour, and the six results are summed up, all of them at once.

void what_moves() {
  const auto [weights, x] = arguments();
  const auto step = compile(pipelined, {.mesh = mesh, .prepare = false}, weights, x);
  CHECK(local_shape(weights.shape(), step.parameter_sharding(0)).dims == Dims{1, kModel, kModel});
  std::map<std::string, std::pair<int64_t, int64_t>> sent;
  for (const CollectiveStats& c : step.stats().collectives) {
    sent[c.kind].first += c.count;
    sent[c.kind].second += c.bytes;
  }
  for (const auto& [kind, amount] : sent)
    show(fmt::format("{} x {}: {} bytes", amount.first, kind, amount.second));
  const int64_t bytes = kBatch * kModel * 4, steps = kMicrobatches + kStages - 1;
  CHECK(sent.at("collective-permute") == std::pair(steps, steps * bytes));
  CHECK(sent.at("all-reduce") == std::pair(int64_t{1}, kMicrobatches * 2 * bytes * 3 / 4));
}

//! ## Its gradient is a pipeline too
//!
//! The gradient of a shift is a shift the other way, so `value_and_grad` of the pipelined function
//! is a pipeline that runs backward.

void backward() {
  const auto [weights, x] = arguments();
  const auto loss = [](Tensor w, Tensor data) { return mean(square(pipelined(w, data))); };
  const auto expected = grad([](Tensor w, Tensor data) { return mean(square(plain(w, data))); });
  const auto step = compile(grad(loss), {.mesh = mesh}, weights, x);
  CHECK(step.result_sharding(0) == sharding_of(mesh, {"stage", _, _}));
  CHECK(expect_close({step(weights, x)}, reference_results(expected, weights, x), {1e-3, 1e-5}));
}

int main() {
  it_computes_the_same();
  what_moves();
  backward();
}
