#include "api/support.h"
#include "gspmd/api/shard_map.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_shard_map_test {
namespace {

const Mesh kMesh{{"x", 2}, {"y", 3}};
const Shape kMatrix(DType::f32, {6, 12});

// Traces fn(t) for a matrix t.
template <class Fn>
void traced(Fn fn) {
  trace([&](Tensor t) { return fn(t); }, kMatrix);
}

// What fn, given to shard_map over x and y with its argument cut by both, does wrong.
template <class Fn>
void inside(Fn fn, std::vector<std::string> axes = {}) {
  traced([&](Tensor t) { return shard_map(fn, kMesh, {{"x", "y"}}, {{"x", "y"}}, axes)(t); });
}

const auto same = [](Tensor t) { return t; };

}  // namespace

TEST_CASE("shard_map says what is wrong with meshes, axes and layouts", "[shard_map][error]") {
  traced([](Tensor t) {
    GSPMD_REQUIRE_ERROR("shard_map: manual axis \"z\" is not in the mesh",
                        shard_map(same, kMesh, {{}}, {}, {"z"})(t));
    GSPMD_REQUIRE_ERROR("axis \"z\" for dim 1 of argument 0",
                        shard_map(same, kMesh, {{_, "z"}}, {})(t));
    GSPMD_REQUIRE_ERROR("argument 0 (arg0 f32[6,12]) has 3 entries, for rank 2",
                        shard_map(same, kMesh, {{_, "x", _}}, {})(t));
    GSPMD_REQUIRE_ERROR("in_specs has 2 layouts for 1 arguments",
                        shard_map(same, kMesh, {{"x"}, {"y"}}, {})(t));
    GSPMD_REQUIRE_ERROR("there is no layout for result 1", shard_map(
                                                               [](Tensor a) {
                                                                 return std::pair{a, a};
                                                               },
                                                               kMesh, {{"x"}}, {{"x"}})(t));
    GSPMD_REQUIRE_ERROR("the layout of argument 0 (arg0 f32[6,12]) is no list",
                        shard_map(same, kMesh, "x", {})(t));
    GSPMD_REQUIRE_ERROR(
        "dim 0 of argument 0 (transpose f32[5,6]) has 5 elements, which do not divide by the 2 "
        "devices",
        shard_map(same, kMesh, {{"x"}}, {{"x"}})(transpose(slice(t, {0, 0}, {6, 5}), {1, 0})));
    GSPMD_REQUIRE_ERROR("axis \"x\" (size 2) splits dims 0 and 1",
                        shard_map(same, kMesh, {{"x", "x"}}, {{"x"}})(t));
    GSPMD_REQUIRE_ERROR("in the function given to another shard_map",
                        shard_map([](Tensor a) { return shard_map(same, kMesh, {{}}, {})(a); },
                                  kMesh, {{}}, {})(t));
    GSPMD_REQUIRE_ERROR(
        "may differ along manual axis \"y\", over which out_specs does not cut it",
        shard_map([](Tensor a) { return psum(a, "x"); }, kMesh, {{"x", "y"}}, {})(t));
    GSPMD_REQUIRE_ERROR("may differ along manual axis \"x\"",
                        shard_map([](Tensor a) { return convert(axis_index("x"), DType::f32) + a; },
                                  kMesh, {{}}, {{"y"}})(t));
    return t;
  });
}

TEST_CASE("an axis that is a null pointer is no axis of the mesh", "[shard_map][error]") {
  const char* const null = nullptr;
  GSPMD_REQUIRE_ERROR("shard_map: axis \"\"",
                      traced([&](Tensor t) { return shard_map(same, kMesh, {null}, {})(t); }));
  GSPMD_REQUIRE_ERROR("psum: axis \"\" is not in the mesh",
                      inside([&](Tensor t) { return psum(t, null); }));
  GSPMD_REQUIRE_ERROR("psum: axis \"\" is not in the mesh", inside([&](Tensor t) {
                        return psum(t, {"x", null});
                      }));
}

