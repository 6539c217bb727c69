// All-reduces as hierarchies, rings and trees give what one all-reduce gives, on every grid.
#include <catch2/catch.hpp>
#include <cmath>

#include "gspmd/gspmd.h"

namespace gspmd {
namespace {

using Catch::Matchers::Contains;

const std::vector<AllReduceStrategy> kStrategies = {
    AllReduceStrategy::hierarchical, AllReduceStrategy::ring, AllReduceStrategy::tree};

// Integers, negative ones too, so that sums have the same bits in every order.
Array integers(Dims dims, uint32_t seed) {
  const Array uniform = random_uniform_array(Shape(DType::f64, dims), seed);
  Array values(Shape(DType::f32, std::move(dims)));
  for (int64_t i = 0; i < values.size(); ++i) values.set(i, std::floor(uniform.at(i) * 41) - 20);
  return values;
}

int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

CompileOptions options_of(const Mesh& mesh, AllReduceStrategy strategy, int64_t neighbours = 0) {
  CompileOptions options;
  options.mesh = mesh;
  options.threads = 2;
  options.poison = true;
  options.all_reduce = {strategy, neighbours};
  return options;
}

// Reductions of several shapes and kinds over the rows of x, which `axes` split.
auto reductions(const Mesh& mesh, const DimSplit& axes) {
  return [mesh, axes](Tensor x) {
    const Tensor rows = mesh_split(x, mesh, {axes, {}});
    return std::tuple{sum(rows, {.axes = 0}),
                      max(rows, {.axes = 0}),
                      min(rows),
                      sum(rows * rows),
                      prod(sign(rows) * 1.0, {.axes = 0}),
                      any(rows > 19, {.axes = 0}),
                      all(rows > -20, {.axes = 0}),
                      sum(convert(rows, DType::s32), {.axes = 0})};
  };
}

std::vector<Array> run(const Mesh& mesh, const DimSplit& axes, const Array& x,
                       AllReduceStrategy strategy, int64_t neighbours = 0) {
  const auto program = compile(reductions(mesh, axes), options_of(mesh, strategy, neighbours), x);
  const auto tree = program(x);
  std::vector<Array> results;
  for_each_leaf(tree, [&](const std::string&, const Array& leaf) { results.push_back(leaf); });
  return results;
}

}  // namespace

TEST_CASE("all-reduce: every strategy gives the bits of one collective, on every grid and group",
          "[api]") {
  struct Case {
    Mesh mesh;
    std::vector<DimSplit> splits;
  };
  const std::vector<Case> cases = {
      {Mesh{{"x", 2}}, {{"x"}}},
      {Mesh{{"x", 7}}, {{"x"}}},
      {Mesh{{"x", 2}, {"y", 3}}, {{"x"}, {"y"}, {"x", "y"}, {"y", "x"}}},
      {Mesh{{"x", 3}, {"y", 4}}, {{"x", "y"}}},
      {Mesh{{"x", 2}, {"y", 2}, {"z", 2}}, {{"x", "z"}, {"z", "y"}, {"x", "y", "z"}}},
      {Mesh({{"x", 2}, {"y", 4}}, {0, 5, 2, 7, 4, 1, 6, 3}), {{"x"}, {"y"}, {"x", "y"}}}};
  for (const Case& c : cases)
    for (const DimSplit& split : c.splits)
      for (const int64_t columns : {1, 5, 16}) {
        const Array x = integers({24, columns}, static_cast<uint32_t>(columns));
        const std::vector<Array> expected = run(c.mesh, split, x, AllReduceStrategy::direct);
        for (const AllReduceStrategy strategy : kStrategies) {
          INFO(to_string(strategy) << " on " << to_string(c.mesh) << ", " << columns << " columns");
          const std::vector<Array> got = run(c.mesh, split, x, strategy);
          REQUIRE(got.size() == expected.size());
          for (size_t i = 0; i < got.size(); ++i) {
            INFO("result " << i);
            CHECK(bitwise_equal(got[i], expected[i]));
          }
        }
      }
}

TEST_CASE("all-reduce: a hierarchy sends a part over the second axis, a ring chunks, a tree values",
          "[api]") {
  const Mesh mesh{{"x", 3}, {"y", 4}};
  const Array x = integers({24, 40}, 1);
  const auto column_sums = [&](Tensor t) {
    return sum(mesh_split(t, mesh, {{"x", "y"}, {}}), {.axes = 0});
  };
  const auto text = [&](AllReduceStrategy strategy, int64_t neighbours) {
    return compile(column_sums, options_of(mesh, strategy, neighbours), x).text();
  };
  const std::string hierarchy = text(AllReduceStrategy::hierarchical, 4);
  CHECK(count(hierarchy, " all-reduce(") == 1);
  CHECK_THAT(hierarchy, Contains("f32[10] all-reduce("));
  CHECK_THAT(hierarchy, Contains("f32[10] reduce-scatter("));
  CHECK_THAT(hierarchy, Contains("f32[40] all-gather("));
  // Neighbours are those of y; peers those of x.
  CHECK_THAT(hierarchy, Contains("replica_groups={{0,1,2,3},{4,5,6,7},{8,9,10,11}}"));
  CHECK_THAT(hierarchy, Contains("replica_groups={{0,4,8},{1,5,9},{2,6,10},{3,7,11}}"));

  const std::string ring = text(AllReduceStrategy::ring, 0);
  CHECK(count(ring, " all-reduce(") == 0);
  CHECK(count(ring, "f32[4] collective-permute(") == 2 * 11);  // 40 as 12 chunks of 4
  const std::string tree = text(AllReduceStrategy::tree, 0);
  CHECK(count(tree, "f32[40] collective-permute(") == 2 * 4);
}

// A data-parallel step: the gradients of all weights are packed.
TEST_CASE("all-reduce: gradients are packed into one vector of a dtype", "[api]") {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const auto loss = [&](std::vector<Tensor> weights, Tensor x) {
    Tensor y = mesh_split(x, mesh, {{"x", "y"}, {}});
    for (const Tensor& w : weights) y = relu(matmul(y, w));
    return sum(y);
  };
  const auto step = [&](std::vector<Tensor> weights, Tensor x) {
    return value_and_grad(loss)(weights, x);
  };
  std::vector<Array> weights = {integers({3, 5}, 1), integers({5, 2}, 2), integers({2, 7}, 3)};
  const Array x = integers({8, 3}, 4);
  const auto results = [&](AllReduceStrategy strategy, std::string* text) {
    const auto program = compile(step, options_of(mesh, strategy), weights, x);
    *text = program.text();
    const auto tree = program(weights, x);
    std::vector<Array> leaves;
    for_each_leaf(tree, [&](const std::string&, const Array& leaf) { leaves.push_back(leaf); });
    return leaves;
  };
  std::string text;
  const std::vector<Array> expected = results(AllReduceStrategy::direct, &text);
  for (const AllReduceStrategy strategy : kStrategies) {
    const std::vector<Array> got = results(strategy, &text);
    INFO(to_string(strategy) << "\n" << text);
    for (size_t i = 0; i < expected.size(); ++i) CHECK(bitwise_equal(got[i], expected[i]));
    if (strategy == AllReduceStrategy::hierarchical) {
      CHECK(count(text, " all-reduce(") == 2);
      CHECK_THAT(text, Contains("f32[20] all-reduce("));  // 39 gradients over 2; the loss is alone
    }
  }
}

TEST_CASE("all-reduce: strategies that cannot be are errors with the way out", "[api]") {
  const Mesh mesh{{"x", 6}};
  const auto total = [&](Tensor t) { return sum(mesh_split(t, mesh, {{"x"}})); };
  const Array x = integers({12}, 1);
  CHECK_THROWS_WITH(compile(total, options_of(mesh, AllReduceStrategy::hierarchical, 4), x),
                    Contains("4 neighbours do not divide the 6 devices"));
  const Mesh many{{"x", 512}};
  const auto large = [&](Tensor t) { return sum(mesh_split(t, many, {{"x"}})); };
  CompileOptions options = options_of(many, AllReduceStrategy::ring);
  options.prepare = false;
  CHECK_THROWS_WITH(compile(large, options, Shape(DType::f32, {1024})),
                    Contains("512 devices") && Contains("hierarchical"));
  CHECK(all_reduce_strategy("tree") == AllReduceStrategy::tree);
  CHECK_THROWS_WITH(all_reduce_strategy("star"),
                    Contains("\"star\"") && Contains("direct, hierarchical, ring, tree"));
}

}  // namespace gspmd
