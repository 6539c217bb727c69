#include "moves/table_reshard.h"

#include <algorithm>

#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace table_reshard_test {
namespace {

struct Kinds {
  std::vector<ReshardKind> kinds;  // sorted: which of two that cost the same comes first is free
  int64_t most_parts = 0;          // of a dim, anywhere on the way
};

Kinds kinds_of(const ReshardPlan& plan) {
  Kinds kinds;
  for (const ReshardStep& step : plan.steps) {
    kinds.kinds.push_back(step.kind);
    for (int64_t d = 0; d < 2; ++d)
      kinds.most_parts = std::max(kinds.most_parts, step.after.tiles(d));
  }
  std::sort(kinds.kinds.begin(), kinds.kinds.end());
  return kinds;
}

constexpr std::pair<int64_t, int64_t> kMeshes[] = {{2, 4}, {16, 32}, {32, 128}, {128, 512}};

}  // namespace

TEST_CASE("digits trade places between two dims the same way on meshes of all sizes", "[reshard]") {
  for (const auto& [x, y] : kMeshes) {
    const Mesh mesh{{"x", x}, {"y", y}};
    const Shape shape(DType::f32, {1024, 1024});
    const ReshardPlan plan =
        plan_reshard(shape, mesh_sharding(mesh, {{1}, {0}}), mesh_sharding(mesh, {{0}, {1}}));
    INFO(to_string(mesh) << ": " << to_string(plan));
    const Kinds kinds = kinds_of(plan);
    CHECK(kinds.kinds == std::vector{ReshardKind::all_to_all, ReshardKind::collective_permute});
    CHECK(kinds.most_parts == y);
    // What moves on its own: all but one of y/x parts of a shard, then whole shards.
    const int64_t shard = 1024 * 1024 * 4 / (x * y);
    CHECK(plan.cost.bytes == shard - shard * x / y + shard);
  }
}

TEST_CASE("a table moves to its new layout in parts, and is gathered last", "[reshard]") {
  for (const auto& [x, y] : kMeshes) {
    const Mesh mesh{{"x", x}, {"y", y}};
    for (const int64_t size : {1024, 65536}) {
      const Shape shape(DType::f32, {size, size});
      const Sharding from = mesh_sharding(mesh, {{1}, {0}}), to = mesh_sharding(mesh, {{}, {1}});
      const ReshardPlan plan = plan_table_reshard(shape, from, to);
      INFO(to_string(mesh) << " of " << size << ": " << to_string(plan));
      const Kinds kinds = kinds_of(plan);
      CHECK(kinds.kinds == std::vector{ReshardKind::all_gather, ReshardKind::all_to_all,
                                       ReshardKind::collective_permute});
      CHECK(kinds.most_parts == y);
      CHECK(plan.steps.back().kind == ReshardKind::all_gather);
      CHECK(plan.steps.back().after == to);
      const ReshardPlan cheapest = plan_reshard(shape, from, to);
      CHECK(plan.cost.bytes <= cheapest.cost.bytes + cheapest.cost.bytes / 4);
    }
  }
}

TEST_CASE("a table that is only gathered, or only moved, goes the cheapest way", "[reshard]") {
  const Mesh mesh{{"x", 2}, {"y", 4}};
  const Shape shape(DType::f32, {64, 64});
  const auto same = [&](const Sharding& from, const Sharding& to) {
    const ReshardPlan plan = plan_table_reshard(shape, from, to, 8);
    INFO(to_string(plan));
    CHECK(to_string(plan) == to_string(plan_reshard(shape, from, to, 8)));
  };
  same(mesh_sharding(mesh, {{1}, {0}}), mesh_sharding(mesh, {{}, {0}}));
  same(mesh_sharding(mesh, {{1}, {}}), mesh_sharding(mesh, {{}, {1}}));
  same(mesh_sharding(mesh, {{1}, {0}}), mesh_sharding(mesh, {{0}, {1}}));
  same(mesh_sharding(mesh, {{1}, {0}}), Sharding::replicated());
  same(Sharding::replicated(), mesh_sharding(mesh, {{1}, {0}}));
}

}  // namespace table_reshard_test
