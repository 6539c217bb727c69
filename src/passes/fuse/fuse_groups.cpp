#include <algorithm>
#include <map>

#include "gspmd/ir/op.h"
#include "passes/fuse/open_loop_group.h"

namespace gspmd {
namespace {

constexpr int64_t kMostAgain = 30;     // cost of computing a value again, in additions
constexpr int64_t kWorthAgain = 4096;  // elements below which nothing is computed again

class Grouper {
 public:
  explicit Grouper(const LoopGraph& graph)
      : g_(graph), group_of_(graph.nodes.size(), -1), stamp_(graph.nodes.size(), 0) {}

  std::vector<LoopGroup> run() {
    // Of each value outside of groups: the last group that reads it.
    std::vector<int64_t> last_reader(g_.nodes.size(), -1);
    for (int64_t n = 0; n < size(); ++n) {
      if (!g_.fusible[index(n)]) continue;
      const int64_t group = choose(n, last_reader);
      for (const int64_t read : g_.reads[index(n)]) {
        if (full_read(n, read)) last_reader[index(read)] = group;
      }
    }
    break_cycles();
    join_rows(g_, groups_, group_of_);
    compute_again();
    std::vector<LoopGroup> out;
    for (const Group& group : groups_) {
      if (!group.body.members.empty()) out.push_back(group.body);
    }
    return out;
  }

 private:
  using Group = OpenLoopGroup;
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  int64_t size() const { return static_cast<int64_t>(g_.nodes.size()); }
  Group& group(int64_t i) { return groups_[index(i)]; }
  const Node& node(int64_t n) const { return *g_.nodes[index(n)]; }

  // Whether n reads all of `read` element by element (not a smaller value that is broadcast).
  bool full_read(int64_t n, int64_t read) const {
    return node(read).shape.elements_count() > 1 && node(read).dims() == g_.domain[index(n)];
  }

  bool fits(const Group& group, int64_t n) const {
    if (group.body.members.size() >= kMostInLoop || group.domain != g_.domain[index(n)])
      return false;
    if (g_.joins[index(n)]) return group.reduced.empty();
    if (!g_.folds(n)) return true;
    return !group.joins && (group.reduced.empty() || group.reduced == g_.folded[index(n)]);
  }

  int64_t choose(int64_t n, const std::vector<int64_t>& last_reader) {
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
      const int64_t candidate = last_reader[index(read)];
      if (candidate >= 0 && full_read(n, read) && !group(candidate).body.members.empty() &&
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
    if (group(a).body.members.size() + group(b).body.members.size() > kMostInLoop) return false;
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
      const PositionSet members = group(longest).body.members;
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

  int64_t unit_of(int64_t n) const {
    return group_of_[index(n)] >= 0 ? group_of_[index(n)] : std::ssize(groups_) + n;
  }

  // Units (groups, then single nodes) that are left when those without readers and those that read
  // nothing are taken away, again and again.
  std::vector<int64_t> units_on_cycles() const {
    std::vector<bool> left(groups_.size() + g_.nodes.size(), true);
    take_free_units(true, left);
    if (std::find(left.begin(), left.end(), true) == left.end()) return {};
    take_free_units(false, left);
    std::vector<int64_t> units;
    for (size_t u = 0; u < left.size(); ++u)
      if (left[u]) units.push_back(static_cast<int64_t>(u));
    return units;
  }

  // Takes away units that read nothing that is left, or that nothing reads.
  void take_free_units(bool reading, std::vector<bool>& left) const {
    using Edge = std::pair<int64_t, int64_t>;  // between units that are left: who waits for whom
    std::vector<Edge> edges;
    std::vector<int64_t> waits(left.size(), 0);
    for (int64_t n = 0; n < size(); ++n)
      for (const int64_t read : g_.reads[index(n)]) {
        const int64_t reader = unit_of(n), made = unit_of(read);
        if (reader == made || !left[index(reader)] || !left[index(made)]) continue;
        edges.emplace_back(reading ? Edge{made, reader} : Edge{reader, made});
        ++waits[index(edges.back().second)];
      }
    // By the unit that is waited for: its edges begin where those of the unit before it end.
    std::vector<int64_t> first(left.size() + 1, 0), waiting(edges.size());
    for (const auto& [unit, other] : edges) ++first[index(unit) + 1];
    for (size_t u = 0; u < left.size(); ++u) first[u + 1] += first[u];
    std::vector<int64_t> next = first;
    for (const auto& [unit, other] : edges) waiting[index(next[index(unit)]++)] = other;
    std::vector<int64_t> free;
    for (size_t u = 0; u < left.size(); ++u)
      if (left[u] && waits[u] == 0) free.push_back(static_cast<int64_t>(u));
    while (!free.empty()) {
      const size_t unit = index(free.back());
      free.pop_back();
      left[unit] = false;
      for (int64_t e = first[unit]; e < first[unit + 1]; ++e)
        if (--waits[index(waiting[index(e)])] == 0) free.push_back(waiting[index(e)]);
    }
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
        const int64_t at = g_.position_of.at(user);
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

  // False: others read the value from memory.
  bool compute_again(int64_t n, const std::vector<int64_t>& readers) {
    const int64_t own = group_of_[index(n)];
    if (node(n).is_root() || node(n).shape.elements_count() < kWorthAgain ||
        node(n).dims() != group(own).domain)
      return false;
    SortedSet<int64_t> others;
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
    PositionSet cone, leaves;
    collect_cone(own, n, cone, leaves);
    int64_t cost = 0;
    for (const int64_t m : cone) cost += node(m).op().additions;
    if (cost > kMostAgain) return false;
    for (const int64_t unit : others) {
      if (group(unit).body.members.size() + group(unit).body.clones.size() + cone.size() >
          kMostInLoop)
        return false;
      int64_t extra = 0;
      const PositionSet present = inputs_of(unit);
      for (const int64_t leaf : leaves) {
        extra += node(leaf).dims() == group(own).domain && !present.contains(leaf);
      }
      if (extra > 1) return false;
    }
    for (const int64_t unit : others) {
      for (const int64_t m : cone) {
        if (group(unit).body.members.contains(m)) continue;
        if (!group(unit).body.clones.insert(m).second) continue;
        for (const int64_t read : g_.reads[index(m)]) read_by_clones_[read].insert(unit);
      }
    }
    return true;
  }

  // Down to what is in memory: what the group reads, and what it writes for others anyway.
  void collect_cone(int64_t own, int64_t n, PositionSet& cone, PositionSet& leaves) {
    if (!group(own).body.contains(n) || stored_[index(n)] || g_.folds(n) ||
        node(n).dims() != group(own).domain) {
      leaves.insert(n);
      return;
    }
    if (!cone.insert(n).second) return;
    for (const int64_t read : g_.reads[index(n)]) collect_cone(own, read, cone, leaves);
  }

  PositionSet inputs_of(int64_t unit) {
    PositionSet inputs;
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
  std::vector<bool> stored_;  // members that others read from memory
  std::map<int64_t, SortedSet<int64_t>>
      read_by_clones_;  // value -> groups with clones that read it
  int64_t round_ = 0;
};

}  // namespace

std::vector<LoopGroup> group_loops(const LoopGraph& graph) { return Grouper(graph).run(); }

}  // namespace gspmd
