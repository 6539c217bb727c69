#include <catch2/catch.hpp>
#include <cmath>

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
      REQUIRE(std::isfinite(x));
      most = std::max(most, std::abs(x - y) / std::max(1.0, std::abs(y)));
    }
  }
  return most;
}

[[maybe_unused]] int64_t bytes_of(const ExecutableStats& stats, std::string_view kind) {
  int64_t bytes = 0;
  for (const CollectiveStats& c : stats.collectives)
    if (c.kind == kind) bytes += c.bytes;
  return bytes;
}

TEST_CASE("values are those of the whole update after 20 steps, for every optimizer") {
  for (const std::string& name : optimizer_names())
    for (const Sizes& sizes : {kEven, kUneven}) {
      CAPTURE(name, sizes.in);
      StepOptions o;
      o.optimizer.kind = optimizer_of_name(name);
      o.optimizer.weight_decay = 0.01;
      o.sizes = sizes;
      o.clip_norm = 1.5;
      const Trained whole = train(o, 20);
      o.update.axes = {"data"};
      o.poison = true;
      const TrainStep step = compile_step(o);
      const Trained sharded = train(step, o, 20);
      CHECK(largest_difference(sharded.params, whole.params) < 1e-6);
      CHECK(largest_difference(sharded.state, whole.state) < 1e-6);
      if (name == "adam") fmt::print("{}\n{}\n", step.text(), step.stats());
    }
}

}  // namespace
}  // namespace gspmd::models
