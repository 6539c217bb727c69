#include "passes/partition/factor_sharding_search.h"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>

#include "gspmd/ir/op.h"
#include "gspmd/moves/reshard.h"
#include "moves/halo.h"
#include "moves/pieces.h"
#include "passes/partition/priced_mesh.h"

namespace gspmd {
namespace {

using AtomLists = std::vector<std::vector<int>>;  // by loop, or by dim: atoms, major first

struct FactorShardingCost {
  int64_t bytes = 0;  // that one device sends
  int64_t steps = 0;  // of all moves
  int64_t work = 0;   // iterations on one device
  auto operator<=>(const FactorShardingCost&) const = default;
};

constexpr int64_t kNever = INT64_MAX / 4;

// Up to so many atoms all ways are tried; with more the search climbs from one to the next.
constexpr size_t kTriedAtoms = 4;

// Moves that take long to plan, from one order of the devices to another and of shards some of
// which are empty, are planned for so many layouts of a node's values. Those that may send least go
// first.
constexpr int kMostDearMoves = 64;

// One operand, or the result.
struct PricedValue {
  Shape shape;
  Sharding sharding;            // that it is held in; of the result: that it is wanted in
  std::vector<int64_t> loops;   // of its dims
  std::vector<Sharding> known;  // layouts in which an operand is there already
  std::vector<Interval> parts;  // of `sharding`, by corner and dim; none: they say nothing
  bool sends_nothing = false;   // in any layout
  int64_t repeats = 1;          // runs of the node for each of its moves
  bool is_result = false;
};

// The devices whose coordinates along all atoms are first or last: what one of them lacks of a
// layout bounds from below what a move there sends.
class Corners {
 public:
  explicit Corners(const Digits& atoms) : atoms_(atoms) {}

  size_t count() const { return size_t{1} << std::min<size_t>(atoms_.size(), 6); }

  // The part of a dim of `size` elements, split along atoms, that a corner holds.
  Interval part(int64_t size, const std::vector<int>& atoms, size_t corner) const {
    int64_t index = 0, tiles = 1;
    for (const int atom : atoms) {
      const int64_t parts = atoms_[static_cast<size_t>(atom)].size;
      index = index * parts + (is_last(static_cast<size_t>(atom), corner) ? parts - 1 : 0);
      tiles *= parts;
    }
    return tile(size, tiles, index);
  }

  // Of all dims in a layout, corner by corner.
  std::vector<Interval> parts(const Shape& shape, const Sharding& s) const {
    std::vector<Interval> parts;
    for (size_t corner = 0; corner < count(); ++corner) {
      int64_t rank = 0;
      for (size_t a = 0; a < atoms_.size(); ++a)
        if (is_last(a, corner)) rank += (atoms_[a].size - 1) * atoms_[a].stride;
      for (int64_t d = 0; d < shape.rank(); ++d)
        parts.push_back(
            tile(shape.dims[static_cast<size_t>(d)], s.tiles(d), tile_index(s.dim(d), rank)));
    }
    return parts;
  }

 private:
  static bool is_last(size_t atom, size_t corner) {
    return (corner >> std::min<size_t>(atom, 5) & 1u) != 0;
  }
  static Interval tile(int64_t size, int64_t tiles, int64_t index) {
    const int64_t shard = ceil_div(size, tiles), begin = std::min(size, index * shard);
    return {begin, std::min(size, begin + shard)};
  }

  Digits atoms_;
};

CheapestFactorSharding unpriced(const FactorDigits& first) {
  CheapestFactorSharding found;
  found.spread = first;
  found.priced = false;
  return found;
}

class FactorShardingSearch {
 public:
  FactorShardingSearch(const FactorShardingProblem& p, PricedMesh mesh)
      : p_(p), rule_(*p.rule), mesh_(std::move(mesh)), corners_(mesh_.priced()) {
    if (const auto atoms = mesh_.atoms_of(p.taken)) taken_ = *atoms;
  }

  bool is_scaled() const { return mesh_.is_scaled(); }

