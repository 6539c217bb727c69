//! # 16. Transforms
//!
//! `grad` takes a function and returns a function. So do `vmap`, `jvp`, `checkpoint` and the others
//! of this lesson, and what they return can be given to the next one, in any order, inside of loops
//! and branches too. They work on the one graph that is traced; nothing is traced twice for them.

#include <cmath>

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

//! ## Derivatives of derivatives
//!
//! Rosenbrock's valley, f(x, y) = (1 - x)^2 + 100 (y - x^2)^2, has its minimum 0 at (1, 1). `jvp`
//! gives the derivative along a direction, in one pass beside the function. Along `v`, of the
//! gradient, that is the product of the Hessian with `v`, without the Hessian.

Tensor valley(Tensor p) {
  const Tensor x = p(0), y = p(1);
  return square(1 - x) + 100 * square(y - square(x));
}

Tensor hessian_times(Tensor p, Tensor v) {
  return jvp(grad(valley), std::tuple{p}, std::tuple{v}).second;
}

//! Once for each unit vector it is the whole matrix: `vmap` makes a function of one vector one of
//! many, `in_axes` says which argument has a dim for the many. At the minimum the Hessian is
//! [802 -400; -400 200].

Tensor hessian(Tensor p) {
  return vmap(hessian_times, {.in_axes = {not_batched, 0}})(p, eye(2, {.dtype = DType::f64}));
}

void second_derivatives() {
  const Array p = Array::of<double>({2}, {1, 1});
  const Array h = compile(hessian, {}, p)(p);
  show(fmt::format("{} {}\n{} {}", h.at(0), h.at(1), h.at(2), h.at(3)));
  CHECK(h.at(0) == 802);
  CHECK(h.at(1) == -400);
  CHECK(h.at(3) == 200);
}

//! With it Newton's method goes down the valley from (-1.2, 1), where gradient descent takes
//! thousands of steps. The Hessian is positive definite on the way, so `cholesky` solves the
//! system. A transform in a body of a loop is no different from one outside.

Tensor descend(Tensor start) {
  const auto step = [](Tensor, Tensor p) {
    return p - solve_cholesky(cholesky(hessian(p)), expand_dims(grad(valley)(p), 1))(all, 0);
  };
  return fori_loop(0, 7, step, start);
}

void newton() {
  const Array start = Array::of<double>({2}, {-1.2, 1});
  const Array end = compile(descend, {}, start)(start);
  show(fmt::format("{:.6f} {:.6f}", end.at(0), end.at(1)));
  CHECK(std::abs(end.at(0) - 1) < 1e-6);
  CHECK(std::abs(end.at(1) - 1) < 1e-6);
}

//! ## vmap
//!
//! The gradient of a mean over examples is one array. The gradient of each example is another
//! thing: `vmap` of a gradient. It is one batched program, not a loop.

Tensor loss(Tensor w, Tensor x, Tensor y) { return square(sum(w * x) - y); }  // of one example

void gradients_of_examples() {
  const auto each = vmap(grad(loss), {.in_axes = {not_batched, 0, 0}});
  const Array w = Array::of<float>({2}, {1, 2});
  const Array x = Array::of<float>({3, 2}, {1, 0, 0, 1, 1, 1}),
              y = Array::of<float>({3}, {0, 0, 0});
  const Array g = compile(each, {}, w, x, y)(w, x, y);
  // 2 (w x - y) x: of the examples (1, 0), (0, 1) and (1, 1) the products are 1, 2 and 3.
  for (int64_t i = 0; i < 3; ++i) show(fmt::format("{} {}", g.at(2 * i), g.at(2 * i + 1)));
  CHECK(g.at(0) == 2);
  CHECK(g.at(3) == 4);
  CHECK(g.at(5) == 6);
}

//! On a mesh the dim of the many can be split. `mesh_axis` puts an axis before the dims of every
//! annotation inside of the function: four models that know nothing of each other, each on two
//! devices that share its work.

void many_models() {
  const Mesh mesh{{"model", 4}, {"data", 2}};
  const auto one = [&](Tensor w, Tensor x) {  // m,n and b,m
    return tanh(einsum("bm,mn->bn", mesh_split(x, mesh, {"data", _}), w));
  };
  const auto models = vmap(one, {.mesh_axis = "model"});
  const auto step = compile(models, {.mesh = mesh, .prepare = false}, Shape(DType::f32, {4, 8, 8}),
                            Shape(DType::f32, {4, 16, 8}));
  CHECK(step.parameter_sharding(1) == sharding_of(mesh, {"model", "data", _}));
  CHECK(step.stats().collective_count == 0);
}

