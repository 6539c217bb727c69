#include <algorithm>
#include <map>
#include <set>

#include "gspmd/ir/op.h"
#include "ops/common/loop_lowering.h"
#include "passes/fuse/open_loop_group.h"

namespace gspmd {
namespace {

// Elements of a row that a reduction and its readers go through together.
constexpr int64_t kLeastRow = 8, kLongestRow = 16384;

Dims without_ones(Dims dims) {
  std::erase(dims, 1);
  return dims;
}

// Groups and nodes outside of groups, which are units, in an order in which each comes behind what
// it reads.
class UnitOrder {
 public:
  UnitOrder(const LoopGraph& graph, std::vector<OpenLoopGroup>& groups,
            std::vector<int64_t>& group_of)
      : g_(graph), groups_(groups), group_of_(group_of), readers_(graph.nodes.size()) {
    place_.assign(groups.size() + graph.nodes.size(), -1);
    for (int64_t n = 0; n < std::ssize(g_.nodes); ++n) {
      if (g_.absorbed[index(n)]) continue;
      for (const int64_t read : g_.reads[index(n)]) readers_[index(read)].push_back(n);
    }
    for (int64_t n = 0; n < std::ssize(g_.nodes); ++n)
      if (!g_.absorbed[index(n)]) put_behind_reads(unit_of(n));
  }

  // Of a value, those that are absorbed looked through.
  const std::vector<int64_t>& readers(int64_t n) const { return readers_[index(n)]; }

  // Moves nodes into a group. False, and nothing has changed, where a path would lead from it
  // through others back to it, or `fits` says no.
  template <class Fits>
  bool try_to_move(const PositionSet& moved, int64_t to, Fits&& fits) {
    const PositionSet before = members(to);
    std::vector<std::pair<int64_t, int64_t>> came_from;
    int64_t first = place_[index(to)], last = first;
    for (const int64_t n : moved) {
      const int64_t place = place_[index(unit_of(n))];
      first = std::min(first, place);
      last = std::max(last, place);
      came_from.emplace_back(n, group_of_[index(n)]);
    }
    for (const auto& [n, from] : came_from) {
      if (from >= 0) members(from).erase(n);
      members(to).insert(n);
      group_of_[index(n)] = to;
    }
    const std::set<int64_t> below = reached(to, true, first, last);
    const std::set<int64_t> above = reached(to, false, first, last);
    const bool is_closed = std::none_of(below.begin(), below.end(),
                                        [&](int64_t unit) { return above.contains(unit); });
    if (is_closed && fits()) {
      reorder(to, below, first, last);
      return true;
    }
    members(to) = before;
    for (const auto& [n, from] : came_from) {
      group_of_[index(n)] = from;
      if (from >= 0) members(from).insert(n);
    }
    return false;
  }

 private:
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  PositionSet& members(int64_t group) { return groups_[index(group)].body.members; }
  int64_t unit_of(int64_t n) const {
    return group_of_[index(n)] >= 0 ? group_of_[index(n)] : std::ssize(groups_) + n;
  }

  template <class Visit>
  void for_nodes(int64_t unit, Visit&& visit) const {
    if (unit >= std::ssize(groups_)) return visit(unit - std::ssize(groups_));
    for (const int64_t n : groups_[index(unit)].body.members) visit(n);
  }

  // Units that the nodes of one read, or that read them.
  std::vector<int64_t> neighbours(int64_t unit, bool readers) const {
    std::vector<int64_t> found;
    for_nodes(unit, [&](int64_t n) {
      for (const int64_t other : readers ? readers_[index(n)] : g_.reads[index(n)])
        if (unit_of(other) != unit) found.push_back(unit_of(other));
    });
    return found;
  }

  void put_behind_reads(int64_t unit) {
    constexpr int64_t kPending = -2;
    std::vector<int64_t> pending{unit};
    while (!pending.empty()) {
      const int64_t at = pending.back();
      if (place_[index(at)] == -1) {
        place_[index(at)] = kPending;
        for (const int64_t read : neighbours(at, false))
          if (place_[index(read)] == -1) pending.push_back(read);
        continue;
      }
      pending.pop_back();
      if (place_[index(at)] != kPending) continue;
      place_[index(at)] = std::ssize(order_);
      order_.push_back(at);
    }
  }

  // The units between two places that depend on one, or on which it depends.
  std::set<int64_t> reached(int64_t from, bool readers, int64_t first, int64_t last) const {
    std::set<int64_t> found;
    std::vector<int64_t> pending{from};
    while (!pending.empty()) {
      const int64_t at = pending.back();
      pending.pop_back();
      for (const int64_t next : neighbours(at, readers)) {
        const int64_t place = place_[index(next)];
        if (next != from && place >= first && place <= last && found.insert(next).second)
          pending.push_back(next);
      }
    }
    return found;
  }

  // Behind what nothing of it depends on; `below` behind it.
  void reorder(int64_t unit, const std::set<int64_t>& below, int64_t first, int64_t last) {
    const auto begin = order_.begin() + first, end = order_.begin() + last + 1;
    const auto middle =
        std::stable_partition(begin, end, [&](int64_t u) { return !below.contains(u); });
    std::rotate(std::find(begin, middle, unit), std::find(begin, middle, unit) + 1, middle);
    for (int64_t p = first; p <= last; ++p) place_[index(order_[index(p)])] = p;
  }

  const LoopGraph& g_;
  std::vector<OpenLoopGroup>& groups_;
  std::vector<int64_t>& group_of_;
  std::vector<std::vector<int64_t>> readers_;
  std::vector<int64_t> place_, order_;
};

class RowJoiner {
 public:
  RowJoiner(const LoopGraph& graph, std::vector<OpenLoopGroup>& groups,
            std::vector<int64_t>& group_of)
      : g_(graph), groups_(groups), group_of_(group_of), order_(graph, groups, group_of) {}