  // What one device sends.
  int64_t bytes_of(const FactorDigits& spread) {
    AtomLists loops;
    for (const Digits& digits : spread) loops.push_back(mesh_.atoms_of(digits).value());
    return cost(loops, kNever).bytes;
  }

  // Whether all values can be priced.
  bool add_values() {
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      PricedValue value;
      value.shape = p_.node->operand(static_cast<int64_t>(i))->shape;
      value.loops = rule_.operands[i];
      value.sends_nothing = p_.sends_nothing[i];
      value.repeats = p_.repeats[i];
      if (!add(std::move(value), p_.held[i], &p_.known[i])) return false;
    }
    PricedValue value;
    value.shape = leaf_shapes(p_.node->shape).at(0);
    value.loops = rule_.results[0];
    value.is_result = true;
    if (p_.shared_sum) shared_sum_ = mesh_.priced(p_.shared_sum->first);
    return add(std::move(value), p_.result, nullptr);
  }

  CheapestFactorSharding run(const FactorDigits& first) {
    AtomLists start;
    for (const Digits& digits : first) start.push_back(mesh_.atoms_of(digits).value());
    most_work_ = work(start);
    best_ = start;
    best_cost_ = cost(start, kNever);
    if (best_cost_.bytes >= kNever) return unpriced(first);
    const ReshardCost of_first{best_cost_.bytes, best_cost_.steps};
    const bool in_place = best_cost_.bytes == exact(values_.size() - 1, start).bytes;
    if (mesh_.size() <= kTriedAtoms)
      try_all();
    else
      climb();
    CheapestFactorSharding found{
        first, {best_cost_.bytes, best_cost_.steps}, of_first, in_place, true, 0, 0};
    found.real = best_cost_.bytes;
    found.first_real = of_first.bytes;
    if (best_ == start) return found;
    for (size_t f = 0; f < best_.size(); ++f) found.spread[f] = mesh_.real(best_[f]);
    return found;
  }

 private:
  bool add(PricedValue value, const Sharding& real, const std::vector<Sharding>* known) {
    const std::optional<Sharding> priced = mesh_.priced(real);
    if (!priced) return false;
    value.sharding = *priced;
    const bool counts_alike = !priced->order() || priced->order() == mesh_.order();
    if (counts_alike && (value.is_result || priced->unreduced().empty()))
      value.parts = corners_.parts(value.shape, *priced);
    if (known)
      for (const Sharding& layout : *known)
        if (const auto there = mesh_.priced(layout)) value.known.push_back(*there);
    values_.push_back(std::move(value));
    return true;
  }

  bool may_spread(size_t f) const {
    const Factor& factor = rule_.factors[f];
    if (factor.kind == FactorKind::reduction) return true;
    if (factor.kind != FactorKind::pass || factor.size <= 1) return false;
    const auto is_dim_of = [&](const std::vector<int64_t>& dims) {
      return std::find(dims.begin(), dims.end(), static_cast<int64_t>(f)) != dims.end();
    };
    return is_dim_of(rule_.results[0]) &&
           std::any_of(rule_.operands.begin(), rule_.operands.end(), is_dim_of);
  }

  int64_t work(const AtomLists& loops) const {
    int64_t work = 1;
    for (size_t f = 0; f < loops.size(); ++f)
      work = saturating_multiply(
          work, ceil_div(std::max<int64_t>(1, rule_.factors[f].size), mesh_.real_tiles(loops[f])));
    return work;
  }

  // The layout of a value that follows.
  Sharding seen_from(const PricedValue& value, const AtomLists& loops) const {
    std::vector<Digits> dims(value.loops.size());
    std::vector<Unreduced> sums;
    for (size_t d = 0; d < dims.size(); ++d)
      if (value.loops[d] >= 0) dims[d] = mesh_.priced(loops[static_cast<size_t>(value.loops[d])]);
    if (value.is_result)
      for (size_t f = 0; f < loops.size(); ++f)
        if (rule_.factors[f].kind == FactorKind::reduction && !loops[f].empty())
          sums.push_back({mesh_.priced(loops[f]), rule_.factors[f].combiner});
    return Sharding::tiled(mesh_.order(), std::move(dims), {}, std::move(sums));
  }

