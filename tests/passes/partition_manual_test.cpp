// Manual regions: what the user's own program does on each device, against the same computation
// written on whole values.

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_manual_test {
namespace {

// Empty when both modules give the same bits, the first on devices and the second whole.
std::string difference(const std::string& manual, const std::string& whole, int64_t devices) {
  const auto module = parse_module(manual);
  const auto reference = parse_module(whole);
  const std::vector<Value> arguments = integer_arguments(*reference, 5);
  PipelineOptions options;
  options.num_devices = devices;
  options.verify_between = true;
  const CompiledModule compiled = run_pipeline(*module, options);
  const std::vector<Array> got = leaves(run_partitioned(compiled, devices, arguments));
  const std::vector<Array> expected = leaves(evaluate(*reference, arguments));
  for (size_t i = 0; i < expected.size(); ++i)
    if (!bitwise_equal(expected[i], got[i]))
      return fmt::format("result {} differs\n{}", i, to_text(*compiled.local));
  return {};
}

const char* const kSum = R"(sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
)";

}  // namespace

TEST_CASE("a manual region with its own all-reduce and partition id", "[manual]") {
  const std::string manual = std::string("HloModule m\n") + kSum + R"(ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  s = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
  l = f32[2,4] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  r = f32[2,4] all-reduce(l), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum, sharding={manual}
  i = u32[] partition-id(), sharding={manual}
  f = f32[] convert(i), sharding={manual}
  b = f32[2,4] broadcast(f), dimensions={}, sharding={manual}
  a = f32[2,4] add(r, b), sharding={manual}
  ROOT o = f32[8,4] custom-call(a), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,1]<=[4]}
})";
  const std::string whole = std::string("HloModule m\n") + kSum + R"(ENTRY e {
  x = f32[8,4] parameter(0)
  y = f32[4,2,4] reshape(x)
  z = f32[] constant(0)
  r = f32[2,4] reduce(y, z), dimensions={0}, to_apply=sum
  b = f32[4,2,4] broadcast(r), dimensions={1,2}
  i = f32[4,2,4] iota(), iota_dimension=0
  a = f32[4,2,4] add(b, i)
  ROOT o = f32[8,4] reshape(a)
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("a region that is manual on one axis is partitioned on the other", "[manual]") {
  // Axis of 2 manual on dim 0, axis of 2 automatic on dim 1.
  const std::string manual = std::string("HloModule m\n") + kSum + R"(ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[2,2]<=[4]}
  w = f32[6,3] parameter(1), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  s = f32[4,6] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,2]<=[4]}
  l = f32[2,6] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  ws = f32[6,3] custom-call(w), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  wl = f32[6,3] custom-call(ws), custom_call_target="SPMDFullToShardShape", sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  d = f32[2,3] dot(l, wl), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[1,1,2,2]<=[2,2] last_tile_dims={manual, replicated}}
  r = f32[2,3] all-reduce(d), channel_id=1, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=sum, sharding={devices=[1,1,2,2]<=[2,2] last_tile_dims={manual, replicated}}
  ROOT o = f32[4,3] custom-call(r), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
})";
  const std::string whole = std::string("HloModule m\n") + kSum + R"(ENTRY e {
  x = f32[4,6] parameter(0)
  w = f32[6,3] parameter(1)
  d = f32[4,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  p = f32[2,2,3] reshape(d)
  z = f32[] constant(0)
  r = f32[2,3] reduce(p, z), dimensions={0}, to_apply=sum
  b = f32[2,2,3] broadcast(r), dimensions={1,2}
  ROOT o = f32[4,3] reshape(b)
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("a loop inside of a manual region shifts shards round the devices", "[manual]") {
  const std::string manual = R"(HloModule m
less { p = (s32[], f32[2]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(3)
 ROOT c = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[2]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 x = f32[2] get-tuple-element(p), index=1
 o = s32[] constant(1)
 j = s32[] add(i, o)
 y = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
 ROOT t = (s32[], f32[2]) tuple(j, y) }
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  s = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
  l = f32[2] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  z = s32[] constant(0)
  t = (s32[], f32[2]) tuple(z, l), sharding={{manual}, {manual}}
  w = (s32[], f32[2]) while(t), condition=less, body=step, sharding={{manual}, {manual}}
  g = f32[2] get-tuple-element(w), index=1, sharding={manual}
  ROOT o = f32[8] custom-call(g), custom_call_target="SPMDShardToFullShape", sharding={devices=[4]<=[4]}
})";
  const std::string whole = R"(HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  a = f32[6] slice(x), slice={[2:8]}
  b = f32[2] slice(x), slice={[0:2]}
  ROOT o = f32[8] concatenate(a, b), dimensions={0}
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("what lies behind the end of an uneven value is zero in a manual region", "[manual]") {
  const std::string manual = std::string("HloModule m\n") + kSum + R"(ENTRY e {
  x = f32[7] parameter(0), sharding={devices=[4]<=[4]}
  s = f32[7] custom-call(x), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
  l = f32[2] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  z = f32[] constant(0), sharding={manual}
  r = f32[] reduce(l, z), dimensions={0}, to_apply=sum, sharding={manual}
  a = f32[] all-reduce(r), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum, sharding={manual}
  b = f32[2] broadcast(a), dimensions={}, sharding={manual}
  ROOT o = f32[7] custom-call(b), custom_call_target="SPMDShardToFullShape", sharding={devices=[4]<=[4]}
})";
  const std::string whole = std::string("HloModule m\n") + kSum + R"(ENTRY e {
  x = f32[7] parameter(0)
  z = f32[] constant(0)
  r = f32[] reduce(x, z), dimensions={0}, to_apply=sum
  ROOT o = f32[7] broadcast(r), dimensions={}
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("uneven parts of a region are whole where it begins and ends", "[manual]") {
  // The parts of 3 rows are split over 2 devices each: 2 and 1 rows, not those of 6 rows over 4.
  const std::string manual = R"(HloModule m
ENTRY e {
  x = f32[6,2] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  s = f32[6,2] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  l = f32[3,2] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  a = f32[3,2] add(l, l), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  ROOT o = f32[6,2] custom-call(a), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
})";
  const std::string whole = R"(HloModule m
