#include "gspmd/runtime/executor.h"

#include <cstring>

#include "base/host_storage.h"
#include "gspmd/ops/loop_guard.h"
#include "runtime/run_text.h"
#include "runtime/shard_copies.h"

namespace gspmd {
namespace {

const std::string kSum = R"(
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
)";

}  // namespace

TEST_CASE("executor: elementwise ops, shapes and products equal the oracle", "[executor]") {
  expect_oracle("HloModule m" + kSum + R"(
ENTRY e {
  x = f32[4,6]{1,0} parameter(0)
  w = f32[6,5]{1,0} parameter(1)
  c = f32[] constant(2)
  cb = f32[4,6]{1,0} broadcast(c), dimensions={}
  y = f32[4,6]{1,0} multiply(x, cb)
  d = f32[4,5]{1,0} dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[5,4]{1,0} transpose(d), dimensions={1,0}
  r = f32[20]{0} reshape(t)
  z = f32[] constant(0)
  s = f32[5]{0} reduce(t, z), dimensions={1}, to_apply=sum
  i = s32[3,4]{1,0} iota(), iota_dimension=1
  p = pred[4,6]{1,0} compare(x, y), direction=GT
  q = f32[4,6]{1,0} select(p, x, y)
  ROOT out = (f32[20]{0}, f32[5]{0}, s32[3,4]{1,0}, f32[4,6]{1,0}, f32[4,6]{1,0}) tuple(r, s, i, q, x)
}
)",
                1);
}

