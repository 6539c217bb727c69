#include "moves/reshard_search.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <queue>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

std::atomic<int64_t> looked_at_so_far{0};

}  // namespace

int64_t reshard_moves_looked_at() { return looked_at_so_far; }

ReshardSearch::ReshardSearch(ReshardProblem problem) : p_(std::move(problem)) {
  if (p_.two_orders()) return;
  for (uint32_t corner = 0; corner < corners(); ++corner)
    for (size_t d = 0; d < p_.to.dims.size(); ++d) wanted_.push_back(held(p_.to, d, corner));
}

Interval ReshardSearch::held(const AtomLayout& s, size_t dim, uint32_t corner) const {
  const int64_t n = p_.global.dims[dim];
  int64_t index = 0, count = 1;
  for (const int atom : s.dims[dim]) {
    const int64_t size = atoms_of(s)[static_cast<size_t>(atom)].size;
    const bool last = atom < kCornerAtoms && (corner >> atom & 1u) != 0;
    index = index * size + (last ? size - 1 : 0);
    count *= size;
  }
  const int64_t shard = ceil_div(n, count);
  const int64_t begin = std::min(n, saturating_multiply(index, shard));
  return {begin, std::min(n, begin + shard)};
}

// Looks at the devices whose coordinates along the atoms are all first or last: where a device has
// nothing of what it needs, one of those has nothing.
int64_t ReshardSearch::bytes_missing(const AtomLayout& s) const {
  if (!s.unreduced.empty()) return 0;
  if (p_.needs_pieces() || p_.two_orders()) return is_few() ? bytes_needed(s, p_.to) : 0;
  int64_t most = 0;
  for (uint32_t corner = 0; corner < corners(); ++corner) {
    int64_t needed = dtype_size(p_.global.dtype), shared = needed;
    for (size_t d = 0; d < s.dims.size(); ++d) {
      const Interval have = held(s, d, corner), want = wanted_[corner * s.dims.size() + d];
      needed = saturating_multiply(needed, want.size());
      shared = saturating_multiply(shared, intersect(have, want).size());
    }
    most = std::max(most, needed - shared);
  }
  return most;
}

Digits ReshardSearch::digits(const Atoms& atoms, int ordered) const {
  Digits result;
  for (const int atom : atoms) result.push_back(p_.atoms[ordered][static_cast<size_t>(atom)]);
  return canonical(std::move(result));
}

Sharding ReshardSearch::sharding(const AtomLayout& s) const {
  std::vector<Digits> dims;
  for (const auto& dim : s.dims) dims.push_back(digits(dim, s.ordered));
  std::vector<Unreduced> unreduced;
  if (!s.unreduced.empty()) {
    Unreduced u;
    u.digits = digits(s.unreduced, s.ordered);
    u.combiner = p_.combiner;
    unreduced.push_back(std::move(u));
  }
  const DeviceOrder order = p_.orders[s.ordered];
  if (is_whole(s) && order->count < p_.num_devices) return Sharding::maximal(order->device(0));
  return Sharding::tiled(order, std::move(dims), p_.manual, std::move(unreduced));
}

ReshardPlan ReshardSearch::plan_of(const std::vector<const Move*>& path) const {
  ReshardPlan plan;
  bool whole = false;
  const AtomLayout* before = &p_.from;
  for (const Move* m : path) {
    if (m->steps > 0) {
      ReshardStep step{m->kind,           m->dim,
                       m->dim_to,         digits(m->atoms, m->after.ordered),
                       sharding(*before), sharding(m->after),
                       m->realigned,      m->pieces};
      for (const MovedAtoms& run : m->also)
        step.also.push_back({run.dim, run.dim_to, digits(run.atoms, m->after.ordered)});
      if (m->kind == ReshardKind::piecewise_permutes) {
        const auto planned = m->pieces ? m->pieces : pieces(*before, m->after);
        auto transfer = std::make_shared<PieceTransfer>(*planned);
        transfer->have = *boxes(*before);
        transfer->want = *boxes(m->after);
        step.pieces = std::move(transfer);
      }
      plan.steps.push_back(std::move(step));
    }
    plan.cost.bytes = saturating_add(plan.cost.bytes, m->bytes);
    plan.cost.steps += m->steps;
    whole = whole || (is_whole(m->after) && m->kind == ReshardKind::all_gather);
    before = &m->after;
  }
  const auto split = [](const AtomLayout& s) {
    return std::any_of(s.dims.begin(), s.dims.end(), [](const auto& dim) { return !dim.empty(); });
  };
  plan.full_rematerialization = whole && split(p_.from) && split(p_.to);
  return plan;
}

