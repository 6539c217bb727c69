//! # 5. Uneven sizes
//!
//! Real sizes do not always divide: a vocabulary of 50,257, an image of 225 columns, the last
//! batch. Here they just work. This lesson shows what the library does about them: padded shards,
//! masks, and *halo* exchanges between neighbours.

#include "gspmd/gspmd.h"
#include "gspmd/ir/text.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"rows", 4}};
const Shape kColumn(DType::f32, {10, 2});

//! ## Shards are padded
//!
//! 10 rows over 4 devices are shards of 3, the next whole number above 10 / 4. The devices hold 3,
//! 3, 3 and 1 rows. All shards have the same shape, because all devices run the same program; the
//! last two rows of device 3 are a *tail* that belongs to nobody.

void shards_are_padded() {
  const Sharding rows = sharding_of(mesh, {"rows", _});
  CHECK(local_shape(kColumn, rows).dims == Dims{3, 2});
  std::string held;
  for (int64_t device = 0; device < 4; ++device) {
    const Box box = shard_box(kColumn, rows, device);
    held += fmt::format("device {}: rows {} to {}\n", device, box.start[0],
                        box.start[0] + box.size[0] - 1);
  }
  show(held);
}

//! ## Tails are masked where they would count
//!
//! For an elementwise operation the tail does not matter: nobody reads it. For a sum it does. Look
//! for `select` in the program below: each device compares the global row number, made of its own
//! position in the mesh and the row in its shard, with 10, and puts a zero into the tail before it
//! sums: -0, the one that leaves every number as it is, -0 too.

Tensor sum_of_rows(Tensor x) { return sum(mesh_split(x, mesh, {"rows", _}), {.axes = 0}); }

void tails_are_masked() {
  const auto step = compile(sum_of_rows, {.mesh = mesh, .disabled_passes = {"fuse"}}, kColumn);
  show(to_text(*step.module().program, {.metadata = false}));
  CHECK(step.text().find("select(") != std::string::npos);

  const Array ones = Array::full(kColumn, 1);
  CHECK(step(ones).at(0) == 10);  // not 12
}

//! A maximum puts the lowest number there, a product 1, and so on. To be sure that no tail ever
//! counts, the tests of the library, and your own if you like, run with `poison`, which fills
//! unused memory with NaN before every run.

void poison_finds_tails() {
  const auto step = compile(sum_of_rows, {.mesh = mesh, .poison = true}, kColumn);
  CHECK(step(Array::full(kColumn, 1)).at(1) == 10);
}

//! ## Halos
//!
//! The difference of neighbouring rows is x[1:] - x[:-1]. When rows are cut, a device needs one row
//! of its neighbour: a *halo*. A slice that shifts a cut dim makes the partitioner exchange it with
//! a `collective-permute`, in which every device sends to one other device. One row of two numbers
//! is 8 bytes.

Tensor differences(Tensor x) {
  x = mesh_split(x, mesh, {"rows", _});
  return mesh_split(slice_dim(x, 0, 1, 10) - slice_dim(x, 0, 0, 9), mesh, {"rows", _});
}

void halos_are_exchanged() {
  const auto step = compile(differences, {.mesh = mesh}, kColumn);
  for (const CollectiveStats& c : step.stats().collectives)
    show(fmt::format("{} over {}: {} bytes", c.kind, c.axes, c.bytes));
  CHECK(step.stats().collectives.size() == 1);
  CHECK(step.stats().collectives[0].kind == "collective-permute");
  CHECK(step.stats().collectives[0].axes == "rows");
  CHECK(step.stats().collectives[0].bytes == 8);
  CHECK(step.parameter_sharding(0) == sharding_of(mesh, {"rows", _}));
  CHECK(step.result_sharding(0) == sharding_of(mesh, {"rows", _}));

  Array x(kColumn);
  for (int64_t i = 0; i < 20; ++i) x.set(i, double((i / 2) * (i / 2)));  // row i is i * i
  const Array y = step(x);
  CHECK(y.dims() == Dims{9, 2});
  for (int64_t i = 0; i < 9; ++i) CHECK(y.at(2 * i) == double(2 * i + 1));
}

//! 9 rows over 4 devices are shards of 3 again, so a device keeps its rows and looks one row ahead.
//! Convolutions, pooling, padding and concatenation use the same exchange; that is *spatial
//! partitioning*. Halos may be wider than a shard: then they come from several devices.

void wide_halos() {
  const auto far = [](Tensor x) {
    x = mesh_split(x, mesh, {"rows", _});
    return mesh_split(pad(slice_dim(x, 0, 5, 10), {{0, 5, 0}, {0, 0, 0}}), mesh, {"rows", _});
  };
  const auto step = compile(far, {.mesh = mesh}, kColumn);
  Array x(kColumn);
  for (int64_t i = 0; i < 20; ++i) x.set(i, double(i));
  const Array y = step(x);
  CHECK(y.at(0) == 10);
  CHECK(y.at(9) == 19);
  CHECK(y.at(10) == 0);
  for (const CollectiveStats& c : step.stats().collectives) CHECK(c.kind == "collective-permute");
}

//! ## Reshapes that do not line up
//!
//! 10 rows as 5 pairs: the shards of 10 rows are 3, those of 5 pairs are 2 pairs, that is 4 rows.
//! The boundaries differ, so some rows move between neighbours, and nothing is gathered.

void reshapes_realign() {
  const auto pairs = [](Tensor x) {
    x = reshape(mesh_split(x, mesh, {"rows", _}), {5, 4});
    return mesh_split(x, mesh, {"rows", _});
  };
  const auto step = compile(pairs, {.mesh = mesh}, kColumn);
  for (const CollectiveStats& c : step.stats().collectives) CHECK(c.kind == "collective-permute");
  CHECK(!step.stats().collectives.empty());
  CHECK(step.stats().full_rematerializations.empty());
  const Array x = random_normal_array(kColumn, 1);
  const Array y = step(x);
  for (int64_t i = 0; i < 20; ++i) CHECK(y.at(i) == x.at(i));
}

//! ## Check it yourself
//!
//! `gspmd/testing.h` compares a function on several meshes with a plain interpreter that knows
//! nothing of shardings. Integers in floats are compared exactly here, because sums of small
//! integers have no rounding.

void check_it_yourself() {
  const auto on = [](const Mesh& m) {
    return [m](Tensor x) { return sum(square(mesh_split(x, m, {"rows", _})), {.axes = 0}); };
  };
  Array x(kColumn);
  for (int64_t i = 0; i < 20; ++i) x.set(i, double(i % 7));
  const Expectation same = expect_equal_on_meshes(
      on, {Mesh{{"rows", 1}}, Mesh{{"rows", 3}}, Mesh{{"rows", 7}}}, Tolerance{0, 0}, x);
  CHECK(same);
}

int main() {
  shards_are_padded();
  tails_are_masked();
  poison_finds_tails();
  halos_are_exchanged();
  wide_halos();
  reshapes_realign();
  check_it_yourself();
}
