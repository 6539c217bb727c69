#include <fmt/format.h>

#include <algorithm>

#include "gspmd/mesh/visualize.h"
#include "mesh/shard_holders.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxDrawnTiles = 12;         // rows and columns of tiles
constexpr int64_t kMaxDrawings = 8;            // drawings of one tensor
constexpr int64_t kMaxStripes = 8;             // devices shown in one tile
constexpr size_t kFewStripes = 4;              // of those that more devices hold
constexpr int64_t kMaxLegend = 64;             // devices in the legend
constexpr size_t kMaxTensors = 400;            // on one page, leaves of tuples counted
constexpr double kWidth = 420, kHeight = 260;  // of a plane, pixels; more where tiles are many
constexpr double kTop = 40;                    // room for intervals and the dims' names
constexpr double kGap = 30;                    // of tiles that are left out

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; color: #1c2330; background: #f5f6f8; margin: 24px; }}
h1 {{ font-size: 20px; margin: 0 0 16px; }}
section {{ background: #fff; border: 1px solid #d9dde3; border-radius: 6px; padding: 14px 18px;
  margin-bottom: 16px; }}
h2 {{ font-size: 16px; margin: 0 0 2px; }}
code {{ font: 13px ui-monospace, "DejaVu Sans Mono", monospace; color: #44506a; }}
p {{ margin: 4px 0; }}
.note {{ display: inline-block; background: #fff1d6; border: 1px solid #e8c27a; border-radius: 4px;
  padding: 0 6px; margin: 2px 6px 2px 0; }}
.slices, .legend {{ display: flex; flex-wrap: wrap; gap: 8px 22px; margin-top: 8px; }}
.legend {{ gap: 3px 10px; font-size: 12px; }}
.legend i {{ display: inline-block; width: 13px; height: 13px; border: 1px solid #0003;
  border-radius: 3px; vertical-align: -2px; margin-right: 4px; }}
figure {{ margin: 0; }} figcaption {{ font-size: 13px; color: #44506a; }}
svg text {{ font: 12px ui-monospace, "DejaVu Sans Mono", monospace; fill: #1c2330; }}
svg .axis {{ fill: #44506a; }}
svg g text {{ font-weight: 600; paint-order: stroke; stroke: #fff9; stroke-width: 3px; }}
.box {{ fill: none; stroke: #1c2330; }}
.empty {{ fill: url(#none); stroke: #9aa3b2; stroke-dasharray: 3 2; }}
</style></head><body>
<h1>{}</h1>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Neighbours differ by the golden angle; every twelfth device is a shade lighter.
std::string colour(int64_t device) {
  const auto hue = static_cast<int64_t>(static_cast<double>(device % 997) * 137.508) % 360;
  return fmt::format("hsl({},62%,{}%)", hue, 66 + device / 12 % 4 * 6);
}

// One dim of a plane: the tiles drawn, where each begins and ends in pixels.
struct Side {
  int64_t dim = -1;
  std::vector<int64_t> tiles;  // -1: some are left out
  std::vector<double> edges;
  int64_t size = 1, parts = 1;

  Side(const Shape& global, const Sharding& sharding, int64_t dim_, double start, double length,
       double least)
      : dim(dim_) {
    if (dim >= 0) {
      size = global.dims[static_cast<size_t>(dim)];
      parts = sharding.tiles(dim);
    }
    tiles = drawn_tiles(parts, kMaxDrawnTiles);
    edges.push_back(start);
    int64_t shown = 0;
    for (const int64_t tile : tiles) shown += elements(tile);
    for (const int64_t tile : tiles) {
      const double part = length * static_cast<double>(elements(tile)) /
                          static_cast<double>(std::max<int64_t>(shown, 1));
      edges.push_back(edges.back() + (tile < 0 ? kGap : std::max(part, least)));
    }
  }
  int64_t elements(int64_t tile) const {
    if (tile < 0) return 0;
    const int64_t shard = ceil_div(size, parts);
    const int64_t start = std::min(size, saturating_multiply(tile, shard));
    return std::min(shard, size - start);
  }
  std::string interval(int64_t tile) const {
    return tile < 0 ? "…" : dim < 0 ? "" : interval_text(size, parts, tile);
  }
  double middle(size_t i) const { return (edges[i] + edges[i + 1]) / 2; }
};

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const char* attributes = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, attributes, escaped(text));
}

// What fits of a list of devices.
std::string fitting(const Holders& holders, double width) {
  const std::string all = to_string(holders);
  const auto room = static_cast<size_t>(width / 7.5);
  if (all.size() <= room) return all;
  const std::string some = fmt::format("{}+{}", holders.ids.front(), holders.count - 1);
  return some.size() <= room ? some : "";
}

// One tile: a stripe for each device, the devices' numbers, and its box where the pointer rests.
std::string tile(const Holders& holders, const std::string& box, bool empty, double x, double y,
                 double width, double height) {
  std::string svg = fmt::format("<g><title>{}: device {}{}</title>\n", box, to_string(holders),
                                empty ? "; no elements" : "");
  if (empty) {
    svg += fmt::format(
        "<rect class=\"empty\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", x,
        y, width, height);
  } else {
    const size_t stripes = holders.count <= kMaxStripes ? holders.ids.size() : kFewStripes;
    for (size_t i = 0; i < stripes; ++i)
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
          x + width * static_cast<double>(i) / static_cast<double>(stripes), y,
          width / static_cast<double>(stripes) + 0.5, height, colour(holders.ids[i]));
    svg += fmt::format(
        "<rect class=\"box\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", x,
        y, width, height);
  }
  return svg + text_at(x + width / 2, y + height / 2 + 4, "middle", fitting(holders, width)) +
         "</g>\n";
}

std::string side_labels(const Side& rows, const Side& columns) {
  const double left = columns.edges.front();
  std::string svg;
  for (size_t c = 0; c < columns.tiles.size(); ++c)
    svg += text_at(columns.middle(c), kTop - 6, "middle", columns.interval(columns.tiles[c]));
  for (size_t r = 0; r < rows.tiles.size(); ++r)
    svg += text_at(left - 6, rows.middle(r) + 4, "end", rows.interval(rows.tiles[r]));
  if (columns.dim >= 0)
    svg += text_at(left, 14, "start", fmt::format("dim {} →", columns.dim), " class=\"axis\"");
  if (rows.dim >= 0)
    svg += text_at(left - 6, kTop - 6, "end", fmt::format("dim {} ↓", rows.dim), " class=\"axis\"");
  return svg;
}

// Room that the widest interval of a side needs for its text.
double text_room(const Shape& global, const Sharding& sharding, int64_t dim) {
  if (dim < 0) return 34;
  const int64_t size = global.dims[static_cast<size_t>(dim)], parts = sharding.tiles(dim);
  return 12 + 7.5 * static_cast<double>(interval_text(size, parts, parts - 1).size());
}

std::string box_text(const Shape& global, const Sharding& sharding,
                     const std::vector<int64_t>& tiles) {
  std::vector<std::string> intervals;
  for (size_t d = 0; d < global.dims.size(); ++d)
    intervals.push_back(interval_text(global.dims[d], sharding.tiles(static_cast<int64_t>(d)),
                                      d < tiles.size() ? tiles[d] : 0));
  return fmt::format("[{}]", fmt::join(intervals, ", "));
}

std::string draw_slice(const Shape& global, const Sharding& sharding, const PicturePlan& plan,
                       std::vector<int64_t> tiles) {
  const double left = std::max(64.0, text_room(global, sharding, plan.rows));
  const Side columns(global, sharding, plan.columns, left, kWidth,
                     text_room(global, sharding, plan.columns));
  const Side rows(global, sharding, plan.rows, kTop, plan.rows < 0 ? 48 : kHeight, 26);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" role=\"img\">\n"
      "<defs><pattern id=\"none\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
      "<path d=\"M0 6L6 0\" stroke=\"#c5cad3\"/></pattern></defs>\n",
      columns.edges.back() + 8, rows.edges.back() + 8);
  svg += side_labels(rows, columns);
  const auto put = [&](const Side& side, size_t i) {
    if (side.dim >= 0 && side.dim < sharding.rank())
      tiles[static_cast<size_t>(side.dim)] = side.tiles[i];
  };
  for (size_t r = 0; r < rows.tiles.size(); ++r) {
    for (size_t c = 0; c < columns.tiles.size(); ++c) {
      if (rows.tiles[r] < 0 || columns.tiles[c] < 0) continue;
      put(rows, r);
      put(columns, c);
      const bool empty =
          rows.elements(rows.tiles[r]) == 0 || columns.elements(columns.tiles[c]) == 0;
      svg += tile(holders_of(sharding, tiles), box_text(global, sharding, tiles), empty,
                  columns.edges[c], rows.edges[r], columns.edges[c + 1] - columns.edges[c],
                  rows.edges[r + 1] - rows.edges[r]);
    }
  }
  return svg + "</svg>\n";
}

std::string draw(const Shape& global, const Sharding& sharding) {
  const PicturePlan plan = plan_picture(global, sharding, true);
  std::vector<int64_t> tiles(static_cast<size_t>(sharding.rank()), 0);
  int64_t count = 1;
  for (const int64_t dim : plan.sliced) count = saturating_multiply(count, sharding.tiles(dim));
  std::string html = "<div class=\"slices\">\n";
  for (int64_t slice = 0; slice < std::min(count, kMaxDrawings); ++slice) {
    std::string where;
    int64_t rest = slice;
    for (size_t i = plan.sliced.size(); i-- > 0;) {
      const int64_t dim = plan.sliced[i], parts = sharding.tiles(dim);
      tiles[static_cast<size_t>(dim)] = rest % parts;
      const std::string at =
          interval_text(global.dims[static_cast<size_t>(dim)], parts, rest % parts);
      where = fmt::format("dim {} at {}{}{}", dim, at, where.empty() ? "" : ", ", where);
      rest /= parts;
    }
    html += fmt::format("<figure><figcaption>{}</figcaption>\n{}</figure>\n", where,
                        draw_slice(global, sharding, plan, tiles));
  }
  html += "</div>\n";
  if (count > kMaxDrawings)
    html += fmt::format("<p>… and {} slices more</p>\n", count - kMaxDrawings);
  return html;
}

std::string legend(const Sharding& sharding) {
  const DeviceOrder order = sharding.order();
  std::vector<int64_t> ids;
  for (int64_t r = 0; r < std::min(order->count, kMaxLegend); ++r) ids.push_back(order->device(r));
  std::sort(ids.begin(), ids.end());
  std::string html = "<div class=\"legend\"><b>devices</b>\n";
  for (const int64_t id : ids)
    html += fmt::format("<span><i style=\"background:{}\"></i>{}</span>\n", colour(id), id);
  if (order->count > kMaxLegend) html += fmt::format("<span>… {} in all</span>\n", order->count);
  return html + "</div>\n";
}

std::string note(const std::string& text) {
  return fmt::format("<span class=\"note\">{}</span>\n", escaped(text));
}

// What cannot be seen in the drawing, or not at once.
std::string facts(const Shape& global, const Sharding& sharding) {
  const int64_t copies = tile_count(sharding.replicated_digits());
  std::string html =
      fmt::format("<p>{} devices, {} boxes, shards {}</p>\n<p>", sharding.order()->count,
                  sharding.num_tiles(), to_string(local_shape(global, sharding)));
  if (copies > 1) html += note(fmt::format("replicated: {} devices hold each box", copies));
  for (const Unreduced& u : sharding.unreduced())
    html += note(fmt::format("unreduced: {} of partials on {} devices is still to come",
                             combiner_name(u.combiner), tile_count(u.digits)));
  if (!sharding.manual_digits().empty())
    html += note(fmt::format("manual over {} devices: each has a value of its own",
                             tile_count(sharding.manual_digits())));
  for (int64_t d = 0; d < sharding.rank(); ++d) {
    const int64_t size = global.dims[static_cast<size_t>(d)], parts = sharding.tiles(d);
    if (parts == 1 || size % parts == 0) continue;
    const int64_t shard = ceil_div(size, parts), full = size / shard;
    const int64_t rest = size - full * shard, empty = parts - full - (rest > 0 ? 1 : 0);
    std::string text = fmt::format("uneven: dim {} of {} in {} tiles of {}", d, size, parts, shard);
    if (rest > 0) text += fmt::format(", the last of {}", rest);
    if (empty > 0) text += fmt::format(", {} empty", empty);
    html += note(text);
  }
  return html + "</p>\n";
}

std::string section(const std::string& name, const Shape& global, const Sharding& sharding) {
  std::string html =
      fmt::format("<section>\n<h2>{}</h2>\n<p><code>{} {}</code></p>\n", escaped(name),
                  escaped(to_string(global)), escaped(to_string(sharding)));
  if (const std::string whole = whole_sentence(sharding); !whole.empty())
    html += fmt::format("<p>{}</p>\n", whole);
  else
    html += facts(global, sharding) + draw(global, sharding) + legend(sharding);
  return html + "</section>\n";
}

}  // namespace

std::string visualize_html(const std::string& title, std::span<const ShardedTensor> tensors) {
  std::string html = fmt::format(fmt::runtime(kHead), escaped(title), escaped(title));
  size_t shown = 0, left_out = 0;
  for (const ShardedTensor& tensor : tensors) {
    local_shape(tensor.shape, tensor.sharding);  // says what is wrong where the two do not match
    const std::vector<Shape> leaves = leaf_shapes(tensor.shape);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (++shown > kMaxTensors) {
        ++left_out;
        continue;
      }
      const bool tuple = tensor.sharding.is_tuple();
      html += section(
          tensor.shape.is_tuple ? fmt::format("{}, element {}", tensor.name, i) : tensor.name,
          leaves[i], tuple ? tensor.sharding.elements()[i] : tensor.sharding);
    }
  }
  if (left_out > 0) html += fmt::format("<p>… and {} tensors more</p>\n", left_out);
  return html + "</body></html>\n";
}

std::string visualize_html(const Shape& global, const Sharding& sharding) {
  const ShardedTensor tensor{"tensor", global, sharding};
  return visualize_html(to_string(global) + " " + to_string(sharding), std::span(&tensor, 1));
}

}  // namespace gspmd
