#include "gspmd/passes/prepare/join_async.h"

#include "gspmd/base/error.h"
#include "gspmd/passes/prepare/inline_calls.h"
#include "passes/rewrite_check.h"
#include "passes/spmd_check.h"

namespace gspmd::join_async_test {
namespace {

const char* const kApart = R"(HloModule m, num_partitions=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
twice { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }
begin { x = f32[4] parameter(0)
  p = (f32[4], f32[4], u32[], u32[]) collective-permute-start(x), channel_id=1, source_target_pairs={{0,1}}
  g = (f32[4], f32[8]) all-gather-start(x), channel_id=2, dimensions={0}, replica_groups={{0,1}}, use_global_device_ids=true
  r = f32[4] all-reduce-start(x), channel_id=3, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum
  c = (f32[4], f32[4], u32[]) copy-start(x)
  ROOT t = ((f32[4], f32[4], u32[], u32[]), (f32[4], f32[8]), f32[4], (f32[4], f32[4], u32[])) tuple(p, g, r, c) }
before { s = (s32[], ((f32[4]), f32[4], u32[])) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
next { s = (s32[], ((f32[4]), f32[4], u32[])) parameter(0) i = s32[] get-tuple-element(s), index=0
  a = ((f32[4]), f32[4], u32[]) get-tuple-element(s), index=1
  u = ((f32[4]), f32[4], u32[]) async-update(a)
  d = f32[4] async-done(u)
  b = ((f32[4]), f32[4], u32[]) async-start(d), calls=twice
  one = s32[] constant(1) j = s32[] add(i, one)
  ROOT t = (s32[], ((f32[4]), f32[4], u32[])) tuple(j, b) }
ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4], f32[4], u32[], u32[]), (f32[4], f32[8]), f32[4], (f32[4], f32[4], u32[])) call(x), to_apply=begin
  s0 = (f32[4], f32[4], u32[], u32[]) get-tuple-element(s), index=0
  p = f32[4] collective-permute-done(s0)
  s1 = (f32[4], f32[8]) get-tuple-element(s), index=1
  g = f32[8] all-gather-done(s1)
  s2 = f32[4] get-tuple-element(s), index=2
  r = f32[4] all-reduce-done(s2)
  s3 = (f32[4], f32[4], u32[]) get-tuple-element(s), index=3
  c = f32[4] copy-done(s3)
  a = ((f32[4]), f32[4], u32[]) async-start(x), calls=twice
  i = s32[] constant(0)
  w0 = (s32[], ((f32[4]), f32[4], u32[])) tuple(i, a)
  w = (s32[], ((f32[4]), f32[4], u32[])) while(w0), condition=before, body=next
  w1 = ((f32[4]), f32[4], u32[]) get-tuple-element(w), index=1
  d = f32[4] async-done(w1)
  ROOT t = (f32[4], f32[8], f32[4], f32[4], f32[4]) tuple(p, g, r, c, d)
}
)";

bool is_apart(std::string_view opcode) {
  return opcode.ends_with("-start") || opcode.ends_with("-done") || opcode == "async-update";
}

}  // namespace

TEST_CASE("join-async: none is left where start and end are in different computations") {
  const auto module = parse_module(kApart);
  REQUIRE(join_async(*module));
  verify_module(*module);
  for (const auto& computation : module->computations())
    for (const auto& node : computation->nodes()) {
      INFO(node->name());
      CHECK_FALSE(is_apart(opcode_name(node->opcode())));
    }
  CHECK_FALSE(join_async(*module));
  const auto given = parse_module(kApart);
  std::vector<std::vector<Value>> arguments{testing::integer_arguments(*given, 1),
                                            testing::integer_arguments(*given, 2)};
  const std::vector<Value> expected = evaluate_devices(*given, 2, arguments);
  const std::vector<Value> found = evaluate_devices(*module, 2, arguments);
  for (size_t d = 0; d < 2; ++d)
    for (size_t i = 0; i < 5; ++i) {
      INFO("device " << d << ", result " << i);
      CHECK(bitwise_equal(leaves(expected[d])[i], leaves(found[d])[i]));
    }
}

TEST_CASE("join-async: a permute keeps all that it is given") {
  const auto pair = parse_module(R"(HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[2] parameter(1)
  s = ((f32[4], f32[2]), (f32[4], f32[2]), u32[]) collective-permute-start(x, y), channel_id=1, source_target_pairs={{0,1}}
  ROOT d = (f32[4], f32[2]) collective-permute-done(s)
}
)");
  REQUIRE(join_async(*pair));
  verify_module(*pair);
  CHECK(pair->entry()->root()->operands().size() == 2);
  const auto into = parse_module(R"(HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  i = s32[] constant(0)
  s = ((f32[4], f32[4], s32[], s32[]), f32[4], u32[]) collective-permute-start(x, y, i, i), channel_id=1, source_target_pairs={{0,1}}, slice_sizes={{2}}
  ROOT d = f32[4] collective-permute-done(s)
}
)");
  REQUIRE(join_async(*into));
  verify_module(*into);
  CHECK(into->entry()->root()->operands().size() == 4);
  CHECK(into->entry()->root()->attrs.other.count("slice_sizes") == 1);
}

TEST_CASE("join-async: a call that lacks operands where it begins is refused") {
  const auto module = parse_module(R"(HloModule m
add { a = f32[4] parameter(0) b = f32[4] parameter(1) ROOT r = f32[4] add(a, b) }
ENTRY e {
  x = f32[4] parameter(0)
  ROOT s = ((f32[4]), f32[4], u32[]) async-start(x), calls=add
}
)");
  CHECK_THROWS_WITH(join_async(*module),
                    Catch::Contains("\"s\" begins a call of \"add\" with 1 of its 2 operands"));
}

TEST_CASE("inline-calls: fusions stay kernels but where only the executor can run them") {
  const auto module = parse_module(R"(HloModule m, num_partitions=2
swap { x = f32[4] parameter(0)
  ROOT y = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}} }
inner { x = f32[4] parameter(0) ROOT y = f32[4] call(x), to_apply=swap }
twice { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] fusion(x), kind=kLoop, calls=twice
  b = f32[4] fusion(a), kind=kLoop, calls=inner
  ROOT c = f32[4] call(b), to_apply=twice
}
)");
  REQUIRE(inline_calls(*module, Fusions::kernels));
  CHECK(count(*module, Opcode::fusion) == 1);
  CHECK(count(*module, Opcode::call) == 0);
  CHECK(count(*module, Opcode::collective_permute) == 1);
  CHECK_FALSE(inline_calls(*module, Fusions::kernels));
  REQUIRE(inline_calls(*module));
  CHECK(count(*module, Opcode::fusion) == 0);
}

}  // namespace gspmd::join_async_test
