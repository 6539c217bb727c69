#include "passes/reshard_search.h"

#include <algorithm>
#include <map>
#include <queue>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

bool contains(const std::vector<int>& list, int atom) {
  return std::find(list.begin(), list.end(), atom) != list.end();
}

std::vector<int> suffix(const std::vector<int>& list, size_t count) {
  return {list.end() - static_cast<int64_t>(count), list.end()};
}

void append(std::vector<int>& list, const std::vector<int>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

int64_t share(int64_t bytes, int64_t g) { return ceil_div(saturating_multiply(bytes, g - 1), g); }

}  // namespace

ReshardSearch::ReshardSearch(const Shape& global, DeviceOrder order, Digits atoms, AtomLayout from,
                             AtomLayout to, Combiner combiner)
    : global_(global), order_(order), atoms_(std::move(atoms)), from_(std::move(from)),
      to_(std::move(to)), combiner_(combiner) {}

int64_t ReshardSearch::tiles(const std::vector<int>& atoms) const {
  int64_t count = 1;
  for (const int atom : atoms) count *= atoms_[static_cast<size_t>(atom)].size;
  return count;
}

int64_t ReshardSearch::local_bytes(const AtomLayout& s) const {
  int64_t bytes = dtype_size(global_.dtype);
  for (size_t d = 0; d < s.dims.size(); ++d)
    bytes = saturating_multiply(bytes, ceil_div(global_.dims[d], tiles(s.dims[d])));
  return bytes;
}

bool ReshardSearch::nests(int64_t d, int64_t coarse, int64_t fine) const {
  const int64_t n = global_.dims[static_cast<size_t>(d)];
  return coarse == 1 || ceil_div(n, coarse) == fine / coarse * ceil_div(n, fine);
}

bool ReshardSearch::wanted_on(int64_t d, int atom) const {
  return contains(to_.dims[static_cast<size_t>(d)], atom);
}

bool ReshardSearch::is_free(const AtomLayout& s, int atom) const {
  for (const auto& dim : s.dims)
    if (contains(dim, atom)) return false;
  return !contains(s.unreduced, atom);
}

void ReshardSearch::gathers(const AtomLayout& s, std::vector<Move>& out) const {
  for (size_t d = 0; d < s.dims.size(); ++d)
    for (size_t k = 1; k <= s.dims[d].size(); ++k) {
      Move m{ReshardKind::all_gather, static_cast<int64_t>(d), -1, suffix(s.dims[d], k), s, 0};
      m.after.dims[d].resize(s.dims[d].size() - k);
      if (!nests(m.dim, tiles(m.after.dims[d]), tiles(s.dims[d]))) continue;
      m.bytes = saturating_multiply(local_bytes(s), tiles(m.atoms) - 1);
      out.push_back(std::move(m));
    }
}

void ReshardSearch::slices(const AtomLayout& s, std::vector<Move>& out) const {
  for (size_t d = 0; d < s.dims.size(); ++d) {
    Move m{ReshardKind::dynamic_slice, static_cast<int64_t>(d), -1, {}, s, 0};
    for (const int atom : to_.dims[d]) {
      if (!is_free(m.after, atom)) continue;
      m.atoms.push_back(atom);
      m.after.dims[d].push_back(atom);
      if (nests(m.dim, tiles(s.dims[d]), tiles(m.after.dims[d]))) out.push_back(m);
    }
  }
}

void ReshardSearch::exchanges(const AtomLayout& s, std::vector<Move>& out) const {
  for (size_t d = 0; d < s.dims.size(); ++d)
    for (size_t k = 1; k <= s.dims[d].size(); ++k) {
      const std::vector<int> moved = suffix(s.dims[d], k);
      for (size_t e = 0; e < s.dims.size(); ++e) {
        if (e == d) continue;
        const bool all = std::all_of(moved.begin(), moved.end(),
                                     [&](int a) { return wanted_on(static_cast<int64_t>(e), a); });
        if (!all) continue;
        Move m{ReshardKind::all_to_all, static_cast<int64_t>(d), static_cast<int64_t>(e), moved, s, 0};
        m.after.dims[d].resize(s.dims[d].size() - k);
        append(m.after.dims[e], moved);
        if (!nests(m.dim, tiles(m.after.dims[d]), tiles(s.dims[d])) ||
            !nests(m.dim_to, tiles(s.dims[e]), tiles(m.after.dims[e])))
          continue;
        AtomLayout padded = s;  // dim e is padded to whole pieces before it is cut
        append(padded.dims[e], moved);
        m.bytes = share(saturating_multiply(local_bytes(padded), tiles(moved)), tiles(moved));
        out.push_back(std::move(m));
      }
    }
}

void ReshardSearch::permutes(const AtomLayout& s, std::vector<Move>& out) const {
  const auto add = [&](AtomLayout after) {
    if (after == s) return;
    out.push_back({ReshardKind::collective_permute, -1, -1, {}, std::move(after), local_bytes(s)});
  };
  if (!s.unreduced.empty()) return;
  bool same_tiles = true;
  for (size_t d = 0; d < s.dims.size(); ++d)
    same_tiles = same_tiles && tiles(s.dims[d]) == tiles(to_.dims[d]);
  if (same_tiles && to_.unreduced.empty()) add(to_);
  for (size_t d = 0; d < s.dims.size(); ++d) {
    // What the target wants here first, in its order, so that the rest can be gathered or moved on.
    AtomLayout ordered = s;
    ordered.dims[d].clear();
    for (const int atom : to_.dims[d])
      if (contains(s.dims[d], atom)) ordered.dims[d].push_back(atom);
    for (const int atom : s.dims[d])
      if (!wanted_on(static_cast<int64_t>(d), atom)) ordered.dims[d].push_back(atom);
    add(std::move(ordered));
    // A free atom of the same size in place of one that the target does not want here.
    for (size_t i = 0; i < s.dims[d].size(); ++i)
      for (const int atom : to_.dims[d]) {
        const int have = s.dims[d][i];
        if (wanted_on(static_cast<int64_t>(d), have) || !is_free(s, atom)) continue;
        if (atoms_[static_cast<size_t>(have)].size != atoms_[static_cast<size_t>(atom)].size) continue;
        AtomLayout swapped = s;
        swapped.dims[d][i] = atom;
        add(std::move(swapped));
      }
  }
}

