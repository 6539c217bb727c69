#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "passes/shardy/strategy.h"

// Properties of one step of propagation over random rules and shardings, against slow, plain code.

namespace gspmd {
namespace {

struct RandomOp {
  SdyMeshes meshes;
  SdyRule rule;
  std::vector<std::optional<SdySharding>> shardings;  // operands, then results
  size_t operands = 0;
};

using Engine = std::mt19937_64;

int64_t below(Engine& engine, int64_t n) {
  return std::uniform_int_distribution<int64_t>(0, n - 1)(engine);
}

// Axes, whole or in two parts, each once, in random order.
std::vector<SdyAxis> shuffled_axes(Engine& engine, const SdyMesh& mesh) {
  std::vector<SdyAxis> axes;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const int64_t size = mesh.axes[i].size;
    if (size == 4 && below(engine, 2) == 0) {
      axes.push_back({axis, 1, 2});
      axes.push_back({axis, 2, 2});
    } else {
      axes.push_back({axis, 1, size});
    }
  }
  std::shuffle(axes.begin(), axes.end(), engine);
  return axes;
}

std::optional<SdySharding> random_sharding(Engine& engine, const SdyMesh& mesh, int64_t rank) {
  if (below(engine, 4) == 0) return std::nullopt;
  SdySharding sharding = open_sharding(0, rank);
  for (const SdyAxis& axis : shuffled_axes(engine, mesh)) {
    const int64_t where = below(engine, 2 * rank + 2);
    if (where < rank) append_axis(sharding.dims[static_cast<size_t>(where)].axes, axis);
    if (where == rank) append_axis(sharding.replicated, axis);
  }
  for (SdyDim& dim : sharding.dims) dim.open = below(engine, 3) != 0;
  return sharding;
}

SdyRule::Tensor random_tensor(Engine& engine, int64_t factors) {
  std::vector<int64_t> order;
  for (int64_t f = 0; f < factors; ++f) order.push_back(f);
  std::shuffle(order.begin(), order.end(), engine);
  SdyRule::Tensor tensor;
  for (const int64_t factor : order) {
    const int64_t where = below(engine, 4);
    if (where == 0 && !tensor.empty())
      tensor.back().push_back(factor);
    else if (where != 3)
      tensor.push_back({factor});
  }
  return tensor;
}

RandomOp random_op(Engine& engine) {
  RandomOp op;
  op.meshes = parse_sdy_meshes("{m = #sdy.mesh<[\"a\"=2, \"b\"=3, \"c\"=4]>}");
  const int64_t factors = 1 + below(engine, 4);
  constexpr int64_t kSizes[] = {2, 3, 4, 6, 8, 12};
  for (int64_t f = 0; f < factors; ++f) op.rule.factors.push_back({kSizes[below(engine, 6)]});
  op.operands = static_cast<size_t>(1 + below(engine, 2));
  for (size_t i = 0; i < op.operands; ++i)
    op.rule.operands.push_back(random_tensor(engine, factors));
  op.rule.results.push_back(random_tensor(engine, factors));
  for (const auto* tensors : {&op.rule.operands, &op.rule.results})
    for (const SdyRule::Tensor& tensor : *tensors)
      op.shardings.push_back(random_sharding(engine, op.meshes[0], std::ssize(tensor)));
  return op;
}

const SdyRule::Tensor& tensor_of(const RandomOp& op, size_t i) {
  return i < op.operands ? op.rule.operands[i] : op.rule.results[i - op.operands];
}

Projection projection_of(const RandomOp& op) {
  Projection projection;
  projection.operands = op.operands;
  for (size_t i = 0; i < op.shardings.size(); ++i)
    projection.tensors.push_back(project(op.shardings[i], tensor_of(op, i), op.rule));
  return projection;
}

SdyStep step_of(const RandomOp& op, SdyDirection direction) {
  return {op.rule, std::vector<SdyDirection>(op.rule.factors.size(), direction), false, false};
}

std::vector<bool> propagated(Projection& projection, const SdyStep& step, bool aggressive) {
  return aggressive ? propagate_aggressive(projection, step) : propagate_basic(projection, step);
}

// Shardings after one step, as a pass writes them.
std::vector<std::optional<SdySharding>> after_step(const RandomOp& op, SdyDirection direction,
                                                   bool aggressive) {
  Projection projection = projection_of(op);
  const std::vector<bool> updated = propagated(projection, step_of(op, direction), aggressive);
  std::vector<std::optional<SdySharding>> result = op.shardings;
  for (size_t i = 0; i < updated.size(); ++i) {
    if (!updated[i]) continue;
    const auto dims = project_back(projection.tensors[i], tensor_of(op, i), op.rule);
    if (!result[i]) result[i] = open_sharding(0, std::ssize(dims));
    for (size_t d = 0; d < dims.size(); ++d) result[i]->dims[d].axes = dims[d];
  }
  return result;
}

// All axes of the value as lists of (axis, prime step) digits; nothing may be there twice.
bool uses_each_digit_once(const SdySharding& sharding) {
  std::vector<SdyAxis> seen;
  const auto take = [&](const SdyAxes& axes) {
    for (const SdyAxis& axis : axes) {
      for (const SdyAxis& other : seen)
        if (overlap(axis, other)) return false;
      seen.push_back(axis);
    }
    return true;
  };
  bool once = take(sharding.replicated) && take(sharding.unreduced);
  for (const SdyDim& dim : sharding.dims) once = once && take(dim.axes);
  return once;
}

// Of the dim's digits, in order, written out in factors of two and three.
std::vector<SdyAxis> digits_of(const SdyAxes& axes) {
  std::vector<SdyAxis> digits;
  for (const SdyAxis& axis : axes) {
    int64_t pre = axis.pre;
    for (int64_t rest = axis.size; rest > 1;) {
      const int64_t step = rest % 2 == 0 ? 2 : rest;
      digits.push_back({axis.axis, pre, step});
      pre *= step;
      rest /= step;
    }
  }
  return digits;
}

bool begins_with(const SdyAxes& longer, const SdyAxes& shorter) {
  const std::vector<SdyAxis> a = digits_of(longer), b = digits_of(shorter);
  return b.size() <= a.size() && std::equal(b.begin(), b.end(), a.begin());
}

constexpr SdyDirection kDirections[] = {SdyDirection::none, SdyDirection::forward,
                                        SdyDirection::backward, SdyDirection::both};

}  // namespace

