#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "gspmd/passes/simplify/simplify.h"
#include "passes/body_text.h"
#include "passes/spmd_check.h"

namespace gspmd {
namespace {

// all-reduce of f32[8,6] over `groups`, then a slice of [4,6] from `offset` on, an s32[] of
// partition-id.
std::string rewritten(const std::string& groups, const std::string& offset) {
  const auto module = module_of(R"(  %a = f32[8,6] parameter(0)
  %r = f32[8,6] all-reduce(%a), channel_id=1, replica_groups=)" +
                                groups + R"(, use_global_device_ids=true, to_apply=%sum
  %id = u32[] partition-id()
  %d = s32[] convert(%id)
  %two = s32[] constant(2)
  %four = s32[] constant(4)
  %zero = s32[] constant(0)
  %odd = s32[] remainder(%d, %two)
  %half = s32[] divide(%d, %two)
  %table = s32[4] constant({4, 0, 4, 0})
  )" + offset + R"(
  ROOT %s = f32[4,6] dynamic-slice(%r, %offset, %zero), dynamic_slice_sizes={4,6})");
  rewrite_reduce_scatter(*module);
  verify_module(*module);
  return to_text(*module->entry()->root());
}

}  // namespace

TEST_CASE("an all-reduce read only by this device's tile becomes a reduce-scatter") {
  CHECK(rewritten("{{0,1},{2,3}}", "%offset = s32[] multiply(%odd, %four)") ==
        "ROOT %reduce-scatter = f32[4,6] reduce-scatter(%a), channel_id=1, "
        "replica_groups={{0,1},{2,3}}, use_global_device_ids=true, dimensions={0}, to_apply=%sum");
  CHECK_THAT(rewritten("[2,2]<=[2,2]T(1,0)", "%offset = s32[] multiply(%half, %four)"),
             Catch::Contains("reduce-scatter(%a)") &&
                 Catch::Contains("replica_groups=[2,2]<=[2,2]T(1,0)"));
}

TEST_CASE("tiles in another order than the group put the group in their order") {
  CHECK_THAT(
      rewritten("{{0,1},{2,3}}",
                "%one = s32[1] dynamic-slice(%table, %d), dynamic_slice_sizes={1}\n"
                "  %offset = s32[] reshape(%one)"),
      Catch::Contains("reduce-scatter(%a)") && Catch::Contains("replica_groups={{1,0},{3,2}}"));
}

TEST_CASE("an all-reduce whose slices are not one tile per device stays") {
  CHECK_THAT(rewritten("{{0,1},{2,3}}", "%offset = s32[] multiply(%half, %four)"),
             Catch::Contains("dynamic-slice(%r"));
  CHECK_THAT(rewritten("{{0,1},{2,3}}", "%offset = s32[] add(%odd, %zero)"),
             Catch::Contains("dynamic-slice(%r"));
  CHECK_THAT(rewritten("{{0,1,2,3}}", "%offset = s32[] multiply(%odd, %four)"),
             Catch::Contains("dynamic-slice(%r"));
  CHECK_THAT(rewritten("{{0,1},{2,3}}", "%offset = s32[] parameter(1)"),
             Catch::Contains("dynamic-slice(%r"));
}

TEST_CASE("a sum that is reshaped and padded with zeros before its slices is scattered as well") {
  const auto root = [](const std::string& kind, const std::string& padding) {
    const auto module = module_of(R"(  %a = f32[5,3] parameter(0)
  %r = f32[5,3] all-reduce(%a), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%)" +
                                  kind + R"(
  %flat = f32[15] reshape(%r)
  %fill = f32[] constant()" + padding +
                                  R"()
  %padded = f32[16] pad(%flat, %fill), padding=0_1
  %id = u32[] partition-id()
  %d = s32[] convert(%id)
  %two = s32[] constant(2)
  %eight = s32[] constant(8)
  %odd = s32[] remainder(%d, %two)
  %offset = s32[] multiply(%odd, %eight)
  ROOT %s = f32[8] dynamic-slice(%padded, %offset), dynamic_slice_sizes={8})");
    rewrite_reduce_scatter(*module);
    verify_module(*module);
    return to_text(*module->entry()->root());
  };
  CHECK_THAT(root("sum", "0"), Catch::Contains("f32[8] reduce-scatter(%pad"));
  CHECK_THAT(root("sum", "1"), Catch::Contains("dynamic-slice(%padded"));
}

TEST_CASE("sums scattered along two dims are merged also where one of these is empty") {
  for (const int64_t rows : {0, 4}) {
    const auto module = parse_module(fmt::format(R"(HloModule m, num_partitions=6
ENTRY %main {{
  %x = f32[{0},12] parameter(0), sharding={{devices=[1,6]<=[6]}}
  %w = f32[12,6] parameter(1), sharding={{devices=[6,1]<=[6]}}
  ROOT %d = f32[{0},6] dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{devices=[2,3]<=[6]}}
}}
)",
                                                 rows));
    INFO(rows);
    CHECK(testing::difference_when_partitioned(*module, 6, 1) == "");
  }
}

}  // namespace gspmd
