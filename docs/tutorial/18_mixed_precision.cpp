//! # 18. Mixed precision
//!
//! Products of 16-bit numbers take half the memory and, on processors with instructions for them, a
//! fraction of the time. Weights and the optimizer's sums need more digits. So a step keeps
//! *masters* in f32, computes loss and gradients in bf16 or f16, and sums in f32.

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"data", 2}, {"model", 2}};

template <class T>
struct Mlp {
  T w_in, w_out;
  GSPMD_FIELDS(w_in, w_out)
};

Tensor loss(Mlp<Tensor> p, Tensor x, Tensor y) {
  x = mesh_split(x, mesh, {"data", _});
  const Tensor hidden = tanh(einsum("bi,ih->bh", x, mesh_split(p.w_in, mesh, {_, "model"})));
  const Tensor error = einsum("bh,ho->bo", hidden, p.w_out) - y;
  return mean(square(convert(error, DType::f32)));  // what must keep its digits is converted
}

Mlp<Array> weights() {
  return {random_normal_array({DType::f32, {8, 32}}, 1),
          random_normal_array({DType::f32, {32, 4}}, 2)};
}

//! ## One option of a step
//!
//! `value_and_grad` takes a precision. The function sees its arguments in bf16, gradients come back
//! in f32, and the optimizer never knows.

template <class Scale>
auto step_in(DType compute, Scale scale) {
  return [compute, scale](Mlp<Tensor> p, Adam<Mlp<Tensor>> adam, Tensor x, Tensor y) {
    const Precision precision{.compute = compute, .loss_scale = scale};
    auto [value, grads] = value_and_grad(loss, precision)(p, x, y);
    auto [next, state] = adam.update(p, grads, {.lr = 1e-2f});
    return std::tuple{next, state, value};
  };
}

double train(DType compute, double scale) {
  const Array x = random_normal_array({DType::f32, {64, 8}}, 3);
  const Array y = random_normal_array({DType::f32, {64, 4}}, 4);
  Mlp<Array> p = weights();
  auto adam = Adam<Mlp<Array>>::zeros_like(p);
  auto step = compile(step_in(compute, scale), {.mesh = mesh, .donate = {0, 1}}, p, adam, x, y);
  Array value;
  for (int i = 0; i < 100; ++i) std::tie(p, adam, value) = step(p, adam, x, y);
  CHECK(p.w_in.dtype() == DType::f32);
  return value.item();
}

void one_option() {
  const double f32 = train(DType::f32, 1), bf16 = train(DType::bf16, 1);
  const double f16 = train(DType::f16, 1024);
  CHECK(std::abs(bf16 - f32) < 0.05 * f32);
  CHECK(std::abs(f16 - f32) < 0.05 * f32);
}

//! ## What the program computes in
//!
//! The conversion stands in the program, once for each weight, so you can see what is computed in
//! which type. Collectives that gather weights or activations carry 16 bits.

void what_is_computed_in_what() {
  const Array x = random_normal_array({DType::f32, {64, 8}}, 3);
  const Array y = random_normal_array({DType::f32, {64, 4}}, 4);
  const auto adam = Adam<Mlp<Array>>::zeros_like(weights());
  const auto program = compile(step_in(DType::bf16, 1), {.mesh = mesh}, weights(), adam, x, y);
  const std::string text = program.text();
  for (size_t at = text.find(" dot("); at != std::string::npos; at = text.find(" dot(", at + 1))
    CHECK(text.substr(text.rfind('\n', at), at - text.rfind('\n', at)).find("= bf16[") !=
          std::string::npos);
}

//! ## f16 needs a scale
//!
//! bf16 has the range of f32, and few digits. f16 has more digits and a small range: below 6e-8 a
//! number is zero, and gradients are small. So the loss is multiplied by a scale before it is
//! differentiated, and gradients are divided by it, in f32.

void small_gradients() {
  const Array w = Array::of<float>({1}, {1.f});
  const auto tiny = [](Tensor t) { return sum(t * 1e-4) * 1e-5; };  // its gradient is 1e-9
  const auto gradient = [&](double scale) {
    const Precision precision{.compute = DType::f16, .loss_scale = scale};
    return reference_results(value_and_grad(tiny, precision), w)[1].item();
  };
  show(fmt::format("scale 1: {:.1e}\nscale 32768: {:.1e}", gradient(1), gradient(32768)));
}

//! Too large a scale overflows. `LossScale` is one that follows: it is halved when a gradient is
//! not finite, and that step is left out; after many steps that were, it is doubled.

std::tuple<Tensor, LossScale<Tensor>> careful_step(Tensor w, LossScale<Tensor> scale) {
  const auto steep = [](Tensor t) { return sum(t * 100.); };
  const Precision precision{.compute = DType::f16, .loss_scale = scale.scale};
  const auto [value, gradient] = value_and_grad(steep, precision)(w);
  const Tensor finite = all_finite(gradient);
  w = select_tree(finite, w - gradient * 0.01, w);
  return {w, scale.update(finite)};
}

void a_scale_that_follows() {
  Array w = Array::of<float>({1}, {8.f});
  LossScale<Array> scale = LossScale<Array>::initial(4096);
  const auto step = compile(careful_step, {}, w, scale);
  std::string seen;
  for (int i = 0; i < 5; ++i) {
    std::tie(w, scale) = step(w, scale);
    seen += fmt::format("w {}, scale {}\n", w.item(), scale.scale.item());
  }
  show(seen);
}

int main() {
  one_option();
  what_is_computed_in_what();
  small_gradients();
  a_scale_that_follows();
}
