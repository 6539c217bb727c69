// Weight-update sharding: what is computed, what is sent, what a device holds.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "gspmd/ir/op.h"
#include "wus/data_parallel.h"

namespace gspmd::models {
namespace {

double largest_difference(const Leaves<Array>& a, const Leaves<Array>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].first == b[i].first);
    REQUIRE(a[i].second.shape() == b[i].second.shape());
    for (int64_t e = 0; e < a[i].second.size(); ++e) {
      const double x = a[i].second.at(e), y = b[i].second.at(e);
      if (!std::isfinite(x)) return INFINITY;
      most = std::max(most, std::abs(x - y) / std::max(1.0, std::abs(y)));
    }
  }
  return most;
}

int64_t bytes_of(const ExecutableStats& stats, std::string_view kind) {
  int64_t bytes = 0;
  for (const CollectiveStats& c : stats.collectives)
    if (c.kind == kind) bytes += c.bytes;
  return bytes;
}

// Sharded updates under poison against whole ones, 20 steps on from the same parameters.
void check_values(StepOptions o, double tolerance) {
  const Trained whole = train(o, 20);
  o.update.axes = {"data"};
  o.poison = true;
  const Trained sharded = train(o, 20);
  CHECK(largest_difference(sharded.params, whole.params) <= tolerance);
  CHECK(largest_difference(sharded.state, whole.state) <= tolerance);
  CHECK(sharded.losses.back() == Approx(whole.losses.back()).epsilon(1e-6));
  CHECK(largest_difference(whole.params, random_parameters(o.sizes, o.dtype)) > 1e-3);
}

TEST_CASE("20 steps give the values of the whole update, for every optimizer") {
  for (const std::string& name : optimizer_names())
    for (const Sizes& sizes : {kEven, kUneven, kTiny}) {
      CAPTURE(name, sizes.hidden);
      StepOptions o;
      o.optimizer.kind = optimizer_of_name(name);
      o.optimizer.weight_decay = 0.01;
      o.sizes = sizes;
      check_values(o, 1e-6);
    }
}

// In f64, where the order of the sums does not show: rmsprop divides by what the rounding of the
// global norm can turn to zero.
TEST_CASE("norms of shards are those of the whole tensors, padding left out") {
  for (const std::string& name : optimizer_names())
    for (const Sizes& sizes : {kEven, kUneven}) {
      CAPTURE(name, sizes.in);
      StepOptions o;
      o.optimizer.kind = optimizer_of_name(name);
      o.sizes = sizes;
      o.dtype = DType::f64;
      o.clip_norm = 0.5;
      check_values(o, 1e-11);
    }
}

TEST_CASE("a reduce-scatter and a gather send the bytes of the all-reduce, in bf16 3/4 of them") {
  StepOptions o;
  o.prepare = false;
  const TrainStep plain = compile_step(o);
  const int64_t elements = elements_count(parameter_shapes(o.sizes, o.dtype));
  const int64_t loss = 4 * 2 * 7 / 8;  // its own sum
  const int64_t all_reduce = 4 * elements * 2 * 7 / 8;
  CHECK(bytes_of(plain.stats(), "all-reduce") == all_reduce + loss);
  CHECK(plain.stats().collective_bytes == all_reduce + loss);

  o.update.axes = {"data"};
  const TrainStep sharded = compile_step(o);
  CHECK(bytes_of(sharded.stats(), "reduce-scatter") == all_reduce / 2);
  CHECK(bytes_of(sharded.stats(), "all-gather") == all_reduce / 2);
  CHECK(sharded.stats().collective_bytes == all_reduce + loss);

  o.update.gather_dtype = DType::bf16;
  const TrainStep narrow = compile_step(o);
  CHECK(bytes_of(narrow.stats(), "reduce-scatter") == all_reduce / 2);
  CHECK(bytes_of(narrow.stats(), "all-gather") == all_reduce / 4);
  CHECK(narrow.stats().collective_bytes == all_reduce * 3 / 4 + loss);
}

