#include "gspmd/moves/reshard.h"

#include <chrono>
#include <cstdlib>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "load.h"
#include "passes/reshard_reference.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace reshard_test {
namespace {

struct Case {
  Mesh mesh;
  Dims dims;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list{{Mesh{{"x", 2}, {"y", 4}}, {8, 16}},
                                      {Mesh{{"x", 2}, {"y", 4}}, {5, 7}},
                                      {Mesh{{"x", 2}, {"y", 4}}, {8, 16, 24}},
                                      {Mesh{{"x", 2}, {"y", 4}}, {5, 7, 9}},
                                      {Mesh{{"x", 6}}, {12, 18}},
                                      {Mesh{{"x", 6}}, {5, 8, 7}},
                                      {Mesh{{"x", 2}, {"y", 3}}, {12, 18}},
                                      {Mesh{{"x", 2}, {"y", 3}}, {5, 7}},
                                      {Mesh{{"x", 2}, {"y", 2}, {"z", 2}}, {8, 16}},
                                      {Mesh{{"x", 2}, {"y", 2}, {"z", 2}}, {5, 9}},
                                      {Mesh{{"x", 2}, {"y", 2}, {"z", 2}}, {8, 16, 24}},
                                      {Mesh{{"x", 2}, {"y", 2}, {"z", 2}}, {6, 7, 9}}};
  return list;
}

std::vector<Sharding> shardings(const Case& c) {
  std::vector<Sharding> result;
  for (const AxisLists& lists : all_axis_lists(c.mesh.rank(), static_cast<int64_t>(c.dims.size())))
    result.push_back(sharding_of(c.mesh, lists));
  return result;
}

bool is_even(const Case& c) {
  return std::all_of(c.dims.begin(), c.dims.end(),
                     [&](int64_t d) { return d % c.mesh.num_devices() == 0; });
}

bool has_parts(const Mesh& mesh) {
  return std::any_of(mesh.axes().begin(), mesh.axes().end(),
                     [](const MeshAxis& axis) { return axis.size > 3; });
}

std::string title(const Case& c, const Sharding& from, const Sharding& to) {
  return fmt::format("{} {}: {} -> {}", to_string(c.mesh), to_string(Shape(DType::f32, c.dims)),
                     to_string(from), to_string(to));
}

// All atoms of the mesh are seen by the planner: no two axes are always used as one.
bool tells_axes_apart(const Case& c, const Sharding& from, const Sharding& to) {
  std::vector<Digits> lists;
  for (size_t d = 0; d < c.dims.size(); ++d)
    for (const Sharding* s : {&from, &to}) lists.push_back(s->dim(static_cast<int64_t>(d)));
  return static_cast<int64_t>(common_atoms(lists)->size()) == c.mesh.rank();
}

ReshardCost gather_and_slice(const Shape& shape, const Sharding& from, const Sharding& to) {
  const Sharding whole = Sharding::replicated();
  const ReshardCost in = plan_reshard(shape, from, whole).cost;
  const ReshardCost out = plan_reshard(shape, whole, to).cost;
  return {in.bytes + out.bytes, in.steps + out.steps};
}

std::string plan_text(const std::string& shape, const std::string& from, const std::string& to) {
  const auto module =
      parse_module(fmt::format("HloModule m\nENTRY e {{ a = {0} parameter(0), sharding={1}\n ROOT "
                               "b = {0} copy(a), sharding={2} }}",
                               shape, from, to));
  const Node& b = *module->entry()->root();
  return to_string(plan_reshard(b.shape, *b.operand(0)->sharding, *b.sharding));
}

// The copy of a parameter from one layout to another, partitioned and run.
std::string moved_wrongly(const Shape& shape, const Sharding& from, const Sharding& to,
                          int64_t devices) {
  const auto module = parse_module(fmt::format(
      "HloModule m\nENTRY e {{ a = {0} parameter(0)\n ROOT b = {0} copy(a) }}", to_string(shape)));
  module->entry()->parameters()[0]->sharding = from;
  module->entry()->root()->sharding = to;
  return difference_when_partitioned(*module, devices, 3);
}

}  // namespace

