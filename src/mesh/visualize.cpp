#include <fmt/format.h>

#include <algorithm>

#include "gspmd/mesh/sharding.h"
#include "mesh/digit_tools.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxDrawn = 8;  // rows and columns of tiles
constexpr size_t kMaxRuns = 4;    // runs of devices in one cell

// "0-3,8" of ascending ids, shortened.
std::string id_text(const std::vector<int64_t>& ids, bool more) {
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
  return more ? text + ",..." : text;
}

// The devices whose rank has `base` in the digits of the dims, ascending.
std::string holders(const Sharding& sharding, const Digits& split, int64_t base) {
  const Digits free = complement(split, sharding.order()->count);
  if (sharding.order()->is_iota()) {
    if (free.size() == 1 && free[0].stride == 1 && free[0].size > 2)
      return fmt::format("{}-{}", base, base + free[0].size - 1);
    constexpr int64_t kEnough = 64;
    const int64_t members = tile_count(free);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < std::min(members, kEnough); ++i) {
      int64_t id = base;
      int64_t rest = i;
      for (size_t k = free.size(); k-- > 0; rest /= free[k].size)
        id += rest % free[k].size * free[k].stride;
      ids.push_back(id);
    }
    return id_text(ids, members > kEnough);
  }
  std::vector<int64_t> ids;
  for (const int64_t r : ranks_in_order(free)) ids.push_back(sharding.order()->device(base + r));
  std::sort(ids.begin(), ids.end());
  return id_text(ids, false);
}

// The part of a rank that gives tile `index` along `digits`.
int64_t rank_part(const Digits& digits, int64_t index) {
  int64_t rank = 0;
  for (size_t i = digits.size(); i-- > 0; index /= digits[i].size)
    rank += index % digits[i].size * digits[i].stride;
  return rank;
}

std::string interval(int64_t dim, int64_t tiles, int64_t index) {
  const int64_t shard = ceil_div(dim, tiles);
  const int64_t start = std::min(dim, saturating_multiply(index, shard));
  return fmt::format("{}:{}", start, std::min(dim, start + shard));
}

using Row = std::vector<std::string>;

std::string table_text(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{}{:>{}}", i == 0 ? "  " : i == 1 ? " | " : "  ", row[i], widths[i]);
    text += line + "\n";
  }
  return text;
}

// Tiles over dims `rows` and `cols` (-1: none), the other dims at their first tile.
std::string table(const Shape& global, const Sharding& sharding, int64_t rows, int64_t cols) {
  const auto size = [&](int64_t i) { return i < 0 ? 1 : global.dims[static_cast<size_t>(i)]; };
  const auto head = [&](int64_t i, int64_t tile) {
    return i < 0 ? std::string() : interval(size(i), sharding.tiles(i), tile);
  };
  Digits split;
  for (int64_t i = 0; i < sharding.rank(); ++i)
    split.insert(split.end(), sharding.dim(i).begin(), sharding.dim(i).end());
  const int64_t height = rows < 0 ? 1 : sharding.tiles(rows);
  const int64_t width = cols < 0 ? 1 : sharding.tiles(cols);
  const bool cut = width > kMaxDrawn;
  std::vector<Row> text;
  Row top{""};
  for (int64_t c = 0; c < std::min(width, kMaxDrawn); ++c) top.push_back(head(cols, c));
  if (cut) top.push_back("...");
  if (cols >= 0) text.push_back(top);
  for (int64_t r = 0; r < std::min(height, kMaxDrawn); ++r) {
    Row row{head(rows, r)};
    for (int64_t c = 0; c < std::min(width, kMaxDrawn); ++c)
      row.push_back(holders(sharding, split,
                            rank_part(sharding.dim(rows), r) + rank_part(sharding.dim(cols), c)));
    if (cut) row.push_back("...");
    text.push_back(std::move(row));
  }
  if (height > kMaxDrawn) text.push_back(Row(top.size(), "..."));
  return table_text(text);
}

std::string digits_note(std::string_view name, const Digits& digits) {
  if (digits.empty()) return "";
  return fmt::format("  {} over {} devices\n", name, tile_count(digits));
}

std::string picture(const Shape& global, const Sharding& sharding) {
  const std::string title = fmt::format("{} {}\n", to_string(global), to_string(sharding));
  switch (sharding.kind()) {
    case ShardingKind::maximal:
      return title + fmt::format("  device {} holds the whole value\n", sharding.device());
    case ShardingKind::manual:
      return title + "  every device holds a value of its own\n";
    case ShardingKind::unknown:
      return title + "  not decided\n";
    default:
      break;
  }
  if (sharding.is_unreduced_everywhere())
    return title + "  every device holds a partial of the whole value\n";
  if (!sharding.order()) return title + "  every device holds the whole value\n";
  std::string text = title + fmt::format("  shards {}\n", to_string(local_shape(global, sharding)));
  text += digits_note("manual", sharding.manual_digits());
  for (const Unreduced& u : sharding.unreduced())
    text += digits_note(fmt::format("unreduced ({})", combiner_name(u.combiner)), u.digits);
  std::vector<int64_t> split;
  for (int64_t i = 0; i < sharding.rank(); ++i)
    if (sharding.tiles(i) > 1) split.push_back(i);
  if (split.empty() && sharding.rank() > 0) split.push_back(0);
  const bool several = global.rank() > 2 || split.size() > 2;
  for (const int64_t i : split)
    if (several)
      text += fmt::format("  dim {}: {} tiles of {}\n", i, sharding.tiles(i),
                          ceil_div(global.dims[static_cast<size_t>(i)], sharding.tiles(i)));
  if (split.size() > 2)
    text +=
        fmt::format("  dims {} and {}, the other dims at their first tile:\n", split[0], split[1]);
  // A single split dim of a vector reads as columns, rows otherwise.
  const bool flat = split.size() == 1 && global.rank() == 1;
  const int64_t first = split.empty() ? -1 : split[0];
  return text + table(global, sharding, flat ? -1 : first,
                      flat               ? first
                      : split.size() > 1 ? split[1]
                                         : -1);
}

}  // namespace

std::string visualize(const Shape& global, const Sharding& sharding) {
  if (!global.is_tuple && !sharding.is_tuple()) return picture(global, sharding);
  local_shape(global, sharding);  // says what is wrong where the two do not match
  std::string text;
  const std::vector<Shape> leaves = leaf_shapes(global);
  for (size_t i = 0; i < leaves.size(); ++i)
    text += fmt::format("{}: ", i) +
            picture(leaves[i], sharding.is_tuple() ? sharding.elements()[i] : sharding);
  return text;
}

}  // namespace gspmd