  // Which of all layouts it is: short enough, mostly, to lie in the string itself.
  const std::string& name_of(size_t v, const AtomLists& loops) {
    name_.assign(1, static_cast<char>(v));
    const auto add = [&](const std::vector<int>& atoms) {
      name_.push_back(-1);
      for (const int atom : atoms) name_.push_back(static_cast<char>(atom));
    };
    for (const int64_t loop : values_[v].loops)
      if (loop >= 0) add(loops[static_cast<size_t>(loop)]);
    if (values_[v].is_result)
      for (size_t f = 0; f < loops.size(); ++f)
        if (rule_.factors[f].kind == FactorKind::reduction) add(loops[f]);
    return name_;
  }

  struct Price {
    int64_t bound = -1;
    std::optional<ReshardCost> cost;
  };

  Price& price_of(size_t v, const AtomLists& loops) {
    const PricedValue& value = values_[v];
    Price& price = prices_[name_of(v, loops)];
    if (price.bound >= 0) return price;
    price.bound = 0;
    if (is_there(value, loops))
      price.cost = ReshardCost{};
    else if (value.is_result && has_sums(loops))
      price.bound = local_shape(value.shape, value.sharding).bytes();
    else if (!value.parts.empty())
      price.bound = missing(value, loops);
    else
      price.bound = missing_on_devices(value, loops);
    price.bound = shared(value, loops, price.bound);
    return price;
  }

  bool has_sums(const AtomLists& loops) const {
    for (size_t f = 0; f < loops.size(); ++f)
      if (rule_.factors[f].kind == FactorKind::reduction && !loops[f].empty()) return true;
    return false;
  }

  // Bytes at least that a device has to be sent, between the value's layout and the one that
  // follows from the loops.
  int64_t missing(const PricedValue& value, const AtomLists& loops) const {
    static const std::vector<int> none;
    const size_t rank = value.loops.size();
    int64_t most = 0;
    for (size_t corner = 0; corner < corners_.count(); ++corner) {
      int64_t needed = dtype_size(value.shape.dtype), both = needed;
      for (size_t d = 0; d < rank; ++d) {
        const int64_t loop = value.loops[d];
        const Interval own = value.parts[corner * rank + d],
                       seen = corners_.part(value.shape.dims[d],
                                            loop < 0 ? none : loops[static_cast<size_t>(loop)],
                                            corner);
        needed *= (value.is_result ? own : seen).size();
        both *= intersect(own, seen).size();
      }
      most = std::max(most, needed - both);
    }
    return most;
  }

  // The same where the value's devices count in another order: looked at one by one, where they are
  // few. What such a move really sends takes long to tell.
  int64_t missing_on_devices(const PricedValue& value, const AtomLists& loops) const {
    constexpr int64_t kFew = 64;
    if (mesh_.is_scaled() || p_.num_devices > kFew || !value.sharding.unreduced().empty()) return 0;
    const auto boxes = [&](const Sharding& s) {
      return held_boxes(value.shape, s, p_.num_devices);
    };
    std::vector<HeldBox> own = boxes(value.sharding), seen = boxes(seen_from(value, loops));
    if (value.is_result) std::swap(own, seen);
    return saturating_multiply(elements_needed(own, seen), dtype_size(value.shape.dtype));
  }

  // The part of a move that serves others too.
  int64_t shared(const PricedValue& value, const AtomLists& loops, int64_t bytes) const {
    if (!value.is_result) return bytes / value.repeats;
    return shared_sum_ && seen_from(value, loops) == *shared_sum_ ? bytes / p_.shared_sum->second
                                                                  : bytes;
  }

  bool is_there(const PricedValue& value, const AtomLists& loops) const {
    if (value.sends_nothing) return true;
    return std::any_of(value.known.begin(), value.known.end(), [&](const Sharding& known) {
      return has_tiles(known, value, loops) && equivalent(known, seen_from(value, loops));
    });
  }