TEST_CASE("reshard: plans are as cheap as any path over the axes they tell apart") {
  for (const Case& c : cases()) {
    if (!is_even(c)) continue;
    const Shape shape(DType::f32, c.dims);
    const ReshardReference reference(c.mesh, shape);
    const std::vector<Sharding> all = shardings(c);
    for (size_t i = 0; i < all.size(); ++i) {
      const std::vector<ReshardCost> costs = reference.costs_from(i);
      for (size_t j = 0; j < all.size(); ++j) {
        const ReshardPlan plan = plan_reshard(shape, all[i], all[j]);
        if (plan.cost == costs[j]) continue;
        // An axis of 4 or 6 can be cut, which the reference does not do.
        if (plan.cost.bytes < costs[j].bytes && has_parts(c.mesh)) continue;
        INFO(title(c, all[i], all[j]) << "\n" << to_string(plan));
        CHECK(plan.cost >= costs[j]);
        CHECK_FALSE(tells_axes_apart(c, all[i], all[j]));
      }
    }
  }
}

namespace {

// "" or where the steps of a plan do not lead from one layout to the other.
std::string broken_way(const ReshardPlan& plan, const Sharding& from, const Sharding& to) {
  Sharding here = from;
  bool whole = false;
  for (const ReshardStep& step : plan.steps) {
    whole = whole || step.before.is_replicated();
    if (!equivalent(step.before, here) || equivalent(step.after, here))
      return fmt::format("a step starts at {}, not at {}", to_string(step.before), to_string(here));
    here = step.after;
  }
  if (!equivalent(here, to)) return fmt::format("it ends at {}", to_string(here));
  if (plan.full_rematerialization != (whole && !from.is_replicated() && !to.is_replicated()))
    return "the full rematerialization is reported wrongly";
  return "";
}

}  // namespace

TEST_CASE("reshard: steps lead to the target, by no more than a gather and slice") {
  const int64_t every = 8 / random_load(8);
  int64_t pair = 0;
  for (const Case& c : cases()) {
    const Shape shape(DType::f32, c.dims);
    const std::vector<Sharding> all = shardings(c);
    for (const Sharding& from : all)
      for (const Sharding& to : all) {
        if (++pair % every != 0) continue;
        const ReshardPlan plan = plan_reshard(shape, from, to);
        INFO(title(c, from, to) << "\n" << to_string(plan));
        if (plan.cost > gather_and_slice(shape, from, to)) CHECK(plan.cost.bytes == -1);
        if (plan.steps.empty() != equivalent(from, to)) CHECK(to_string(plan) == "");
        const std::string broken = broken_way(plan, from, to);
        if (!broken.empty()) CHECK(broken == "");
      }
  }
}

TEST_CASE("reshard: a detour is never cheaper") {
  for (const Case& c : cases()) {
    if (c.mesh.rank() > 2 || !is_even(c)) continue;
    const Shape shape(DType::f32, c.dims);
    const std::vector<Sharding> all = shardings(c);
    for (const Sharding& a : all)
      for (const Sharding& b : all) {
        const int64_t first = plan_reshard(shape, a, b).cost.bytes;
        for (const Sharding& to : all) {
          const int64_t direct = plan_reshard(shape, a, to).cost.bytes;
          if (direct <= first + plan_reshard(shape, b, to).cost.bytes) continue;
          INFO(title(c, a, to) << " through " << to_string(b));
          CHECK(direct == -1);
        }
      }
  }
}

TEST_CASE("reshard: data arrives, between all layouts of a value") {
  const bool all_pairs = std::getenv("GSPMD_LONG") != nullptr;
  uint64_t state = 99;
  for (const Case& c : cases()) {
    const Shape shape(DType::f32, c.dims);
    const std::vector<Sharding> all = shardings(c);
    const uint64_t pairs = all.size() * all.size();
    for (const Sharding& from : all)
      for (const Sharding& to : all) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        if (!all_pairs && pairs > 150 && (state >> 33) % pairs > 150) continue;
        const std::string difference = moved_wrongly(shape, from, to, c.mesh.num_devices());
        INFO(title(c, from, to) << "\n" << difference);
        if (!difference.empty()) CHECK(difference.empty());
      }
  }
}

