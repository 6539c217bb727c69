//! # 15. Control flow
//!
//! A traced function is run once, to see what it does. A C++ loop in it is therefore written out,
//! step by step, into the program; and a C++ `if` chooses while tracing, when no numbers are known.
//! Loops and branches that belong to the program are functions of functions: `scan`, `fori_loop`,
//! `while_loop`, `map`, `cond` and `switch_case`. They are JAX's, on any trees of tensors.

#include <cmath>

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

// The numbers of an array, as text.
std::string numbers(const Array& array) {
  std::string text;
  for (int64_t i = 0; i < array.size(); ++i) text += fmt::format("{} ", array.at(i));
  return text;
}

//! ## scan
//!
//! `scan(body, init, xs)` runs the body once for each slice of `xs` along dim 0. The body takes the
//! *carry* and a slice, and returns the next carry and an output. What comes back is the last carry
//! and the outputs, stacked along a new dim 0. Where there are no inputs, or no outputs, there is
//! `Nothing`, and `length` says how many steps. The carry may be any tree: here a pair, and the
//! numbers of Fibonacci.

void fibonacci() {
  const auto program = [](Tensor zero, Tensor one) {
    const auto body = [](std::pair<Tensor, Tensor> state, Nothing) {
      const auto& [now, next] = state;
      return std::pair{std::pair{next, now + next}, now};
    };
    return scan(body, std::pair{zero, one}, Nothing{}, {.length = 12}).second;
  };
  const Array zero = Array::scalar<int32_t>(0), one = Array::scalar<int32_t>(1);
  const Array seen = compile(program, {}, zero, one)(zero, one);
  show(numbers(seen));
  CHECK(seen.at(11) == 89);
}

//! ## A stack of layers
//!
//! What a loop is for: a program whose size does not depend on the number of steps. The weights of
//! all layers are one array with a dim for the layers, which the scan cuts. Shardings flow into the
//! body and out of it; the annotation inside counts for all layers.

const Mesh mesh{{"data", 2}, {"model", 4}};

Tensor layers(Tensor x, Tensor w_in, Tensor w_out) {  // b,m and l,m,h and l,h,m
  const auto layer = [](Tensor h, std::pair<Tensor, Tensor> w) {
    const Tensor hidden = mesh_split(einsum("bm,mh->bh", h, w.first), mesh, {"data", "model"});
    return std::pair{h + einsum("bh,hm->bm", tanh(hidden), w.second), Nothing{}};
  };
  return scan(layer, x, std::pair{w_in, w_out}).first;
}

void a_stack_of_layers() {
  const auto compiled = [](int64_t count) {
    const auto f32 = [](Dims dims) { return Shape(DType::f32, std::move(dims)); };
    return compile(layers, {.mesh = mesh, .prepare = false}, f32({8, 16}), f32({count, 16, 32}),
                   f32({count, 32, 16}));
  };
  const auto few = compiled(2), many = compiled(200);
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines(few.text()) == lines(many.text()));
  for (const CollectiveStats& c : many.stats().collectives)
    show(fmt::format("{} over {}, {} times", c.kind, c.axes, c.count));
  CHECK(few.parameter_sharding(1) == sharding_of(mesh, {_, _, "model"}));
}

//! ## Its gradient
//!
//! The gradient of a scan is a second scan, from the last step to the first, which reads what the
//! first has kept of each step. Take h' = a h + x with h = 0 at first and x = 1 always. After n
//! steps h is 1 + a + ... + a^(n-1), and its derivative by a is 1 + 2 a + ... + (n-1) a^(n-2): for
//! a = 1/2 and n = 4 they are 1.875 and 1 + 1 + 0.75 = 2.75.

Tensor recurrence(Tensor a, Tensor xs) {
  const auto body = [a](Tensor h, Tensor x) { return std::pair{a * h + x, Nothing{}}; };
  return scan(body, zeros({DType::f32, {}}), xs).first;
}

void its_gradient() {
  const Array a = Array::scalar<float>(0.5), xs = Array::full(Shape(DType::f32, {4}), 1);
  const auto [value, slope] = compile(value_and_grad(recurrence), {}, a, xs)(a, xs);
  show(fmt::format("{} and {}", value.item(), slope.item()));
  CHECK(value.item() == 1.875);
  CHECK(slope.item() == 2.75);
}