  void run() {
    for (int64_t g = 0; g < std::ssize(groups_); ++g)
      while (folds_rows(groups_[index(g)]) && join_reader(g)) {
      }
  }

  static bool folds_rows(const OpenLoopGroup& of) {
    if (of.body.members.empty() || of.joins || of.domain.empty()) return false;
    const int64_t row = of.domain.back();
    return of.reduced == Dims{std::ssize(of.domain) - 1} && row >= kLeastRow && row <= kLongestRow;
  }

 private:
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  const Node& node(int64_t n) const { return *g_.nodes[index(n)]; }

  // Whether a value is one number a row.
  bool is_of_rows(int64_t n, const Dims& domain) const {
    const bool computed = g_.fusible[index(n)] && !g_.folds(n) && !g_.joins[index(n)];
    const bool reshaped = group_of_[index(n)] < 0 && !g_.absorbed[index(n)] &&
                          loop_view(node(n)) == LoopView::unit_reshape;
    return (computed || reshaped) && is_loop_dtype(node(n).shape.dtype) &&
           without_ones(node(n).dims()) == without_ones({domain.begin(), domain.end() - 1});
  }

  // The values of rows that depend on the reductions of a group, and the groups that read these or
  // the reductions.
  void follow(int64_t from, std::set<int64_t>& values, std::set<int64_t>& loops) const {
    const OpenLoopGroup& of = groups_[index(from)];
    std::vector<int64_t> pending;
    for (const int64_t n : of.body.members)
      if (node(n).dims() != of.domain) pending.push_back(n);
    while (!pending.empty()) {
      const int64_t at = pending.back();
      pending.pop_back();
      for (const int64_t reader : order_.readers(at)) {
        const int64_t unit = group_of_[index(reader)];
        if (unit == from) continue;
        if (is_of_rows(reader, of.domain)) {
          if (values.insert(reader).second) pending.push_back(reader);
        } else if (unit >= 0 && groups_[index(unit)].domain == of.domain) {
          loops.insert(unit);
        }
      }
    }
  }

  bool join_reader(int64_t rows) {
    std::set<int64_t> values, loops;
    follow(rows, values, loops);
    for (const int64_t loop : loops) {
      const OpenLoopGroup &group = groups_[index(rows)], &other = groups_[index(loop)];
      if (other.joins || (!other.reduced.empty() && other.reduced != group.reduced) ||
          !shares_rows(rows, loop))
        continue;
      PositionSet moved = other.body.members;
      add_needed(values, other.domain, moved);
      if (moved.size() + group.body.members.size() > kMostInLoop) continue;
      if (order_.try_to_move(moved, rows, [&] { return is_loop(group); })) return true;
    }
    return false;
  }

  // Whether a loop reads whole rows that the other reads or makes.
  bool shares_rows(int64_t rows, int64_t loop) const {
    const Dims& domain = groups_[index(rows)].domain;
    PositionSet read;
    for (const int64_t n : groups_[index(rows)].body.members)
      read.insert(g_.reads[index(n)].begin(), g_.reads[index(n)].end());
    for (const int64_t n : groups_[index(loop)].body.members)
      for (const int64_t m : g_.reads[index(n)])
        if (node(m).dims() == domain && (group_of_[index(m)] == rows || read.contains(m)))
          return true;
    return false;
  }

  // Of `values` those that the nodes read, and what these read; with other values of rows of the
  // same loops, which would have to come before and behind.
  void add_needed(const std::set<int64_t>& values, const Dims& domain, PositionSet& needed) const {
    std::set<int64_t> units;
    for (const int64_t n : values)
      if (group_of_[index(n)] >= 0) units.insert(group_of_[index(n)]);
    std::vector<int64_t> pending(needed.begin(), needed.end());
    while (!pending.empty()) {
      const int64_t at = pending.back();
      pending.pop_back();
      for (const int64_t read : g_.reads[index(at)])
        if ((values.contains(read) ||
             (units.contains(group_of_[index(read)]) && is_of_rows(read, domain))) &&
            needed.insert(read).second)
          pending.push_back(read);
    }
  }

  bool is_loop(const OpenLoopGroup& of) const {
    PositionSet all = of.body.members;
    std::vector<int64_t> pending(all.begin(), all.end());
    std::map<const Node*, int64_t> inputs;
    while (!pending.empty()) {
      const int64_t at = pending.back();
      pending.pop_back();
      if (!of.body.contains(at) && !g_.absorbed[index(at)]) {
        inputs.emplace(&node(at), std::ssize(inputs));
        continue;
      }
      for (const Node* operand : node(at).operands())
        if (const int64_t next = g_.position_of.at(operand); all.insert(next).second)
          pending.push_back(next);
    }
    std::vector<const Node*> nodes, outputs;
    for (const int64_t n : all) nodes.push_back(&node(n));
    for (const int64_t n : of.body.members) outputs.push_back(&node(n));
    std::vector<bool> reduced(of.domain.size(), false);
    reduced.back() = true;
    return LoopLowering(of.domain, std::move(reduced), std::move(inputs))
        .lower(nodes, outputs)
        .has_value();
  }

  const LoopGraph& g_;
  std::vector<OpenLoopGroup>& groups_;
  std::vector<int64_t>& group_of_;
  UnitOrder order_;
};

}  // namespace

void join_rows(const LoopGraph& graph, std::vector<OpenLoopGroup>& groups,
               std::vector<int64_t>& group_of) {
  if (std::any_of(groups.begin(), groups.end(), RowJoiner::folds_rows))
    RowJoiner(graph, groups, group_of).run();
}

}  // namespace gspmd
