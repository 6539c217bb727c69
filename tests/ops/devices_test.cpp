#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

// s32 values of device d's result when device d's argument is {first + d * step, ...}.
std::vector<std::vector<int32_t>> run_devices(const std::string& body,
                                              const std::vector<std::vector<int32_t>>& arguments) {
  const auto count = static_cast<int64_t>(arguments.size());
  const std::unique_ptr<Module> module = parse_module(with_entry(body, count));
  std::vector<std::vector<Value>> values;
  for (const std::vector<int32_t>& argument : arguments)
    values.push_back(
        {{Array::of<int32_t>({static_cast<int64_t>(argument.size())}, argument), {}, false}});
  std::vector<std::vector<int32_t>> results;
  for (const Value& value : evaluate_devices(*module, count, values)) {
    std::vector<int32_t>& result = results.emplace_back();
    for (const Array& leaf : leaves(value))
      result.insert(result.end(), leaf.data<int32_t>().begin(), leaf.data<int32_t>().end());
  }
  return results;
}

using Rows = std::vector<std::vector<int32_t>>;
const Rows kFour = {{1, 2}, {10, 20}, {100, 200}, {1000, 2000}};
const std::string kA = "a = s32[2] parameter(0)\n";

}  // namespace

TEST_CASE("collectives do what HLO says, on lists of groups and on iota groups", "[collective]") {
  CHECK(
      run_devices(kA + "ROOT r = s32[2] all-reduce(a), channel_id=1, replica_groups={{0,2},{3,1}}, "
                       "use_global_device_ids=true, to_apply=sum_s32",
                  kFour) == Rows{{101, 202}, {1010, 2020}, {101, 202}, {1010, 2020}});
  CHECK(run_devices(kA + "ROOT r = s32[2] all-reduce(a), channel_id=1, replica_groups={}, "
                         "use_global_device_ids=true, to_apply=sum_s32",
                    kFour) == Rows(4, {1111, 2222}));
  CHECK(run_devices(kA + "ROOT r = s32[4] all-gather(a), channel_id=1, "
                         "replica_groups={{2,0},{1,3}}, dimensions={0}, use_global_device_ids=true",
                    kFour) ==
        Rows{{100, 200, 1, 2}, {10, 20, 1000, 2000}, {100, 200, 1, 2}, {10, 20, 1000, 2000}});
  CHECK(run_devices(
            kA + "ROOT r = s32[4] all-gather(a), channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), "
                 "dimensions={0}, use_global_device_ids=true",
            kFour) ==
        Rows{{1, 2, 100, 200}, {10, 20, 1000, 2000}, {1, 2, 100, 200}, {10, 20, 1000, 2000}});
  CHECK(run_devices(
            kA + "ROOT r = s32[1] reduce-scatter(a), channel_id=1, replica_groups={{1,0},{2,3}}, "
                 "dimensions={0}, use_global_device_ids=true, to_apply=sum_s32",
            kFour) == Rows{{22}, {11}, {1100}, {2200}});
  CHECK(run_devices(kA + "ROOT r = s32[2] all-to-all(a), channel_id=1, "
                         "replica_groups={{0,1},{2,3}}, dimensions={0}",
                    kFour) == Rows{{1, 10}, {2, 20}, {100, 1000}, {200, 2000}});
  CHECK(run_devices(kA + "b = s32[2] add(a, a)\nROOT r = (s32[2], s32[2]) all-to-all(a, b), "
                         "channel_id=1, replica_groups={{0,1},{2,3}}",
                    kFour) ==
        Rows{{1, 2, 10, 20}, {2, 4, 20, 40}, {100, 200, 1000, 2000}, {200, 400, 2000, 4000}});
  CHECK(run_devices(kA + "ROOT r = s32[2] collective-permute(a), channel_id=1, "
                         "source_target_pairs={{0,1},{1,3},{2,2}}",
                    kFour) == Rows{{0, 0}, {1, 2}, {100, 200}, {10, 20}});
  CHECK(run_devices(kA + "b = s32[2] multiply(a, a)\nROOT r = (s32[2], s32[2]) all-reduce(a, b), "
                         "channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, "
                         "to_apply=sum_s32",
                    kFour) == Rows{{11, 22, 101, 404},
                                   {11, 22, 101, 404},
                                   {1100, 2200, 1010000, 4040000},
                                   {1100, 2200, 1010000, 4040000}});
}

