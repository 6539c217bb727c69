#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <optional>
#include <set>

#include "moves/price.h"
#include "moves/table_reshard.h"
#include "ops/gather_scatter/nest.h"

namespace gspmd {
namespace {

struct FactorShardingCost {
  double bytes = 0;  // sent by one device in all, on axes of kAxisSize devices
  int64_t collectives = 0;
  int64_t work = 0;  // elements of slices and operands on one device
  auto operator<=>(const FactorShardingCost&) const = default;
};

// Devices that hold parts of a table, or of the updates of a sum, and do not use them take the
// memory and the work of all: such bytes count so many times.
constexpr int64_t kIdleWeight = 8;

// Costs are those of a mesh whose axes all have so many devices: the same program comes out for any
// sizes of the axes.
constexpr double kAxisSize = 4;

// The search over one device order.
class Search {
 public:
  Search(const IndexProblem& p, DeviceOrder order) : p_(p), nest_(*p.nest), order_(order) {
    std::vector<Digits> lists{p.manual};
    for (const IndexValue& value : p.values)
      if (value.sharding.order() == order)
        for (int64_t d = 0; d < value.shape.rank(); ++d) lists.push_back(value.sharding.dim(d));
    if (auto atoms = common_atoms(lists)) atoms_ = std::move(*atoms);
    collect_sources();
    consider(empty());
    std::vector<size_t> chosen;
    try_sources(chosen);
    while (cost_.bytes > 0 && improve()) {
    }
  }

  const IndexFactorSharding& best() const { return best_; }
  const FactorShardingCost& cost() const { return cost_; }

 private:
  // The digits of one layout that a value has or is wanted in.
  struct Source {
    IndexArray array;
    std::vector<Digits> dims;
    bool operator==(const Source&) const = default;
  };
  static constexpr size_t kMostSources = 4;  // all orders of more would be too many

  IndexFactorSharding empty() const {
    IndexFactorSharding spread;
    spread.order = order_;
    spread.manual = p_.manual;
    spread.loops.resize(nest_.loops.size());
    return spread;
  }

  void collect_sources() {
    for (const IndexValue& value : p_.values) {
      if (value.sharding.order() != order_) continue;
      Source source{value.array, {}};
      for (int64_t d = 0; d < value.shape.rank(); ++d) source.dims.push_back(value.sharding.dim(d));
      if (std::find(sources_.begin(), sources_.end(), source) == sources_.end() &&
          sources_.size() < kMostSources)
        sources_.push_back(std::move(source));
    }
  }

  // Digits of a list one by one, as fine as they may have to be dealt out.
  Digits parts(const Digits& digits) const {
    return atoms_.empty() ? digits : split_into(digits, atoms_);
  }

  // Every order of every choice of sources, the first that comes takes what it can.
  void try_sources(std::vector<size_t>& chosen) {
    if (!chosen.empty())
      for (const bool parallel_first : {true, false}) consider(filled(chosen, parallel_first));
    for (size_t s = 0; s < sources_.size(); ++s) {
      if (std::find(chosen.begin(), chosen.end(), s) != chosen.end()) continue;
      chosen.push_back(s);
      try_sources(chosen);
      chosen.pop_back();
    }
  }

  IndexFactorSharding filled(const std::vector<size_t>& chosen, bool parallel_first) const {
    IndexFactorSharding spread = empty();
    for (const size_t s : chosen)
      for (size_t d = 0; d < sources_[s].dims.size(); ++d)
        for (const Digit& digit : parts(sources_[s].dims[d]))
          add_digit(spread, sources_[s].array, static_cast<int64_t>(d), digit, parallel_first);
    return spread;
  }

  void add_digit(IndexFactorSharding& spread, IndexArray array, int64_t d, const Digit& digit,
                 bool parallel_first) const {
    for (const bool parallel : {parallel_first, !parallel_first})
      for (size_t l = 0; l < nest_.loops.size(); ++l) {
        if ((nest_.loops[l].method == IndexMethod::parallel) != parallel ||
            dim_of(nest_.loops[l], array) != d)
          continue;
        spread.loops[l].push_back(digit);
        if (is_valid(nest_, spread)) return;
        spread.loops[l].pop_back();
      }
  }

  // Single digits taken away or put on another loop that some layout has them on, in front or
  // behind: the best of all that are cheaper; whether there is one.
  bool improve() {
    const IndexFactorSharding start = best_;
    const FactorShardingCost before = cost_;
    for (const Digit& digit : all_digits()) {
      IndexFactorSharding without = start;
      for (Digits& loop : without.loops) erase_if(loop, [&](const Digit& d) { return d == digit; });
      consider(without);
      for (size_t l = 0; l < nest_.loops.size(); ++l)
        for (const bool front : {false, true}) {
          if (!is_known_on(digit, nest_.loops[l])) continue;
          IndexFactorSharding with = without;
          Digits& loop = with.loops[l];
          loop.insert(front ? loop.begin() : loop.end(), digit);
          if (is_valid(nest_, with)) consider(with);
        }
    }
    return cost_ < before;
  }

  bool is_known_on(const Digit& digit, const IndexLoop& loop) const {
    return std::any_of(sources_.begin(), sources_.end(), [&](const Source& source) {
      const int64_t d = dim_of(loop, source.array);
      return d >= 0 && !disjoint({digit}, source.dims[static_cast<size_t>(d)]);
    });
  }

  std::set<Digit> all_digits() const {
    std::set<Digit> digits;
    for (const Source& source : sources_)
      for (const Digits& dim : source.dims)
        for (const Digit& digit : parts(dim)) digits.insert(digit);
    return digits;
  }