// What products lay out for all their rows is one memory of the workers of a device: products that
// have nothing else in common follow each other, alone and in loops.
TEST_CASE("executor: products of many rows, one after the other, equal the oracle", "[executor]") {
  for (const int64_t devices : {1, 2})
    expect_oracle("HloModule m, num_partitions=" + std::to_string(devices) + R"(
goes_on { s = (s32[], f32[1030,64]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(2) ROOT r = pred[] compare(i, n), direction=LT }
body {
  s = (s32[], f32[1030,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[1030,64]{1,0} get-tuple-element(s), index=1
  j = s32[64,64]{1,0} iota(), iota_dimension=0
  k = s32[64,64]{1,0} iota(), iota_dimension=1
  p = pred[64,64]{1,0} compare(j, k), direction=GT
  w = f32[64,64]{1,0} convert(p)
  y = f32[1030,64]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[1030,64]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  d = f32[1030,64]{1,0} subtract(y, z)
  ROOT r = (s32[], f32[1030,64]{1,0}) tuple(next, d)
}
ENTRY e {
  x = f32[1030,64]{1,0} parameter(0)
  t = f32[64,1030]{1,0} parameter(1)
  u = f32[64,80]{1,0} parameter(2)
  v = f32[72,64]{1,0} parameter(3)
  w = f32[80,64]{1,0} parameter(4)
  q = f32[1030,80]{1,0} dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = f32[1030,72]{1,0} dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  l = f32[1030,80]{1,0} dot(t, u), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  o = f32[1030,64]{1,0} dot(q, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = s32[] constant(0)
  s = (s32[], f32[1030,64]{1,0}) tuple(zero, x)
  loop = (s32[], f32[1030,64]{1,0}) while(s), condition=goes_on, body=body
  y = f32[1030,64]{1,0} get-tuple-element(loop), index=1
  ROOT r = (f32[1030,72]{1,0}, f32[1030,80]{1,0}, f32[1030,64]{1,0}, f32[1030,64]{1,0}) tuple(k, l, o, y)
}
)",
                  devices, {1, 2, 3});
}

TEST_CASE("executor: collectives on subgroups equal the oracle", "[executor]") {
  expect_oracle("HloModule m, num_partitions=8" + kSum + R"(
ENTRY e {
  x = f32[4,8]{1,0} parameter(0)
  k = s32[24]{0} parameter(1)
  ar = f32[4,8]{1,0} all-reduce(x), replica_groups={{0,2,4,6},{1,3,5,7}}, to_apply=sum, channel_id=1, use_global_device_ids=true
  mx = f32[4,8]{1,0} all-reduce(x), replica_groups=[4,2]<=[8], to_apply=most, channel_id=2, use_global_device_ids=true
  ag = f32[4,32]{1,0} all-gather(x), replica_groups={{7,1,3,5},{0,2,4,6}}, dimensions={1}, channel_id=3, use_global_device_ids=true
  rs = f32[4,2]{1,0} reduce-scatter(x), replica_groups=[2,4]<=[8], dimensions={1}, to_apply=sum, channel_id=4, use_global_device_ids=true
  aa = f32[4,8]{1,0} all-to-all(x), replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}, channel_id=5
  cp = s32[24]{0} collective-permute(k), source_target_pairs={{0,1},{1,0},{2,5},{3,3}}, channel_id=6
  tu = (f32[4,8]{1,0}, f32[4,8]{1,0}) all-reduce(ar, mx), replica_groups={}, to_apply=sum, channel_id=7, use_global_device_ids=true
  t0 = f32[4,8]{1,0} get-tuple-element(tu), index=0
  t1 = f32[4,8]{1,0} get-tuple-element(tu), index=1
  id = u32[] partition-id()
  ROOT out = (f32[4,8]{1,0}, f32[4,8]{1,0}, f32[4,32]{1,0}, f32[4,2]{1,0}, f32[4,8]{1,0}, s32[24]{0}, u32[], f32[4,8]{1,0}) tuple(t0, t1, ag, rs, aa, cp, id, ar)
}
)",
                8);
}

TEST_CASE("executor: bytes are counted as the collectives read them", "[executor]") {
  const auto module = parse_module("HloModule m, num_partitions=4" + kSum + R"(
ENTRY e {
  x = f32[8]{0} parameter(0)
  ar = f32[8]{0} all-reduce(x), replica_groups=[2,2]<=[4], to_apply=sum, channel_id=1, use_global_device_ids=true
  ag = f32[16]{0} all-gather(ar), replica_groups=[2,2]<=[4], dimensions={0}, channel_id=2, use_global_device_ids=true
  ROOT cp = f32[16]{0} collective-permute(ag), source_target_pairs={{0,1},{1,0},{2,2}}, channel_id=3
}
)");
  ProgramOptions options;
  options.num_devices = 4;
  Executor executor(build_program(*module, options), make_worker_pool(2));
  executor.run(to_buffers(small_arguments(*module, 4)));
  // Two groups of two: 2 * 32 each; each of 4 devices reads 32; two devices read 64, one itself.
  CHECK(executor.counters().bytes_received == 2 * 2 * 32 + 4 * 32 + 2 * 64);
  CHECK(executor.counters().collectives == 3);
  CHECK(executor.counters().runs == 1);
}

TEST_CASE("executor: loops, with a swapped state, a constant state and a collective inside",
          "[executor]") {
  expect_oracle("HloModule m, num_partitions=2" + kSum + R"(
body {
  s = (s32[], f32[6]{0}, f32[6]{0}, f32[6]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[6]{0} get-tuple-element(s), index=1
  b = f32[6]{0} get-tuple-element(s), index=2
  c = f32[6]{0} get-tuple-element(s), index=3
  one = s32[] constant(1)
  n = s32[] add(i, one)
  g = f32[6]{0} all-reduce(c), replica_groups={{0,1}}, to_apply=sum, channel_id=1, use_global_device_ids=true
  h = f32[6]{0} subtract(g, a)
  ROOT r = (s32[], f32[6]{0}, f32[6]{0}, f32[6]{0}) tuple(n, b, a, h)
}
condition {
  s = (s32[], f32[6]{0}, f32[6]{0}, f32[6]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5)
  ROOT p = pred[] compare(i, five), direction=LT
}
ENTRY e {
  x = f32[6]{0} parameter(0)
  y = f32[6]{0} parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[6]{0}, f32[6]{0}, f32[6]{0}) tuple(zero, x, y, x)
  w = (s32[], f32[6]{0}, f32[6]{0}, f32[6]{0}) while(init), condition=condition, body=body
  o = f32[6]{0} get-tuple-element(w), index=3
  w2 = (s32[], f32[6]{0}, f32[6]{0}, f32[6]{0}) while(w), condition=condition, body=body
  u = f32[6]{0} add(o, x)
  ROOT r = ((s32[], f32[6]{0}, f32[6]{0}, f32[6]{0}), f32[6]{0}, f32[6]{0}) tuple(w2, u, o)
}
)",
                2);
}