  // Whether a layout has as many tiles in each dim as the one that follows from the loops.
  bool has_tiles(const Sharding& layout, const PricedValue& value, const AtomLists& loops) const {
    if (!layout.is_tiled()) return true;
    for (size_t d = 0; d < value.loops.size(); ++d)
      if (layout.tiles(static_cast<int64_t>(d)) != tiles(value, d, loops)) return false;
    return true;
  }

  // Of the value's dim d in the layout that follows from the loops.
  int64_t tiles(const PricedValue& value, size_t d, const AtomLists& loops) const {
    int64_t tiles = 1;
    if (value.loops[d] >= 0)
      for (const int atom : loops[static_cast<size_t>(value.loops[d])])
        tiles *= mesh_.priced()[static_cast<size_t>(atom)].size;
    return tiles;
  }

  ReshardCost move(const Shape& shape, const Sharding& from, const Sharding& to) const {
    return plan_reshard(shape, from, to, mesh_.is_scaled() ? mesh_.order()->count : p_.num_devices)
        .cost;
  }

  // Whether a move between the value's layout and the one that follows from the loops is of those
  // that take long to plan.
  bool is_dear(const PricedValue& value, const AtomLists& loops) const {
    if (!value.sharding.is_tiled()) return false;
    if (value.sharding.order() != mesh_.order()) return true;
    for (size_t d = 0; d < value.loops.size(); ++d)
      if (std::max(value.sharding.tiles(static_cast<int64_t>(d)), tiles(value, d, loops)) >
          value.shape.dims[d])
        return true;
    return false;
  }

  const ReshardCost& exact(size_t v, const AtomLists& loops) {
    Price& price = price_of(v, loops);
    if (price.cost) return *price.cost;
    const PricedValue& value = values_[v];
    if (is_dear(value, loops)) ++dear_moves_;
    Sharding layout = seen_from(value, loops);
    ReshardCost cost;
    if (!value.is_result) {
      cost = move(value.shape, value.sharding, layout);
    } else {
      if (p_.joins_initial && !layout.unreduced().empty()) {  // sums are made where they are
        const Sharding summed = layout.with_unreduced({});
        cost = move(value.shape, layout, summed);
        layout = summed;
      }
      const ReshardCost rest = move(value.shape, layout, value.sharding);
      cost = {saturating_add(cost.bytes, rest.bytes), cost.steps + rest.steps};
    }
    cost.bytes = shared(value, loops, cost.bytes);
    price.cost = cost;
    return *price.cost;
  }

  // The same without the loops along which operand v is held whole and parts read of each other,
  // where that sends nothing: each device reads its part of what it has.
  AtomLists read_in_place(size_t v, const AtomLists& loops) {
    const PricedValue& value = values_[v];
    AtomLists others = loops;
    bool any = false;
    for (size_t d = 0; d < value.loops.size(); ++d) {
      const int64_t f = value.loops[d];
      if (f < 0 || !is_exchanged(f) || !value.sharding.dim(static_cast<int64_t>(d)).empty())
        continue;
      any = any || !others[static_cast<size_t>(f)].empty();
      others[static_cast<size_t>(f)].clear();
    }
    return any && exact(v, others).bytes == 0 ? others : loops;
  }

  bool is_exchanged(int64_t f) const {
    return static_cast<size_t>(f) < p_.exchanged.size() && p_.exchanged[static_cast<size_t>(f)];
  }

  // What parts of operand v read of other parts; nullopt: it cannot be.
  std::optional<ReshardCost> fetched(size_t v, const AtomLists& loops) {
    const PricedValue& value = values_[v];
    ReshardCost cost;
    if (!p_.fetch || value.is_result) return cost;
    const Shape part = local_shape(value.shape, seen_from(value, loops));
    for (size_t d = 0; d < value.loops.size(); ++d) {
      if (value.loops[d] < 0) continue;
      const std::vector<int>& atoms = loops[static_cast<size_t>(value.loops[d])];
      if (atoms.empty()) continue;
      const std::optional<ReshardCost> elements = p_.fetch(v, d, tile_count(mesh_.priced(atoms)));
      if (!elements) return std::nullopt;
      if (elements->bytes == 0) continue;
      cost.bytes +=
          saturating_multiply(elements->bytes, part.bytes() / std::max<int64_t>(1, part.dims[d]));
      cost.steps += elements->steps;
    }
    return cost;
  }

