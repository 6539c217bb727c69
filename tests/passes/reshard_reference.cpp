#include "passes/reshard_reference.h"

#include <algorithm>
#include <set>

namespace gspmd::testing {

namespace {

void place_axes(std::set<int64_t> left, AxisLists& lists, size_t dim, std::vector<AxisLists>& out) {
  if (dim == lists.size()) {
    out.push_back(lists);
    return;
  }
  place_axes(left, lists, dim + 1, out);
  for (const int64_t axis : left) {
    std::set<int64_t> rest = left;
    rest.erase(axis);
    lists[dim].push_back(axis);
    place_axes(rest, lists, dim, out);
    lists[dim].pop_back();
  }
}

bool uses(const AxisLists& lists, int64_t axis) {
  return std::any_of(lists.begin(), lists.end(), [&](const auto& dim) {
    return std::find(dim.begin(), dim.end(), axis) != dim.end();
  });
}

}  // namespace

std::vector<AxisLists> all_axis_lists(int64_t axes, int64_t rank) {
  std::set<int64_t> all;
  for (int64_t a = 0; a < axes; ++a) all.insert(a);
  AxisLists lists(static_cast<size_t>(rank));
  std::vector<AxisLists> out;
  place_axes(all, lists, 0, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Sharding sharding_of(const Mesh& mesh, const AxisLists& lists) {
  return mesh_sharding(mesh, lists).with_mesh(nullptr);
}

ReshardReference::ReshardReference(const Mesh& mesh, Shape global)
    : mesh_(mesh),
      global_(std::move(global)),
      layouts_(all_axis_lists(mesh.rank(), global_.rank())) {
  for (size_t i = 0; i < layouts_.size(); ++i) index_[layouts_[i]] = i;
  for (size_t i = 0; i < layouts_.size(); ++i) edges_.push_back(edges(i));
}

int64_t ReshardReference::tiles(const std::vector<int64_t>& axes) const {
  int64_t count = 1;
  for (const int64_t axis : axes) count *= mesh_.axes()[static_cast<size_t>(axis)].size;
  return count;
}

int64_t ReshardReference::local_bytes(const AxisLists& lists) const {
  return local_shape(global_, sharding_of(mesh_, lists)).bytes();
}

bool ReshardReference::nests(size_t dim, const std::vector<int64_t>& coarse,
                             const std::vector<int64_t>& fine) const {
  const int64_t n = global_.dims[dim];
  const int64_t c = tiles(coarse), f = tiles(fine);
  return c == 1 || ceil_div(n, c) == f / c * ceil_div(n, f);
}

void ReshardReference::slices(const AxisLists& start, AxisLists& now, size_t dim,
                              std::vector<Edge>& out) const {
  for (int64_t axis = 0; axis < mesh_.rank(); ++axis) {
    if (uses(now, axis)) continue;
    now[dim].push_back(axis);
    if (nests(dim, start[dim], now[dim])) out.push_back({index_.at(now), 0});
    slices(start, now, dim, out);
    now[dim].pop_back();
  }
}

void ReshardReference::moves_of_dim(const AxisLists& lists, size_t dim,
                                    std::vector<Edge>& out) const {
  AxisLists coarse = lists;
  std::vector<int64_t> moved;
  while (!coarse[dim].empty()) {
    moved.insert(moved.begin(), coarse[dim].back());
    coarse[dim].pop_back();
    if (!nests(dim, coarse[dim], lists[dim])) continue;
    const int64_t g = tiles(moved);
    out.push_back({index_.at(coarse), local_bytes(lists) * (g - 1)});
    for (size_t to = 0; to < lists.size(); ++to) {
      if (to == dim) continue;
      AxisLists after = coarse, padded = lists;
      after[to].insert(after[to].end(), moved.begin(), moved.end());
      padded[to] = after[to];
      if (!nests(to, lists[to], after[to])) continue;
      int64_t piece = dtype_size(global_.dtype);
      for (size_t d = 0; d < lists.size(); ++d)
        piece *= ceil_div(global_.dims[d], tiles(padded[d]));
      out.push_back({index_.at(after), piece * (g - 1)});
    }
  }
}

void ReshardReference::joint_moves(const AxisLists& lists, const AxisLists& now,
                                   const AxisLists& padded, const std::vector<int>& cut, int runs,
                                   std::vector<Edge>& out) const {
  if (runs > 1) {
    bool local = true;
    int64_t piece = dtype_size(global_.dtype), members = 1;
    for (size_t d = 0; d < lists.size(); ++d) {
      piece *= ceil_div(global_.dims[d], tiles(padded[d]));
      members *= tiles(padded[d]) / tiles(lists[d]);
      local = local && nests(d, lists[d], padded[d]) && nests(d, now[d], padded[d]);
    }
    if (local) out.push_back({index_.at(now), piece * (members - 1)});
  }
  for (size_t from = 0; runs < 3 && from < lists.size(); ++from)
    for (size_t to = 0; to < lists.size(); ++to) {
      if (from == to || cut[from] == 2 || cut[to] == 1) continue;
      AxisLists after = now, sent = padded;
      std::vector<int64_t> moved;
      std::vector<int> marked = cut;
      marked[from] = 1;
      marked[to] = 2;
      while (!after[from].empty()) {
        moved.insert(moved.begin(), after[from].back());
        after[from].pop_back();
        after[to] = now[to];
        sent[to] = padded[to];
        after[to].insert(after[to].end(), moved.begin(), moved.end());
        sent[to].insert(sent[to].end(), moved.begin(), moved.end());
        joint_moves(lists, after, sent, marked, runs + 1, out);
      }
    }
}

std::vector<ReshardReference::Edge> ReshardReference::edges(size_t layout) const {
  const AxisLists& lists = layouts_[layout];
  std::vector<Edge> out;
  for (size_t dim = 0; dim < lists.size(); ++dim) {
    AxisLists now = lists;
    slices(lists, now, dim, out);
    moves_of_dim(lists, dim, out);
  }
  joint_moves(lists, lists, lists, std::vector<int>(lists.size(), 0), 0, out);
  for (size_t other = 0; other < layouts_.size(); ++other) {
    bool same = other != layout;
    for (size_t dim = 0; dim < lists.size(); ++dim)
      same = same && tiles(lists[dim]) == tiles(layouts_[other][dim]);
    if (same) out.push_back({other, local_bytes(lists)});
  }
  return out;
}

std::vector<ReshardCost> ReshardReference::costs_from(size_t layout) const {
  constexpr ReshardCost kFar{int64_t{1} << 60, 0};
  std::vector<ReshardCost> cost(layouts_.size(), kFar);
  std::set<std::pair<ReshardCost, size_t>> open;
  cost[layout] = {};
  open.insert({cost[layout], layout});
  while (!open.empty()) {
    const size_t here = open.begin()->second;
    open.erase(open.begin());
    for (const Edge& edge : edges_[here]) {
      const ReshardCost total{cost[here].bytes + edge.bytes, cost[here].steps + 1};
      if (!(total < cost[edge.to])) continue;
      open.erase({cost[edge.to], edge.to});
      cost[edge.to] = total;
      open.insert({total, edge.to});
    }
  }
  return cost;
}

}  // namespace gspmd::testing