namespace {

// Devices count up to their own first argument; `inside` is put into the body.
std::string divergent(const std::string& inside) {
  return "HloModule m, num_partitions=4" + kSum + R"(
body {
  s = (s32[], s32[], f32[3]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[3]{0} get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[3]{0} )" +
         inside + R"(
  z = f32[3]{0} add(y, x)
  ROOT r = (s32[], s32[], f32[3]{0}) tuple(j, n, z)
}
condition {
  s = (s32[], s32[], f32[3]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT p = pred[] compare(i, n), direction=LT
}
ENTRY e {
  n = s32[] parameter(0)
  x = f32[3]{0} parameter(1)
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[3]{0}) tuple(zero, n, x)
  ROOT w = (s32[], s32[], f32[3]{0}) while(init), condition=condition, body=body
}
)";
}

}  // namespace

TEST_CASE("executor: a loop may end at another time on each device", "[executor]") {
  expect_oracle(divergent("add(x, x)"), 4);
}

TEST_CASE("executor: loops are watched behind the iterations that they are known to have",
          "[executor]") {
  for (const auto& [trips, wanted] : std::vector<std::pair<std::optional<int64_t>, int64_t>>{
           {std::nullopt, 1001}, {int64_t{20}, 1001}, {int64_t{1500}, 1501}}) {
    const std::string name = "loop";
    LoopGuard guard(name, true, trips);
    int64_t first = 1;
    while (!guard.begin_iteration()) ++first;
    CHECK(first == wanted);
  }
}