// Layouts by the least that a way through them costs, and moves of pieces, which are dear to plan,
// by the least that they can cost: most are never planned.
class ReshardSearch::Run {
 public:
  Run(const ReshardSearch& search, Moves moves, ReshardCost limit)
      : search_(search), moves_(moves), limit_(limit) {}

  std::optional<ReshardPlan> run() {
    // Meshes have few axes; with many, what has been found by then is good enough.
    constexpr size_t kMaxLayouts = 20'000, kMaxMoves = 100'000;
    const auto start = reached_.try_emplace(search_.p_.from).first;
    queue_.push({{}, {}, &start->first, nullptr});
    std::vector<Move> next;
    size_t looked_at = 0;
    while (!queue_.empty() && reached_.size() < kMaxLayouts && looked_at < kMaxMoves) {
      const Item item = queue_.top();
      queue_.pop();
      if (item.pending != nullptr) {
        plan_pieces(item);
        continue;
      }
      if (reached_.at(*item.layout).cost != item.cost) continue;  // a cheaper way came later
      if (*item.layout == search_.p_.to) return way_to(item.layout);
      next.clear();
      (search_.*moves_)(*item.layout, is_permuted(*item.layout), next);
      looked_at += next.size();
      looked_at_so_far += std::ssize(next);
      for (Move& m : next) add(item, std::move(m));
    }
    const auto found = reached_.find(search_.p_.to);
    if (found == reached_.end() || !found->second.before) return std::nullopt;
    return way_to(&found->first);
  }

 private:
  struct Item {
    ReshardCost estimate, cost;
    const AtomLayout* layout;
    std::shared_ptr<Move> pending;  // from `layout`, whose cost is not known yet
    bool operator>(const Item& other) const {
      if (estimate != other.estimate) return estimate > other.estimate;
      if (*layout != *other.layout) return *layout > *other.layout;
      return pending && other.pending && pending->after > other.pending->after;
    }
  };

  // Whether the way there ends with a permute, behind which another one is never cheaper than both
  // at once.
  bool is_permuted(const AtomLayout& layout) const {
    const Reached& reached = reached_.at(layout);
    return reached.before && reached.move.kind == ReshardKind::collective_permute &&
           reached.before->ordered == layout.ordered;
  }
  bool is_last(const Move& m) const { return m.after == search_.p_.to; }
  int64_t missing_after(const Move& m) {
    if (is_last(m)) return 0;
    const auto [known, fresh] = missing_.try_emplace(m.after, 0);
    if (fresh) known->second = search_.bytes_missing(m.after);
    return known->second;
  }

  // What a way costs that goes on with the move, if it costs that much.
  ReshardCost sum(const Item& item, int64_t bytes, int64_t steps) const {
    return {saturating_add(item.cost.bytes, bytes), item.cost.steps + steps};
  }
  // At least one more step, unless it may be one that only changes names.
  ReshardCost estimate(const Move& m, ReshardCost cost) {
    return {saturating_add(cost.bytes, missing_after(m)),
            cost.steps + (is_last(m) || search_.p_.two_orders() ? 0 : 1)};
  }
  bool is_reached_for(const AtomLayout& layout, ReshardCost cost) const {
    const auto found = reached_.find(layout);
    return found != reached_.end() && (!found->second.before || found->second.cost <= cost);
  }

  void add(const Item& item, Move move) {
    if (move.counted) {
      take(item, std::move(move));
      return;
    }
    move.bytes = search_.bytes_needed(*item.layout, move.after);
    const ReshardCost cost =
        sum(item, move.bytes, search_.rounds_needed(*item.layout, move.after, move.bytes));
    const ReshardCost least = estimate(move, cost);
    if (!(least < limit_) || is_reached_for(move.after, cost)) return;
    queue_.push({least, item.cost, item.layout, std::make_shared<Move>(std::move(move))});
  }

  void plan_pieces(const Item& item) {
    Move& m = *item.pending;
    const int64_t needed = m.bytes;
    // Another way there may cost no more than this one can by now.
    if (!(item.estimate < limit_) || is_reached_for(m.after, sum(item, needed, needed > 0 ? 1 : 0)))
      return;
    search_.count_pieces(*item.layout, m);
    int64_t below =
        saturating_add(limit_.bytes - saturating_add(item.cost.bytes, missing_after(m)), 1);
    if (const auto other = reached_.find(m.after); other != reached_.end())
      below = std::min(below, other->second.cost.bytes - item.cost.bytes + 1);
    if (m.bytes > needed && below > needed) search_.relay_pieces(*item.layout, m, below);
    if (m.steps <= kMostRounds) take(item, std::move(m));
  }

