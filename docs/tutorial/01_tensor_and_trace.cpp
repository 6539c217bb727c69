//! # 1. A tensor and a trace
//!
//! In gspmd you write a function on tensors as if for one device. The library does not run your C++
//! line by line, as NumPy would. It runs the function once to *record* what it does, compiles the
//! record, and then runs the compiled program as often as you like. JAX users know this as `jit`.
//! This lesson shows the recording, and nothing is distributed yet.
//!
//! Every page of this tutorial is one C++ file, shown completely. `CHECK` ends the program where a
//! claim does not hold, and `show` prints; both are in [lesson.h](lesson.h).

#include <cmath>

#include "gspmd/gspmd.h"
#include "lesson.h"

using namespace gspmd;

//! ## Arrays hold numbers, tensors do not
//!
//! An `Array` is what you know from NumPy: an element type, dims, and numbers in row-major order.
//! Copying an `Array` shares its elements.

void arrays_hold_numbers() {
  const Array x = Array::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(to_string(x.shape()) == "f32[2,3]");
  CHECK(x.size() == 6);
  CHECK(x.at(4) == 5);  // by flat index
}

//! A `Tensor` stands for a value of the function that is being recorded. It knows its shape and
//! nothing else: there are no numbers yet. So you can ask a tensor for its dims and build shapes
//! from them, but you cannot branch on what it holds. Here is a small function. Operators broadcast
//! as in NumPy; `einsum` is `numpy.einsum`, and a wrong spec does not compile.

Tensor scores(Tensor x, Tensor w) {
  CHECK(x.rank() == 2);
  return einsum("ij,jk->ik", x, w) / std::sqrt(double(x.dim(-1)));
}

//! ## A trace is HLO
//!
//! `trace` runs the function on tensors of the shapes that you give, and returns the record. The
//! record is HLO, the text form of XLA's compiler. One line is one instruction: a name, the shape
//! of its result, the operation and its operands. `metadata` holds the line of your program that
//! asked for it, which later messages quote; line numbers on these pages are those of the page's
//! program. The attributes in the first line say that the layout of parameters and results is left
//! open, which will matter in lesson 3.

void a_trace_is_hlo() {
  const Traced traced = trace(scores, Shape(DType::f32, {2, 3}), Shape(DType::f32, {3, 4}));
  show(traced.text());
  CHECK(traced.arguments().size() == 2);
  CHECK(traced.results().at(0).shape == Shape(DType::f32, {2, 4}));
}

//! Read it from the bottom: the `ROOT` is a tuple of the function's results, here one. `dot` is the
//! product, and the number that divides it has been broadcast to the product's dims. Your C++ ran
//! once, while tracing: `std::sqrt` is not in the record, only the number that it gave.
//!
//! C++ control flow is therefore unrolled. A loop over layers becomes that many layers.

void loops_are_unrolled() {
  const auto layers = [](Tensor x) {
    for (int i = 0; i < 3; ++i) x = tanh(x);
    return x;
  };
  const std::string text = trace(layers, Shape(DType::f32, {8})).text();
  size_t count = 0;
  for (size_t at = text.find(" tanh("); at != std::string::npos; at = text.find(" tanh(", at + 1))
    ++count;
  CHECK(count == 3);
}

//! ## Compile, then call
//!
//! `compile` traces and makes a program that runs. What it returns is called like the function,
//! with `Array` in the place of `Tensor`. Arguments of `compile` say shapes only; you may pass
//! arrays or shapes.

void compile_then_call() {
  const Array x = Array::of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Array identity = Array::of<float>({4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const auto step = compile(scores, {}, x, identity);
  const Array y = step(x, identity);
  CHECK(y.dims() == Dims{2, 4});
  CHECK(y.at(7) == 4);  // 8 / sqrt(4)

  const Array other = step(y, identity);  // no tracing, no compiling: the same program again
  CHECK(other.at(7) == 2);
}

//! ## Structs of arrays
//!
//! A model has many parameters. Put them into a struct template and name the members once with
//! `GSPMD_FIELDS`; the struct can then be an argument or a result. While tracing it holds tensors,
//! and when you call the program it holds arrays. JAX calls such a thing a pytree. Numbers and
//! options may stand beside them, unlisted; a member with tensors that is not listed does not
//! compile.

template <class T>
struct Affine {
  T weight, bias;
  GSPMD_FIELDS(weight, bias)
};

Tensor apply(Affine<Tensor> p, Tensor x) { return einsum("bi,io->bo", x, p.weight) + p.bias; }

void structs_are_arguments() {
  const Affine<Array> p{Array::of<float>({2, 1}, {10, 1}), Array::of<float>({1}, {0.5f})};
  const auto step = compile(apply, {}, p, Shape(DType::f32, {3, 2}));
  const Array y = step(p, Array::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  CHECK(y.at(0) == 12.5);
  CHECK(step.traced().arguments().at(1).path == "arg0.bias");
}

//! ## Errors point at your line
//!
//! Shapes are checked while tracing, so a mistake is found before anything runs, at the line that
//! made it. The message says what is wrong, in numbers, and what to do.

void errors_point_at_your_line() {
  const auto wrong = [](Tensor x, Tensor w) { return x + w; };
  show(error_of([&] { trace(wrong, Shape(DType::f32, {2, 3}), Shape(DType::f32, {3, 4})); }));

  const auto types = [](Tensor x, Tensor n) { return x * n; };
  show(error_of([&] { trace(types, Shape(DType::f32, {4}), Shape(DType::s32, {4})); }));
}

//! That is all there is to tracing. The next lesson says how an array is cut over many devices.

int main() {
  arrays_hold_numbers();
  a_trace_is_hlo();
  loops_are_unrolled();
  compile_then_call();
  structs_are_arguments();
  errors_point_at_your_line();
}
