#include "gspmd/moves/reshard.h"

#include <algorithm>
#include <numeric>

#include "gspmd/base/error.h"
#include "mesh/device_terms.h"
#include "mesh/digit_tools.h"
#include "mesh/layout.h"
#include "moves/price.h"
#include "moves/reshard_detour.h"
#include "moves/reshard_search.h"
#include "moves/reshard_subset.h"

namespace gspmd {
namespace {

std::vector<Digits> digit_lists(const Sharding& s, int64_t rank) {
  std::vector<Digits> lists;
  for (int64_t d = 0; d < rank; ++d) lists.push_back(s.dim(d));
  for (const Unreduced& u : s.unreduced()) lists.push_back(u.digits);
  return lists;
}

Atoms atoms_of(const Digits& digits, const Digits& atoms) {
  Atoms result;
  for (const Digit& part : split_into(digits, atoms))
    result.push_back(static_cast<int>(std::find(atoms.begin(), atoms.end(), part) - atoms.begin()));
  return result;
}

AtomLayout layout_of(const Sharding& s, int64_t rank, const Digits& atoms) {
  AtomLayout layout;
  for (int64_t d = 0; d < rank; ++d) layout.dims.push_back(atoms_of(s.dim(d), atoms));
  for (const Unreduced& u : s.unreduced())
    for (const int atom : atoms_of(u.digits, atoms)) layout.unreduced.push_back(atom);
  std::sort(layout.unreduced.begin(), layout.unreduced.end());
  return layout;
}

bool contains_all(const Digits& digits, const Digits& part) {
  const std::optional<Digits> missing = difference(part, digits);
  return missing && missing->empty();
}

bool is_placed(const Sharding& s) { return s.is_tiled() || s.kind() == ShardingKind::maximal; }

void check(const Shape& global, const Sharding& from, const Sharding& to) {
  if (!is_placed(from) || !is_placed(to))
    user_error(
        "reshard: from {} to {}: only tiled, replicated and maximal shardings can be resharded",
        to_string(from), to_string(to));
  if (std::max(from.rank(), to.rank()) > global.rank())
    user_error("reshard: from {} to {}: {} has {} dims", to_string(from), to_string(to),
               to_string(global), global.rank());
  const DeviceOrder a = from.order(), b = to.order();
  if (!(from.manual_digits() == to.manual_digits() && (a == b || from.manual_digits().empty())))
    user_error("reshard: {} and {} differ in their manual devices; leave the manual region first",
               to_string(from), to_string(to));
  for (const Unreduced& u : to.unreduced()) {
    bool found = false;
    for (const Unreduced& have : from.unreduced())
      found =
          found || (a == b && have.combiner == u.combiner && contains_all(have.digits, u.digits));
    if (!found)
      user_error("reshard: {} is unreduced where {} is not; a whole value has no partial sums",
                 to_string(to), to_string(from));
  }
  if (from.unreduced().size() > 1 && from.unreduced() != to.unreduced())
    user_error(
        "reshard: {} has partial results of two kinds, whose order is not known; reduce one "
        "of them where it arises",
        to_string(from));
}

// `{unreduced}` on every device there is: the target's.
Sharding with_devices(const Sharding& from, const Sharding& to) {
  if (!from.is_unreduced_everywhere()) return from;
  if (!to.order())
    user_error("reshard: {} to {}: neither says over which devices", to_string(from),
               to_string(to));
  Unreduced all = from.unreduced().front();
  all.digits = {{to.order()->count, 1}};
  return Sharding::tiled(to.order(), {}, {}, {all});
}

// The digits that use up each order: what neither layout reads may still cut a value on its way.
// With `primes`, in parts that cannot be cut further.
Digits finer_atoms(const Digits& atoms, DeviceOrder order, bool primes) {
  Digits all = atoms;
  const Digits rest = complement(atoms, order->count);
  all.insert(all.end(), rest.begin(), rest.end());
  if (!primes) return all;
  Digits parts;
  for (Digit digit : all)
    for (int64_t prime = 2; digit.size > 1;) {
      if (prime * prime > digit.size) prime = digit.size;
      if (digit.size % prime != 0) {
        ++prime;
        continue;
      }
      digit.size /= prime;
      parts.push_back({prime, digit.stride * digit.size});
    }
  return parts;
}

// Both ends of a reshard over definite devices, of `num_devices`.
struct Ends {
  DeviceOrder from = nullptr, to = nullptr;
  int64_t num_devices = 1;
  bool partial() const { return from->count < num_devices || to->count < num_devices; }
};

DeviceOrder devices_of(const Sharding& s) {
  return s.kind() == ShardingKind::maximal ? list_order({s.device()}) : s.order();
}

Ends ends_of(const Sharding& from, const Sharding& to, int64_t num_devices) {
  Ends ends{devices_of(from), devices_of(to), num_devices};
  for (const DeviceOrder order : {ends.from, ends.to}) {
    if (!order) continue;
    const int64_t named = order->last() + 1;
    if (num_devices > 0 && named > num_devices)
      user_error("reshard: from {} to {}: device {} of {}", to_string(from), to_string(to),
                 named - 1, num_devices);
    if (num_devices == 0) ends.num_devices = std::max(ends.num_devices, order->count);
  }
  if (!ends.from)
    ends.from = ends.to;  // a value that all devices have whole, the target's among them
  if (!ends.to) ends.to = covering_order(ends.from, ends.num_devices);
  if (!ends.to) ends.to = iota_order(ends.num_devices);
  return ends;
}

ReshardProblem problem_of(const Shape& global, const Sharding& from, const Sharding& to,
                          const Ends& ends, const Digits& have_atoms, const Digits& want_atoms,
                          bool apart) {
  const int64_t rank = global.rank();
  ReshardProblem problem{global, {ends.from, ends.to}, {}, {}, {}, Combiner::sum, {}, 1};
  problem.num_devices = ends.num_devices;
  problem.atoms[0] = have_atoms;
  problem.atoms[1] = want_atoms;
  problem.from = layout_of(from, rank, problem.atoms[0]);
  problem.to = layout_of(to, rank, problem.atoms[1]);
  problem.to.ordered = apart ? 1 : 0;
  // Collectives over groups serve where both ends are on all devices, in digits with common cuts.
  // Else pieces may send less; lists of devices are no matter where these are few.
  const bool few = std::max(ends.from->count, ends.to->count) <= ReshardSearch::kFewDevices &&
                   from.manual_digits().empty() && from.unreduced().empty();
  problem.in_pieces = ends.partial() || (apart && (few || ends.from == ends.to));
  for (int64_t d = 0; d < rank; ++d)
    if (std::max(tile_count(from.dim(d)), tile_count(to.dim(d))) >
        global.dims[static_cast<size_t>(d)])
      problem.has_empty = few && !apart;
  problem.manual = from.manual_digits();
  if (!from.unreduced().empty()) problem.combiner = from.unreduced()[0].combiner;
  return problem;
}

// The same tiles on the same devices in digits over `order`; nullopt where it has none for them.
std::optional<Sharding> in_order(const Sharding& s, int64_t rank, DeviceOrder order) {
  constexpr int64_t kMaxTable = 4096;  // of devices
  const bool plain = s.order() && s.manual_digits().empty() && s.unreduced().empty();
  if (!plain || !same_devices(s.order(), order)) return std::nullopt;
  std::vector<Digits> dims;
  for (int64_t d = 0; d < rank; ++d) {
    const auto tile = tile_function(s.order(), s.dim(d));
    auto digits = tile ? digits_of(*tile, order) : std::nullopt;
    if (digits) dims.push_back(std::move(*digits));
  }
  if (std::ssize(dims) == rank) return Sharding::tiled(order, std::move(dims));
  if (order->count > kMaxTable) return std::nullopt;
  const std::vector<int64_t> devices = sorted_devices(order);
  DeviceTiles tiles(devices.size());
  for (int64_t d = 0; d < rank; ++d)
    if (!tiles.add(coordinates(devices, s.order(), s.dim(d)))) return std::nullopt;
  std::optional<PlacedDigits> placed = tiles.place(devices, {order});
  if (!placed || placed->order != order) return std::nullopt;
  return Sharding::tiled(order, std::move(placed->digits));
}

// Digits in which layouts on the way from one set of devices to another can be said.
Digits crossing_atoms(const Digits& atoms, DeviceOrder order) {
  constexpr size_t kMost[] = {4, 5};
  for (const bool primes : {true, false})
    if (Digits fine = finer_atoms(atoms, order, primes); fine.size() <= kMost[primes ? 0 : 1])
      return fine;
  return atoms;
}

// The atoms, cut so that a permute can exchange them: where one goes to a dim that another leaves,
// both have a part of the same size.
Digits exchanged_atoms(const Digits& atoms, const std::vector<Digits>& have,
                       const std::vector<Digits>& want) {
  std::vector<Digits> cuts{atoms};
  const auto cut = [&](const Digit& digit, int64_t size) {
    const int64_t rest = digit.size / size;
    cuts.push_back({{size, digit.stride * rest}});
    if (rest > 1) cuts.push_back({{rest, digit.stride}});
  };
  for (size_t a = 0; a < have.size(); ++a)
    for (size_t b = 0; b < std::min(have.size(), want.size()); ++b)
      for (const Digit& moved : split_into(have[a], atoms))
        for (const Digit& left : split_into(have[b], atoms)) {
          const bool exchange = a != b && !disjoint({moved}, want[b]) && disjoint({left}, want[b]);
          const int64_t common = std::gcd(moved.size, left.size);
          if (!exchange || common == 1) continue;
          cut(moved, common);
          cut(left, common);
        }
  return common_atoms(cuts).value_or(atoms);
}

ReshardPlan search(const Shape& global, const Sharding& from, const Sharding& to,
                   const Ends& ends) {
  if (from.order() && to.order() && from.order() != to.order()) {
    if (const auto same = in_order(from, global.rank(), to.order()))
      return search(global, *same, to, {ends.to, ends.to, ends.num_devices});
    if (const auto same = in_order(to, global.rank(), from.order()))
      return search(global, from, *same, {ends.from, ends.from, ends.num_devices});
  }
  const int64_t rank = global.rank();
  const std::vector<Digits> have = digit_lists(from, rank);
  const std::vector<Digits> want = digit_lists(to, rank);
  std::vector<Digits> all = have;
  all.insert(all.end(), want.begin(), want.end());
  const std::optional<Digits> both = common_atoms(all);
  if (ends.from->count != ends.to->count || (ends.partial() && ends.from != ends.to)) {
    Digits a = common_atoms(have).value(), b = common_atoms(want).value();
    if (to.is_replicated() && ends.to == covering_order(ends.from, ends.num_devices)) b = a;
    a = crossing_atoms(a, ends.from);
    b = crossing_atoms(b, ends.to);
    // Tables of devices, which the search makes of pieces, are for few; or for sets that do not
    // count by steps.
    constexpr int64_t kMostSearched = 1024;
    std::optional<ReshardPlan> over_all;
    if (std::max(ends.from->count, ends.to->count) > ReshardSearch::kFewDevices)
      over_all = plan_over_all(global, from, to, ends.from, ends.to, ends.num_devices);
    if (over_all && ends.num_devices > kMostSearched) return std::move(*over_all);
    ReshardPlan plan = ReshardSearch(problem_of(global, from, to, ends, a, b, true)).run();
    return over_all && over_all->cost < plan.cost ? std::move(*over_all) : plan;
  }
  // Digits of one order that cut it at places which do not divide each other are as strange to each
  // other as two orders are.
  const bool apart = !both || ends.from != ends.to;
  const Digits a = both ? *both : common_atoms(have).value();
  const Digits b = both ? *both : common_atoms(want).value();
  ReshardPlan plan = ReshardSearch(problem_of(global, from, to, ends, a, b, apart)).run();
  constexpr size_t kMaxFine = 4;
  if (!from.manual_digits().empty() || !from.unreduced().empty()) return plan;
  // Finer digits are worth a look where they are few.
  for (const bool primes : {true, false}) {
    const Digits x = finer_atoms(a, ends.from, primes), y = finer_atoms(b, ends.to, primes);
    if (std::max(x.size(), y.size()) > kMaxFine) continue;
    if (x.size() == a.size() && y.size() == b.size()) break;
    const ReshardSearch fine(problem_of(global, from, to, ends, x, y, apart));
    if (auto better = fine.run_below(plan.cost.bytes)) plan = std::move(*better);
    return plan;
  }
  if (apart) return plan;
  const Digits exchanged = exchanged_atoms(a, have, want);
  if (exchanged.size() == a.size() || exchanged.size() > kMaxFine) return plan;
  const ReshardSearch fine(problem_of(global, from, to, ends, exchanged, exchanged, apart));
  if (auto better = fine.run_below(plan.cost.bytes)) plan = std::move(*better);
  return plan;
}

// Whether each dim of `fine` refines that of `coarse` by shards that nest (`free_whole`: or
// `coarse` holds the dim whole).
bool refines(const Shape& global, const Sharding& fine, const Sharding& coarse, bool free_whole) {
  for (int64_t d = 0; d < global.rank(); ++d) {
    const Digits &f = fine.dim(d), &c = coarse.dim(d);
    if (f == c) continue;
    if (!is_prefix(c, f)) return false;
    const int64_t n = global.dims[static_cast<size_t>(d)];
    const int64_t few = tile_count(c), many = tile_count(f);
    if (ceil_div(n, few) != many / few * ceil_div(n, many) && !(free_whole && few == 1))
      return false;
  }
  return true;
}

// Slices alone, or gathers alone, where shards nest in each dim: nothing is cheaper.
std::optional<ReshardPlan> one_way(const Shape& global, const Sharding& from, const Sharding& to,
                                   const Ends& ends) {
  if (ends.from != ends.to || !from.unreduced().empty()) return std::nullopt;
  const bool slice = refines(global, to, from, true);
  if (!slice && (ends.num_devices % ends.from->count != 0 || !refines(global, from, to, false)))
    return std::nullopt;
  const DeviceOrder order = ends.from;
  ReshardPlan plan;
  Sharding here = from;
  for (int64_t d = 0; d < global.rank(); ++d) {
    const Digits &a = from.dim(d), &b = to.dim(d);
    if (a == b) continue;
    const Digits digits = slice ? difference(b, a).value() : difference(a, b).value();
    const auto kind = slice ? ReshardKind::dynamic_slice : ReshardKind::all_gather;
    const int64_t bytes = local_shape(global, here).bytes(), group = tile_count(digits);
    plan.cost.bytes = saturating_add(
        plan.cost.bytes, sent_bytes(kind, bytes, saturating_multiply(bytes, group), group));
    Sharding next = here.with_dim(d, b, global.rank(), order);
    plan.steps.push_back({kind, d, -1, digits, here, next});
    ++plan.cost.steps;
    here = std::move(next);
  }
  return plan;
}

// Each device that is to have a part of the value has just that part, in a shard of that shape.
bool in_place(const Shape& global, const Sharding& from, const Sharding& to, const Ends& ends) {
  constexpr int64_t kMaxTable = 4096;  // of devices
  if (!from.unreduced().empty() || !to.unreduced().empty() || !from.manual_digits().empty())
    return false;
  if (local_shape(global, from) != local_shape(global, to)) return false;
  if (to.is_replicated() && from.order() == nullptr && from.is_tiled()) return true;
  if (ends.to->count > kMaxTable || (to.is_replicated() && ends.from->count < ends.num_devices))
    return false;
  for (int64_t rank = 0; rank < ends.to->count; ++rank) {
    const int64_t device = ends.to->device(rank);
    const Box have = shard_box(global, from, device), want = shard_box(global, to, device);
    if (have != want && !(have.is_empty() && want.is_empty())) return false;
  }
  return true;
}

// What a plan depends on, and nothing else of a sharding (open dims, names, groups).
Sharding bare(const Sharding& s) {
  if (s.kind() == ShardingKind::maximal) return Sharding::maximal(s.device());
  if (s.is_unreduced_everywhere())
    return Sharding::unreduced_everywhere(s.unreduced().front().combiner);
  const Sharding plain = s.with_open({}).with_mesh(nullptr);
  return plain.shard_group() == 0 ? plain : plain.with_shard_group(0, false);
}

ReshardPlan direct(const Shape& global, const Sharding& from, const Sharding& to,
                   const Ends& ends) {
  if (ends.from != ends.to && in_place(global, from, to, ends)) return {};
  if (std::optional<ReshardPlan> plan = one_way(global, from, to, ends)) return std::move(*plan);
  return search(global, from, to, ends);
}

using Key = std::vector<int64_t>;

void append_key(Key& key, const Digits& digits) {
  key.push_back(static_cast<int64_t>(digits.size()));
  for (const Digit& digit : digits) key.insert(key.end(), {digit.size, digit.stride});
}

void append_key(Key& key, const Sharding& s) {
  key.push_back(s.kind() == ShardingKind::maximal ? s.device() : -1);
  // Orders are interned and never freed, so that an address names one for good.
  key.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(s.order())));
  key.push_back(s.rank());
  for (int64_t d = 0; d < s.rank(); ++d) append_key(key, s.dim(d));
  append_key(key, s.manual_digits());
  for (const Unreduced& u : s.unreduced()) {
    key.push_back(static_cast<int64_t>(u.combiner));
    append_key(key, u.digits);
  }
}