TEST_CASE("reshard: data arrives between different device orders and digits that share no cuts") {
  const std::vector<std::string> texts{"{devices=[4,2]<=[8]}",
                                       "{devices=[4,2]7,6,5,4,3,2,1,0}",
                                       "{devices=[2,4]0,3,1,6,2,7,5,4}",
                                       "{devices=[2,1,4]0,3,1,6,2,7,5,4 last_tile_dim_replicate}",
                                       "{devices=[1,8]0,3,1,6,2,7,5,4}",
                                       "{devices=[2,2,2]<=[2,2,2]T(2,0,1) last_tile_dim_replicate}",
                                       "{replicated}"};
  for (const Dims& dims : {Dims{8, 16}, Dims{5, 7}})
    for (const std::string& from : texts)
      for (const std::string& to : texts) {
        const Shape shape(DType::f32, dims);
        const Sharding a = parse_sharding(from, 2), b = parse_sharding(to, 2);
        INFO(from << " -> " << to << ": " << to_string(plan_reshard(shape, a, b)));
        CHECK(moved_wrongly(shape, a, b, 8) == "");
        CHECK(plan_reshard(shape, a, b).cost <= gather_and_slice(shape, a, b));
      }
  const std::vector<std::string> sixths{"{devices=[2,3]<=[6]}", "{devices=[3,2]<=[6]}",
                                        "{devices=[6,1]<=[6]}", "{devices=[1,6]<=[3,2]T(1,0)}",
                                        "{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}"};
  for (const std::string& from : sixths)
    for (const std::string& to : sixths) {
      const Shape shape(DType::s32, {7, 6});
      INFO(from << " -> " << to);
      CHECK(moved_wrongly(shape, parse_sharding(from, 2), parse_sharding(to, 2), 6) == "");
    }
}

TEST_CASE("reshard: cases that users meet") {
  CHECK(plan_text("f32[8,8,8,8]", "{devices=[4,1,1,1]<=[4]}", "{devices=[2,1,1,2]<=[4]}") ==
        "all-to-all dim 0 to dim 3 (2,1)");
  CHECK(plan_text("f32[8,8,8]", "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}") ==
        "all-to-all dim 2 to dim 1 (4,2) and dim 0 to dim 1 (2,1)");
  CHECK(plan_text("f32[8,8]", "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}") ==
        "all-to-all dim 0 to dim 1 (4,1)");
  CHECK(plan_text("f32[8,8]", "{devices=[2,2]<=[4]}",
                  "{devices=[2,1,2]<=[4] last_tile_dim_replicate}") == "all-gather dim 1 (2,1)");
  CHECK(plan_text("f32[8,8]", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                  "{devices=[4,1]<=[4]}") == "dynamic-slice dim 0 (2,1)");
  CHECK(plan_text("f32[8,8]", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                  "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}") ==
        "collective-permute");
  // Slice first: a third of the bytes of gathering first.
  CHECK(plan_text("f32[8,8]", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
                  "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}") ==
        "dynamic-slice dim 1 (2,1); all-gather dim 0 (4,2)");
}

TEST_CASE("reshard: another order of the devices is one collective-permute") {
  const char* const orders[] = {"{devices=[4,1]<=[4]}", "{devices=[4,1]3,2,1,0}",
                                "{devices=[4,1]2,0,3,1}", "{devices=[4,1]<=[2,2]T(1,0)}"};
  for (const char* from : orders)
    for (const char* to : orders)
      if (from != to) CHECK(plan_text("f32[8,8]", from, to) == "collective-permute");
  CHECK(plan_text("f32[8,8]", "{devices=[2,2]<=[4]}", "{devices=[2,2]<=[2,2]T(1,0)}") ==
        "collective-permute");
  CHECK(plan_text("f32[8,8]", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                  "{devices=[2,1,2]3,1,2,0 last_tile_dim_replicate}") == "collective-permute");
  CHECK(plan_text("f32[6,6]", "{devices=[2,3]<=[6]}", "{devices=[2,3]<=[3,2]T(1,0)}") ==
        "collective-permute");
  CHECK(plan_text("f32[8,8]", "{devices=[4,1]0,1,4,5}", "{devices=[4,1]5,4,1,0}") ==
        "collective-permute");
}

