#include <fmt/format.h>

#include <algorithm>

#include "gspmd/mesh/sharding.h"
#include "mesh/shard_holders.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxDrawn = 8;   // rows and columns of tiles
constexpr int64_t kMaxSlices = 8;  // tables of one tensor

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

// The tiles drawn along a dim; one where there is no dim.
std::vector<int64_t> along(const Sharding& sharding, int64_t dim) {
  return dim < 0 ? std::vector<int64_t>{0} : drawn_tiles(sharding.tiles(dim), kMaxDrawn);
}

// The plane of a plan, the other dims at the tiles given.
std::string table(const Shape& global, const Sharding& sharding, const PicturePlan& plan,
                  std::vector<int64_t> tiles) {
  const auto head = [&](int64_t dim, int64_t tile) {
    if (dim < 0) return std::string();
    if (tile < 0) return std::string("...");
    return interval_text(global.dims[static_cast<size_t>(dim)], sharding.tiles(dim), tile);
  };
  const auto put = [&](int64_t dim, int64_t tile) {
    if (dim >= 0 && dim < sharding.rank()) tiles[static_cast<size_t>(dim)] = tile;
  };
  std::vector<Row> text;
  const std::vector<int64_t> columns = along(sharding, plan.columns);
  if (plan.columns >= 0) {
    text.push_back({""});
    for (const int64_t c : columns) text.back().push_back(head(plan.columns, c));
  }
  for (const int64_t r : along(sharding, plan.rows)) {
    Row row{head(plan.rows, r)};
    put(plan.rows, r);
    for (const int64_t c : columns) {
      put(plan.columns, c);
      row.push_back(r < 0 || c < 0 ? "..." : to_string(holders_of(sharding, tiles)));
    }
    text.push_back(std::move(row));
  }
  return table_text(text);
}

// A table for each tile of the dims outside the plane.
std::string slices(const Shape& global, const Sharding& sharding, const PicturePlan& plan) {
  std::vector<int64_t> tiles(static_cast<size_t>(sharding.rank()), 0);
  if (plan.sliced.empty()) return table(global, sharding, plan, tiles);
  int64_t count = 1;
  for (const int64_t dim : plan.sliced) count = saturating_multiply(count, sharding.tiles(dim));
  std::string text;
  for (int64_t slice = 0; slice < std::min(count, kMaxSlices); ++slice) {
    std::string where;
    int64_t rest = slice;
    for (size_t i = plan.sliced.size(); i-- > 0;) {
      const int64_t dim = plan.sliced[i], parts = sharding.tiles(dim), tile = rest % parts;
      rest /= parts;
      tiles[static_cast<size_t>(dim)] = tile;
      const std::string interval =
          interval_text(global.dims[static_cast<size_t>(dim)], parts, tile);
      where = fmt::format("dim {} at {}{}{}", dim, interval, where.empty() ? "" : ", ", where);
    }
    text += fmt::format("  {}:\n{}", where, table(global, sharding, plan, tiles));
  }
  return count > kMaxSlices ? text + fmt::format("  ... and {} slices more\n", count - kMaxSlices)
                            : text;
}

std::string digits_note(std::string_view name, const Digits& digits) {
  if (digits.empty()) return "";
  return fmt::format("  {} over {} devices\n", name, tile_count(digits));
}

std::string picture(const Shape& global, const Sharding& sharding) {
  const std::string title = fmt::format("{} {}\n", to_string(global), to_string(sharding));
  if (const std::string whole = whole_sentence(sharding); !whole.empty())
    return title + "  " + whole + "\n";
  std::string text = title + fmt::format("  shards {}\n", to_string(local_shape(global, sharding)));
  text += digits_note("manual", sharding.manual_digits());
  for (const Unreduced& u : sharding.unreduced())
    text += digits_note(fmt::format("unreduced ({})", combiner_name(u.combiner)), u.digits);
  const PicturePlan plan = plan_picture(global, sharding, false);
  const bool several = global.rank() > 2 || !plan.sliced.empty();
  for (int64_t i = 0; i < sharding.rank() && several; ++i)
    if (sharding.tiles(i) > 1)
      text += fmt::format("  dim {}: {} tiles of {}\n", i, sharding.tiles(i),
                          ceil_div(global.dims[static_cast<size_t>(i)], sharding.tiles(i)));
  if (!plan.sliced.empty())
    text += fmt::format("  dim {} down, dim {} across:\n", plan.rows, plan.columns);
  return text + slices(global, sharding, plan);
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
