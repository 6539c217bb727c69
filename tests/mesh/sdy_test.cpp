#include "gspmd/mesh/sdy.h"

#include <catch2/catch.hpp>
#include <random>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sdy_rule.h"

namespace gspmd {
namespace {

SdyMeshes two_meshes() {
  return parse_sdy_meshes(
      "{m = #sdy.mesh<[\"x\"=4, \"y\"=2, \"z\"=6]>, t = #sdy.mesh<[\"p\"=4], device_ids=[0, 2, 1, "
      "3]>, one = #sdy.mesh<[], device_ids=[3]>, none = #sdy.mesh<[]>}");
}

std::string error_of(const std::string& text) {
  SdyMeshes meshes = two_meshes();
  try {
    parse_sdy_sharding(text, meshes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sdy meshes print as they are read", "[sdy]") {
  const std::string text =
      "{m = #sdy.mesh<[\"x\"=4, \"y\"=2, \"z\"=6]>, t = #sdy.mesh<[\"p\"=4], device_ids=[0, 2, 1, "
      "3]>, one = #sdy.mesh<[], device_ids=[3]>, none = #sdy.mesh<[]>}";
  const SdyMeshes meshes = parse_sdy_meshes(text);
  CHECK(to_string(meshes) == text);
  CHECK(meshes[0].num_devices() == 48);
  CHECK(meshes[2].is_maximal());
  CHECK(meshes[3].is_empty());
  // The identity order is the default.
  CHECK(to_string(parse_sdy_mesh("#sdy.mesh<[\"a\"=2], device_ids=[0, 1]>")) == "<[\"a\"=2]>");
}

TEST_CASE("sdy shardings print as they are read", "[sdy]") {
  for (const char* text :
       {"<@m, []>", "<@m, [{}]>", "<@m, [{?}]>", "<@m, [{\"x\", ?}, {\"y\", \"z\"}p2, {?}p0]>",
        "<@m, [{\"x\":(1)2}, {\"x\":(2)2, ?}]>", "<@m, [{}], replicated={\"x\", \"z\":(2)3}>",
        "<@m, [{\"x\"}], replicated={\"y\"}, unreduced={\"z\"}>",
        "<@m, [{\"x\"}], unreduced=max{\"y\"}>", "<@t, [{\"p\"}]>", "<@one, []>", "<@none, [{?}]>",
        "<mesh<[\"a\"=2]>, [{\"a\"}]>"}) {
    SdyMeshes meshes = two_meshes();
    CAPTURE(text);
    const SdySharding sharding = parse_sdy_sharding(std::string("#sdy.sharding") + text, meshes);
    CHECK(to_string(sharding, meshes) == text);
    CHECK(to_attribute(std::vector{sharding, sharding}, meshes) ==
          "#sdy.sharding_per_value<[" + std::string(text) + ", " + text + "]>");
    CHECK(parse_sdy_shardings(to_attribute(std::vector{sharding, sharding}, meshes), meshes) ==
          std::vector{sharding, sharding});
  }
  SdyMeshes meshes = two_meshes();
  CHECK(parse_sdy_shardings("#sdy.sharding_per_value<[]>", meshes).empty());
}

TEST_CASE("sdy shardings have one spelling", "[sdy]") {
  const auto canonical = [](const std::string& text) {
    SdyMeshes meshes = two_meshes();
    return to_string(parse_sdy_sharding(text, meshes), meshes);
  };
  // Neighbouring parts of an axis are one part, or the axis.
  CHECK(canonical("<@m, [{\"x\":(1)2, \"x\":(2)2}]>") == "<@m, [{\"x\"}]>");
  CHECK(canonical("<@m,[{\"z\":(1)2,\"z\":(2)3,?}]>") == "<@m, [{\"z\", ?}]>");
  // Axes of sets stand in the order of the mesh, sets in one order, the sum is not said.
  CHECK(canonical("<@m, [{}], unreduced=sum{\"z\"}, replicated={\"y\", \"x\"}>") ==
        "<@m, [{}], replicated={\"x\", \"y\"}, unreduced={\"z\"}>");
  // Quotes as MLIR and as HLO escape them.
  CHECK(canonical("<@m, [{\\22x\\22}]>") == "<@m, [{\"x\"}]>");
  CHECK(canonical("<@m, [{\\\"x\\\"}]>") == "<@m, [{\"x\"}]>");
}

TEST_CASE("wrong sdy shardings say what is wrong", "[sdy]") {
  CHECK(contains(error_of("<@q, [{}]>"), "there is no mesh @q"));
  CHECK(contains(error_of("<@m, [{\"w\"}]>"), "axis \"w\" is not in the mesh"));
  CHECK(contains(error_of("<@m, [{\"x\"}, {\"x\"}]>"), "used twice"));
  CHECK(contains(error_of("<@m, [{\"x\":(1)2}, {\"x\"}]>"), "used twice"));
  CHECK(contains(error_of("<@m, [{\"x\"}], replicated={\"x\"}>"), "used twice"));
  CHECK(contains(error_of("<@m, [{\"x\":(1)3}]>"), "does not divide the 4 devices"));
  CHECK(contains(error_of("<@m, [{\"x\":(1)4}]>"), "all of it"));
  CHECK(contains(error_of("<@m, [{\"x\":(2)1}]>"), "size 1"));
  CHECK(contains(error_of("<@m, [{}p1]>"), "no priority"));
  CHECK(contains(error_of("<@m, [{}], replicated={\"x\"}, replicated={\"y\"}>"), "each once"));
  CHECK(contains(error_of("<@m, [{}], unreduced=mean{\"y\"}>"), "sum, max and min"));
  CHECK(contains(error_of("<@m, [{}]> x"), "behind the attribute"));
  CHECK(contains(error_of("<@m, [{\"x\"]>"), "missing between axes"));
  CHECK_THROWS_AS(parse_sdy_mesh("<[\"x\"=2, \"x\"=2]>"), UserError);
  CHECK_THROWS_AS(parse_sdy_mesh("<[\"x\"=0]>"), UserError);
  CHECK_THROWS_AS(parse_sdy_mesh("<[\"x\"=2], device_ids=[0, 2]>"), UserError);
  CHECK_THROWS_AS(parse_sdy_mesh("<[\"x\"=65536, \"y\"=65536]>"), UserError);
  SdyMeshes meshes = two_meshes();
  const SdySharding rank_one = parse_sdy_sharding("<@m, [{}]>", meshes);
  CHECK_THROWS_AS(check_sharding(rank_one, Shape(DType::f32, {2, 2}), meshes), UserError);
  CHECK_NOTHROW(check_sharding(rank_one, Shape(DType::f32, {2}), meshes));
}

// Coordinates along an axis of 12: the part (pre)size reads (c / (12 / (pre * size))) % size.
TEST_CASE("parts of axes overlap exactly where they read a common digit", "[sdy]") {
  std::vector<SdyAxis> parts;
  for (int64_t pre = 1; pre <= 12; ++pre)
    for (int64_t size = 2; pre * size <= 12; ++size)
      if (12 % (pre * size) == 0) parts.push_back({0, pre, size});
  for (const SdyAxis& a : parts)
    for (const SdyAxis& b : parts) {
      CAPTURE(a.pre, a.size, b.pre, b.size);
      // Prime factors of 12 in mixed radix [pre, size, rest] between two bounds.
      const bool share = std::max(a.pre, b.pre) < std::min(a.pre * a.size, b.pre * b.size);
      CHECK(overlap(a, b) == share);
      const std::optional<SdyAxis> left = prefix_without(a, b);
      if (left) {
        CHECK_FALSE(overlap(*left, b));
        CHECK(is_prefix(*left, a));
      } else {
        CHECK(share);
      }
      CHECK((is_prefix(a, b) && is_prefix(b, a)) == (a == b));
    }
  CHECK_FALSE(overlap({0, 1, 4}, {1, 1, 4}));
}

TEST_CASE("sdy shardings are the library's, and back", "[sdy]") {
  SdyMeshes meshes = two_meshes();
  const auto text_of = [&](const std::string& text) {
    return to_string_v2(to_sharding(parse_sdy_sharding(text, meshes), meshes));
  };
  // 48 devices, x=4 y=2 z=6: strides 12, 6, 1.
  CHECK(text_of("<@m, [{\"x\"}, {}]>") == "{devices=[4,1,12]<=[48] last_tile_dim_replicate}");
  CHECK(text_of("<@m, [{\"y\"}]>") == "{devices=[2,24]<=[4,2,6]T(1,0,2) last_tile_dim_replicate}");
  CHECK(text_of("<@m, [{\"x\":(1)2}]>") == "{devices=[2,24]<=[48] last_tile_dim_replicate}");
  CHECK(text_of("<@m, [{}, {?}]>") == "{replicated}");
  CHECK(text_of("<@one, []>") == "{maximal device=3}");
  CHECK(text_of("<@t, [{\"p\"}]>") == "{devices=[4]<=[2,2]T(1,0)}");
  for (const char* text :
       {"<@m, [{\"x\"}, {\"y\", \"z\"}]>", "<@m, [{\"z\":(2)3, \"x\":(1)2}, {}]>",
        "<@m, [{}, {\"x\":(2)2}], unreduced=max{\"y\"}>"}) {
    CAPTURE(text);
    const SdySharding sharding = parse_sdy_sharding(text, meshes);
    const Sharding there = to_sharding(sharding, meshes);
    const std::optional<SdySharding> back = from_sharding(there, 2, meshes);
    REQUIRE(back);
    CHECK(to_sharding(*back, meshes) == there);
    CHECK(back->dims == sharding.dims);
    CHECK(back->unreduced == sharding.unreduced);
  }
  // Without names: axes for the parts that are read.
  const std::optional<SdySharding> made =
      from_sharding(parse_sharding("{devices=[2,1,4]<=[8] last_tile_dim_replicate}"), 2, meshes);
  REQUIRE(made);
  CHECK(to_string(*made, meshes) == "<mesh<[\"_axis_0\"=2, \"_axis_1\"=4]>, [{\"_axis_0\"}, {}]>");
}

TEST_CASE("sdy rules print as they are read", "[sdy]") {
  for (const char* text :
       {"#sdy.op_sharding_rule<([i, k],[k, j])->([i, j]) {i=8, j=16, k=8} reduction={k}>",
        "#sdy.op_sharding_rule<([ij], [])->([i, j]) {i=2, j=3}>",
        "#sdy.op_sharding_rule<([i, j, k])->([i, j]) {i=4, j=8, k=6} reduction={k} "
        "need_replication={j}, custom>",
        "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=8} permutation={i} "
        "blocked_propagation={i, j}>",
        "#sdy.op_sharding_rule<([])->([])>"}) {
    CAPTURE(text);
    const std::string printed = to_string(parse_sdy_rule(text));
    CHECK(to_string(parse_sdy_rule(printed)) == printed);
    std::string blanks = text;
    for (size_t at = blanks.find("],["); at != std::string::npos; at = blanks.find("],["))
      blanks.replace(at, 3, "], [");
    CHECK(printed == blanks);
  }
  CHECK(sdy_factor_name(17) == "z");
  CHECK(sdy_factor_name(18) == "z_1");
  const std::string many =
      "#sdy.op_sharding_rule<([i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, zz_1, z_2])->() "
      "{i=2, j=2, k=2, l=2, m=2, n=2, o=2, p=2, q=2, r=2, s=2, t=2, u=2, v=2, w=2, x=2, y=2, z=2, "
      "z_1=2, z_2=2}>";
  CHECK(to_string(parse_sdy_rule(many)) == many);
}

TEST_CASE("wrong sdy rules are refused", "[sdy]") {
  for (const char* text :
       {"<([i])->([i])>", "<([i])->([i]) {j=2}>", "<([i])->([i]) {i=2, j=2}>",
        "<([ii])->([i]) {i=2}>", "<([i])->([i]) {i=2} reduction={i}>",
        "<([ij])->([ij]) {i=1, j=2}>", "<([i, j])->([i, j]) {i=2, j=2} permutation={j, i}>",
        "<([i, j])->([i]) {i=2, j=2} reduction={j} permutation={j}>", "<([a])->([a]) {a=2}>",
        "<([i])->([i]) {i=2} sideways={i}>", "<([i])->([i]) {i=-1}>",
        "<([i])->([i]) {i=2}, mine>"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_sdy_rule(text), UserError);
  }
  const SdyRule rule = parse_sdy_rule("<([i])->([i]) {i=2}>");
  const std::vector<Shape> one{Shape(DType::f32, {2})}, two(2, Shape(DType::f32, {2})),
      matrix{Shape(DType::f32, {2, 2})};
  CHECK_NOTHROW(check_rule(rule, one, one));
  CHECK_THROWS_AS(check_rule(rule, two, one), UserError);
  CHECK_THROWS_AS(check_rule(rule, one, matrix), UserError);
}

}  // namespace gspmd