// Of small steps: the first of a device's workers goes through them alone, and the others meet it
// behind, where they share what is large.
TEST_CASE("executor: small loops and branches between large steps equal the oracle", "[executor]") {
  for (const int64_t devices : {1, 2})
    expect_oracle("HloModule m, num_partitions=" + std::to_string(devices) + kSum + R"(
few { s = (s32[], f32[512]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
twice {
  s = (s32[], f32[512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[512]{0} get-tuple-element(s), index=1
  y = f32[512]{0} add(x, x)
  ROOT r = (s32[], f32[512]{0}) tuple(next, y)
}
up { x = f32[512] parameter(0) ROOT y = f32[512]{0} add(x, x) }
down {
  x = f32[512] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[512]{0}) tuple(zero, x)
  w = (s32[], f32[512]{0}) while(t), condition=few, body=twice
  ROOT y = f32[512]{0} get-tuple-element(w), index=1
}
goes_on { s = (s32[], f32[512,512]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(4) ROOT r = pred[] compare(i, n), direction=LT }
body {
  s = (s32[], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[512,512]{1,0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  zero = s32[] constant(0)
  low = f32[] constant(-9)
  y = f32[512]{0} reduce(x, low), dimensions={0}, to_apply=most
  inner = (s32[], f32[512]{0}) tuple(zero, y)
  w = (s32[], f32[512]{0}) while(inner), condition=few, body=twice
  z = f32[512]{0} get-tuple-element(w), index=1
  odd = s32[] and(i, one)
  branch = f32[512]{0} conditional(odd, z, y), branch_computations={up, down}
  turned = f32[512,512]{1,0} transpose(x), dimensions={1,0}
  b = f32[512,512]{1,0} broadcast(branch), dimensions={1}
  sum = f32[512,512]{1,0} add(turned, b)
  ROOT r = (s32[], f32[512,512]{1,0}) tuple(next, sum)
}
ENTRY e {
  x = f32[512,512]{1,0} parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[512,512]{1,0}) tuple(zero, x)
  ROOT w = (s32[], f32[512,512]{1,0}) while(t), condition=goes_on, body=body
}
)",
                  devices);
}

TEST_CASE("executor: a collective in a loop that some of its group have left is an error",
          "[executor]") {
  const auto module =
      parse_module(divergent("all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=sum, "
                             "channel_id=1, use_global_device_ids=true"));
  const auto run = [&](std::vector<int32_t> counts, int workers) {
    auto arguments = small_arguments(*module, 4);
    for (size_t d = 0; d < 4; ++d) arguments[d][0].array = Array::scalar<int32_t>(counts[d]);
    ProgramOptions options;
    options.num_devices = 4;
    Executor executor(build_program(*module, options), make_worker_pool(workers));
    executor.run(to_buffers(arguments));
  };
  for (const int workers : {1, 2, 4, 5}) {
    CHECK_NOTHROW(run({1, 1, 3, 3}, workers));  // groups stay together
    CHECK_THROWS_WITH(run({1, 2, 3, 3}, workers),
                      Catch::Contains("all-reduce: \"y\"") && Catch::Contains("group {0,1}"));
  }
}

TEST_CASE("executor: calls and nested loops equal the oracle", "[executor]") {
  expect_oracle("HloModule m" + kSum + R"(
twice { a = f32[4]{0} parameter(0) ROOT r = f32[4]{0} add(a, a) }
inner {
  s = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4]{0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4]{0} call(x), to_apply=twice
  ROOT r = (s32[], f32[4]{0}) tuple(j, y)
}
below2 {
  s = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  two = s32[] constant(2)
  ROOT p = pred[] compare(i, two), direction=LT
}
outer {
  s = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4]{0} get-tuple-element(s), index=1
  zero = s32[] constant(0)
  start = (s32[], f32[4]{0}) tuple(zero, x)
  w = (s32[], f32[4]{0}) while(start), condition=below2, body=inner
  y = f32[4]{0} get-tuple-element(w), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[4]{0}) tuple(j, y)
}
ENTRY e {
  x = f32[4]{0} parameter(0)
  y = f32[4]{0} call(x), to_apply=twice
  zero = s32[] constant(0)
  start = (s32[], f32[4]{0}) tuple(zero, y)
  w = (s32[], f32[4]{0}) while(start), condition=below2, body=outer
  z = f32[4]{0} get-tuple-element(w), index=1
  u = f32[4]{0} call(z), to_apply=twice
  ROOT r = (f32[4]{0}, f32[4]{0}) tuple(u, y)
}
)",
                1);
}

TEST_CASE("executor: control flow inside of calls, fusions, branches and loops equals the oracle",
          "[executor]") {
  const std::string called = R"(
minus { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }
twice { x = f32[4] parameter(0) ROOT r = f32[4] add(x, x) }
choose { i = s32[] parameter(0) x = f32[4] parameter(1)
  ROOT c = f32[4] conditional(i, x, x), branch_computations={minus, twice} }
below { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
next { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  bit = s32[] and(i, one)
  y = f32[4] call(bit, x), to_apply=choose
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[4]) tuple(j, y) }
loop { i = s32[] parameter(0) x = f32[4] parameter(1)
  t = (s32[], f32[4]) tuple(i, x)
  w = (s32[], f32[4]) while(t), condition=below, body=next
  ROOT y = f32[4] get-tuple-element(w), index=1 }
where { x = f32[4] parameter(0)
  p = u32[] partition-id()
  i = s32[] convert(p)
  ROOT y = f32[4] call(i, x), to_apply=choose }
swap { x = f32[4] parameter(0)
  y = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}
  ROOT z = f32[4] call(y), to_apply=where }