TEST_CASE("a projection and back is the sharding, where factors are full in order", "[shardy]") {
  Engine engine(1);
  int64_t whole = 0;
  for (int i = 0; i < 4000; ++i) {
    const RandomOp op = random_op(engine);
    for (size_t t = 0; t < op.shardings.size(); ++t) {
      if (!op.shardings[t]) continue;
      const TensorProjection projection = project(op.shardings[t], tensor_of(op, t), op.rule);
      const auto dims = project_back(projection, tensor_of(op, t), op.rule);
      for (size_t d = 0; d < dims.size(); ++d) {
        // What is handed out is a beginning of the dim's axes, and all of them in the end.
        CHECK(digits_of(dims[d]) == digits_of(op.shardings[t]->dims[d].axes));
        ++whole;
      }
    }
  }
  CHECK(whole > 4000);
}

TEST_CASE("axes of a value only grow, closed dims stay, no digit is used twice", "[shardy]") {
  Engine engine(2);
  int64_t changed = 0;
  for (int i = 0; i < 8000; ++i) {
    const RandomOp op = random_op(engine);
    for (const SdyDirection direction : kDirections)
      for (const bool aggressive : {false, true}) {
        const auto after = after_step(op, direction, aggressive);
        for (size_t t = 0; t < after.size(); ++t) {
          if (after[t] == op.shardings[t]) continue;
          ++changed;
          REQUIRE(after[t]);
          CHECK(direction != SdyDirection::none);
          CHECK(uses_each_digit_once(*after[t]));
          if (!op.shardings[t]) continue;
          CHECK(after[t]->replicated == op.shardings[t]->replicated);
          for (size_t d = 0; d < after[t]->dims.size(); ++d) {
            const SdyDim &before = op.shardings[t]->dims[d], &now = after[t]->dims[d];
            CHECK(now.open == before.open);
            CHECK(begins_with(now.axes, before.axes));
            if (!before.open) CHECK(now.axes == before.axes);
          }
        }
      }
  }
  CHECK(changed > 4000);
}

TEST_CASE("a direction changes only the side that it goes to, unless both sides agree further",
          "[shardy]") {
  Engine engine(3);
  for (int i = 0; i < 4000; ++i) {
    RandomOp op = random_op(engine);
    // Nothing on the side that is read from: nothing to say.
    for (size_t t = 0; t < op.operands; ++t) op.shardings[t].reset();
    for (const bool aggressive : {false, true})
      CHECK(after_step(op, SdyDirection::forward, aggressive) == op.shardings);
    op = random_op(engine);
    op.shardings.back().reset();
    for (const bool aggressive : {false, true})
      CHECK(after_step(op, SdyDirection::backward, aggressive) == op.shardings);
  }
}

TEST_CASE("steps reach a fixed point", "[shardy]") {
  Engine engine(4);
  for (int i = 0; i < 4000; ++i)
    for (const bool aggressive : {false, true}) {
      RandomOp op = random_op(engine);
      int64_t steps = 0;
      while (true) {
        auto after = after_step(op, SdyDirection::both, aggressive);
        if (after == op.shardings) break;
        op.shardings = std::move(after);
        REQUIRE(++steps < 20);
      }
    }
}

// Agreement by the digits of the lists alone: walk all lists at once while no two differ.
TEST_CASE("compatible axes are the longest that no tensor contradicts", "[shardy]") {
  Engine engine(5);
  const SdyMesh mesh = parse_sdy_mesh("<[\"a\"=2, \"b\"=3, \"c\"=4]>");
  for (int i = 0; i < 8000; ++i) {
    Projection projection;
    projection.operands = 2;
    std::vector<std::vector<SdyAxis>> lists;
    for (int t = 0; t < 3; ++t) {
      FactorSharding sharding;
      for (const SdyAxis& axis : shuffled_axes(engine, mesh))
        if (below(engine, 2) == 0) append_axis(sharding.axes, axis);
      lists.push_back(digits_of(sharding.axes));
      projection.tensors.push_back({{{0, sharding}}, {}});
    }
    const std::vector<SdyAxis> agreed =
        digits_of(compatible_axes(projection, 0, SdyDirection::both));
    // Two lists disagree at the first digit where both have one and they differ.
    size_t limit = SIZE_MAX, longest = 0;
    for (const auto& a : lists) {
      longest = std::max(longest, a.size());
      for (const auto& b : lists)
        for (size_t k = 0; k < std::min(a.size(), b.size()); ++k)
          if (a[k] != b[k]) limit = std::min(limit, k);
    }
    CHECK(agreed.size() <= std::min(longest, limit));
    for (const auto& list : lists)
      for (size_t k = 0; k < std::min(list.size(), agreed.size()); ++k) CHECK(list[k] == agreed[k]);
    if (limit == SIZE_MAX) CHECK(agreed.size() == longest);
  }
}

}  // namespace gspmd
