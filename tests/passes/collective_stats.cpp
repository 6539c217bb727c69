#include "gspmd/passes/explain/collective_stats.h"

#include <catch2/catch.hpp>

#include "passes/body_text.h"

namespace gspmd {
namespace {

std::string summary(const std::vector<CollectiveStats>& all) {
  std::string text;
  for (const CollectiveStats& s : all)
    text += fmt::format("{} count {} sites {} bytes {} groups {} axes '{}' op {} source '{}'\n",
                        s.kind, s.count, s.sites, s.bytes, s.groups, s.axes, s.op, s.source);
  return text;
}

}  // namespace

TEST_CASE("bytes follow the formula of each kind") {
  const auto module = module_of(R"(  %a = f32[4,3] parameter(0)
  %ar = f32[4,3] all-reduce(%a), replica_groups={{0,1,2,3}}, to_apply=%sum, metadata={op_name="sum" source_file="m.py" source_line=7}
  %ag = f32[16,3] all-gather(%a), replica_groups=[1,4]<=[4], dimensions={0}
  %rs = f32[2,3] reduce-scatter(%a), replica_groups=[2,2]<=[4], dimensions={0}, to_apply=%sum
  %aa = f32[4,3] all-to-all(%a), replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}
  %cp = f32[4,3] collective-permute(%a), source_target_pairs={{0,1},{1,0}}
  %many = (f32[4,3], f32[4,3]) all-reduce(%a, %aa), replica_groups={}, to_apply=%sum
  ROOT %t = (f32[4,3], f32[16,3], f32[2,3], f32[4,3], (f32[4,3], f32[4,3])) tuple(%ar, %ag, %rs, %cp, %many))");
  const Mesh mesh({{"x", 2}, {"y", 2}});
  CHECK(summary(collective_stats(*module, &mesh)) ==
        "all-reduce count 1 sites 1 bytes 72 groups {{0,1,2,3}} axes 'x,y' op sum source 'm.py:7'\n"
        "all-gather count 1 sites 1 bytes 144 groups [1,4]<=[4] axes 'x,y' op ag source ''\n"
        "reduce-scatter count 1 sites 1 bytes 24 groups [2,2]<=[4] axes 'y' op rs source ''\n"
        "all-to-all count 1 sites 1 bytes 24 groups [2,2]<=[2,2]T(1,0) axes 'x' op aa source ''\n"
        "collective-permute count 1 sites 1 bytes 48 groups {{0,1},{1,0}} axes '' op cp source ''\n"
        "all-reduce count 1 sites 1 bytes 144 groups {} axes 'x,y' op many source ''\n");
}

TEST_CASE("equal causes join, and loops with a known trip count multiply") {
  const char* const text = R"(HloModule m, num_partitions=2
%sum {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}
%less {
  %p = (s32[], f32[4]) parameter(0)
  %n = s32[] get-tuple-element(%p), index=0
  %ten = s32[] constant(10)
  ROOT %go = pred[] compare(%n, %ten), direction=LT
}
%next {
  %p = (s32[], f32[4]) parameter(0)
  %n = s32[] get-tuple-element(%p), index=0
  %three = s32[] constant(3)
  %m = s32[] add(%n, %three)
  %v = f32[4] get-tuple-element(%p), index=1
  %r1 = f32[4] all-reduce(%v), replica_groups={}, to_apply=%sum, metadata={op_name="sum"}
  %r2 = f32[4] all-reduce(%r1), replica_groups={}, to_apply=%sum, metadata={op_name="sum"}
  ROOT %t = (s32[], f32[4]) tuple(%m, %r2)
}
ENTRY %main {
  %zero = s32[] constant(0)
  %a = f32[4] parameter(0)
  %init = (s32[], f32[4]) tuple(%zero, %a)
  ROOT %w = (s32[], f32[4]) while(%init), condition=%less, body=%next
}
)";
  CHECK(summary(collective_stats(*parse_module(text))) ==
        "all-reduce count 8 sites 2 bytes 128 groups {} axes '' op sum source ''\n");
  std::string known = text;
  known.replace(known.rfind("body=%next"), 10,
                "body=%next, backend_config={\"known_trip_count\":{\"n\":\"7\"}}");
  CHECK(collective_stats(*parse_module(known)).at(0).count == 14);
  std::string unknown = text;
  unknown.replace(unknown.find("constant(3)"), 11, "constant(0)");
  CHECK(collective_stats(*parse_module(unknown)).at(0).count == 2);
}

}  // namespace gspmd
