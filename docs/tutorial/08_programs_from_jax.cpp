//! # 8. Programs from JAX
//!
//! The library reads HLO text, so a function that was traced by JAX can be looked at, partitioned
//! and run here, with the shardings that it carries. In Python:
//!
//! ```python
//! with mesh:  # Mesh(devices.reshape(2, 4), ("data", "model"))
//!     lowered = jax.jit(forward, in_shardings=(...)).lower(x, w1, w2)
//! open("mlp_jax.hlo", "w").write(lowered.as_text("hlo"))
//! ```
//!
//! The file of this lesson, [mlp_jax.hlo](mlp_jax.hlo), is such a text: two products with a relu
//! between them, for 8 devices.

#include "gspmd/gspmd.h"
#include "gspmd/ir/module.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

const std::string kFile = LESSON_FILES "/mlp_jax.hlo";

Array sample(Dims dims, uint32_t seed) {
  return random_normal_array(Shape(DType::f32, dims), seed);
}

//! ## Read, compile, run
//!
//! `read_hlo` gives a module, the same kind of graph that `trace` makes. `compile` takes it in the
//! place of a function. Arguments and results are lists of arrays. No mesh is named: the file says
//! 8 devices. To look into a module include `gspmd/ir/module.h`; `gspmd/gspmd.h`, which is made to
//! be quick to compile, only names it.

void read_compile_run() {
  const auto module = read_hlo(kFile);
  CHECK(module->num_partitions == 8);
  const HloExecutable forward = compile(*module);
  CHECK(forward.num_devices() == 8);
  const std::vector<Array> y =
      forward({sample({16, 32}, 1), sample({32, 64}, 2), sample({64, 8}, 3)});
  CHECK(y.size() == 1);
  CHECK(y[0].dims() == Dims{16, 8});
  show(to_string_v2(forward.result_sharding(0)));
}

//! The file annotates the parameters; the result's sharding is what completion found. Collectives
//! name the lines of the Python program.

void lines_of_the_python_program() {
  const HloExecutable forward = compile(*read_hlo(kFile), {.prepare = false});
  for (const CollectiveStats& c : forward.stats().collectives)
    show(fmt::format("{}, {} bytes, {}, {}", c.kind, c.bytes, c.groups, c.source));
  CHECK(forward.stats().collectives.size() == 1);
  CHECK(forward.stats().collectives[0].source == "model.py:14");
}

//! With a mesh the axes get names.

void with_a_mesh() {
  const HloExecutable forward =
      compile(*read_hlo(kFile), {.mesh = {{"data", 2}, {"model", 4}}, .prepare = false});
  CHECK(forward.stats().collectives[0].axes == "model");
}

//! ## A module inside a traced function
//!
//! `call_hlo` applies a module to tensors, so you can take a layer from JAX, write the loss here,
//! and differentiate through both. The relu of this file is a `call` of a computation of its own;
//! the derivative by `w1` has to go through it, and does.

void a_module_inside_a_function() {
  const auto module = read_hlo(kFile);
  const auto loss = [&](Tensor w1, Tensor w2, Tensor x) {
    return mean(square(call_hlo(*module, {x, w1, w2}).at(0)));
  };
  const Array x = sample({16, 32}, 1), w1 = sample({32, 64}, 2), w2 = sample({64, 8}, 3);
  const CompileOptions options{.mesh = {{"data", 2}, {"model", 4}}};
  const auto step = compile(value_and_grad<0, 1>(loss), options, w1, w2, x);
  const auto [value, gradients] = step(w1, w2, x);

  // Doubling w1, or w2, doubles the output: the loss is quadratic in each of them, and its
  // gradient by one along that one itself is twice the loss.
  const auto along = [](const Array& w, const Array& gradient) {
    double slope = 0;
    for (int64_t i = 0; i < w.size(); ++i) slope += w.at(i) * gradient.at(i);
    return slope;
  };
  const double by_w1 = along(w1, std::get<0>(gradients)) / value.item();
  const double by_w2 = along(w2, std::get<1>(gradients)) / value.item();
  CHECK(std::abs(by_w1 - 2) < 1e-3);
  CHECK(std::abs(by_w2 - 2) < 1e-3);
  show(fmt::format("along w1 {:.3f} times the loss, along w2 {:.3f}", by_w1, by_w2));
}

//! One number of the gradient against what the loss does when that number of `w1` moves:

void against_differences() {
  const auto module = read_hlo(kFile);
  const auto loss = [&](Tensor w1, Tensor w2, Tensor x) {
    return mean(square(call_hlo(*module, {x, w1, w2}).at(0)));
  };
  const Array x = sample({16, 32}, 1), w1 = sample({32, 64}, 2), w2 = sample({64, 8}, 3);
  const auto at = [&](double moved) {
    Array other = w1.clone();
    other.set(70, w1.at(70) + moved);
    return reference_results(loss, other, w2, x)[0].item();
  };
  const double slope = (at(0.01) - at(-0.01)) / 0.02;
  const double gradient = reference_results(grad(loss), w1, w2, x)[0].at(70);
  CHECK(std::abs(gradient - slope) < 0.01 * std::abs(slope));
}

//! ## The command
//!
//! `build/gspmd` does the same without a line of C++:
//!
//! ```text
//! gspmd propagate mlp_jax.hlo     complete the shardings, print the module
//! gspmd partition mlp_jax.hlo     print the program of each device
//! gspmd explain   mlp_jax.hlo     every collective: why, and how many bytes
//! gspmd verify    mlp_jax.hlo     run on the mesh and on one device, compare
//! ```
//!
//! And the other way: `write_hlo` writes a module, traced ones too, as text that XLA's tools read.

void write_and_read_again() {
  const auto module = read_hlo(kFile);
  const std::string path = "lesson_08.hlo";
  write_hlo(*module, path);
  CHECK(compile(*read_hlo(path), {.prepare = false}).text() ==
        compile(*module, {.prepare = false}).text());
  std::remove(path.c_str());
}

//! ## Mistakes in files
//!
//! A wrong file is an error at its line and column.

void mistakes_in_files() {
  const std::string path = "lesson_08_wrong.hlo";
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("HloModule m\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT b = f32[5] negate(a)\n}\n",
             file);
  std::fclose(file);
  show(error_of([&] { read_hlo(path); }));
  std::remove(path.c_str());
}

int main() {
  read_compile_run();
  lines_of_the_python_program();
  with_a_mesh();
  a_module_inside_a_function();
  against_differences();
  write_and_read_again();
  mistakes_in_files();
}
