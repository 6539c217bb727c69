// One mistake per check: the message names the function, the numbers and this file's line.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_annotate_test {
namespace {

const Shape kF{DType::f32, {2, 3}};
const Mesh kMesh{{"data", 2}, {"model", 4}};

}  // namespace

TEST_CASE("mesh_split names tensor, dim and axis of what is wrong", "[api][errors]") {
  GSPMD_REQUIRE_ERROR(
      "mesh_split: axis \"model\" (size 4) splits dims 0 and 1 of arg0 f32[2,3]; an axis may split "
      "one dim only",
      trace(
          [](Tensor x) {
            return mesh_split(x, kMesh, {"model", "model"});
          },
          kF));
  GSPMD_REQUIRE_ERROR("mesh_split: axis \"model\" (size 4) splits dim 1 twice of arg0",
                      trace(
                          [](Tensor x) {
                            return mesh_split(x, kMesh, {_, {"model", "model"}});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR(
      "mesh_split: axis \"x\" for dim 1 of arg0 f32[2,3] is not in the mesh, which has axes "
      "data=2, model=4",
      trace(
          [](Tensor x) {
            return mesh_split(x, kMesh, {_, "x"});
          },
          kF));
  const char* const null = nullptr;
  GSPMD_REQUIRE_ERROR("mesh_split: axis \"\" for dim 1 of arg0 f32[2,3] is not in the mesh",
                      trace(
                          [&](Tensor x) {
                            return mesh_split(x, kMesh, {_, null});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("mesh_split: axis 2 for dim 0 of arg0 f32[2,3] is not in the mesh",
                      trace(
                          [](Tensor x) {
                            return mesh_split(x, kMesh, {2, -1});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("mesh_split: axis -2 for dim 0", trace(
                                                           [](Tensor x) {
                                                             return mesh_split(x, kMesh, {-2, -1});
                                                           },
                                                           kF));
  GSPMD_REQUIRE_ERROR("mesh_split: axis \"data\" (size 2) splits dims 0 and 1",
                      trace(
                          [](Tensor x) {
                            return mesh_split(x, kMesh, {0, 0});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("mesh_split: 3 entries for arg0 f32[2,3], which has rank 2; give one per dim",
                      trace(
                          [](Tensor x) {
                            return mesh_split(x, kMesh, {"data", _, _});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("mesh_split: axis \"data\" for dim 0 of arg0 f32[2,3]: the mesh is empty",
                      trace(
                          [](Tensor x) {
                            return mesh_split(x, Mesh{}, {"data", _});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("mesh_split: a tensor has no value yet",
                      trace([](Tensor) { return mesh_split(Tensor(), kMesh, {_}); }, kF));
  GSPMD_REQUIRE_ERROR("sharding_of: axis \"z\" for dim 0 of a tensor of rank 1 is not in the mesh",
                      sharding_of(kMesh, {"z"}));
}

TEST_CASE("one program has one number of devices", "[api][errors]") {
  const Mesh other{{"z", 4}};
  GSPMD_REQUIRE_ERROR(
      "mesh_split: mesh['z'=4] has 4 devices, but mesh['data'=2,'model'=4] was used before with 8; "
      "one program runs on one mesh",
      trace(
          [&](Tensor x) {
            return mesh_split(mesh_split(x, kMesh, {"data", _}), other, {"z", _});
          },
          kF));
  const Sharding sharding = parse_sharding("{devices=[2,1]<=[2]}");
  GSPMD_REQUIRE_ERROR("annotate: {devices=[2,1]<=[2]} has 2 devices",
                      trace(
                          [&](Tensor x) {
                            return annotate(mesh_split(x, kMesh, {"data", _}), sharding);
                          },
                          kF));
  GSPMD_REQUIRE_ERROR(
      "compile: step is annotated for 8 devices, but compiled for mesh['z'=4] with 4",
      compile(
          [](Tensor x) {
            return mesh_split(x, kMesh, {"data", _});
          },
          {.mesh = other}, kF));
}

TEST_CASE("annotate checks that the sharding fits the tensor", "[api][errors]") {
  const Sharding rank3 = parse_sharding("{devices=[2,1,2]<=[4]}");
  GSPMD_REQUIRE_ERROR(
      "annotate: sharding {devices=[2,1,2]<=[4]} does not fit arg0 f32[2,3], which has rank 2",
      trace([&](Tensor x) { return annotate(x, rank3); }, kF));
  const Sharding pair = Sharding::tuple({Sharding(), Sharding()});
  GSPMD_REQUIRE_ERROR("annotate: device -1 of {maximal device=-1} is negative",
                      trace([](Tensor x) { return annotate(x, Sharding::maximal(-1)); }, kF));
  GSPMD_REQUIRE_ERROR("annotate: sharding {{replicated}, {replicated}} does not fit",
                      trace([&](Tensor x) { return annotate(x, pair); }, kF));
}

TEST_CASE("meshes themselves are checked", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("\"x\"", (Mesh({{"x", 2}, {"x", 4}})));
  GSPMD_REQUIRE_ERROR("\"x\"", (Mesh({{"x", 0}})));
}

TEST_CASE("visualize needs a value", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("visualize: a tensor has no value yet",
                      trace([](Tensor x) { return visualize(Tensor()), x; }, kF));
  CHECK(message_of<UserError>([] { visualize(Array()); }).find("visualize: an empty Array") == 0);
}

}  // namespace errors_annotate_test