  // INT64_MAX bytes where a device would do more than it may, or that reach `limit` bytes.
  FactorShardingCost cost(const AtomLists& loops, int64_t limit) {
    FactorShardingCost total{0, 0, work(loops)};
    if (total.work > most_work_) return {kNever, 0, 0};
    std::vector<AtomLists> seen(values_.size(), loops);  // by value
    for (size_t v = 0; v < values_.size(); ++v) {
      if (!values_[v].is_result) seen[v] = read_in_place(v, loops);
      const std::optional<ReshardCost> halo = fetched(v, seen[v]);
      if (!halo) return {kNever, 0, 0};
      total.bytes = saturating_add(total.bytes, halo->bytes);
      total.steps += halo->steps;
    }
    int64_t bound = total.bytes;
    for (size_t v = 0; v < values_.size(); ++v)
      bound = saturating_add(bound, price_of(v, seen[v]).bound);
    for (const bool dear : {false, true})
      for (size_t v = 0; v < values_.size(); ++v) {
        if (is_dear(values_[v], seen[v]) != dear) continue;
        if (bound > limit) return {kNever, 0, 0};
        const ReshardCost& moved = exact(v, seen[v]);
        bound += moved.bytes - price_of(v, seen[v]).bound;
        total.bytes = saturating_add(total.bytes, moved.bytes);
        total.steps += moved.steps;
      }
    return total;
  }

  void consider(const AtomLists& loops) {
    if (dear_moves_ >= kMostDearMoves) return;
    const FactorShardingCost found = cost(loops, best_cost_.bytes);
    if (found.bytes >= kNever || found >= best_cost_) return;
    best_cost_ = found;
    best_ = loops;
  }

  bool is_taken(int atom) const {
    return std::find(taken_.begin(), taken_.end(), atom) != taken_.end();
  }