  void take(const Item& item, Move move) {
    // What is quick to tell goes first: an estimate looks at many corners.
    const ReshardCost cost = sum(item, move.bytes, move.steps);
    if (!(cost < limit_) || is_reached_for(move.after, cost)) return;
    const ReshardCost least = estimate(move, cost);
    if (!(least < limit_)) return;
    if (is_last(move)) limit_ = cost;
    const auto it = reached_.try_emplace(move.after).first;
    it->second = {cost, item.layout, std::move(move)};
    queue_.push({least, cost, &it->first, nullptr});
  }

  ReshardPlan way_to(const AtomLayout* layout) const {
    std::vector<const Move*> path;
    for (const Reached* r = &reached_.at(*layout); r->before; r = &reached_.at(*r->before))
      path.push_back(&r->move);
    std::reverse(path.begin(), path.end());
    return search_.plan_of(path);
  }

  const ReshardSearch& search_;
  Moves moves_;
  ReshardCost limit_;
  std::map<AtomLayout, Reached> reached_;
  std::map<AtomLayout, int64_t> missing_;  // bytes, of layouts that a way was looked at through
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue_;
};

std::optional<ReshardPlan> ReshardSearch::search(Moves moves, ReshardCost limit) const {
  return Run(*this, moves, limit).run();
}

ReshardPlan ReshardSearch::through_whole() const {
  std::vector<Move> moves;
  AtomLayout here = p_.from;
  const auto go = [&](Move move) {
    here = move.after;
    moves.push_back(std::move(move));
  };
  std::vector<Move> sums;
  reductions(here, sums);
  if (!sums.empty()) go(std::move(sums.front()));  // all of them at once
  for (size_t d = 0; d < here.dims.size(); ++d)
    if (!here.dims[d].empty()) go(gather(here, d, here.dims[d].size()));
  slice_whole(here, moves);
  return plan_of(moves);
}

// From the whole value in the source's order to the target.
void ReshardSearch::slice_whole(AtomLayout here, std::vector<Move>& moves) const {
  const auto go = [&](Move move) {
    here = move.after;
    moves.push_back(std::move(move));
  };
  if (p_.two_orders()) {
    AtomLayout there = here;
    there.ordered = 1;
    go(whole_crossing(here, there));
  }
  for (size_t d = 0; d < here.dims.size(); ++d) {
    if (p_.to.dims[d].empty()) continue;
    Move m{ReshardKind::dynamic_slice, static_cast<int64_t>(d), -1, p_.to.dims[d], here, 0};
    m.after.dims[d] = p_.to.dims[d];
    go(std::move(m));
  }
}

ReshardPlan ReshardSearch::plan_of(const std::vector<Move>& moves) const {
  std::vector<const Move*> path;
  for (const Move& move : moves) path.push_back(&move);
  return plan_of(path);
}

ReshardPlan ReshardSearch::run() const {
  constexpr ReshardCost kNoLimit{INT64_MAX, INT64_MAX};
  std::optional<ReshardPlan> plan;
  if (!p_.needs_pieces() && !p_.two_orders()) plan = search(&ReshardSearch::likely_moves, kNoLimit);
  if (plan && plan->cost.steps <= 1 && plan->cost.bytes <= bytes_missing(p_.from))
    return std::move(*plan);
  bool in_pieces = false;
  if (auto direct = pieces_below(plan ? plan->cost.bytes : INT64_MAX)) {
    plan = std::move(direct);
    in_pieces = true;
  }
  if (p_.has_groups(0)) {
    ReshardPlan whole = through_whole();
    if (!plan || whole.cost <= plan->cost) {
      plan = std::move(whole);
      in_pieces = false;
    }
  }
  if (!plan) plan = without_groups();
  ReshardCost limit = plan->cost;
  if (in_pieces) ++limit.steps;  // of two ways that cost the same, the one of collectives
  if (auto better = search(&ReshardSearch::all_moves, limit)) plan = std::move(better);
  return std::move(*plan);
}

std::optional<ReshardPlan> ReshardSearch::run_below(int64_t bytes) const {
  if (bytes_missing(p_.from) >= bytes) return std::nullopt;
  return search(&ReshardSearch::all_moves, {bytes, 0});
}

}  // namespace gspmd
