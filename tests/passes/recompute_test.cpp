#include "gspmd/passes/memory/recompute.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "gspmd/ir/text.h"
#include "gspmd/passes/fuse/fuse.h"
#include "load.h"
#include "passes/graph/node_cost.h"
#include "passes/random_body.h"
#include "passes/rewrite_check.h"

namespace gspmd::recompute_test {
namespace {

int64_t peak_of(const Module& module) { return plan_memory(module).peak_bytes; }

// Bits of all results of the module with small integers on every device.
std::vector<Array> results_of(const Module& module) {
  std::vector<Array> all;
  for (const Value& value :
       evaluate_devices(module, module.num_partitions, arguments(module, module.num_partitions)))
    for (const Array& array : leaves(value)) all.push_back(array);
  return all;
}

// With less memory as far as it goes below `limit`; the same bits.
RecomputeResult checked(const Module& module, int64_t limit) {
  RecomputeResult result = recompute(module, limit);
  CHECK(result.recomputations.empty() == (result.program == nullptr));
  if (!result.program) return result;
  INFO(to_text(module) << to_text(*result.program));
  verify_module(*result.program);
  CHECK(peak_of(*result.program) < peak_of(module));
  const std::vector<Array> expected = results_of(module), found = results_of(*result.program);
  REQUIRE(expected.size() == found.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(bitwise_equal(expected[i], found[i]));
  return result;
}

constexpr const char* kSum = R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
)";

// `e` is kept while a row sum of a larger value is made.
std::string kept_over_a_peak(const std::string& e) {
  return std::string(kSum) + R"(ENTRY main {
  x = f32[64] parameter(0)
  zero = f32[] constant(0)
  e = )" +
         e + R"(
  large = f32[64,64] broadcast(e), dimensions={0}
  larger = f32[64,64] negate(large)
  largest = f32[64,64] dot(large, larger), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  row = f32[64] reduce(largest, zero), dimensions={1}, to_apply=sum
  t = f32[64] add(e, row)
  ROOT r = f32[64] multiply(t, e)
}
)";
}

}  // namespace

TEST_CASE("recompute: a value kept over the peak is made again where it is read", "[recompute]") {
  const auto module = parse_module(kept_over_a_peak("f32[64] exponential(x)"));
  const RecomputeResult result = checked(*module, peak_of(*module) - 1);
  REQUIRE(result.recomputations.size() == 1);
  const Recomputation& again = result.recomputations[0];
  CHECK(again.name == "e");
  CHECK(again.before == "t");
  CHECK(again.bytes == 256);
  CHECK(again.flops == 64);
  CHECK(to_string(again) == "e f32[64] again before t: 256 bytes less for 64 FLOPs");
  CHECK(peak_of(*result.program) == peak_of(*module) - 256);
  CHECK(count(*result.program, Opcode::exponential) == 2);
}

TEST_CASE("recompute: a program that fits, or that nothing helps, stays as it is", "[recompute]") {
  const auto module = parse_module(kept_over_a_peak("f32[64] exponential(x)"));
  CHECK(recompute(*module, peak_of(*module)).program == nullptr);
  const auto products = parse_module(R"(HloModule m
ENTRY main {
  x = f32[64,64] parameter(0)
  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT b = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)");
  CHECK(recompute(*products, 0).program == nullptr);
}

TEST_CASE("recompute: collectives and calls of custom code never run twice", "[recompute]") {
  for (const char* e : {"f32[64] all-reduce(x), replica_groups={{0,1}}, to_apply=sum",
                        "f32[64] collective-permute(x), source_target_pairs={{0,1}}",
                        "f32[64] custom-call(x), custom_call_target=\"some\""}) {
    const auto module = parse_module(kept_over_a_peak(e));
    module->num_partitions = 2;
    INFO(e);
    for (const Recomputation& again : recompute(*module, 0).recomputations)
      CHECK(again.name != "e");
  }
}

TEST_CASE("recompute: what is made again needs what it is made of", "[recompute]") {
  // e needs y, which is not there any more, but x is.
  const auto module = parse_module(std::string(kSum) + R"(ENTRY main {
  x = f32[64] parameter(0)
  zero = f32[] constant(0)
  y = f32[64] sine(x)
  e = f32[64] exponential(y)
  large = f32[64,64] broadcast(e), dimensions={0}
  largest = f32[64,64] dot(large, large), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  row = f32[64] reduce(largest, zero), dimensions={1}, to_apply=sum
  t = f32[64] add(e, row)
  ROOT r = f32[] reduce(t, zero), dimensions={0}, to_apply=sum
}
)");
  const RecomputeResult result = checked(*module, peak_of(*module) - 1);
  REQUIRE(result.recomputations.size() == 1);
  CHECK(result.recomputations[0].name == "e");
  CHECK(result.recomputations[0].flops == 128);
  CHECK(count(*result.program, Opcode::sine) == 2);
}