void ReshardSearch::reductions(const AtomLayout& s, std::vector<Move>& out) const {
  std::vector<int> pending;
  for (const int atom : s.unreduced)
    if (!contains(to_.unreduced, atom)) pending.push_back(atom);
  if (pending.empty()) return;
  const auto without = [&](const std::vector<int>& done) {
    AtomLayout after = s;
    std::erase_if(after.unreduced, [&](int a) { return contains(done, a); });
    return after;
  };
  std::vector<int> unwanted;
  for (const int atom : pending) {
    bool wanted = false;
    for (size_t d = 0; d < to_.dims.size(); ++d) wanted = wanted || wanted_on(int64_t(d), atom);
    if (!wanted) unwanted.push_back(atom);
  }
  const auto add_all_reduce = [&](const std::vector<int>& group) {
    const int64_t g = tiles(group);
    out.push_back({ReshardKind::all_reduce, -1, -1, group, without(group),
                   ceil_div(saturating_multiply(2 * (g - 1), local_bytes(s)), g)});
  };
  add_all_reduce(pending);
  if (!unwanted.empty() && unwanted != pending) add_all_reduce(unwanted);
  for (size_t d = 0; d < s.dims.size(); ++d) {
    std::vector<int> run;
    AtomLayout after = s;
    for (const int atom : to_.dims[d]) {
      if (contains(after.dims[d], atom)) continue;
      if (!contains(pending, atom)) break;
      run.push_back(atom);
      after = without(run);
      append(after.dims[d], run);
      if (!nests(static_cast<int64_t>(d), tiles(s.dims[d]), tiles(after.dims[d]))) continue;
      const int64_t g = tiles(run);
      out.push_back({ReshardKind::reduce_scatter, static_cast<int64_t>(d), -1, run, after,
                     saturating_multiply(local_bytes(after), g - 1)});
    }
  }
}

void ReshardSearch::moves(const AtomLayout& s, std::vector<Move>& out) const {
  reductions(s, out);
  slices(s, out);
  exchanges(s, out);
  permutes(s, out);
  gathers(s, out);
}

Digits ReshardSearch::digits(const std::vector<int>& atoms) const {
  Digits result;
  for (const int atom : atoms) result.push_back(atoms_[static_cast<size_t>(atom)]);
  return canonical(std::move(result));
}

Sharding ReshardSearch::sharding(const AtomLayout& s) const {
  std::vector<Digits> dims;
  for (const auto& dim : s.dims) dims.push_back(digits(dim));
  std::vector<Unreduced> unreduced;
  if (!s.unreduced.empty()) {
    Unreduced u;
    u.digits = digits(s.unreduced);
    u.combiner = combiner_;
    unreduced.push_back(std::move(u));
  }
  return Sharding::tiled(order_, std::move(dims), {}, std::move(unreduced));
}

ReshardPlan ReshardSearch::plan_of(const std::vector<const Reached*>& path) const {
  ReshardPlan plan;
  bool whole = false;
  for (const Reached* reached : path) {
    const Move& m = reached->move;
    plan.steps.push_back({m.kind, m.dim, m.dim_to, digits(m.atoms), sharding(reached->before),
                          sharding(m.after)});
    plan.cost.bytes += m.bytes;
    ++plan.cost.steps;
    const bool empty = std::all_of(m.after.dims.begin(), m.after.dims.end(),
                                   [](const auto& dim) { return dim.empty(); });
    whole = whole || (empty && m.kind == ReshardKind::all_gather);
  }
  const auto split = [](const AtomLayout& s) {
    return std::any_of(s.dims.begin(), s.dims.end(), [](const auto& dim) { return !dim.empty(); });
  };
  plan.full_rematerialization = whole && split(from_) && split(to_);
  return plan;
}

ReshardPlan ReshardSearch::run() {
  std::map<AtomLayout, Reached> reached;
  using Item = std::pair<ReshardCost, AtomLayout>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  reached[from_].start = true;
  queue.push({{}, from_});
  std::vector<Move> next;
  while (!queue.empty()) {
    const auto [cost, layout] = queue.top();
    queue.pop();
    Reached& here = reached.at(layout);
    if (here.done) continue;
    here.done = true;
    if (layout == to_) break;
    next.clear();
    moves(layout, next);
    for (Move& m : next) {
      const ReshardCost total{saturating_multiply(1, cost.bytes) + m.bytes, cost.steps + 1};
      const auto [it, fresh] = reached.try_emplace(m.after);
      if (!fresh && (it->second.done || it->second.start || it->second.cost <= total)) continue;
      queue.push({total, m.after});
      it->second.cost = total;
      it->second.before = layout;
      it->second.move = std::move(m);
    }
  }
  if (!reached.contains(to_) || !reached.at(to_).done)
    internal_error("reshard: no way from {} to {}", to_string(sharding(from_)), to_string(sharding(to_)));
  std::vector<const Reached*> path;
  for (const Reached* r = &reached.at(to_); !r->start; r = &reached.at(r->before)) path.push_back(r);
  std::reverse(path.begin(), path.end());
  return plan_of(path);
}

}  // namespace gspmd
