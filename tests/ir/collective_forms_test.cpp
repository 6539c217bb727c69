#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"

namespace gspmd {
namespace {

std::string printed(const std::string& text) { return to_text(*parse_module(text)); }

void check_fixed_point(const std::string& text) {
  INFO(text);
  const std::string once = printed(text);
  CHECK(printed(once) == once);
}

}  // namespace

TEST_CASE("collectives of all devices take their number from the declared result") {
  check_fixed_point(R"(HloModule m
ENTRY e {
  x = f32[128,32]{0,1} parameter(0)
  ROOT g = f32[128,128]{0,1} all-gather(x), replica_groups={}, dimensions={1}
})");
  check_fixed_point(R"(HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[128] parameter(0)
  ROOT g = f32[32] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add
})");
  check_fixed_point(R"(HloModule m
ENTRY e {
  x = f32[128] parameter(0)
  y = f32[128] parameter(1)
  ROOT g = (f32[128], f32[128]) all-to-all(x, y), replica_groups={}
})");
  // Not where the module says how many there are, or the result is no multiple.
  CHECK_THROWS_AS(printed(R"(HloModule m, num_partitions=2
ENTRY e {
  x = f32[128,32] parameter(0)
  ROOT g = f32[128,128] all-gather(x), replica_groups={}, dimensions={1}
})"),
                  UserError);
  CHECK_THROWS_AS(printed(R"(HloModule m
ENTRY e {
  x = f32[128,32] parameter(0)
  ROOT g = f32[128,33] all-gather(x), replica_groups={}, dimensions={1}
})"),
                  UserError);
}

TEST_CASE("a collective-permute into a buffer is read and printed") {
  check_fixed_point(R"(HloModule m
ENTRY e {
  x = f32[128,32] parameter(0)
  out = f32[128,128] parameter(1)
  zero = s32[] constant(0)
  from = (s32[], s32[]) tuple(zero, zero)
  to = (s32[], s32[]) tuple(zero, zero)
  ROOT p = f32[128,128] collective-permute(x, out, from, to), channel_id=1, source_target_pairs={{0,1},{1,2}}, slice_sizes={{128,32}}
})");
}

}  // namespace gspmd
