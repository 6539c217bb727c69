#include "moves/stairs.h"

#include <algorithm>

namespace gspmd {

Interval StairPlan::needed(int64_t target) const {
  const int64_t first = step * target + offset;
  return intersect({first, first + length}, {0, end});
}

int64_t StairPlan::first_target(int64_t source) const {
  const int64_t before = std::max<int64_t>(0, source * dim.shard - length + 1 - offset);
  return (before + step - 1) / step;
}

int64_t StairPlan::target_of(int64_t tile, int64_t colour) const {
  const int64_t first = first_target(tile);
  const int64_t target = first + (degree - (tile + first) % degree + colour) % degree;
  if (target >= dim.tiles || number(target) == tile) return -1;
  return intersect(needed(target), dim.held(tile)).size() > 0 ? number(target) : -1;
}

namespace {

// The sources that a target needs: [begin, end).
Interval sources_of(const StairPlan& plan, int64_t target) {
  const Interval need = plan.needed(target);
  if (need.size() == 0) return {0, 0};
  return {need.begin / plan.dim.shard,
          std::min(plan.dim.tiles, (need.end - 1) / plan.dim.shard + 1)};
}

// The most pairs of one source, or of one target.
int64_t degree_of(const StairPlan& plan) {
  int64_t most = 1;
  std::vector<int64_t> count(static_cast<size_t>(plan.dim.tiles), 0);
  for (int64_t t = 0; t < plan.dim.tiles; ++t) {
    const Interval sources = sources_of(plan, t);
    most = std::max(most, sources.size());
    for (int64_t s = sources.begin; s < sources.end; ++s)
      most = std::max(most, ++count[static_cast<size_t>(s)]);
  }
  return most;
}

}  // namespace

std::optional<StairPlan> plan_stairs(const HeldDim& dim, const Access& access) {
  constexpr int64_t kMostRounds = 16;
  if (access.divisor != 1 || access.step == 0 || dim.shard < 1) return std::nullopt;
  StairPlan plan;
  plan.dim = dim;
  plan.backwards = access.step < 0;
  plan.step = plan.backwards ? -access.step : access.step;
  plan.offset = plan.backwards ? access.offset + access.step * (dim.tiles - 1) : access.offset;
  plan.length = access.length;
  plan.end = std::min(dim.size, access.end);
  // Bounds first: what is far too dear is not looked at tile by tile.
  if (access.length / dim.shard > kMostRounds || dim.shard / plan.step > kMostRounds)
    return std::nullopt;
  plan.degree = degree_of(plan);
  if (plan.degree > kMostRounds) return std::nullopt;
  std::vector<std::optional<StairPlan::Round>> rounds(static_cast<size_t>(plan.degree));
  const auto each_pair = [&](const auto& visit) {
    for (int64_t t = 0; t < dim.tiles; ++t) {
      const Interval sources = sources_of(plan, t);
      for (int64_t s = sources.begin; s < sources.end; ++s)
        visit(s, t, intersect(plan.needed(t), dim.held(s)));
    }
  };
  each_pair([&](int64_t s, int64_t t, Interval part) {
    if (plan.number(t) == s) {
      plan.own = true;
      return;
    }
    auto& round = rounds[static_cast<size_t>((s + t) % plan.degree)];
    if (!round) round = StairPlan::Round{(s + t) % plan.degree, 0, INT64_MAX, INT64_MIN};
    round->size = std::max(round->size, part.size());
  });
  each_pair([&](int64_t s, int64_t t, Interval part) {
    if (plan.number(t) == s) return;
    StairPlan::Round& round = *rounds[static_cast<size_t>((s + t) % plan.degree)];
    const int64_t begin = std::min(part.begin, (s + 1) * dim.shard - round.size);
    const int64_t ahead = plan.step * t + plan.offset - begin;
    round.least_ahead = std::min(round.least_ahead, ahead);
    round.greatest_ahead = std::max(round.greatest_ahead, ahead);
  });
  for (const auto& round : rounds) {
    if (!round) continue;
    plan.rounds.push_back(*round);
    plan.received += round->size;
  }
  return plan;
}

}  // namespace gspmd