// Over at most `between` other layouts. num_devices: 0 for as many as the layouts name.
ReshardPlan plan_over(const Shape& global, const Sharding& from, const Sharding& to,
                      int64_t num_devices, int between) {
  // The layers of a model ask the same again and again.
  static thread_local std::map<Key, ReshardPlan> known;
  constexpr size_t kMaxKnown = 10'000;
  const Ends ends = ends_of(from, to, num_devices);
  Key key{dtype_size(global.dtype), ends.num_devices, between};
  key.insert(key.end(), global.dims.begin(), global.dims.end());
  append_key(key, from);
  append_key(key, to);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  ReshardPlan plan = direct(global, from, to, ends);
  if (between > 0)
    for (const Sharding& via : detours(global, from, to, ends.num_devices, plan.cost.bytes)) {
      ReshardPlan both = joined(plan_over(global, from, via, num_devices, between - 1),
                                plan_over(global, via, to, num_devices, between - 1));
      if (both.cost.bytes < plan.cost.bytes) plan = std::move(both);
    }
  if (known.size() >= kMaxKnown) known.clear();
  return known.emplace(std::move(key), std::move(plan)).first->second;
}

}  // namespace

ReshardPlan plan_reshard(const Shape& global, const Sharding& from, const Sharding& to,
                         int64_t num_devices) {
  constexpr int kMostBetween = 2;  // layouts, with which no detour is left that is cheaper
  check(global, from, to);
  const Sharding a = with_devices(bare(from), to), b = bare(to);
  if (equivalent(a, b)) return {};
  return plan_over(global, a, b, num_devices, kMostBetween);
}

std::string to_string(const ReshardPlan& plan) {
  static const char* const names[] = {
      "all-gather", "dynamic-slice",  "all-to-all",          "collective-permute",
      "all-reduce", "reduce-scatter", "collective-permutes", "collective-broadcast"};
  std::string text;
  for (const ReshardStep& step : plan.steps) {
    if (!text.empty()) text += "; ";
    text += names[static_cast<size_t>(step.kind)];
    if (step.dim >= 0) text += fmt::format(" dim {}", step.dim);
    if (step.dim_to >= 0) text += fmt::format(" to dim {}", step.dim_to);
    for (const Digit& digit : step.digits)
      text += fmt::format(" ({},{})", digit.size, digit.stride);
    for (const MovedDigits& moved : step.also) {
      text += fmt::format(" and dim {} to dim {}", moved.dim, moved.dim_to);
      for (const Digit& digit : moved.digits)
        text += fmt::format(" ({},{})", digit.size, digit.stride);
    }
    if (step.realigned) text += " realigned";
    if (step.kind == ReshardKind::piecewise_permutes)
      text += fmt::format(" of pieces, {}", step.pieces->rounds.size());
  }
  return text;
}

}  // namespace gspmd
