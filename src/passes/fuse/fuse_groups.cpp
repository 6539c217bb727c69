#include <algorithm>
#include <map>

#include "gspmd/ir/op.h"
#include "ops/common/loop_lowering.h"
#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

constexpr size_t kMostMembers = 96;
constexpr int64_t kMostAgain = 30;     // cost of computing a value again, in additions
constexpr int64_t kWorthAgain = 4096;  // elements below which nothing is computed again
// Elements of a row that a reduction and its readers go through together.
constexpr int64_t kLeastRow = 64, kLongestRow = 16384;

class Grouper {
 public:
  explicit Grouper(const LoopGraph& graph)
      : g_(graph), group_of_(graph.nodes.size(), -1), stamp_(graph.nodes.size(), 0) {}

  std::vector<LoopGroup> run() {
    std::map<int64_t, int64_t> last_reader;  // of a value outside groups -> group that reads it
    for (int64_t n = 0; n < size(); ++n) {
      if (!g_.fusible[index(n)]) continue;
      const int64_t group = choose(n, last_reader);
      for (const int64_t read : g_.reads[index(n)]) {
        if (full_read(n, read)) last_reader[read] = group;
      }
    }
    break_cycles();
    join_rows();
    compute_again();
    std::vector<LoopGroup> out;
    for (const Group& group : groups_) {
      if (!group.body.members.empty()) out.push_back(group.body);
    }
    return out;
  }

 private:
  struct Group {
    LoopGroup body;
    Dims domain;
    Dims reduced;        // dims that its reductions fold; empty = none yet
    bool joins = false;  // is in pieces, which have no reductions
  };
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  int64_t size() const { return static_cast<int64_t>(g_.nodes.size()); }
  Group& group(int64_t i) { return groups_[index(i)]; }
  const Node& node(int64_t n) const { return *g_.nodes[index(n)]; }

  // Whether n reads all of `read` element by element (not a smaller value that is broadcast).
  bool full_read(int64_t n, int64_t read) const {
    return node(read).shape.elements_count() > 1 && node(read).dims() == g_.domain[index(n)];
  }

  bool fits(const Group& group, int64_t n) const {
    if (group.body.members.size() >= kMostMembers || group.domain != g_.domain[index(n)])
      return false;
    if (g_.joins[index(n)]) return group.reduced.empty();
    if (!g_.folds(n)) return true;
    return !group.joins && (group.reduced.empty() || group.reduced == g_.folded[index(n)]);
  }

  int64_t choose(int64_t n, const std::map<int64_t, int64_t>& last_reader) {
    std::vector<int64_t>
        candidates;  // groups whose values n reads, then groups that read what n reads
    const auto consider = [&](int64_t candidate) {
      if (candidate < 0 || !fits(group(candidate), n)) return;
      if (std::find(candidates.begin(), candidates.end(), candidate) == candidates.end()) {
        candidates.push_back(candidate);
      }
    };
    for (const int64_t read : g_.reads[index(n)]) {
      const bool direct =
          !g_.folds(read) && !g_.reads_apart(n, read) && node(read).dims() == g_.domain[index(n)];
      if (direct) consider(group_of_[index(read)]);
    }
    for (const int64_t read : g_.reads[index(n)]) {
      const auto found = last_reader.find(read);
      if (found == last_reader.end() || !full_read(n, read)) continue;
      const int64_t candidate = found->second;
      if (candidate >= 0 && !group(candidate).body.members.empty() &&
          node(*group(candidate).body.members.begin()).backward == node(n).backward) {
        consider(candidate);
      }
    }
    int64_t chosen = -1;
    for (const int64_t candidate : candidates) {
      if (group(candidate).body.members.empty()) continue;
      if (chosen < 0) {
        if (can_join(candidate, n)) {
          join(candidate, n);
          chosen = candidate;
        }
      } else if (can_merge(chosen, candidate)) {
        merge(chosen, candidate);
      }
    }
    if (chosen >= 0) return chosen;
    groups_.push_back({});
    groups_.back().domain = g_.domain[index(n)];
    join(static_cast<int64_t>(groups_.size()) - 1, n);
    return static_cast<int64_t>(groups_.size()) - 1;
  }

  void join(int64_t to, int64_t n) {
    group(to).body.members.insert(n);
    group_of_[index(n)] = to;
    if (g_.folds(n)) group(to).reduced = g_.folded[index(n)];
    group(to).joins |= g_.joins[index(n)];
  }

  void merge(int64_t into, int64_t from) {
    for (const int64_t n : group(from).body.members) join(into, n);
    group(from).body.members.clear();
  }

