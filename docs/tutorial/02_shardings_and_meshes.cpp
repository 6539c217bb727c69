//! # 2. Shardings and meshes
//!
//! Data and models are cut over many devices. This lesson shows the two values that say how: a
//! `Mesh` gives the devices names, and a `Sharding` says which part of an array each of them holds.
//! Both are plain values that you can compare and print. Users of JAX know them as `Mesh` and
//! `NamedSharding`, users of PyTorch as `DeviceMesh` and placements.

#include "gspmd/gspmd.h"
#include "lesson.h"

using namespace gspmd;

//! ## A mesh names devices
//!
//! A mesh is an n-dimensional array of devices whose axes have names and sizes. The devices here
//! are simulated: a program for 8 devices runs on your machine, every device with its own memory,
//! and the collectives between them are counted. Device ids run in row-major order, so device 5 of
//! this mesh is at `data` = 1, `model` = 1.

const Mesh mesh{{"data", 2}, {"model", 4}};

void a_mesh_names_devices() {
  CHECK(mesh.num_devices() == 8);
  CHECK(mesh.size("model") == 4);
  show(to_string(mesh));
}

//! ## A sharding says who holds what
//!
//! For each dim of a tensor you name the mesh axis that cuts it, or `_` for none. `{"data",
//! "model"}` on an array of 4 x 8 gives every device a tile of 2 x 2. The text in braces is HLO's
//! form of it: `devices=[2,4]` are the parts per dim and `<=[8]` says that tiles are dealt out in
//! the order of the device ids. Where the names are known, text has them instead, one list of axes
//! per dim. The table has the row and column ranges of the tiles, and in it the devices.

void both_dims_split() {
  const Shape array(DType::f32, {4, 8});
  const Sharding sharding = sharding_of(mesh, {"data", "model"});
  CHECK(to_string_v2(sharding) == "{devices=[2,4]<=[8]}");
  CHECK(local_shape(array, sharding) == Shape(DType::f32, {2, 2}));
  show(visualize(array, sharding));
}

//! ## Replicated over the other axes
//!
//! What an axis does not cut, it repeats. `{"data", _}` cuts rows in two; the four devices along
//! `model` hold the same rows. HLO says so with a last, unnamed dim of 4.

void rows_split() {
  const Shape array(DType::f32, {4, 8});
  const Sharding rows = sharding_of(mesh, {"data", _});
  CHECK(to_string_v2(rows) == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  show(visualize(array, rows));

  const Box held = shard_box(array, rows, 5);  // device 5: data 1, model 1
  CHECK(held.start == Dims{2, 0});
  CHECK(held.size == Dims{2, 8});
  CHECK(sharding_of(mesh, {_, _}) == Sharding::replicated());
}

//! One dim may be cut by several axes, the first one coarsely: `{{"data", "model"}, _}` cuts rows
//! into 8. The order counts. With `{{"model", "data"}, _}` the same rows lie on other devices.

void several_axes_on_one_dim() {
  const Shape array(DType::f32, {8, 3});
  const Sharding data_first = sharding_of(mesh, {{"data", "model"}, _});
  const Sharding model_first = sharding_of(mesh, {{"model", "data"}, _});
  CHECK(local_shape(array, data_first).dims == Dims{1, 3});
  CHECK(shard_box(array, data_first, 1).start[0] == 1);
  CHECK(shard_box(array, model_first, 1).start[0] == 2);
  show(visualize(array, model_first));
}

//! An axis can cut one dim of a tensor only, because a device has one coordinate along it. Breaking
//! that rule is an error that names the axis.

void an_axis_cuts_one_dim() {
  show(error_of([] { sharding_of(mesh, {"model", "model"}); }));
  show(error_of([] { sharding_of(mesh, {"modle", _}); }));
}

//! ## Sizes need not divide
//!
//! 5 rows over 2 parts are shards of 3, the second with one row that nobody uses. [Lesson
//! 5](05_uneven_sizes.md) is about such tails.

void sizes_need_not_divide() {
  const Shape array(DType::f32, {5, 8});
  const Sharding rows = sharding_of(mesh, {"data", _});
  CHECK(local_shape(array, rows).dims == Dims{3, 8});
  CHECK(shard_box(array, rows, 0).size[0] == 3);
  CHECK(shard_box(array, rows, 7).size[0] == 2);
}

//! ## Annotating a value
//!
//! In a traced function, `mesh_split` says how a tensor is to be cut. Its result is the same value:
//! annotations never change numbers, they say where numbers live. Give the mesh to `compile`, and
//! the program runs on its devices.

Tensor doubled(Tensor x) { return mesh_split(x, mesh, {"data", "model"}) * 2; }

void an_annotated_program() {
  const Array x = Array::full(Shape(DType::f32, {4, 8}), 21);
  const auto step = compile(doubled, {.mesh = mesh}, x);
  CHECK(step.parameter_sharding(0) == sharding_of(mesh, {"data", "model"}));

  const Array y = step(x);  // the host's array is dealt out to the devices
  CHECK(on_devices(y));     // and the result stays there
  CHECK(sharding_of(y) == sharding_of(mesh, {"data", "model"}));

  CHECK(y.at(0) == 42);         // reading gathers it
  CHECK(step(y).at(31) == 84);  // passing it back costs nothing
  CHECK(step.stats().collective_count == 0);
}

//! We annotated `x` alone, yet the result came out with a sharding: the library found it. How it
//! does that is the next lesson.

int main() {
  a_mesh_names_devices();
  both_dims_split();
  rows_split();
  several_axes_on_one_dim();
  an_axis_cuts_one_dim();
  sizes_need_not_divide();
  an_annotated_program();
}
