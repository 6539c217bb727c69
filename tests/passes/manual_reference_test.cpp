#include "gspmd/passes/verify/manual_reference.h"

#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

namespace gspmd {
namespace {

const char* const kRegion = R"(HloModule m, num_partitions=4
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[7,2] parameter(0), sharding={devices=[4,1]<=[4]}
  l = f32[2,2] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  r = f32[2,2] all-reduce(l), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum, sharding={manual}
  i = u32[] partition-id(), sharding={manual}
  f = f32[] convert(i), sharding={manual}
  b = f32[2,2] broadcast(f), dimensions={}, sharding={manual}
  a = f32[2,2] add(r, b), sharding={manual}
  ROOT o = f32[7,2] custom-call(a), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,1]<=[4]}
})";

}  // namespace

TEST_CASE("a manual region means what copies compute that cut and gather at its borders") {
  const auto module = parse_module(kRegion);
  REQUIRE(has_manual_regions(*module));
  const auto copies = copies_with_regions(*module);
  CHECK_FALSE(has_manual_regions(*copies));
  std::vector<double> numbers;
  for (int i = 0; i < 14; ++i) numbers.push_back(i);
  Array x(DType::f32, {7, 2});
  for (int64_t i = 0; i < 14; ++i) x.set(i, numbers[static_cast<size_t>(i)]);
  const std::vector<std::vector<Value>> all(4, {Value{x, {}, false}});
  const std::vector<Value> results = evaluate_devices(*copies, 4, all);
  // Rows 0, 2, 4, 6 are summed and rows 1, 3, 5 and a row of zeros; each shard adds its number.
  const double sums[2][2] = {{0 + 4 + 8 + 12, 1 + 5 + 9 + 13}, {2 + 6 + 10, 3 + 7 + 11}};
  for (const Value& result : results)
    for (int64_t row = 0; row < 7; ++row)
      for (int64_t column = 0; column < 2; ++column)
        CHECK(result.array.at(row * 2 + column) ==
              sums[row % 2][column] + static_cast<double>(row / 2));
}

TEST_CASE("copies cut a dim of one element: one device has it, the others zero") {
  const auto module = parse_module(R"(HloModule m, num_partitions=4
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[1] parameter(0), sharding={devices=[4]<=[4]}
  l = f32[1] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  r = f32[1] all-reduce(l), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum, sharding={manual}
  ROOT o = f32[1] custom-call(r), custom_call_target="SPMDShardToFullShape", sharding={devices=[4]<=[4]}
})");
  Array x(DType::f32, {1});
  x.set(0, 5);
  const std::vector<std::vector<Value>> all(4, {Value{x, {}, false}});
  for (const Value& result : evaluate_devices(*copies_with_regions(*module), 4, all))
    CHECK(result.array.at(0) == 5);
}

TEST_CASE("a region whose border has no sharding is refused by name") {
  std::string text = kRegion;
  const std::string sharding = ", sharding={devices=[4,1]<=[4]}";
  text.erase(text.find(sharding), sharding.size());
  const auto module = parse_module(text);
  CHECK_THROWS_WITH(copies_with_regions(*module),
                    Catch::Contains("SPMDFullToShardShape") && Catch::Contains("\"x\""));
}

}  // namespace gspmd
