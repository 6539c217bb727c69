// Reshards between all devices and a part of them: near the bound at every size, planned without
// looking at what cannot be cheaper.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "gspmd/moves/reshard.h"
#include "moves/pieces.h"
#include "moves/reshard_search.h"

using namespace gspmd;

namespace {

std::string every(int64_t count, int64_t stride, int64_t first) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += fmt::format("{}{}", i ? "," : "", first + i * stride);
  return text;
}

}  // namespace

TEST_CASE("reshard: between all devices and every so many within twice the bound") {
  int64_t checked = 0;
  for (const int64_t n : {128, 256, 1024})
    for (const int64_t stride : {2, 4, 8})
      for (const int64_t first : {0, 1}) {
        const int64_t k = n / stride, a = n == 256 ? 16 : 8;
        const std::string list = every(k, stride, first);
        const std::vector<std::string> some = {
            fmt::format("{{devices=[{},1]{}}}", k, list),
            fmt::format("{{devices=[{},{}]{}}}", k / 4, 4, list),
            fmt::format("{{devices=[{},1,{}]{} last_tile_dim_replicate}}", k / 4, 4, list)};
        const std::vector<std::string> all = {
            fmt::format("{{devices=[{0},1]<=[{0}]}}", n),
            fmt::format("{{devices=[1,{0}]<=[{0}]}}", n),
            fmt::format("{{devices=[{},{}]<=[{}]}}", n / a, a, n),
            fmt::format("{{devices=[{},1,{}]<=[{}] last_tile_dim_replicate}}", n / a, a, n),
            "{replicated}"};
        const Shape shape(DType::f32, {4 * n, 4 * n});
        for (const std::string& x : some)
          for (const std::string& y : all)
            for (const bool out : {false, true}) {
              const Sharding from = parse_sharding(out ? x : y, 2),
                             to = parse_sharding(out ? y : x, 2);
              const ReshardPlan plan = plan_reshard(shape, from, to, n);
              const int64_t bound =
                  4 * elements_needed(held_boxes(shape, from, n), held_boxes(shape, to, n));
              INFO(n << " " << (out ? x : y) << " to " << (out ? y : x) << " " << to_string(plan));
              CHECK(plan.cost.bytes <= 2 * bound);
              ++checked;
            }
      }
  CHECK(checked == 3 * 3 * 2 * 3 * 5 * 2);
}

TEST_CASE("reshard: a part of 65,536 devices is planned without a table of them", "[scale]") {
  const int64_t n = 65536;
  const Shape shape(DType::f32, {4 * n, 64});
  const Sharding some = Sharding::tiled(stepped_order(0, {{n / 2, 2}}), {{{n / 2, 1}}});
  const Sharding all = Sharding::tiled(iota_order(n), {{{n, 1}}});
  const int64_t before = transfers_planned();
  const ReshardPlan out = plan_reshard(shape, some, all, n), in = plan_reshard(shape, all, some, n);
  CHECK(transfers_planned() == before);
  for (const ReshardPlan& plan : {out, in})
    for (const ReshardStep& step : plan.steps) CHECK(step.pieces == nullptr);
  CHECK(out.cost.bytes == 4 * 4 * 64);  // its shard is cut, and half of it is sent on
  CHECK(in.cost.bytes == 4 * 4 * 64);   // the other half
}

TEST_CASE("reshard: moves of pieces that cannot be cheaper are not planned") {
  const std::string half = "{devices=[2,2,1,1,2]0,1,3,7,8,10,11,15 last_tile_dim_replicate}";
  const Shape shape(DType::f32, {15, 7, 3, 2});
  const int64_t before = transfers_planned();
  const ReshardPlan plan =
      plan_reshard(shape, parse_sharding(half, 4), parse_sharding("{replicated}"), 16);
  CHECK(plan.cost.bytes == 2652);             // the bound is 2520
  CHECK(transfers_planned() - before < 600);  // of 3875 that were planned before bounds came first
}

// Layouts of many small parts have more neighbours by permutes than can be looked at.
TEST_CASE("reshard: the moves that a search looks at are bounded") {
  struct Case {
    Dims dims;
    const char *from, *to;
    int64_t devices;
  };
  const Case cases[] = {
      {{16, 8, 16, 8},
       "{devices=[2,1,1,4,128]<=[4,8,2,2,2,2,2]T(5,2,6,1,0,3,4) last_tile_dim_replicate}",
       "{devices=[4,8,4,1,8]<=[4,64,4]T(1,0,2) last_tile_dim_replicate}",
       1024},
      {{513, 100, 100},
       "{devices=[16,16,1,2]<=[8,2,8,2,2]T(1,3,0,4,2) last_tile_dim_replicate}",
       "{devices=[8,64,1]<=[512]}",
       512}};
  for (const Case& c : cases) {
    const Shape shape(DType::s32, c.dims);
    const auto rank = static_cast<int64_t>(c.dims.size());
    const Sharding from = parse_sharding(c.from, rank), to = parse_sharding(c.to, rank);
    const int64_t before = reshard_moves_looked_at();
    const ReshardPlan plan = plan_reshard(shape, from, to, c.devices);
    INFO(to_string(plan));
    CHECK(reshard_moves_looked_at() - before < 500'000);
    REQUIRE(!plan.steps.empty());
    CHECK(equivalent(plan.steps.back().after, to));
    CHECK(plan.cost.bytes <= shape.bytes());
  }
}