//! ## checkpoint
//!
//! A gradient reads values of the forward pass, which have to be kept until then. `checkpoint(f)`
//! computes the same and keeps only what goes into `f`; its gradient makes the rest again. Memory
//! falls, and arithmetic rises. The policy says what is kept besides: `dots()` the results of
//! products, `save_only({"product"})` what `named` has given that name.

Tensor block(Tensor x, Tensor w) {
  const Tensor hidden = gelu(named(einsum("bm,mh->bh", x, w), "product"));
  return x + einsum("bh,mh->bm", tanh(hidden * hidden), w);
}

template <class Block>
ExecutableStats stats_of(Block one) {
  const auto network = [&](Tensor w, Tensor x) {
    for (int64_t l = 0; l < 8; ++l) x = one(x, w(l));
    return sum(x);
  };
  return compile(grad(network), {.prepare = false}, Shape(DType::f32, {8, 64, 256}),
                 Shape(DType::f32, {512, 64}))
      .stats();
}

void memory_for_arithmetic() {
  const ExecutableStats kept = stats_of(block);
  const auto show_row = [&](const char* name, const ExecutableStats& stats) {
    show(fmt::format("{:<12} memory {:3.0f} %, arithmetic {:3.0f} %", name,
                     100. * double(stats.arena_bytes) / double(kept.arena_bytes),
                     100. * double(stats.flops) / double(kept.flops)));
  };
  const ExecutableStats nothing = stats_of(checkpoint(block));
  const ExecutableStats dots = stats_of(checkpoint(block, CheckpointPolicy::dots()));
  const ExecutableStats product =
      stats_of(checkpoint(block, CheckpointPolicy::save_only({"product"})));
  show_row("everything", kept);
  show_row("dots", dots);
  show_row("\"product\"", product);
  show_row("nothing", nothing);
  CHECK(nothing.arena_bytes < dots.arena_bytes);
  CHECK(dots.arena_bytes < kept.arena_bytes);
  CHECK(nothing.flops > dots.flops);
}

void the_same_gradient() {
  const Array x = random_normal_array(Shape(DType::f32, {4, 8}), 1);
  const Array w = random_normal_array(Shape(DType::f32, {8, 16}), 2);
  const auto of = [](auto one) {
    return grad([one](Tensor a, Tensor b) { return sum(one(a, b)); });
  };
  CHECK(expect_close(reference_results(of(checkpoint(block)), x, w),
                     reference_results(of(block), x, w), {1e-5, 1e-5}));
}

//! ## Rules of your own
//!
//! `custom_vjp(f, forward, backward)` is f with another gradient: `forward` returns f's value and
//! what `backward` needs, `backward` turns the cotangent of the value into those of the arguments.
//! A well-known case is log(1 + exp(x)). Its derivative is exp(x) / (1 + exp(x)), at 100 infinity
//! over infinity in f32, though it is simply 1.

Tensor log1pexp(Tensor x) { return log(1 + exp(x)); }

void a_rule_of_your_own() {
  const auto stable = custom_vjp(
      log1pexp,
      [](Tensor x) {
        return std::pair{log1pexp(x), x};
      },
      [](Tensor x, Tensor c) { return c * (1 - 1 / (1 + exp(x))); });
  const Array x = Array::scalar<float>(100), y = Array::scalar<float>(0.5);
  CHECK(std::isnan(compile(grad(log1pexp), {}, x)(x).item()));
  CHECK(compile(grad(stable), {}, x)(x).item() == 1);
  // the same where there was nothing wrong, also of the second derivative
  const Array plain = compile(grad(grad(log1pexp)), {}, y)(y);
  const Array other = compile(grad(grad(stable)), {}, y)(y);
  CHECK(std::abs(plain.item() - other.item()) < 1e-6);
  show(fmt::format("second derivative at 0.5: {:.4f}", other.item()));
}

//! `custom_jvp` does the same with the derivative along a direction, which has to be linear in it;
//! reverse mode follows. Rounding has the derivative 0; a *straight-through* estimator passes what
//! comes as if there were no rounding.

void straight_through() {
  const auto rounded = custom_jvp([](Tensor x) { return round(x); },
                                  [](auto at, auto along) {
                                    return std::pair{round(std::get<0>(at)), std::get<0>(along)};
                                  });
  const auto total = [&](Tensor x) { return sum(square(rounded(x))); };
  const Array x = Array::of<float>({2}, {0.8f, 2.3f});
  const Array g = compile(grad(total), {}, x)(x);
  show(fmt::format("{} {}", g.at(0), g.at(1)));  // 2 round(x)
  CHECK(g.at(0) == 2);
  CHECK(g.at(1) == 4);
}

int main() {
  second_derivatives();
  newton();
  gradients_of_examples();
  many_models();
  memory_for_arithmetic();
  the_same_gradient();
  a_rule_of_your_own();
  straight_through();
}
