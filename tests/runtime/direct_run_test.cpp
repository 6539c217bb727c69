#include "runtime/direct_run.h"

#include "runtime/run_text.h"

namespace gspmd {
namespace {

std::shared_ptr<const Program> small_program(const Module& module, int64_t devices,
                                             bool alone = true) {
  ProgramOptions options;
  options.num_devices = devices;
  options.alone_below = alone ? 1e9 : 0;
  return build_program(module, options);
}

std::vector<std::shared_ptr<DeviceBuffer>> numbers_on(int64_t devices, float first) {
  const auto buffer = std::make_shared<DeviceBuffer>(Shape(DType::f32, {3}), devices);
  for (int64_t d = 0; d < devices; ++d)
    for (int64_t i = 0; i < 3; ++i)
      reinterpret_cast<float*>(buffer->shard(d))[i] = first + float(10 * d + i);
  return {buffer};
}

const char* const kTwice = R"(HloModule m, num_partitions=2
ENTRY e {
  x = f32[3]{0} parameter(0)
  ROOT r = f32[3]{0} add(x, x)
}
)";

}  // namespace

TEST_CASE("direct runs: every call reads its own arguments and writes a result of its own",
          "[executor]") {
  const auto module = parse_module(kTwice);
  Executor executor(small_program(*module, 2), make_worker_pool(3));
  const auto a = numbers_on(2, 1), b = numbers_on(2, 100);
  const auto expect = [](const DeviceBuffer& result, float first) {
    for (int64_t d = 0; d < 2; ++d)
      for (int64_t i = 0; i < 3; ++i)
        CHECK(shard_array(result, d).at(i) == 2 * (first + float(10 * d + i)));
  };
  const auto of_a = executor.run(a)[0], again = executor.run(a)[0], of_b = executor.run(b)[0];
  CHECK(of_a != again);  // the first one is still held
  expect(*of_a, 1);
  expect(*again, 1);
  expect(*of_b, 100);
  for (int i = 0; i < 3; ++i) {  // the same buffers in every call
    expect(*executor.run(a)[0], 1);
    expect(*executor.run(b)[0], 100);
  }
  std::vector<std::shared_ptr<DeviceBuffer>> x = numbers_on(2, 1);
  for (int i = 0; i < 6; ++i) x = executor.run(x);  // results go round as arguments
  CHECK(shard_array(*x[0], 1).at(2) == 64 * 13);
  CHECK(executor.counters().runs == 15);
}

TEST_CASE("direct runs: arguments that changed since the last call are checked", "[executor]") {
  const auto module = parse_module(kTwice);
  Executor executor(small_program(*module, 2), make_worker_pool(1));
  const auto a = numbers_on(2, 1);
  executor.run(a);
  CHECK_THROWS_WITH(executor.run({}), "executor: 0 argument buffers for 1 parameter leaves");
  const std::vector<std::shared_ptr<DeviceBuffer>> null{nullptr};
  CHECK_THROWS_WITH(executor.run(null), "executor: argument 0 is null");
  CHECK_THROWS_WITH(executor.run(numbers_on(3, 1)),
                    "executor: argument 0 is f32[3] on 3 devices; the program takes f32[3] on 2");
  CHECK(shard_array(*executor.run(a)[0], 1).at(0) == 22);
}

TEST_CASE("direct runs: a buffer whose parts moved is placed anew", "[executor]") {
  const auto module = parse_module(kTwice);
  Executor executor(small_program(*module, 2), make_worker_pool(1));
  const auto a = numbers_on(2, 1);
  executor.run(a);
  const uint64_t before = a[0]->placement();
  a[0]->share({0, 0});
  CHECK(a[0]->placement() != before);
  CHECK(shard_array(*executor.run(a)[0], 1).at(0) == 2);
  const uint64_t shared = a[0]->placement();
  a[0]->share({0, 0});  // as they are
  CHECK(a[0]->placement() == shared);
  a[0]->separate();
  CHECK(a[0]->placement() != shared);
  reinterpret_cast<float*>(a[0]->shard(1))[0] = 7;
  CHECK(shard_array(*executor.run(a)[0], 1).at(0) == 14);
  CHECK(shard_array(*executor.run(a)[0], 0).at(0) == 2);
  CHECK(numbers_on(2, 1)[0]->placement() != a[0]->placement());
}

TEST_CASE("direct runs: results of donated arguments, in every call", "[executor]") {
  const auto module = parse_module(R"(HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  x = f32[3]{0} parameter(0)
  y = f32[3]{0} parameter(1)
  ROOT r = f32[3]{0} subtract(x, y)
}
)");
  Executor executor(small_program(*module, 1), make_worker_pool(1));
  std::vector<std::shared_ptr<DeviceBuffer>> both{numbers_on(1, 50)[0], numbers_on(1, 1)[0]};
  const DeviceBuffer* const state = both[0].get();
  for (int i = 0; i < 4; ++i) {
    both[0] = executor.run(both)[0];
    CHECK(both[0].get() == state);
  }
  CHECK(shard_array(*both[0], 0).at(2) == 52 - 4 * 3);
  both[1] = both[0];
  CHECK_THROWS_WITH(executor.run(both), "executor: argument 0 is donated and passed 2 times");
}

TEST_CASE("direct runs: programs with collectives, loops or others' help are none of them",
          "[executor]") {
  // Each in its own way: results are the oracle's, whoever runs them.
  const auto module = parse_module(R"(HloModule m, num_partitions=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
goes_on { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
body {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[3]{0} get-tuple-element(s), index=1
  y = f32[3]{0} add(x, x)
  ROOT r = (s32[], f32[3]) tuple(next, y)
}
ENTRY e {
  x = f32[3]{0} parameter(0)
  n = f32[3]{0} negate(x)
  s = f32[3]{0} all-reduce(n), replica_groups={}, to_apply=sum, channel_id=1, use_global_device_ids=true
  zero = s32[] constant(0)
  t = (s32[], f32[3]) tuple(zero, s)
  w = (s32[], f32[3]) while(t), condition=goes_on, body=body
  ROOT r = f32[3]{0} get-tuple-element(w), index=1
}
)");
  const auto arguments = small_arguments(*module, 2);
  const std::vector<Value> wanted = evaluate_devices(*module, 2, arguments);
  for (const bool alone : {true, false}) {
    Executor executor(small_program(*module, 2, alone), make_worker_pool(2));
    for (int i = 0; i < 3; ++i) {
      const auto result = executor.run(to_buffers(arguments))[0];
      for (int64_t d = 0; d < 2; ++d)
        CHECK(bitwise_equal(shard_array(*result, d), wanted[size_t(d)].array));
    }
    CHECK(executor.counters().collectives == 3);
  }
}

}  // namespace gspmd