step { i = s32[] parameter(0) x = f32[4] parameter(1)
  y = f32[4] call(i, x), to_apply=choose
  ROOT z = f32[4] call(i, y), to_apply=loop }
)";
  for (const char* body :
       {"call(i, x), to_apply=choose", "call(i, x), to_apply=loop", "call(i, x), to_apply=step",
        "fusion(i, x), kind=kLoop, calls=step", "call(x), to_apply=where",
        "fusion(x), kind=kCustom, calls=where", "fusion(x), kind=kOutput, calls=swap",
        "conditional(i, x, x), branch_computations={where, swap}"}) {
    CAPTURE(body);
    expect_oracle("HloModule m, num_partitions=2" + called + R"(
ENTRY e {
  i = s32[] constant(1)
  x = f32[4] parameter(0)
  ROOT r = f32[4] )" + body +
                      "\n}\n",
                  2, {2});
    expect_oracle("HloModule m, num_partitions=2" + called + R"(
wrapped { i = s32[] parameter(0) x = f32[4] parameter(1)
  ROOT r = f32[4] )" + body +
                      R"( }
ENTRY e {
  i = s32[] constant(1)
  x = f32[4] parameter(0)
  s = ((s32[], f32[4]), f32[4], u32[]) async-start(i, x), calls=wrapped
  y = f32[4] async-done(s)
  z = f32[4] )" + body +
                      R"(
  ROOT t = (f32[4], f32[4]) tuple(y, z)
}
)",
                  2, {2});
  }
}

TEST_CASE("executor: a donated parameter's storage becomes the result, swaps included",
          "[executor]") {
  // The swapped value is handed on as it is.
  const std::string handed = GENERATE(
      "reshape(b)", "bitcast(b)", "bitcast-convert(b)", "opt-barrier(b)",
      "custom-call(b), custom_call_target=\"Sharding\"",
      "domain(b), domain={kind=\"sharding\", entry={maximal device=0}, exit={maximal device=0}}");
  CAPTURE(handed);
  const std::string text = R"(
HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias), {2}: (2, {}, may-alias) }
ENTRY e {
  a = f32[5]{0} parameter(0)
  b = f32[5]{0} parameter(1)
  c = f32[5]{0} parameter(2)
  d = f32[5]{0} add(a, b)
  e = f32[5]{0} multiply(d, c)
  h = f32[5]{0} )" + handed +
                           R"(
  ROOT r = (f32[5]{0}, f32[5]{0}, f32[5]{0}) tuple(h, a, e)
}
)";
  const auto module = parse_module(text);
  const auto arguments = small_arguments(*module, 1);
  const auto wanted = leaves(evaluate(*module, arguments[0]));
  for (const bool poison : {false, true}) {
    ProgramOptions options;
    options.poison = poison;
    Executor executor(build_program(*module, options), make_worker_pool(1));
    const auto buffers = to_buffers(arguments);
    const auto results = executor.run(buffers);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(results[i] == buffers[i]);
      CHECK(bitwise_equal(shard_array(*results[i], 0), wanted[i]));
    }
  }
}

TEST_CASE("executor: result buffers that nobody holds are used again", "[executor]") {
  const auto module = parse_module(
      "HloModule m ENTRY e { x = f32[5]{0} parameter(0) ROOT r = f32[5]{0} add(x, x) }");
  Executor executor(build_program(*module, {}), make_worker_pool(1));
  const auto arguments = to_buffers(small_arguments(*module, 1));
  const std::byte* first = executor.run(arguments)[0]->shard(0);
  const auto kept = executor.run(arguments);
  CHECK(kept[0]->shard(0) == first);
  CHECK(executor.run(arguments)[0]->shard(0) != first);
}

TEST_CASE("executor: wrong arguments are refused", "[executor]") {
  const auto module = parse_module(
      "HloModule m ENTRY e { x = f32[5]{0} parameter(0) ROOT r = f32[5]{0} add(x, x) }");
  Executor executor(build_program(*module, {}), make_worker_pool(1));
  CHECK_THROWS_WITH(executor.run({}), "executor: 0 argument buffers for 1 parameter leaves");
  const std::vector<std::shared_ptr<DeviceBuffer>> wrong{
      std::make_shared<DeviceBuffer>(Shape(DType::s32, {5}), 1)};
  CHECK_THROWS_WITH(executor.run(wrong),
                    "executor: argument 0 is s32[5] on 1 devices; the program takes f32[5] on 1");
  ProgramOptions none;
  none.num_devices = 0;
  CHECK_THROWS_WITH(build_program(*module, none), "build_program: 0 devices; give 1 or more");
}