TEST_CASE("recompute: results, and donated parameters that are gone, are not made again of",
          "[recompute]") {
  // e is a result as well: nothing is gained.
  const auto kept = parse_module(std::string(kSum) + R"(ENTRY main {
  x = f32[64] parameter(0)
  e = f32[64] exponential(x)
  large = f32[64,64] broadcast(e), dimensions={0}
  largest = f32[64,64] dot(large, large), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  row = f32[64] reduce(largest, zero), dimensions={1}, to_apply=sum
  t = f32[64] add(e, row)
  ROOT r = (f32[64], f32[64]) tuple(e, t)
}
)");
  for (const Recomputation& again : recompute(*kept, 0).recomputations) CHECK(again.name != "e");
  const auto donated = parse_module(kept_over_a_peak("f32[64] exponential(x)"));
  donated->aliases.push_back({{}, 0, {}, false});
  checked(*donated, 0);
}

TEST_CASE("recompute: in the body of a loop, and over a loop", "[recompute]") {
  const auto module = parse_module(std::string(kSum) + R"(
body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  zero = f32[] constant(0)
  e = f32[64] sine(x)
  large = f32[64,64] broadcast(e), dimensions={0}
  largest = f32[64,64] dot(large, large), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  row = f32[64] reduce(largest, zero), dimensions={1}, to_apply=sum
  l = f32[64] add(x, row)
  m = f32[64] sign(l)
  t = f32[64] add(e, m)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[64]) tuple(j, t)
}
condition {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT p = pred[] compare(i, three), direction=LT
}
ENTRY main {
  p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  o = f32[64] cosine(q)
  zero = s32[] constant(0)
  v = f32[64] add(o, p)
  start = (s32[], f32[64]) tuple(zero, v)
  w = (s32[], f32[64]) while(start), condition=condition, body=body
  x = f32[64] get-tuple-element(w), index=1
  t = f32[64] add(o, x)
  none = f32[] constant(0)
  ROOT r = f32[] reduce(t, none), dimensions={0}, to_apply=sum
}
)");
  std::set<std::string> names;
  for (const Recomputation& again : checked(*module, 0).recomputations) names.insert(again.name);
  CHECK(names == std::set<std::string>{"e", "o"});
}

TEST_CASE("recompute: random programs, fused or not, have the same bits in less memory",
          "[recompute]") {
  int64_t helped = 0, donating = 0;
  for (int64_t seed = 1; seed <= random_load(400); ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto module =
        parse_module(std::string(kSum) + "ENTRY main {" + random_loop_body(random) + "\n}\n");
    if (seed % 3 == 0) module->aliases.push_back({{0}, 0, {}, false});
    if (seed % 2 == 0) fuse(*module);
    const int64_t peak = peak_of(*module);
    INFO("seed " << seed);
    // As little as possible, and a little less.
    for (const int64_t limit : {int64_t{0}, peak - 1}) {
      const RecomputeResult result = checked(*module, limit);
      if (!result.program) continue;
      ++helped;
      donating += seed % 3 == 0;
      if (limit == peak - 1) CHECK(peak_of(*result.program) <= limit);
    }
  }
  CHECK(helped > random_load(80));
  CHECK(donating > random_load(10));
}

