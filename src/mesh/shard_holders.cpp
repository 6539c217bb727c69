#include "mesh/shard_holders.h"

#include <fmt/format.h>

#include <algorithm>

#include "mesh/digit_tools.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxIds = 64;  // collected of one tile
constexpr size_t kMaxRuns = 4;   // runs of devices in one text

// The part of a rank that gives tile `index` along `digits`.
int64_t rank_part(const Digits& digits, int64_t index) {
  int64_t rank = 0;
  for (size_t i = digits.size(); i-- > 0; index /= digits[i].size)
    rank += index % digits[i].size * digits[i].stride;
  return rank;
}

}  // namespace

PicturePlan plan_picture(const Shape& global, const Sharding& sharding, bool matrix) {
  PicturePlan plan;
  std::vector<int64_t> split;
  for (int64_t i = 0; i < sharding.rank(); ++i)
    if (sharding.tiles(i) > 1) split.push_back(i);
  if (split.empty() && global.rank() > 0) split.push_back(0);
  if (split.empty()) return plan;
  if (split.size() == 1) {
    const int64_t other = split[0] == global.rank() - 1 ? split[0] - 1 : global.rank() - 1;
    if (matrix && global.rank() > 1)
      split.insert(other < split[0] ? split.begin() : split.end(), other);
  }
  plan.columns = split.back();
  split.pop_back();
  if (!split.empty()) {
    plan.rows = split.back();
    split.pop_back();
  } else if (!matrix && global.rank() > 1) {
    std::swap(plan.rows, plan.columns);  // one split dim of several reads as rows
  }
  plan.sliced = split;
  return plan;
}

std::vector<int64_t> drawn_tiles(int64_t tiles, int64_t limit) {
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < std::min(tiles, limit); ++i) drawn.push_back(i);
  if (tiles <= limit) return drawn;
  drawn.back() = -1;
  drawn.push_back(tiles - 1);
  return drawn;
}

Holders holders_of(const Sharding& sharding, const std::vector<int64_t>& tiles) {
  Digits split;
  int64_t base = 0;
  for (int64_t i = 0; i < sharding.rank(); ++i) {
    split.insert(split.end(), sharding.dim(i).begin(), sharding.dim(i).end());
    base += rank_part(sharding.dim(i), tiles[static_cast<size_t>(i)]);
  }
  const Digits free = complement(split, sharding.order()->count);
  Holders holders;
  holders.count = tile_count(free);
  holders.one_run = sharding.order()->is_iota() && free.size() == 1 && free[0].stride == 1;
  if (sharding.order()->is_iota()) {
    for (int64_t i = 0; i < std::min(holders.count, kMaxIds); ++i)
      holders.ids.push_back(base + rank_part(free, i));
  } else {
    for (const int64_t rank : ranks_in_order(free))
      holders.ids.push_back(sharding.order()->device(base + rank));
  }
  std::sort(holders.ids.begin(), holders.ids.end());
  if (std::ssize(holders.ids) > kMaxIds) holders.ids.resize(kMaxIds);
  return holders;
}

std::string to_string(const Holders& holders) {
  const std::vector<int64_t>& ids = holders.ids;
  if (holders.one_run && holders.count > 2)
    return fmt::format("{}-{}", ids.front(), ids.front() + holders.count - 1);
  std::string text;
  size_t runs = 0;
  for (size_t i = 0; i < ids.size(); ++runs) {
    if (runs == kMaxRuns) return text + ",...";
    size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    text += text.empty() ? "" : ",";
    text += end - i > 2    ? fmt::format("{}-{}", ids[i], ids[end - 1])
            : end - i == 2 ? fmt::format("{},{}", ids[i], ids[i + 1])
                           : fmt::format("{}", ids[i]);
    i = end;
  }
  return holders.count > std::ssize(ids) ? text + ",..." : text;
}

std::string whole_sentence(const Sharding& sharding) {
  switch (sharding.kind()) {
    case ShardingKind::maximal:
      return fmt::format("device {} holds the whole value", sharding.device());
    case ShardingKind::manual:
      return "every device holds a value of its own";
    case ShardingKind::unknown:
      return "not decided";
    default:
      break;
  }
  if (sharding.is_unreduced_everywhere()) return "every device holds a partial of the whole value";
  return sharding.order() ? "" : "every device holds the whole value";
}

std::string interval_text(int64_t size, int64_t tiles, int64_t index) {
  const int64_t shard = ceil_div(size, tiles);
  const int64_t start = std::min(size, saturating_multiply(index, shard));
  return fmt::format("{}:{}", start, std::min(size, start + shard));
}

}  // namespace gspmd