  // Every way of putting the atoms from `next` on.
  void each_way(AtomLists& loops, int next,
                const std::function<void(const AtomLists&)>& use) const {
    if (next == static_cast<int>(mesh_.size())) {
      use(loops);
      return;
    }
    each_way(loops, next + 1, use);
    if (is_taken(next)) return;
    for (size_t f = 0; f < loops.size(); ++f) {
      if (!may_spread(f)) continue;
      for (size_t at = loops[f].size() + 1; at-- > 0;) {  // as the mesh counts first
        loops[f].insert(loops[f].begin() + static_cast<std::ptrdiff_t>(at), next);
        each_way(loops, next + 1, use);
        loops[f].erase(loops[f].begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }

  // In the order of what they send at least, until that is as much as the best sends.
  void try_all() {
    std::vector<std::pair<FactorShardingCost, AtomLists>> ways;
    AtomLists loops(rule_.factors.size());
    each_way(loops, 0, [&](const AtomLists& way) {
      FactorShardingCost bound{0, 0, work(way)};
      if (bound.work > most_work_) return;
      for (size_t v = 0; v < values_.size(); ++v)
        bound.bytes = saturating_add(bound.bytes, price_of(v, way).bound);
      if (bound.bytes <= best_cost_.bytes) ways.emplace_back(bound, way);
    });
    std::stable_sort(ways.begin(), ways.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [bound, way] : ways) {
      if (bound.bytes >= best_cost_.bytes && best_cost_.steps <= 1) break;
      if (bound.bytes > best_cost_.bytes) break;
      consider(way);
    }
  }

  // Single atoms put elsewhere, the best of all such changes as long as there is a better one.
  void climb() {
    for (FactorShardingCost before = best_cost_; best_cost_.bytes > 0; before = best_cost_) {
      const AtomLists start = best_;
      for (int atom = 0; atom < static_cast<int>(mesh_.size()); ++atom) {
        if (is_taken(atom)) continue;
        AtomLists without = start;
        for (std::vector<int>& loop : without) std::erase(loop, atom);
        consider(without);
        for (size_t f = 0; f < without.size(); ++f)
          for (size_t at = 0; may_spread(f) && at <= without[f].size(); ++at) {
            AtomLists with = without;
            with[f].insert(with[f].begin() + static_cast<std::ptrdiff_t>(at), atom);
            consider(with);
          }
      }
      if (best_cost_ >= before) return;
    }
  }

  const FactorShardingProblem& p_;
  const FactorRule& rule_;
  PricedMesh mesh_;
  Corners corners_;
  std::vector<PricedValue> values_;  // operands, then the result
  std::optional<Sharding> shared_sum_;
  std::vector<int> taken_;
  std::unordered_map<std::string, Price> prices_;  // by name
  std::string name_;
  int dear_moves_ = 0;  // that have been planned
  int64_t most_work_ = kNever;
  AtomLists best_;
  FactorShardingCost best_cost_;
};

// The search, where there can be one.
std::optional<FactorShardingSearch> search_of(const FactorShardingProblem& problem,
                                              const FactorDigits& first, const FactorDigits& second,
                                              bool scales) {
  if (problem.order->count != problem.num_devices) return std::nullopt;
  std::vector<Digits> lists{problem.taken};
  const auto add = [&](const Sharding& s) {
    if (s.kind() == ShardingKind::maximal) return false;
    if (s.order() && s.order()->count != problem.num_devices) return false;
    if (s.order() != problem.order) return true;
    for (int64_t d = 0; d < s.rank(); ++d) lists.push_back(s.dim(d));
    for (const Unreduced& u : s.unreduced()) lists.push_back(u.digits);
    return true;
  };
  for (const Sharding& operand : problem.held)
    if (!add(operand)) return std::nullopt;
  if (!add(problem.result)) return std::nullopt;
  for (const FactorDigits& spread : {first, second})
    lists.insert(lists.end(), spread.begin(), spread.end());
  std::optional<PricedMesh> mesh = PricedMesh::of(problem.order, std::move(lists), scales);
  if (!mesh) return std::nullopt;
  FactorShardingSearch search(problem, std::move(*mesh));
  if (!search.add_values()) return std::nullopt;
  return search;
}

}  // namespace

CheapestFactorSharding cheapest_factor_sharding(const FactorShardingProblem& problem,
                                                const FactorDigits& first) {
  std::optional<FactorShardingSearch> search = search_of(problem, first, {}, true);
  if (!search) return unpriced(first);
  CheapestFactorSharding found = search->run(first);
  if (!search->is_scaled()) return found;
  // What is less on few devices may be more on all of them.
  std::optional<FactorShardingSearch> real = search_of(problem, first, found.spread, false);
  if (real) {
    found.first_real = real->bytes_of(first);
    found.real = real->bytes_of(found.spread);
  }
  if (real && found.real <= found.first_real) return found;
  found.spread = first;
  found.cost = found.first;
  found.real = found.first_real;
  return found;
}

ScaledBytes move_bytes(const Shape& shape, const Sharding& from, const Sharding& to,
                       int64_t num_devices) {
  ScaledBytes bytes;
  bytes.real = bytes.priced = plan_reshard(shape, from, to, num_devices).cost.bytes;
  const DeviceOrder order = from.order() ? from.order() : to.order();
  if (!order || order->count != num_devices) return bytes;
  std::vector<Digits> lists;
  for (const Sharding& s : {from, to})
    for (int64_t d = 0; d < s.rank(); ++d) lists.push_back(s.dim(d));
  const std::optional<PricedMesh> mesh = PricedMesh::of(order, std::move(lists), true);
  if (!mesh || !mesh->is_scaled()) return bytes;
  const std::optional<Sharding> a = mesh->priced(from), b = mesh->priced(to);
  if (a && b) bytes.priced = plan_reshard(shape, *a, *b, mesh->order()->count).cost.bytes;
  return bytes;
}

}  // namespace gspmd
