//! # 6. Train on a mesh
//!
//! Everything so far in one program: a small network, its gradient, an optimizer, state that stays
//! on the devices, and the memory that each device needs. The network learns y = sin(x), on a mesh
//! of 8 devices.

#include <cmath>

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"data", 4}, {"model", 2}};

//! ## The model
//!
//! Parameters are a struct, the loss is a function of them. The batch is cut over `data` and the
//! hidden dim over `model`; two annotations say so.

template <class T>
struct Mlp {
  T w_in, b_in, w_out;
  GSPMD_FIELDS(w_in, b_in, w_out)
};

Tensor loss(Mlp<Tensor> p, Tensor x, Tensor y) {  // x and y are b,1
  x = mesh_split(x, mesh, {"data", _});
  const Tensor w_in = mesh_split(p.w_in, mesh, {_, "model"});
  const Tensor hidden = tanh(einsum("bi,ih->bh", x, w_in) + p.b_in);
  const Tensor error = named(einsum("bh,ho->bo", hidden, p.w_out) - y, "error");
  return mean(square(error));
}

//! ## The step
//!
//! `value_and_grad` turns the loss into a function that also returns its gradient, as a tree like
//! the parameters. It works inside a traced function, so the whole step is one program: forward,
//! backward and update. An optimizer is a pure function too: it takes parameters, gradients and its
//! state, and returns new parameters and new state.

auto train_step(Mlp<Tensor> params, Adam<Mlp<Tensor>> adam, Tensor x, Tensor y) {
  auto [value, grads] = value_and_grad(loss)(params, x, y);
  auto [new_params, new_adam] = adam.update(params, grads, {.lr = 1e-2});
  return std::tuple{new_params, new_adam, value};
}

//! Initial values come from a counter-based generator: the numbers depend on the seed only, never
//! on mesh or sharding.

constexpr int64_t kBatch = 64, kHidden = 32;

Mlp<Array> initial() {
  return {random_normal_array(Shape(DType::f32, {1, kHidden}), 1),
          random_normal_array(Shape(DType::f32, {kHidden}), 2), Array(DType::f32, {kHidden, 1})};
}

auto compiled(const CompileOptions& options) {
  const Mlp<Array> params = initial();
  const Shape column(DType::f32, {kBatch, 1});
  return compile(train_step, options, params, Adam<Mlp<Array>>::zeros_like(params), column, column);
}

//! ## Training
//!
//! `donate = {0, 1}` gives the storage of the old parameters and of the old optimizer state to the
//! new ones: there is one copy of them, updated in place. What the step returns stays on the
//! devices, and passing it back moves nothing.

void training() {
  Mlp<Array> params = initial();
  auto adam = Adam<Mlp<Array>>::zeros_like(params);
  Array x(DType::f32, {kBatch, 1}), y(DType::f32, {kBatch, 1});
  for (int64_t i = 0; i < kBatch; ++i) {
    x.set(i, -3 + 6.0 * double(i) / double(kBatch - 1));
    y.set(i, std::sin(x.at(i)));
  }
  const auto step = compiled({.mesh = mesh, .donate = {0, 1}});
  Array value;
  double first = 0;
  for (int i = 0; i < 300; ++i) {
    std::tie(params, adam, value) = step(params, adam, x, y);
    if (i == 0) first = value.item();
  }
  CHECK(first > 0.3);  // the mean of sin squared: w_out starts at zero
  CHECK(value.item() < 0.01);
  CHECK(adam.step.item() == 300);
  CHECK(sharding_of(params.w_in) == sharding_of(mesh, {_, "model"}));
  CHECK(sharding_of(params.w_out) == sharding_of(mesh, {"model", _}));
}

//! The layout of `w_out` was completed, and so was that of its gradient and of both moments of the
//! optimizer: the leaves of a donated argument and the results that replace them are kept alike.

void state_is_laid_out_alike() {
  const auto step = compiled({.mesh = mesh, .donate = {0, 1}, .prepare = false});
  CHECK(step.parameter_sharding("arg1.m.w_out") == sharding_of(mesh, {"model", _}));
  CHECK(step.parameter_sharding("arg1.v.w_out") == sharding_of(mesh, {"model", _}));
}