TEST_CASE("executor: small programs run on the calling thread, with the same bits and errors",
          "[executor]") {
  const auto module = parse_module("HloModule m, num_partitions=4" + kSum + R"(
ENTRY e {
  x = f32[64]{0} parameter(0)
  z = f32[] constant(0)
  n = f32[64]{0} exponential(x)
  s = f32[64]{0} all-reduce(n), replica_groups={}, to_apply=sum, channel_id=1, use_global_device_ids=true
  ROOT r = f32[] reduce(s, z), dimensions={0}, to_apply=sum
}
)");
  const auto arguments = to_buffers(small_arguments(*module, 4));
  std::vector<Array> results;
  for (const double alone_below : {0., 1e9}) {
    ProgramOptions options;
    options.num_devices = 4;
    options.alone_below = alone_below;
    Executor executor(build_program(*module, options), make_worker_pool(3));
    results.push_back(shard_array(*executor.run(arguments)[0], 3));
    CHECK(executor.counters().collectives == 1);
  }
  CHECK(bitwise_equal(results[0], results[1]));
}

TEST_CASE("executor: of devices that fail the first is named, whoever runs it", "[executor]") {
  // Devices 3 to 7 make a size below the 4 that there are.
  const auto module = parse_module(R"(HloModule m, num_partitions=8
ENTRY e {
  x = s32[4]{0} parameter(0)
  id = u32[] partition-id()
  n = s32[] convert(id)
  six = s32[] constant(6)
  rest = s32[] subtract(six, n)
  four = s32[] constant(4)
  size = s32[] minimum(rest, four)
  set = s32[<=4]{0} set-dimension-size(x, size), dimensions={0}
  ROOT r = s32[] get-dimension-size(set), dimensions={0}
}
)");
  const auto arguments = to_buffers(small_arguments(*module, 8));
  for (const double alone_below : {0., 1e9}) {
    ProgramOptions options;
    options.num_devices = 8;
    options.alone_below = alone_below;
    Executor executor(build_program(*module, options), make_worker_pool(3));
    for (int run = 0; run < 50; ++run)
      CHECK_THROWS_WITH(executor.run(arguments), Catch::Contains("on device 3:"));
  }
}

TEST_CASE("device buffers: what a buffer held before is gone, tails of uneven dims too",
          "[executor]") {
  const Sharding sharding = parse_sharding("{devices=[4]<=[4]}");
  const auto buffer = scatter_to_devices(Array::of<float>({5}, {1, 2, 3, 4, 5}), sharding, 4);
  const Array zeros(DType::f32, {5});
  for (int64_t d = 0; d < 4; ++d) std::memset(buffer->shard(d), 0xff, 2 * sizeof(float));
  ShardCopies(zeros.shape(), sharding, 4).scatter(Array::of<float>({5}, {6, 7, 8, 9, 10}), *buffer);
  CHECK(shard_array(*buffer, 2).at(0) == 10);
  CHECK(shard_array(*buffer, 2).at(1) == 0);
  CHECK(shard_array(*buffer, 3).at(1) == 0);
  CHECK(gather_to_host(*buffer, zeros.shape(), sharding).at(4) == 10);
}

TEST_CASE(
    "device buffers: large arrays are moved in parts, and zeros that nobody touched not at all",
    "[executor]") {
  const Shape shape(DType::s32, {1000, 1500});
  Array numbers(shape);
  for (size_t i = 0; i < numbers.data<int32_t>().size(); ++i)
    numbers.data<int32_t>()[i] = static_cast<int32_t>(i);
  for (const char* text : {"{devices=[3,1]<=[3]}", "{devices=[1,3]<=[3]}", "{replicated}"}) {
    const Sharding sharding = parse_sharding(text);
    const auto buffer = scatter_to_devices(numbers, sharding, 3);
    CHECK(bitwise_equal(gather_to_host(*buffer, shape, sharding), numbers));
    const Array zeros(shape);
    CHECK(is_untouched_zero(zeros));
    const auto empty = scatter_to_devices(zeros, sharding, 3);
    CHECK(is_untouched_zero(zeros));
    CHECK(bitwise_equal(gather_to_host(*empty, shape, sharding), zeros));
    zeros.data<int32_t>()[7] = 5;
    CHECK_FALSE(is_untouched_zero(zeros));
    CHECK(gather_to_host(*scatter_to_devices(zeros, sharding, 3), shape, sharding).at(7) == 5);
  }
}

