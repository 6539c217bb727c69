#include "models/partition_stages.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "models/transformer.h"

namespace gspmd::models {
namespace {

std::vector<double> random_costs(int64_t layers, uint32_t seed) {
  const Array drawn = random_uniform_array(Shape(DType::f64, {layers}), seed);
  std::vector<double> costs;
  for (int64_t i = 0; i < layers; ++i) costs.push_back(std::floor(drawn.at(i) * 20));
  return costs;
}

struct Best {
  double maximum = std::numeric_limits<double>::infinity();
  double squares = maximum;             // of all cuts
  double squares_of_maximum = maximum;  // of those with the least maximum
};

// By all cuts.
Best best_of(const std::vector<double>& costs, int64_t stages) {
  Best best;
  const auto layers = std::ssize(costs);
  const std::function<void(int64_t, int64_t, double, double)> from =
      [&](int64_t begin, int64_t left, double maximum, double squares) {
        if (left == 0) {
          if (begin != layers) return;
          best.squares = std::min(best.squares, squares);
          if (maximum < best.maximum) best.squares_of_maximum = squares;
          if (maximum == best.maximum)
            best.squares_of_maximum = std::min(best.squares_of_maximum, squares);
          best.maximum = std::min(best.maximum, maximum);
          return;
        }
        double cost = 0;
        for (int64_t end = begin + 1; end <= layers; ++end) {
          cost += costs[size_t(end - 1)];
          from(end, left - 1, std::max(maximum, cost), squares + cost * cost);
        }
      };
  from(0, stages, 0, 0);
  return best;
}

double squares(const StagePlan& plan) {
  double sum = 0;
  for (const double s : plan.seconds) sum += s * s;
  return sum;
}

std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("partition_stages: the best of all cuts", "[pipeline]") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const int64_t layers = 3 + seed % 8, stages = 1 + seed % 3 + (layers > 6 ? 1 : 0);
    const std::vector<double> costs = random_costs(layers, seed);
    const Best best = best_of(costs, stages);
    INFO("seed " << seed << ", " << layers << " layers, " << stages << " stages");
    const StagePlan fastest = partition_stages(costs, stages);
    CHECK(fastest.longest() == best.maximum);
    CHECK(squares(fastest) == best.squares_of_maximum);
    CHECK(squares(partition_stages(costs, stages, PartitionRule::least_variance)) == best.squares);
    REQUIRE(fastest.first.front() == 0);
    REQUIRE(fastest.first.back() == layers);
    for (int64_t k = 0; k < stages; ++k) {
      REQUIRE(fastest.first[size_t(k)] < fastest.first[size_t(k + 1)]);
      double cost = 0;
      for (int64_t i = fastest.first[size_t(k)]; i < fastest.first[size_t(k + 1)]; ++i)
        cost += costs[size_t(i)];
      CHECK(fastest.seconds[size_t(k)] == cost);
    }
  }
}

TEST_CASE("partition_stages: the histogram's rule is that of the release", "[pipeline]") {
  // Equal layers: layer i ends at (i + 1) / 4, so that the first stage gets one less.
  CHECK(partition_stages({1, 1, 1, 1}, 2, PartitionRule::histogram).first ==
        std::vector<int64_t>{0, 1, 4});
  // A layer of more than a share leaves a stage empty.
  CHECK(partition_stages({1, 8, 1}, 3, PartitionRule::histogram).first ==
        std::vector<int64_t>{0, 1, 1, 3});
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const int64_t layers = 5 + seed % 20, stages = 1 + seed % 6;
    std::vector<double> costs = random_costs(layers, seed);
    costs[0] += 1;
    const StagePlan plan = partition_stages(costs, stages, PartitionRule::histogram);
    double total = 0, sum = 0;
    for (const double c : costs) total += c;
    for (int64_t i = 0; i < layers; ++i) {
      sum += costs[size_t(i)];
      const int64_t stage = std::min(int64_t(sum / total * double(stages)), stages - 1);
      INFO("seed " << seed << ", layer " << i);
      CHECK(plan.first[size_t(stage)] <= i);
      CHECK(i < plan.first[size_t(stage + 1)]);
    }
  }
}

TEST_CASE("partition_stages: stage times and the bubble are said before the run", "[pipeline]") {
  const StagePlan plan = partition_stages({3, 1, 2, 2, 4}, 3);
  CHECK(to_string(plan, 6) ==
        "stage 0: layers 0-1, 4\n"
        "stage 1: layers 2-3, 4\n"
        "stage 2: layer 4, 4\n"
        "6 microbatches: 32 a step, 25.0 % idle\n");
  // Equal stages: the formula. Unequal ones wait besides.
  CHECK(plan.bubble(6) == Approx(2. / 8));
  const StagePlan uneven = partition_stages({1, 3}, 2);
  CHECK(uneven.step_seconds(1) == 6);
  CHECK(uneven.bubble(1) == Approx(1 - 4. / 12));
}

TEST_CASE("partition_stages: throughput is that of the published Transformer", "[pipeline]") {
  // arXiv:1811.06965, table 2, M = 32 against K = 2, M = 1.
  const std::pair<int64_t, double> published[] = {{2, 1.8}, {4, 3.4}, {8, 6.3}};
  for (const auto& [stages, speedup] : published)
    CHECK(std::abs(pipeline_speedup(stages, 32) / pipeline_speedup(2, 1) / speedup - 1) < 0.1);
}

TEST_CASE("partition_stages: parameters and their memory are those of the published Transformers",
          "[pipeline]") {
  struct Row {
    int64_t layers;
    double params, gibibytes;  // with 12 bytes for each
  };
  // arXiv:1811.06965, table 1: Naive-1 (its memory stands in the row below) and Pipeline-1 to -128.
  const Row published[] = {{3, 282.2e6, 3.15},
                           {13, 785.8e6, 8.8},
                           {103, 5.3e9, 59.5},
                           {415, 21.0e9, 235.1},
                           {1663, 83.9e9, 937.9}};
  for (const Row& row : published) {
    TransformerConfig config;
    config.layers = row.layers;
    config.model = 2048;
    config.hidden = 8192;
    config.heads = 32;
    config.seq = 1024;
    config.vocab = 32000;
    config.positions = Positions::none;
    config.head = Head::untied;
    const double params = double(parameter_count(config));
    // One digit is printed behind billions: half of the last one, where that is more.
    const double digits = std::max(1e-3, row.params < 1e9 ? 0 : 0.05e9 / row.params);
    INFO(row.layers << " layers: " << params);
    CHECK(std::abs(params / row.params - 1) < digits);
    CHECK(std::abs(12 * params / double(int64_t(1) << 30) / row.gibibytes - 1) < 0.01);
  }
}

TEST_CASE("partition_stages: wrong costs are told", "[pipeline][errors]") {
  CHECK_THAT(error_of([] { partition_stages({}, 2); }), Catch::Contains("there are no layers"));
  CHECK_THAT(error_of([] { partition_stages({1, 2}, 0); }), Catch::Contains("stages is 0"));
  CHECK_THAT(error_of([] {
               partition_stages({1, -2}, 1);
             }),
             Catch::Contains("the cost of layer 1 is -2"));
  CHECK_THAT(error_of([] {
               partition_stages({1, std::nan("")}, 1);
             }),
             Catch::Contains("the cost of layer 1 is nan"));
  CHECK_THAT(error_of([] {
               partition_stages({1, 2}, 3);
             }),
             Catch::Contains("2 layers do not fill 3 stages; take fewer stages"));
}

}  // namespace gspmd::models