  void consider(const IndexFactorSharding& spread) {
    if (!seen_.insert(spread.loops).second) return;
    const FactorShardingCost cost = cost_of(spread);
    if (seen_.size() > 1 && cost >= cost_) return;
    best_ = spread;
    cost_ = cost;
  }

  FactorShardingCost cost_of(const IndexFactorSharding& spread) {
    FactorShardingCost total;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      const IndexValue& value = p_.values[v];
      const Sharding layout = spread.layout(nest_, value.array);
      if (value.array != IndexArray::indices)
        total.work += local_shape(value.shape, layout).elements_count();
      if (!value.costs) continue;
      const Digits partial = value.is_result ? spread.partial(nest_) : Digits{};
      const auto [bytes, collectives] = cost_of(v, layout, partial);
      total.bytes += bytes;
      total.collectives += collectives;
    }
    if (leaves_idle(spread)) total.bytes *= kIdleWeight;
    return total;
  }

  // Whether digits of a looked-up dim (of updates that are summed) are on no loop at all.
  bool leaves_idle(const IndexFactorSharding& spread) const {
    Digits used;
    for (size_t l = 0; l < spread.loops.size(); ++l)
      if (nest_.loops[l].method != IndexMethod::part)  // which takes the operand whole
        used.insert(used.end(), spread.loops[l].begin(), spread.loops[l].end());
    const IndexMethod summed = nest_.sums_batches ? IndexMethod::batch : IndexMethod::cut;
    const IndexArray array = nest_.sums_batches ? IndexArray::slices : IndexArray::operand;
    for (const IndexValue& value : p_.values) {
      if (value.is_result || value.array != array || value.sharding.order() != order_) continue;
      for (const IndexLoop& loop : nest_.loops)
        if (loop.method == summed)
          for (const Digit& digit : parts(value.sharding.dim(dim_of(loop, array))))
            if (disjoint({digit}, used) && disjoint({digit}, p_.manual)) return true;
    }
    return false;
  }

  std::pair<double, int64_t> cost_of(size_t v, const Sharding& layout, const Digits& partial) {
    const IndexValue& value = p_.values[v];
    std::vector<Digits> key{partial};
    for (int64_t d = 0; d < value.shape.rank(); ++d) key.push_back(layout.dim(d));
    const auto [found, is_new] = known_.try_emplace({v, std::move(key)});
    if (is_new) {
      const ReshardPlan plan = planned(value, layout, partial);
      const bool foreign = value.sharding.order() && value.sharding.order() != order_;
      if (foreign) found->second.first = static_cast<double>(plan.cost.bytes);
      for (const ReshardStep& step : plan.steps) {
        if (!foreign) found->second.first += sent_bytes(value.shape, step);
        if (step.kind != ReshardKind::dynamic_slice) ++found->second.second;
      }
    }
    return found->second;
  }

  double held_bytes(const Shape& shape, const Sharding& sharding) const {
    double bytes = static_cast<double>(shape.bytes());
    for (int64_t d = 0; d < shape.rank(); ++d)
      bytes /= std::pow(kAxisSize, static_cast<double>(parts(sharding.dim(d)).size()));
    return bytes;
  }

  double sent_bytes(const Shape& shape, const ReshardStep& step) const {
    const double before = held_bytes(shape, step.before), after = held_bytes(shape, step.after);
    auto axes = static_cast<double>(parts(step.digits).size());
    for (const MovedDigits& moved : step.also)
      axes += static_cast<double>(parts(moved.digits).size());
    return gspmd::sent_bytes(step.kind, before, after, std::pow(kAxisSize, axes));
  }

  ReshardPlan planned(const IndexValue& value, Sharding layout, const Digits& partial) const {
    std::vector<Digits> dims;
    for (int64_t d = 0; d < value.shape.rank(); ++d) dims.push_back(layout.dim(d));
    std::vector<Unreduced> sums;
    if (!partial.empty()) sums.push_back({partial, p_.combiner});
    layout = Sharding::tiled(order_, std::move(dims), {}, std::move(sums));
    if (value.is_result) return plan_reshard(value.shape, layout, value.sharding);
    const bool is_table = value.array == IndexArray::operand && !nest_.sums_batches;
    return (is_table ? plan_table_reshard : plan_reshard)(value.shape, value.sharding, layout, 0);
  }

  const IndexProblem& p_;
  const IndexNest& nest_;
  DeviceOrder order_;
  Digits atoms_;  // empty: digits of the layouts have no common parts
  std::vector<Source> sources_;
  std::map<std::pair<size_t, std::vector<Digits>>, std::pair<double, int64_t>> known_;
  std::set<std::vector<Digits>> seen_;
  IndexFactorSharding best_;
  FactorShardingCost cost_;
};

}  // namespace

IndexFactorSharding choose_index_factor_sharding(const IndexProblem& problem) {
  std::vector<DeviceOrder> orders;
  if (problem.manual_order) orders.push_back(problem.manual_order);
  if (orders.empty())
    for (const IndexValue& value : problem.values)
      if (const DeviceOrder order = value.sharding.order();
          order && std::find(orders.begin(), orders.end(), order) == orders.end())
        orders.push_back(order);
  IndexFactorSharding best;
  best.loops.resize(problem.nest->loops.size());
  std::optional<FactorShardingCost> cost;
  for (const DeviceOrder order : orders) {
    const Search search(problem, order);
    if (cost && search.cost() >= *cost) continue;
    cost = search.cost();
    best = search.best();
  }
  return best;
}

}  // namespace gspmd