namespace {

// A straight line of elementwise ops and sums of rows of values of different sizes.
std::string random_line(std::mt19937_64& random) {
  const auto below = [&](size_t n) { return size_t(random() % n); };
  std::string text = std::string(kSum) + R"(ENTRY main {
  p0 = f32[512] parameter(0)
  p1 = f32[512] parameter(1)
  zero = f32[] constant(0)
)";
  std::vector<std::string> values{"p0", "p1"};
  for (int i = 0; i < 7; ++i) {
    const std::string a = values[below(values.size())], b = values[below(values.size())];
    const std::string name = fmt::format("v{}", i);
    if (below(3) == 0) {
      // A value of twice the size that is gone at once.
      text += fmt::format(
          "  w{0} = f32[2,512] broadcast({1}), dimensions={{1}}\n"
          "  {0} = f32[512] reduce(w{0}, zero), dimensions={{0}}, to_apply=sum\n",
          name, a);
    } else {
      text += fmt::format("  {} = f32[512] {}({}, {})\n", name, below(2) == 0 ? "add" : "subtract",
                          a, b);
    }
    values.push_back(name);
  }
  return text + fmt::format("  ROOT r = f32[512] add({}, {})\n}}\n", values.back(),
                            values[below(values.size())]);
}

struct Way {
  int64_t peak = 0;
  double cost = 0;  // bytes read and written once more
};

// All ways to make some values once more, each for its readers from one on, of operands as they
// were: splits one value after the other.
void try_all(const Module& module, size_t value, double cost, std::vector<Way>& ways) {
  const Computation& entry = *module.entry();
  ways.push_back({peak_of(module), cost});
  for (size_t v = value; v < entry.nodes().size(); ++v) {
    const Node& node = *entry.nodes()[v];
    if (node.is(Opcode::parameter) || node.is(Opcode::constant) || node.is_root()) continue;
    if (node.name().find("again") != std::string::npos) continue;
    for (size_t first = 0; first < node.users().size(); ++first) {
      const auto copy = module.clone();
      Computation& to = *copy->entry();
      Node& from = *to.nodes()[v];
      std::vector<Node*> users;  // in order
      for (const auto& other : to.nodes())
        if (std::count(from.users().begin(), from.users().end(), other.get()) > 0)
          users.push_back(other.get());
      Node* const again =
          to.append(from.opcode(), from.shape, from.operands(), from.attrs, from.name() + "again");
      again->called = from.called;
      for (size_t u = first; u < users.size(); ++u)
        for (int64_t i = 0; i < std::ssize(users[u]->operands()); ++i)
          if (users[u]->operand(i) == &from) users[u]->set_operand(i, again);
      to.sort();
      try_all(*copy, v + 1, cost + (first == 0 ? 0 : cost_of(node).bytes), ways);
    }
  }
}

int64_t number_of_ways(const Module& module) {
  int64_t ways = 1;
  for (const auto& node : module.entry()->nodes())
    if (!node->is(Opcode::parameter) && !node->is(Opcode::constant) && !node->is_root())
      ways *= 1 + std::ssize(node->users());
  return ways;
}

double cost_of_all(const Module& module) {
  double bytes = 0;
  for (const auto& node : module.entry()->nodes()) bytes += cost_of(*node).bytes;
  return bytes;
}

}  // namespace

TEST_CASE("recompute: the choice beside all ways to make values once more", "[recompute]") {
  int64_t possible = 0, reached = 0, cheapest = 0;
  double worst = 1;
  for (int64_t seed = 1; seed <= 120; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto module = parse_module(random_line(random));
    eliminate_dead_code(*module);
    if (number_of_ways(*module) > 1500) continue;
    std::vector<Way> ways;
    try_all(*module, 0, 0, ways);
    int64_t least_peak = INT64_MAX;
    for (const Way& way : ways) least_peak = std::min(least_peak, way.peak);
    const int64_t peak = peak_of(*module);
    if (least_peak >= peak) continue;
    // Half of the way to the least, which several choices reach.
    const int64_t limit = peak - std::max<int64_t>(1, (peak - least_peak) / 2);
    double least_cost = INFINITY;
    for (const Way& way : ways)
      if (way.peak <= limit) least_cost = std::min(least_cost, way.cost);
    ++possible;
    const RecomputeResult result = checked(*module, limit);
    if (!result.program || peak_of(*result.program) > limit) continue;
    ++reached;
    const double cost = cost_of_all(*result.program) - cost_of_all(*module);
    cheapest += cost <= least_cost;
    if (least_cost > 0) worst = std::max(worst, cost / least_cost);
  }
  INFO(possible << " possible, " << reached << " reached, " << cheapest
                << " at the least cost, worst " << worst);
  CHECK(possible > 20);
  // What lies in a result's storage is left where it is, though others could lie there.
  CHECK(reached >= possible * 9 / 10);
  CHECK(cheapest >= possible * 8 / 10);
  CHECK(worst <= 1.5);
}

}  // namespace gspmd::recompute_test