TEST_CASE("sizes that do not divide send the padded bytes") {
  StepOptions o;
  o.sizes = kUneven;
  o.sizes.out = 9;  // fewer elements than devices go other ways, which send less
  o.prepare = false;
  o.update.axes = {"data"};
  const TrainStep step = compile_step(o);
  int64_t padded = 0;
  for (const auto& [path, shape] : parameter_shapes(o.sizes, o.dtype))
    padded += (shape.elements_count() + 7) / 8 * 8;
  // w_out, 30,9, is flat: ceil(30 / 8) rows of it would be more.
  CHECK(bytes_of(step.stats(), "reduce-scatter") == 4 * padded * 7 / 8);
  CHECK(bytes_of(step.stats(), "all-gather") == 4 * padded * 7 / 8);
}

TEST_CASE("a device holds ceil(P / N) elements of each weight and slot") {
  for (const std::string& name : optimizer_names())
    for (const Sizes& sizes : {kEven, kUneven, kTiny}) {
      CAPTURE(name, sizes.hidden);
      StepOptions o;
      o.optimizer.kind = optimizer_of_name(name);
      o.sizes = sizes;
      o.update.axes = {"data"};
      o.prepare = false;
      const TrainStep step = compile_step(o);
      const std::vector<TracedLeaf>& leaves = step.traced().arguments();
      const Computation& local = *step.module().local->entry();
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (leaves[i].element > 1) continue;
        CAPTURE(leaves[i].path);
        CHECK(local.parameters()[i]->shape.elements_count() ==
              (leaves[i].shape.elements_count() + 7) / 8);
        CHECK(local.root()->operand(static_cast<int64_t>(i))->shape ==
              local.parameters()[i]->shape);
      }
    }
}

// Elements of the largest value that a collective takes and that is computed from slots.
int64_t largest_moved_from_slots(const TrainStep& step) {
  std::set<const Node*> from_slots;
  int64_t most = 0;
  for (const auto& node : step.module().local->entry()->nodes()) {
    bool reads = node->is(Opcode::parameter) && node->name().starts_with("state.");
    for (const Node* operand : node->operands()) {
      const bool slots = from_slots.contains(operand);
      reads |= slots;
      if (slots && node->op().has(kCollective))
        most = std::max(most, operand->shape.is_tuple ? 0 : operand->shape.elements_count());
    }
    if (reads) from_slots.insert(node.get());
  }
  REQUIRE(from_slots.size() > 1);
  return most;
}

TEST_CASE("no collective touches what is computed from slots but scalars") {
  for (const std::string& name : optimizer_names())
    for (const Sizes& sizes : {kEven, kUneven}) {
      CAPTURE(name, sizes.in);
      StepOptions o;
      o.optimizer.kind = optimizer_of_name(name);
      o.optimizer.weight_decay = 0.1;
      o.sizes = sizes;
      o.clip_norm = 1;
      o.update.axes = {"data"};
      o.prepare = false;
      const bool norms = name == "lamb" || name == "adafactor";
      CHECK(largest_moved_from_slots(compile_step(o)) == (norms ? 1 : 0));
    }
}

TEST_CASE("small tensors share their collectives") {
  StepOptions o;
  o.prepare = false;
  o.update.axes = {"data"};
  const TrainStep step = compile_step(o);
  std::map<std::string, int64_t> counts;
  for (const CollectiveStats& c : step.stats().collectives) counts[c.kind] += c.count;
  CHECK(counts["all-gather"] == 1);
  CHECK(counts["reduce-scatter"] == 1);
  CHECK(counts["all-reduce"] == 1);  // of the loss
  o.update.min_elements = 100;       // w_in and w_out alone
  const TrainStep large = compile_step(o);
  CHECK(bytes_of(large.stats(), "all-gather") == (16 * 32 + 32 * 8) * 4 * 7 / 8);
  CHECK(large.result_sharding("result0.b_in").is_replicated());
}

}  // namespace
}  // namespace gspmd::models