//! Note that the body reads `a`, a tensor from around it. Nothing has to be passed by hand, and
//! what does not change from step to step is not copied for each.
//!
//! ## fori_loop
//!
//! A loop that counts. The bounds are C++ numbers, so it is known how many steps there are, and it
//! has a gradient. Newton's method for the square root of 2, and the derivative of what it finds,
//! which is 1 / (2 sqrt(2)) = 0.35355:

Tensor root(Tensor a) {
  return fori_loop(
      0, 6, [a](Tensor, Tensor x) { return 0.5 * (x + a / x); }, ones({DType::f64, {}}));
}

void newton() {
  const Array two = Array::scalar<double>(2);
  const auto [value, slope] = compile(value_and_grad(root), {}, two)(two);
  show(fmt::format("{:.10f} and {:.10f}", value.item(), slope.item()));
  CHECK(std::abs(value.item() - std::sqrt(2)) < 1e-12);
  CHECK(std::abs(slope.item() - 0.5 / std::sqrt(2)) < 1e-12);
}

//! ## while_loop
//!
//! A loop that runs as long as a condition holds. Halve even numbers, take odd ones times three and
//! add one: from 27 it takes 111 steps to 1.

std::pair<Tensor, Tensor> collatz(Tensor n) {  // {1, the number of steps}
  const auto goes_on = [](std::pair<Tensor, Tensor> at) { return at.first > 1; };
  const auto step = [](std::pair<Tensor, Tensor> at) {
    const auto& [number, steps] = at;
    const Tensor even = equal(number & 1, 0);
    return std::pair{where(even, number >> 1, 3 * number + 1), steps + 1};
  };
  return while_loop(goes_on, step, std::pair{n, zeros_like(n)});
}

void steps_to_one() {
  const Array n = Array::scalar<int32_t>(27);
  const auto [one, steps] = compile(collatz, {}, n)(n);
  show(fmt::format("{} steps to {}", steps.item(), one.item()));
  CHECK(steps.item() == 111);
}

//! Nobody knows beforehand how many steps it takes, so there is no room to keep something of each:
//! a `while_loop` has derivatives in forward mode, `jvp`, and none in reverse mode.

void no_gradient() {
  const auto doubled = [](Tensor x) {
    return while_loop([](Tensor y) { return y < 100; }, [](Tensor y) { return 2 * y; }, x);
  };
  const auto along = [&](Tensor x) {
    return jvp(doubled, std::tuple{x}, std::tuple{ones({DType::f32, {}})}).second;
  };
  const Array three = Array::scalar<float>(3);
  CHECK(compile(along, {}, three)(three).item() == 64);  // 3 is doubled six times
  show(error_of([&] { trace(grad(doubled), Shape(DType::f32, {})); }));
}

//! ## cond and switch_case
//!
//! `cond(condition, f, g, args...)` runs one of two functions; `switch_case` one of a list. Where
//! both sides are cheap, `where(condition, a, b)` is simpler and goes element by element. The
//! gradient of a branch is that of the function that ran.

Tensor huber(Tensor error) {  // of a scalar
  return cond(
      abs(error) < 1, [](Tensor e) { return 0.5 * e * e; }, [](Tensor e) { return abs(e) - 0.5; },
      error);
}

void branches() {
  for (const double error : {0.25, -3.0}) {
    const Array e = Array::scalar<float>(static_cast<float>(error));
    const auto [value, slope] = compile(value_and_grad(huber), {}, e)(e);
    show(fmt::format("{}: {} with slope {}", error, value.item(), slope.item()));
    CHECK(slope.item() == (error == 0.25 ? 0.25 : -1));
  }
}

//! ## Mistakes
//!
//! A carry has to come back as it went in. And a tensor that was made in a body is gone when the
//! body ends, unless the body returns it.

void mistakes() {
  const Shape x(DType::f32, {5, 3});
  show(error_of([&] {
    trace(
        [](Tensor xs) {
          const auto body = [](Tensor h, Tensor v) { return std::pair{sum(h * v), v}; };
          return scan(body, xs(0), xs).first;
        },
        x);
  }));
  show(error_of([&] {
    trace(
        [](Tensor xs) {
          Tensor last;
          const auto body = [&](Tensor h, Tensor v) {
            last = h * v;
            return std::pair{h + v, Nothing{}};
          };
          scan(body, xs(0), xs);
          return last + 1;
        },
        x);
  }));
}

int main() {
  fibonacci();
  a_stack_of_layers();
  its_gradient();
  newton();
  steps_to_one();
  no_gradient();
  branches();
  mistakes();
}