ENTRY e {
  x = f32[6,2] parameter(0)
  ROOT o = f32[6,2] add(x, x)
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("a reversal inside of a region may count devices backwards", "[manual]") {
  const std::string manual = R"(HloModule m
ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0)}
  s = f32[4,6] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,2]<=[2,2]T(1,0)}
  l = f32[2,6] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,2,2]<=[4] last_tile_dims={manual}}
  r = f32[2,6] reverse(l), dimensions={1}
  n = f32[2,6] negate(r)
  k = f32[2,6] custom-call(n), custom_call_target="Sharding", sharding={devices=[1,2,2]<=[4] last_tile_dims={manual}}
  ROOT o = f32[4,6] custom-call(k), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,2]<=[2,2]T(1,0)}
})";
  const std::string whole = R"(HloModule m
ENTRY e {
  x = f32[4,6] parameter(0)
  r = f32[4,6] reverse(x), dimensions={1}
  ROOT o = f32[4,6] negate(r)
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("the end of a region that a branch returns keeps its sharding", "[manual]") {
  // The conditional is split by the axis that is manual in the branch, along another dim.
  const std::string manual = R"(HloModule m
branch { x = f32[4,6] parameter(0)
  s = f32[4,6] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  l = f32[2,6] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}
  n = f32[2,6] negate(l)
  k = f32[2,6] custom-call(n), custom_call_target="Sharding", sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}
  ROOT o = f32[4,6] custom-call(k), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate} }
other { x = f32[4,6] parameter(0)
  ROOT a = f32[4,6] add(x, x) }
ENTRY e {
  x = f32[4,6] parameter(0)
  p = pred[] parameter(1)
  ROOT c = f32[4,6] conditional(p, x, x), true_computation=branch, false_computation=other, sharding={devices=[1,4]<=[4]}
})";
  const std::string whole = R"(HloModule m
branch { x = f32[4,6] parameter(0)
  ROOT o = f32[4,6] negate(x) }
other { x = f32[4,6] parameter(0)
  ROOT a = f32[4,6] add(x, x) }
ENTRY e {
  x = f32[4,6] parameter(0)
  p = pred[] parameter(1)
  ROOT c = f32[4,6] conditional(p, x, x), true_computation=branch, false_computation=other
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("shapes that do not fit a manual region are refused with both shapes", "[manual]") {
  const std::string text = R"(HloModule m
ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  s = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
  l = f32[4,4] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  ROOT o = f32[16,4] custom-call(l), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,1]<=[4]}
})";
  PipelineOptions options;
  options.num_devices = 4;
  CHECK_THROWS_WITH(run_pipeline(*parse_module(text), options),
                    Catch::Contains("f32[4,4]") && Catch::Contains("f32[2,4]"));
}

TEST_CASE("manual parameters and results are partitioned as they are", "[manual]") {
  // Each device has the whole parameter; the sum over all devices is four times that.
  const std::string manual = std::string("HloModule m\n") + kSum + R"(ENTRY e {
  x = f32[8] parameter(0), sharding={manual}
  r = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum, sharding={manual}
  ROOT n = f32[8] negate(r), sharding={manual}
})";
  const std::string whole = R"(HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  f = f32[] constant(-4)
  b = f32[8] broadcast(f), dimensions={}
  ROOT n = f32[8] multiply(x, b)
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("a collective of several values in a partly manual region", "[manual]") {
  // Manual over pairs; the rows are split over the two pairs.
  const std::string manual = std::string("HloModule m\n") + kSum + R"(ENTRY e {
  x = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}}
  y = f32[8] parameter(1), sharding={devices=[2,2]<=[4] last_tile_dims={manual}}
  r = (f32[8,6], f32[8]) all-reduce(x, y), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=sum, sharding={{devices=[2,1,2]<=[4] last_tile_dims={manual}}, {devices=[2,2]<=[4] last_tile_dims={manual}}}
  a = f32[8,6] get-tuple-element(r), index=0, sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}}
  b = f32[8] get-tuple-element(r), index=1, sharding={devices=[2,2]<=[4] last_tile_dims={manual}}
  c = f32[8,6] broadcast(b), dimensions={0}, sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}}
  ROOT n = f32[8,6] add(a, c), sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}}
})";
  const std::string whole = R"(HloModule m
ENTRY e {
  x = f32[8,6] parameter(0)
  y = f32[8] parameter(1)
  c = f32[8,6] broadcast(y), dimensions={0}
  s = f32[8,6] add(x, c)
  ROOT n = f32[8,6] add(s, s)
})";
  const std::string message = difference(manual, whole, 4);
  INFO(message);
  CHECK(message.empty());
}

TEST_CASE("manual subgroups on some of the devices are refused", "[manual]") {
  const char* const text = R"(HloModule m
ENTRY e {
  x = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}}
  ROOT y = f32[8,6] negate(x), sharding={devices=[8,1]<=[8]}
})";
  PipelineOptions options;
  options.num_devices = 8;
  CHECK_THROWS_WITH(run_pipeline(*parse_module(text), options),
                    Catch::Contains("manual on 4 of 8 devices"));
}

}  // namespace partition_manual_test
