#include "models/partition_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/pipeline_schedule.h"

namespace gspmd::models {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

void check(const std::vector<double>& seconds, int64_t stages, PartitionRule rule, Site site) {
  if (seconds.empty()) user_error(site, "partition_stages: there are no layers");
  if (stages < 1) user_error(site, "partition_stages: stages is {}; it must be at least 1", stages);
  for (size_t i = 0; i < seconds.size(); ++i)
    if (!(seconds[i] >= 0) || !std::isfinite(seconds[i]))
      user_error(site,
                 "partition_stages: the cost of layer {} is {}; costs are finite and 0 or "
                 "more",
                 i, seconds[i]);
  if (rule != PartitionRule::histogram && std::ssize(seconds) < stages)
    user_error(site, "partition_stages: {} layers do not fill {} stages; take fewer stages",
               seconds.size(), stages);
}

// Sums of the first 0, 1, ... layers.
std::vector<double> cumulative(const std::vector<double>& seconds) {
  std::vector<double> sums(1, 0);
  for (const double s : seconds) sums.push_back(sums.back() + s);
  return sums;
}

// The cut that makes `join` of the stages' values least, stage by stage and place by place;
// `value` of layers [a, b). Ends with the number of layers.
template <class Value, class Join>
std::vector<int64_t> best_cut(int64_t layers, int64_t stages, Value value, Join join) {
  // Of the first n layers in k stages: the least, and where its last stage begins.
  const auto size = size_t(layers + 1);
  std::vector<double> least(size, kInfinite);
  std::vector<std::vector<int64_t>> begins;
  least[0] = 0;
  for (int64_t k = 1; k <= stages; ++k) {
    std::vector<double> next(size, kInfinite);
    std::vector<int64_t> begin(size, 0);
    for (int64_t n = k; n <= layers; ++n)
      for (int64_t a = k - 1; a < n; ++a) {
        const double all = join(least[size_t(a)], value(a, n));
        if (all < next[size_t(n)]) {
          next[size_t(n)] = all;
          begin[size_t(n)] = a;
        }
      }
    least = std::move(next);
    begins.push_back(std::move(begin));
  }
  std::vector<int64_t> first(size_t(stages + 1), layers);
  for (int64_t k = stages; k > 0; --k)
    first[size_t(k - 1)] = begins[size_t(k - 1)][size_t(first[size_t(k)])];
  return first;
}

std::vector<int64_t> by_histogram(const std::vector<double>& sums, int64_t stages) {
  const int64_t layers = std::ssize(sums) - 1;
  std::vector<int64_t> first(size_t(stages + 1), layers);
  first[0] = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < layers; ++i) {
    const double share = sums.back() > 0 ? sums[size_t(i + 1)] / sums.back() : 0;
    const int64_t stage = std::min(int64_t(share * double(stages)), stages - 1);
    while (at < stage) first[size_t(++at)] = i;
  }
  return first;
}

}  // namespace

StagePlan partition_stages(const std::vector<double>& seconds, int64_t stages, PartitionRule rule,
                           Site site) {
  check(seconds, stages, rule, site);
  const std::vector<double> sums = cumulative(seconds);
  const int64_t layers = std::ssize(seconds);
  const auto of = [&](int64_t a, int64_t b) { return sums[size_t(b)] - sums[size_t(a)]; };
  // The sum of the costs is the same in every cut, and so is least variance the least of squares.
  const auto squares_below = [&](double limit) {
    return best_cut(
        layers, stages,
        [&](int64_t a, int64_t b) { return of(a, b) <= limit ? of(a, b) * of(a, b) : kInfinite; },
        [](double x, double y) { return x + y; });
  };
  StagePlan plan;
  if (rule == PartitionRule::histogram) {
    plan.first = by_histogram(sums, stages);
  } else if (rule == PartitionRule::least_variance) {
    plan.first = squares_below(kInfinite);
  } else {
    const std::vector<int64_t> fastest =
        best_cut(layers, stages, of, [](double x, double y) { return std::max(x, y); });
    double longest = 0;
    for (size_t k = 0; k < size_t(stages); ++k)
      longest = std::max(longest, of(fastest[k], fastest[k + 1]));
    plan.first = squares_below(longest);
  }
  for (size_t k = 0; k < size_t(stages); ++k)
    plan.seconds.push_back(of(plan.first[k], plan.first[k + 1]));
  return plan;
}

double StagePlan::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.); }

double StagePlan::longest() const { return *std::max_element(seconds.begin(), seconds.end()); }

double StagePlan::step_seconds(int64_t microbatches) const {
  return double(PipelineSchedule({PipelineKind::gpipe, stages(), microbatches, 1}).iterations()) *
         longest();
}

double StagePlan::bubble(int64_t microbatches) const {
  const double all = double(stages()) * step_seconds(microbatches);
  return all > 0 ? 1 - double(microbatches) * total() / all : 0;
}

std::string to_string(const StagePlan& plan, int64_t microbatches) {
  std::string text;
  for (size_t k = 0; k < plan.seconds.size(); ++k) {
    const int64_t begin = plan.first[k], end = plan.first[k + 1];
    const std::string layers = end == begin       ? "no layers"
                               : end == begin + 1 ? fmt::format("layer {}", begin)
                                                  : fmt::format("layers {}-{}", begin, end - 1);
    text += fmt::format("stage {}: {}, {:.4g}\n", k, layers, plan.seconds[k]);
  }
  return text + fmt::format("{} microbatches: {:.4g} a step, {:.1f} % idle\n", microbatches,
                            plan.step_seconds(microbatches), 100 * plan.bubble(microbatches));
}

double pipeline_speedup(int64_t stages, int64_t microbatches) {
  return (1 - PipelineSchedule({PipelineKind::gpipe, stages, microbatches, 1}).bubble()) *
         double(stages);
}

}  // namespace gspmd::models