TEST_CASE("device buffers: a global array is scattered into uneven shards and gathered again",
          "[executor]") {
  Array global(DType::f32, {7, 3});
  for (int64_t i = 0; i < global.size(); ++i) global.set(i, double(i));
  const Sharding sharding = parse_sharding("{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
  const auto buffer = scatter_to_devices(global, sharding, 8);
  CHECK(buffer->shape() == Shape(DType::f32, {2, 3}));
  CHECK(bitwise_equal(shard_array(*buffer, 6), Array::of<float>({2, 3}, {18, 19, 20, 0, 0, 0})));
  CHECK(bitwise_equal(shard_array(*buffer, 3), Array::of<float>({2, 3}, {6, 7, 8, 9, 10, 11})));
  CHECK(bitwise_equal(gather_to_host(*buffer, global.shape(), sharding), global));
}

TEST_CASE("device buffers: a scalar on one device is scattered to it and gathered from it",
          "[executor]") {
  const Sharding sharding = Sharding::maximal(1);
  const Array global = Array::scalar(3.0f);
  const auto buffer = scatter_to_devices(global, sharding, 3);
  for (int64_t device = 0; device < 3; ++device)
    CHECK(shard_array(*buffer, device).item() == (device == 1 ? 3 : 0));
  CHECK(gather_to_host(*buffer, global.shape(), sharding).item() == 3);
}

TEST_CASE(
    "executor: what an inner loop hands on unchanged keeps its value while the outer one goes on",
    "[executor]") {
  expect_oracle(R"(HloModule m
more { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3) ROOT c = pred[] compare(i, n), direction=LT }
inner { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = s32[] get-tuple-element(p), index=1
  o = s32[] constant(1) j = s32[] add(i, o) ROOT t = (s32[], s32[]) tuple(j, x) }
outer_more { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3) ROOT c = pred[] compare(i, n), direction=LT }
outer { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 z = s32[] constant(0)
  t = (s32[], s32[]) tuple(z, i) w = (s32[], s32[]) while(t), condition=more, body=inner
  x = s32[] get-tuple-element(w), index=1 o = s32[] constant(1) j = s32[] add(i, o) ROOT r = (s32[], s32[]) tuple(j, x) }
ENTRY e { a = s32[] parameter(0) z = s32[] constant(0) t = (s32[], s32[]) tuple(z, a)
  ROOT w = (s32[], s32[]) while(t), condition=outer_more, body=outer }
)",
                1);
}

TEST_CASE(
    "executor: a value that a fusion reads under two names is not overwritten between the reads",
    "[executor]") {
  expect_oracle(R"(HloModule m
both { a = f32[4,8] parameter(0) b = f32[4,8] parameter(1) c = f32[4,8] parameter(2)
  m = f32[4,8] multiply(a, c) n = f32[4,8] maximum(b, c) ROOT t = (f32[4,8], f32[4,8]) tuple(m, n) }
ENTRY e { x = f32[4,8] parameter(0) y = f32[4,8] parameter(1)
  s = f32[4,8] add(x, y) o = f32[4,8] opt-barrier(s)
  f = (f32[4,8], f32[4,8]) fusion(s, o, y), kind=kLoop, calls=both
  m = f32[4,8] get-tuple-element(f), index=0 n = f32[4,8] get-tuple-element(f), index=1
  ROOT r = f32[4,8] subtract(m, n) }
)",
                1);
}

}  // namespace gspmd