  // Whether `group` is reached going back from value n, other than directly from n itself.
  bool reaches(int64_t n, int64_t target, int64_t also_inside) {
    const int64_t first = *group(target).body.members.begin();
    std::vector<int64_t> pending{n};
    ++round_;
    while (!pending.empty()) {
      const int64_t at = pending.back();
      pending.pop_back();
      if (group_of_[index(at)] == target) return true;
      if (stamp_[index(at)] == round_) continue;
      const auto visit = [&](int64_t m) {
        stamp_[index(m)] = round_;
        for (const int64_t read : g_.reads[index(m)]) {
          if (stamp_[index(read)] != round_ && last_of(read) >= first) pending.push_back(read);
        }
      };
      const int64_t unit = group_of_[index(at)];
      if (unit < 0 || unit == also_inside) {
        visit(at);
      } else {
        for (const int64_t member : group(unit).body.members) visit(member);
      }
    }
    return false;
  }

  // The last position of the unit that computes n: nothing before a group can depend on it.
  int64_t last_of(int64_t n) {
    const int64_t unit = group_of_[index(n)];
    return unit < 0 ? n : *group(unit).body.members.rbegin();
  }

  bool can_join(int64_t target, int64_t n) {
    for (const int64_t read : g_.reads[index(n)]) {
      if (group_of_[index(read)] != target && reaches(read, target, -1)) return false;
      // A reduction's result exists only after the loop, as what is read elsewhere.
      if (group_of_[index(read)] == target && (g_.folds(read) || g_.reads_apart(n, read)))
        return false;
    }
    return true;
  }

