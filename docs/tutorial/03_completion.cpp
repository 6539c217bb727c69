//! # 3. What completion did, and why
//!
//! You annotate a few tensors; *completion* finds a sharding for all others. This lesson shows its
//! rules on small functions, how to ask why a tensor got its sharding, and what happens when two
//! annotations disagree. It is the part of GSPMD
//! ([arXiv:2105.04663](https://arxiv.org/abs/2105.04663), 3.5) that Shardy calls propagation.

#include "gspmd/gspmd.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"data", 2}, {"model", 4}};

//! ## Shardings flow through operations
//!
//! Two products, as in the feed-forward part of a Transformer: x is b,m, the weights are m,h and
//! h,m. The annotations cut the batch over `data` and the hidden dim of the first weight over
//! `model`. Nobody says anything about `hidden`, the second weight or the result.

Tensor ffn(Tensor x, Tensor w_in, Tensor w_out) {
  x = mesh_split(x, mesh, {"data", _});
  w_in = mesh_split(w_in, mesh, {_, "model"});
  const Tensor hidden = named(tanh(einsum("bm,mh->bh", x, w_in)), "hidden");
  return named(einsum("bh,hm->bm", hidden, w_out), "result");
}

//! An einsum is a loop nest over its letters, and each letter is cut in the same way wherever it
//! occurs. So `b` of `hidden` comes from `x` and `h` of `hidden` from `w_in`; from there, `h` flows
//! *backward* into `w_out` and `b` forward into the result. `prepare = false` compiles without
//! making the program ready to run, which is enough to look at it.

auto compiled_ffn() {
  return compile(ffn, {.mesh = mesh, .argument_names = {"x", "w_in", "w_out"}, .prepare = false},
                 Shape(DType::f32, {8, 16}), Shape(DType::f32, {16, 32}),
                 Shape(DType::f32, {32, 16}));
}

void shardings_flow() {
  const auto step = compiled_ffn();
  CHECK(step.parameter_sharding("w_out") == sharding_of(mesh, {"model", _}));
  CHECK(step.result_sharding(0) == sharding_of(mesh, {"data", _}));
}

//! ## Asking why
//!
//! `sharding_origins` says for every cut dim of a value which annotation it came from, at which
//! line of your program, and through which operations.

void asking_why() {
  const auto step = compiled_ffn();
  show(sharding_origins(step, "hidden"));
  show(sharding_origins(step, "w_out"));
}

//! ## Compatible annotations merge
//!
//! Where two operands cut different dims, the result takes both cuts.

void compatible_cuts_merge() {
  const auto sum = [](Tensor a, Tensor b) {
    return mesh_split(a, mesh, {"data", _}) + mesh_split(b, mesh, {_, "model"});
  };
  const Shape matrix(DType::f32, {8, 16});
  const auto step = compile(sum, {.mesh = mesh, .prepare = false}, matrix, matrix);
  CHECK(step.result_sharding(0) == sharding_of(mesh, {"data", "model"}));
}

//! ## Conflicts
//!
//! Here both operands want `model`, one for rows and one for columns. A device has one coordinate
//! along `model`, so the sum cannot be cut both ways. Annotations are kept as you wrote them; the
//! sum takes one of the two, and the other operand is moved before it is added. The numbers are
//! right in any case. `sharding_lint` tells you what was overruled. Here the annotation of `rows`,
//! carried through the sum, would cut the rows of the other operand too, but that has an annotation
//! of its own.

Tensor conflicting(Tensor a, Tensor b) {
  const Tensor rows = mesh_split(a, mesh, {"model", _});
  const Tensor columns = mesh_split(b, mesh, {_, "model"});
  return rows + columns;
}

void conflicts_are_reported() {
  const Shape matrix(DType::f32, {8, 16});
  const auto step = compile(conflicting, {.mesh = mesh, .prepare = false}, matrix, matrix);
  CHECK(step.parameter_sharding(0) == sharding_of(mesh, {"model", _}));
  CHECK(step.parameter_sharding(1) == sharding_of(mesh, {_, "model"}));
  CHECK(step.result_sharding(0) == sharding_of(mesh, {"model", _}));
  show(sharding_lint(step));
  CHECK(step.stats().collective_count == 1);  // the price: `columns` is moved
  CHECK(step.stats().collectives.at(0).kind == "all-to-all");
}

//! Say what you want, and the conflict is gone: an annotation on the sum decides, or a *priority*.
//! Completion first carries the annotations of priority 0 as far as they reach, then those of 1,
//! and so on.

void priorities_decide() {
  const auto columns_first = [](Tensor a, Tensor b) {
    const Tensor rows = mesh_split(a, mesh, {"model", _}, {.priority = 1});
    const Tensor columns = mesh_split(b, mesh, {_, "model"}, {.priority = 0});
    return rows + columns;
  };
  const Shape matrix(DType::f32, {8, 16});
  const auto step = compile(columns_first, {.mesh = mesh, .prepare = false}, matrix, matrix);
  CHECK(step.result_sharding(0) == sharding_of(mesh, {_, "model"}));
}

//! ## Closed and open dims
//!
//! `_` means *not cut*, and completion respects it: an annotated tensor is never cut further.
//! `open_dim` leaves the choice to completion. Compare the sharding of `x` below when it meets a
//! value that is cut over `model`.

auto sharding_of_x(const SplitDims& dims) {
  const auto product = [=](Tensor x, Tensor y) {
    return mesh_split(x, mesh, dims) * mesh_split(y, mesh, {"data", "model"});
  };
  const Shape matrix(DType::f32, {8, 16});
  return compile(product, {.mesh = mesh, .prepare = false}, matrix, matrix).parameter_sharding(0);
}

void open_dims_are_filled() {
  CHECK(sharding_of_x({"data", _}) == sharding_of(mesh, {"data", _}));
  CHECK(sharding_of_x({"data", open_dim}) == sharding_of(mesh, {"data", "model"}));
}

//! ## What to annotate
//!
//! Annotate where a decision is made: the batch of the inputs, one dim of each large weight, and
//! activations at the borders of a layer. Leave the rest open. When a number in `stats()` surprises
//! you, ask `sharding_origins` and `sharding_lint` before adding annotations. The next lesson shows
//! those numbers.

int main() {
  shardings_flow();
  asking_why();
  compatible_cuts_merge();
  conflicts_are_reported();
  priorities_decide();
  open_dims_are_filled();
}