TEST_CASE(
    "reshard: partial sums become a reduce-scatter where the target is split, else an all-reduce") {
  const std::string sums = "{devices=[1,1,2,4]<=[8] last_tile_dims={unreduced, replicated}}";
  CHECK(plan_text("f32[8,8]", sums, "{replicated}") == "all-reduce (2,4)");
  CHECK(plan_text("f32[8,8]", sums, "{devices=[1,2,4]<=[8] last_tile_dim_replicate}") ==
        "reduce-scatter dim 1 (2,4)");
  CHECK(plan_text("f32[8,8]", sums, "{devices=[1,8]<=[8]}") ==
        "dynamic-slice dim 0 (4,1); reduce-scatter dim 1 (2,4); all-to-all dim 0 to dim 1 (4,1)");
  CHECK(plan_text("f32[8,8]", sums, "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}") ==
        "dynamic-slice dim 0 (4,1); all-reduce (2,4)");
  CHECK(plan_text("f32[8,8]", "{unreduced}", "{devices=[8,1]<=[8]}") ==
        "reduce-scatter dim 0 (8,1)");
  CHECK(plan_text("f32[8,8]", "{devices=[1,4,2]<=[8] last_tile_dims={unreduced}}",
                  "{devices=[2,4]<=[2,4]}") != "");
  const Shape shape(DType::f32, {8, 8});
  const Sharding from = parse_sharding("{devices=[4,1,2]<=[8] last_tile_dims={unreduced}}", 2);
  CHECK(
      plan_reshard(shape, from, parse_sharding("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", 2))
          .cost == ReshardCost{64, 1});
  CHECK(plan_reshard(shape, from, parse_sharding("{devices=[4,2]<=[8]}", 2)).cost ==
        ReshardCost{32, 1});
}

TEST_CASE("reshard: what cannot be is refused with the reason") {
  using Catch::Matchers::Contains;
  const auto plan = [](const char* from, const char* to) {
    return plan_reshard(Shape(DType::f32, {8, 8}), parse_sharding(from, 2), parse_sharding(to, 2));
  };
  CHECK_THROWS_WITH(plan("{replicated}", "{devices=[1,1,8]<=[8] last_tile_dims={unreduced}}"),
                    Contains("a whole value has no partial sums"));
  CHECK_THROWS_WITH(plan("{manual}", "{replicated}"),
                    Contains("only tiled, replicated and maximal shardings"));
  CHECK_THROWS_WITH(plan_reshard(Shape(DType::f32, {8, 8}), parse_sharding("{maximal device=9}"),
                                 Sharding::replicated(), 8),
                    Contains("device 9 of 8"));
  CHECK_THROWS_WITH(plan("{unreduced}", "{replicated}"),
                    Contains("neither says over which devices"));
  CHECK_THROWS_WITH(plan("{devices=[4,1,2]<=[8] last_tile_dims={manual}}", "{devices=[8,1]<=[8]}"),
                    Contains("manual"));
  CHECK_THROWS_AS(plan_reshard(Shape(DType::f32, {8}), parse_sharding("{devices=[1,8]<=[8]}"),
                               Sharding::replicated()),
                  UserError);
}

TEST_CASE("reshard: 65,536 devices are planned like 8") {
  const Mesh mesh{{"x", 16}, {"y", 64}, {"z", 64}};
  const Shape shape(DType::bf16, {1 << 20, 1 << 14, 1 << 13});
  const std::vector<AxisLists> lists = all_axis_lists(3, 3);
  const auto start = std::chrono::steady_clock::now();
  int64_t steps = 0;
  for (size_t i = 0; i < lists.size(); ++i)
    steps += plan_reshard(shape, sharding_of(mesh, lists[i]),
                          sharding_of(mesh, lists[(i * 37 + 11) % lists.size()]))
                 .cost.steps;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(steps > static_cast<int64_t>(lists.size()));
  CHECK(took.count() < 5);  // a table over the devices per step would take minutes
  CHECK(plan_text("f32[65536,65536]", "{devices=[256,256]<=[65536]}",
                  "{devices=[256,256]<=[256,256]T(1,0)}") == "collective-permute");
}

}  // namespace reshard_test
