#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

namespace gspmd {

TEST_CASE("the sign of zero is that of one device behind sums that were left partial") {
  const char* const kEntries[] = {
      "ROOT %n = f32[4,6] negate(%d)",
      "%c = f32[] constant(-2)\n  %b = f32[4,6] broadcast(%c), dimensions={}\n"
      "  ROOT %n = f32[4,6] multiply(%d, %b)",
      "%c = f32[] constant(0)\n  %b = f32[4,6] broadcast(%c), dimensions={}\n"
      "  ROOT %n = f32[4,6] multiply(%b, %d)",
      "%c = f32[] constant(-1)\n  %b = f32[4,6] broadcast(%c), dimensions={}\n"
      "  ROOT %n = f32[4,6] divide(%d, %b)",
  };
  for (const char* const readers : kEntries) {
    const auto module = parse_module(fmt::format(R"(HloModule m, num_partitions=4
ENTRY %main {{
  %x = f32[4,8] parameter(0), sharding={{devices=[1,4]<=[4]}}
  %w = f32[8,6] parameter(1), sharding={{devices=[4,1]<=[4]}}
  %d = f32[4,6] dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {}
}}
)",
                                                 readers));
    INFO(readers);
    CHECK(testing::difference_when_partitioned(*module, 4, 7) == "");
  }
}

}  // namespace gspmd