TEST_CASE("collectives say what is wrong with axes and sizes", "[shard_map][error]") {
  inside([](Tensor t) {  // [3,4]
    GSPMD_REQUIRE_ERROR("psum: axis \"z\" is not in the mesh", psum(t, "z"));
    GSPMD_REQUIRE_ERROR("pmax: axis \"x\" is given twice", pmax(t, {"x", "x"}));
    GSPMD_REQUIRE_ERROR("psum: no axis is given", psum(t, AxisNames(std::vector<std::string>())));
    GSPMD_REQUIRE_ERROR("psum: needs numbers", psum(t < 0., "x"));
    GSPMD_REQUIRE_ERROR("pmean: needs floating numbers", pmean(convert(t, DType::s32), "x"));
    GSPMD_REQUIRE_ERROR("all_gather: axis 3 is outside of the 3 dims",
                        all_gather(t, "x", {.axis = 3}));
    GSPMD_REQUIRE_ERROR("psum_scatter: dim 0 of", psum_scatter(t, "x", {.tiled = true}));
    GSPMD_REQUIRE_ERROR("has 4 elements for 2 devices", psum_scatter(t, "x", {.axis = 1}));
    GSPMD_REQUIRE_ERROR("all_to_all: concat_axis -3 is outside of the 2 dims",
                        all_to_all(t, "x", {.concat_axis = -3}));
    GSPMD_REQUIRE_ERROR("dim 1 of argument0 f32[3,4] does not divide by the 3 devices",
                        all_to_all(t, "y", {.split_axis = 1, .tiled = true}));
    GSPMD_REQUIRE_ERROR("pair {0, 2} names device 2; there are 0 to 1", ppermute(t, "x", {{0, 2}}));
    GSPMD_REQUIRE_ERROR("device 1 sends twice", ppermute(t, "y", {{1, 0}, {1, 2}}));
    GSPMD_REQUIRE_ERROR("device 0 is sent to twice", ppermute(t, "y", {{1, 0}, {2, 0}}));
    GSPMD_REQUIRE_ERROR("there is no axis left to split it over", mesh_split(t, kMesh, {"x", _}));
    GSPMD_REQUIRE_ERROR("which is manual already", auto_to_manual(t, kMesh, {"x", _}, {"x"}));
    return t;
  });
  inside(
      [](Tensor t) {  // [3,12]
        GSPMD_REQUIRE_ERROR("axis \"y\" is automatic in this shard_map, whose manual axes are x",
                            psum(t, "y"));
        GSPMD_REQUIRE_ERROR("axis_size: axis \"y\" is automatic", axis_size("y"));
        GSPMD_REQUIRE_ERROR(
            "dim 0 of argument0 f32[3,12] is split over an axis that is manual here, x",
            mesh_split(t, kMesh, {"x", _}));
        return t;
      },
      {"x"});
  traced([](Tensor t) {
    GSPMD_REQUIRE_ERROR("psum: axis \"x\" is manual in the function given to shard_map only",
                        psum(t, "x"));
    GSPMD_REQUIRE_ERROR("axis_index: axis \"x\" is manual", axis_index("x"));
    return t;
  });
}

TEST_CASE("a collective that some of its devices do not reach is an error", "[shard_map][error]") {
  const auto in_branch = [](Tensor t) {
    return cond(
        axis_index("x") < 1, [](Tensor u) { return psum(u, "x"); }, same, t);
  };
  const auto in_loop = [](Tensor t) {
    const auto more = [](std::pair<Tensor, Tensor> c) { return sum(c.first) < 10.; };
    const auto body = [](std::pair<Tensor, Tensor> c) {
      return std::pair{psum(c.first, "y"), c.second + 1};
    };
    return while_loop(more, body, std::pair{t, axis_index("y")}).first;
  };
  CHECK_THROWS_WITH(
      inside(in_branch),
      Catch::Contains(
          "is in a branch or loop that devices along axis \"x\" may not take together"));
  CHECK_THROWS_WITH(inside(in_loop), Catch::Contains("devices along axis \"y\""));
  CHECK_NOTHROW(inside([](Tensor t) {
    return cond(
        axis_index("x") < 1, [](Tensor u) { return u + psum(u, "y"); }, same, t);
  }));
}

TEST_CASE("a tensor that leaves the function given to shard_map is an error",
          "[shard_map][error]") {
  traced([](Tensor t) {
    Tensor leaked;
    shard_map([&](Tensor a) { return leaked = sin(a); }, kMesh, {{"x"}}, {{"x"}})(t);
    GSPMD_REQUIRE_ERROR("in a function given to shard_map", leaked + 1.);
    return t;
  });
  // One that an error left is not open any more.
  traced([](Tensor t) {
    CHECK_THROWS_AS(shard_map([&](Tensor) -> Tensor { throw 1; }, kMesh, {{}}, {})(t), int);
    CHECK_THROWS_WITH(psum(t, "x"), Catch::Contains("only"));
    return t + 1.;
  });
}

}  // namespace errors_shard_map_test