//! ## What the step sends
//!
//! Forward, the second product is a partial sum over `model`. Backward, every gradient of a weight
//! is a partial sum over `data`, because each device has seen its part of the batch: that is data
//! parallelism, and nobody wrote it down. The sums are listed for who needs them: `adam`, once for
//! each of the three weights.

void what_the_step_sends() {
  const auto step = compiled({.mesh = mesh, .donate = {0, 1}, .prepare = false});
  for (const CollectiveStats& c : step.stats().uncombined)
    show(fmt::format("{} {:>3} bytes over {:<5} for {}", c.kind, c.bytes, c.axes, c.op));
  CHECK(step.stats().uncombined.size() > step.stats().collectives.size());
}

//! Those are the reasons. The program that runs has fewer collectives: independent ones of one kind
//! over the same devices are sent together.
//!
//! ## Donation is final
//!
//! A donated array is gone after the call. Using it again is an error, never a wrong number.

void donation_is_final() {
  const Mlp<Array> params = initial();
  const auto adam = Adam<Mlp<Array>>::zeros_like(params);
  const Array column(DType::f32, {kBatch, 1});
  const auto step = compiled({.mesh = mesh, .donate = {0, 1}});
  const auto first = step(params, adam, column, column);
  const auto second = step(std::get<0>(first), std::get<1>(first), column, column);
  show(error_of([&] { step(std::get<0>(first), std::get<1>(second), column, column); }));
}

//! ## Memory
//!
//! The compiler plans where every value lives, and the plan is what runs: `predicted_peak_bytes` is
//! what a device needs. Donation saves the second copy of parameters and optimizer state.

void memory() {
  const auto kept = compiled({.mesh = mesh, .prepare = false});
  const auto donated = compiled({.mesh = mesh, .donate = {0, 1}, .prepare = false});
  CHECK(donated.stats().predicted_peak_bytes < kept.stats().predicted_peak_bytes);
  show(fmt::format("peak of one device: {} bytes, {} with donation",
                   kept.stats().predicted_peak_bytes, donated.stats().predicted_peak_bytes));
}

//! With `memory_limit` a program that needs more makes values again where they are read late
//! instead of keeping them, the cheapest first and with the same bits. Where that is not enough,
//! the compiler refuses it and lists the largest tensors with the lines that made them. Since
//! compiling needs shapes only, you can ask this of a model far larger than your machine. Of four
//! layers the gradient keeps what goes into each product and into each `gelu`:

Tensor deep_loss(Tensor w, Tensor x) {  // w is h,h and x is b,h
  x = mesh_split(x, mesh, {"data", _});
  for (int layer = 0; layer < 4; ++layer) x = gelu(einsum("bh,hk->bk", x, w));
  return mean(square(x));
}

auto deep_gradient(const CompileOptions& options) {
  return compile([](Tensor w, Tensor x) { return grad(deep_loss)(w, x); }, options,
                 Shape(DType::f32, {kHidden, kHidden}), Shape(DType::f32, {kBatch, kHidden}));
}

void a_limit() {
  const auto free = deep_gradient({.mesh = mesh, .prepare = false});
  const int64_t needed = free.stats().predicted_peak_bytes;
  const auto less =
      deep_gradient({.mesh = mesh, .prepare = false, .memory_limit = needed * 9 / 10});
  show(fmt::format("peak of one device: {} bytes, {} with a limit", needed,
                   less.stats().predicted_peak_bytes));
  for (const Recomputation& again : less.stats().recomputations) show(to_string(again));
  show(error_of([] { compiled({.mesh = mesh, .prepare = false, .memory_limit = 2000}); }));
}

//! ## The same numbers on any mesh
//!
//! Shardings change where numbers are computed, not which. Rounding aside, a plain interpreter that
//! knows no devices (from `gspmd/testing.h`) finds the same loss.

void same_numbers() {
  const Mlp<Array> params = initial();
  const auto adam = Adam<Mlp<Array>>::zeros_like(params);
  const Array x = random_normal_array(Shape(DType::f32, {kBatch, 1}), 3);
  const double a = std::get<2>(compiled({.mesh = mesh})(params, adam, x, x)).item();
  const double b = reference_results(train_step, params, adam, x, x).back().item();
  CHECK(std::abs(a - b) < 1e-5);
}

int main() {
  training();
  state_is_laid_out_alike();
  what_the_step_sends();
  donation_is_final();
  memory();
  a_limit();
  same_numbers();
}