TEST_CASE("partition-id differs between devices, also inside a call", "[collective]") {
  const std::string text = R"(HloModule m, num_partitions=3
id {
p = u32[] partition-id()
ROOT q = s32[] convert(p)
}
ENTRY main {
a = s32[2] parameter(0)
i = s32[] call(), to_apply=id
b = s32[2] broadcast(i), dimensions={}
ROOT r = s32[2] add(a, b)
})";
  const std::unique_ptr<Module> module = parse_module(text);
  const Value argument{Array::of<int32_t>({2}, {5, 6}), {}, false};
  const std::vector<Value> results =
      evaluate_devices(*module, 3, {{argument}, {argument}, {argument}});
  for (int32_t d = 0; d < 3; ++d)
    CHECK(bitwise_equal(results[static_cast<size_t>(d)].array,
                        Array::of<int32_t>({2}, {5 + d, 6 + d})));
}

namespace {

// Each device loops while its counter is below its argument; the body adds over `groups`.
std::string loop_text(const std::string& groups) {
  return R"(HloModule m, num_partitions=4
sum {
x = s32[] parameter(0)
y = s32[] parameter(1)
ROOT z = s32[] add(x, y)
}
below {
s = (s32[], s32[], s32[]) parameter(0)
n = s32[] get-tuple-element(s), index=0
end = s32[] get-tuple-element(s), index=1
ROOT go = pred[] compare(n, end), direction=LT
}
step {
s = (s32[], s32[], s32[]) parameter(0)
n = s32[] get-tuple-element(s), index=0
end = s32[] get-tuple-element(s), index=1
x = s32[] get-tuple-element(s), index=2
one = s32[] constant(1)
m = s32[] add(n, one)
y = s32[] all-reduce(x), channel_id=1, use_global_device_ids=true, to_apply=sum, replica_groups=)" +
         groups + R"(
ROOT t = (s32[], s32[], s32[]) tuple(m, end, y)
}
ENTRY main {
end = s32[] parameter(0)
x = s32[] parameter(1)
zero = s32[] constant(0)
t = (s32[], s32[], s32[]) tuple(zero, end, x)
w = (s32[], s32[], s32[]) while(t), condition=below, body=step
ROOT r = s32[] get-tuple-element(w), index=2
})";
}

std::vector<std::vector<Value>> loop_arguments(const std::vector<int32_t>& ends) {
  std::vector<std::vector<Value>> arguments;
  for (const int32_t end : ends)
    arguments.push_back(
        {{Array::scalar<int32_t>(end), {}, false}, {Array::scalar<int32_t>(1), {}, false}});
  return arguments;
}

}  // namespace

TEST_CASE("a loop that devices leave at different times runs for each subset", "[collective]") {
  const std::unique_ptr<Module> module = parse_module(loop_text("{{0,1},{2,3}}"));
  const std::vector<Value> results = evaluate_devices(*module, 4, loop_arguments({1, 1, 3, 3}));
  std::vector<double> values;
  for (const Value& value : results) values.push_back(value.array.item());
  CHECK(values == std::vector<double>{2, 2, 8, 8});
}

TEST_CASE("a collective that only part of its group reaches is an error that names it",
          "[collective]") {
  const std::unique_ptr<Module> module = parse_module(loop_text("{{0,1,2,3}}"));
  CHECK_THROWS_AS(evaluate_devices(*module, 4, loop_arguments({1, 1, 3, 3})), ExecutionError);
  CHECK_THROWS_WITH(
      evaluate_devices(*module, 4, loop_arguments({1, 1, 3, 3})),
      Catch::Contains("all-reduce: \"y\" is reached by 2 of the 4 devices of its group {0,1,2,3}"));
}

TEST_CASE("devices and groups have to agree", "[collective]") {
  const auto fails = [](const std::string& line, const std::string& message) {
    CHECK_THROWS_WITH(run_devices(kA + line, kFour), Catch::Contains(message));
  };
  fails(
      "ROOT r = s32[2] all-reduce(a), channel_id=1, replica_groups={{0,1},{2,7}}, "
      "use_global_device_ids=true, to_apply=sum_s32",
      "names device 7, there are 4");
  fails(
      "ROOT r = s32[2] all-reduce(a), channel_id=1, replica_groups={{0,1}}, "
      "use_global_device_ids=true, to_apply=sum_s32",
      "device 2 is in no group");
  fails("ROOT r = s32[2] collective-permute(a), channel_id=1, source_target_pairs={{0,9}}",
        "names devices 0 and 9, there are 4");
  const std::unique_ptr<Module> module = parse_module(with_entry(kA + "ROOT r = s32[2] negate(a)"));
  CHECK_THROWS_WITH(evaluate_devices(*module, 2, {}),
                    Catch::Contains("arguments of 0 devices are given for 2"));
}

}  // namespace gspmd::testing