  bool can_merge(int64_t a, int64_t b) {
    if (group(a).body.members.size() + group(b).body.members.size() > kMostMembers) return false;
    if (!group(a).reduced.empty() && !group(b).reduced.empty() &&
        group(a).reduced != group(b).reduced) {
      return false;
    }
    if ((group(a).joins && !group(b).reduced.empty()) ||
        (group(b).joins && !group(a).reduced.empty()))
      return false;
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      for (const int64_t n : group(one).body.members) {
        for (const int64_t read : g_.reads[index(n)]) {
          const int64_t unit = group_of_[index(read)];
          if (unit == one) continue;
          if (unit == other) {
            if (g_.folds(read) || g_.reads_apart(n, read)) return false;
            continue;
          }
          if (reaches(read, other, -1)) return false;
        }
      }
    }
    return true;
  }

  // Groups that depend on each other through others, which the search back from single values does
  // not see where a group reaches past its target: the longest of each cycle falls apart.
  void break_cycles() {
    while (true) {
      const std::vector<int64_t> units = units_on_cycles();
      int64_t longest = -1;
      for (const int64_t unit : units)
        if (unit < std::ssize(groups_) && (longest < 0 || span(unit) > span(longest)))
          longest = unit;
      if (longest < 0) return;
      const std::set<int64_t> members = group(longest).body.members;
      group(longest).body.members = {*members.begin()};
      for (const int64_t n : members) {
        if (n == *members.begin()) continue;
        groups_.push_back({});
        groups_.back().domain = g_.domain[index(n)];
        join(std::ssize(groups_) - 1, n);
      }
    }
  }

  int64_t span(int64_t unit) {
    return *group(unit).body.members.rbegin() - *group(unit).body.members.begin();
  }

  // Units (groups, then single nodes) that are left when those without readers and those that read
  // nothing are taken away, again and again.
  std::vector<int64_t> units_on_cycles() {
    const auto unit_of = [&](int64_t n) {
      return group_of_[index(n)] >= 0 ? group_of_[index(n)] : std::ssize(groups_) + n;
    };
    const size_t count = groups_.size() + g_.nodes.size();
    std::vector<std::set<int64_t>> edges[2] = {std::vector<std::set<int64_t>>(count),
                                               std::vector<std::set<int64_t>>(count)};
    for (int64_t n = 0; n < size(); ++n)
      for (const int64_t read : g_.reads[index(n)])
        if (unit_of(read) != unit_of(n)) {
          edges[0][index(unit_of(n))].insert(unit_of(read));
          edges[1][index(unit_of(read))].insert(unit_of(n));
        }
    for (const int side : {0, 1}) {
      std::vector<int64_t> free;
      for (size_t u = 0; u < count; ++u)
        if (edges[side][u].empty()) free.push_back(static_cast<int64_t>(u));
      while (!free.empty()) {
        const int64_t unit = free.back();
        free.pop_back();
        for (const int64_t other : edges[1 - side][index(unit)]) {
          edges[side][index(other)].erase(unit);
          if (edges[side][index(other)].empty()) free.push_back(other);
        }
        edges[1 - side][index(unit)].clear();
      }
    }
    std::vector<int64_t> left;
    for (size_t u = 0; u < count; ++u)
      if (!edges[0][u].empty() && !edges[1][u].empty()) left.push_back(static_cast<int64_t>(u));
    return left;
  }

  // --- rows that stay in a cache from a reduction to what reads its result ---

  // A reduction of the last dim, what is computed of its results and the loops that read rows and
  // these again become one loop, which reads each row once.
  void join_rows() {
    readers_.resize(g_.nodes.size());
    for (int64_t n = 0; n < size(); ++n) {
      if (g_.absorbed[index(n)]) continue;
      for (const int64_t read : g_.reads[index(n)]) readers_[index(read)].push_back(n);
    }
    for (int64_t g = 0; g < std::ssize(groups_); ++g)
      while (folds_rows(group(g)) && join_reader_of_rows(g)) {
      }
  }

  static bool folds_rows(const Group& of) {
    if (of.body.members.empty() || of.joins || of.domain.empty()) return false;
    const int64_t row = of.domain.back();
    return of.reduced == Dims{std::ssize(of.domain) - 1} && row >= kLeastRow && row <= kLongestRow;
  }

  static Dims without_ones(Dims dims) {
    std::erase(dims, 1);
    return dims;
  }

  // Whether a value is one number a row.
  bool is_of_rows(int64_t n, const Dims& domain) const {
    const bool computed = g_.fusible[index(n)] && !g_.folds(n) && !g_.joins[index(n)];
    const bool reshaped = group_of_[index(n)] < 0 && !g_.absorbed[index(n)] &&
                          loop_view(node(n)) == LoopView::unit_reshape;
    return (computed || reshaped) && is_loop_dtype(node(n).shape.dtype) &&
           without_ones(node(n).dims()) == without_ones({domain.begin(), domain.end() - 1});
  }

  // The values of rows that depend on the reductions of a group, by position, and the groups that
  // read these or the reductions.
  void follow_rows(int64_t from, std::set<int64_t>& values, std::set<int64_t>& loops) const {
    const Group& of = groups_[index(from)];
    std::vector<int64_t> pending;
    for (const int64_t n : of.body.members)
      if (node(n).dims() != of.domain) pending.push_back(n);
    while (!pending.empty()) {
      const int64_t at = pending.back();
      pending.pop_back();
      for (const int64_t reader : readers_[index(at)]) {
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

  bool join_reader_of_rows(int64_t rows) {
    std::set<int64_t> values, loops;
    follow_rows(rows, values, loops);
    for (const int64_t loop : loops) {
      const Group& other = group(loop);
      if (other.joins || (!other.reduced.empty() && other.reduced != group(rows).reduced) ||
          !shares_rows(rows, loop))
        continue;
      std::set<int64_t> moved = other.body.members;
      needed_of(values, other.domain, moved);
      if (moved.size() + group(rows).body.members.size() > kMostMembers) continue;
      if (try_to_move(moved, rows)) return true;
    }
    return false;
  }

  // Whether a loop reads whole rows that the other reads or makes.
  bool shares_rows(int64_t rows, int64_t loop) {
    const std::set<int64_t> read = inputs_of(rows);
    for (const int64_t n : group(loop).body.members)
      for (const int64_t m : g_.reads[index(n)])
        if (full_read(n, m) && (group_of_[index(m)] == rows || read.contains(m))) return true;
    return false;
  }

  // Of `values` those that the nodes read, and what these read; with other values of rows of the
  // same loops, which would have to come before and behind.
  void needed_of(const std::set<int64_t>& values, const Dims& domain,
                 std::set<int64_t>& needed) const {
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

  // Into a group, unless a path would leave it and come back or it is no loop then.
  bool try_to_move(const std::set<int64_t>& moved, int64_t to) {
    const Group before = group(to);
    std::vector<std::pair<int64_t, int64_t>> came_from;
    for (const int64_t n : moved) {
      const int64_t from = group_of_[index(n)];
      came_from.emplace_back(n, from);
      if (from >= 0) group(from).body.members.erase(n);
      group(to).body.members.insert(n);
      group_of_[index(n)] = to;
    }
    if (is_closed(to) && is_loop(to)) return true;
    group(to) = before;
    for (const auto& [n, from] : came_from) {
      group_of_[index(n)] = from;
      if (from >= 0) group(from).body.members.insert(n);
    }
    return false;
  }

  bool is_closed(int64_t unit) {
    for (const int64_t n : group(unit).body.members)
      for (const int64_t read : g_.reads[index(n)])
        if (group_of_[index(read)] != unit && reaches(read, unit, -1)) return false;
    return true;
  }

  bool is_loop(int64_t unit) {
    const Group& of = group(unit);
    std::set<int64_t> all = of.body.members;
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
        if (const int64_t next = position_of(operand); all.insert(next).second)
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

  // --- values computed again by their readers ---

  void compute_again() {
    std::vector<std::vector<int64_t>> readers(g_.nodes.size());
    for (int64_t n = 0; n < size(); ++n) {
      if (g_.absorbed[index(n)]) continue;
      for (const int64_t read : g_.reads[index(n)]) readers[index(read)].push_back(n);
    }
    // Broadcasts and such that nobody absorbs read their operands themselves.
    for (int64_t n = 0; n < size(); ++n) {
      if (!g_.absorbed[index(n)]) continue;
      for (const Node* user : node(n).users()) {
        const int64_t at = position_of(user);
        if (g_.fusible[index(at)] || g_.absorbed[index(at)]) continue;
        for (const int64_t read : g_.reads[index(n)]) readers[index(read)].push_back(n);
      }
    }
    stored_.assign(g_.nodes.size(), false);
    for (int64_t n = 0; n < size(); ++n) {
      if (group_of_[index(n)] < 0 || g_.folds(n)) continue;
      stored_[index(n)] = !compute_again(n, readers[index(n)]);
    }
  }

  int64_t position_of(const Node* wanted) {
    if (positions_.empty()) {
      for (int64_t n = 0; n < size(); ++n) positions_[&node(n)] = n;
    }
    return positions_.at(wanted);
  }

  // False: others read the value from memory.
  bool compute_again(int64_t n, const std::vector<int64_t>& readers) {
    const int64_t own = group_of_[index(n)];
    if (node(n).is_root() || node(n).shape.elements_count() < kWorthAgain ||
        node(n).dims() != group(own).domain)
      return false;
    std::set<int64_t> others;
    for (const int64_t reader : readers) {
      const int64_t unit = group_of_[index(reader)];
      if (g_.reads_apart(reader, n)) return false;
      if (unit == own) continue;
      if (unit < 0 || group(unit).domain != group(own).domain) return false;
      others.insert(unit);
    }
    if (others.empty()) return true;
    if (const auto found = read_by_clones_.find(n); found != read_by_clones_.end())
      for (const int64_t unit : found->second)
        if (unit != own && !group(unit).body.contains(n)) others.insert(unit);
    std::set<int64_t> cone;
    std::set<int64_t> leaves;
    collect_cone(own, n, cone, leaves);
    int64_t cost = 0;
    for (const int64_t m : cone) cost += node(m).op().additions;
    if (cost > kMostAgain) return false;
    for (const int64_t unit : others) {
      if (group(unit).body.members.size() + group(unit).body.clones.size() + cone.size() >
          kMostMembers)
        return false;
      int64_t extra = 0;
      const std::set<int64_t> present = inputs_of(unit);
      for (const int64_t leaf : leaves) {
        extra += node(leaf).dims() == group(own).domain && present.count(leaf) == 0;
      }
      if (extra > 1) return false;
    }
    for (const int64_t unit : others) {
      for (const int64_t m : cone) {
        if (group(unit).body.members.count(m) != 0) continue;
        if (!group(unit).body.clones.insert(m).second) continue;
        for (const int64_t read : g_.reads[index(m)]) read_by_clones_[read].insert(unit);
      }
    }
    return true;
  }

  // Down to what is in memory: what the group reads, and what it writes for others anyway.
  void collect_cone(int64_t own, int64_t n, std::set<int64_t>& cone, std::set<int64_t>& leaves) {
    if (!group(own).body.contains(n) || stored_[index(n)] || g_.folds(n) ||
        node(n).dims() != group(own).domain) {
      leaves.insert(n);
      return;
    }
    if (!cone.insert(n).second) return;
    for (const int64_t read : g_.reads[index(n)]) collect_cone(own, read, cone, leaves);
  }

  std::set<int64_t> inputs_of(int64_t unit) {
    std::set<int64_t> inputs;
    const LoopGroup& body = group(unit).body;
    for (const auto* list : {&body.members, &body.clones}) {
      for (const int64_t n : *list) {
        for (const int64_t read : g_.reads[index(n)]) {
          if (!body.contains(read)) inputs.insert(read);
        }
      }
    }
    return inputs;
  }

  const LoopGraph& g_;
  std::vector<Group> groups_;
  std::vector<int64_t> group_of_;
  std::vector<int64_t> stamp_;
  FlatMap<const Node*, int64_t> positions_;
  std::vector<std::vector<int64_t>> readers_;            // of each value, not those absorbed
  std::vector<bool> stored_;                             // members that others read from memory
  std::map<int64_t, std::set<int64_t>> read_by_clones_;  // value -> groups with clones that read it
  int64_t round_ = 0;
};

}  // namespace

std::vector<LoopGroup> group_loops(const LoopGraph& graph) { return Grouper(graph).run(); }

}  // namespace gspmd
