#include "gspmd/passes/reshard.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "mesh/layout.h"
#include "passes/reshard_search.h"

namespace gspmd {
namespace {

std::vector<Digits> digit_lists(const Sharding& s, int64_t rank) {
  std::vector<Digits> lists;
  for (int64_t d = 0; d < rank; ++d) lists.push_back(s.dim(d));
  for (const Unreduced& u : s.unreduced()) lists.push_back(u.digits);
  return lists;
}

std::vector<int> atoms_of(const Digits& digits, const Digits& atoms) {
  std::vector<int> result;
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

void check(const Shape& global, const Sharding& from, const Sharding& to) {
  if (!from.is_tiled() || !to.is_tiled())
    user_error("reshard: from {} to {}: only tiled and replicated shardings can be resharded",
               to_string(from), to_string(to));
  if (std::max(from.rank(), to.rank()) > global.rank())
    user_error("reshard: from {} to {}: {} has {} dims", to_string(from), to_string(to),
               to_string(global), global.rank());
  const DeviceOrder a = from.order(), b = to.order();
  if (a && b && a->count != b->count)
    user_error("reshard: {} is over {} devices and {} over {}; reshard within one set of devices",
               to_string(from), a->count, to_string(to), b->count);
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
  const Digits rest = Sharding::tiled(order, {atoms}).replicated_digits();
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

ReshardProblem problem_of(const Shape& global, const Sharding& from, const Sharding& to,
                          const Digits& have_atoms, const Digits& want_atoms, bool apart) {
  const int64_t rank = global.rank();
  ReshardProblem problem{global, {from.order(), to.order()}, {}, {}, {}, Combiner::sum, {}};
  for (DeviceOrder& order : problem.orders)
    if (!order) order = from.order() ? from.order() : to.order();
  problem.atoms[0] = have_atoms;
  problem.atoms[1] = want_atoms;
  problem.from = layout_of(from, rank, problem.atoms[0]);
  problem.to = layout_of(to, rank, problem.atoms[1]);
  problem.to.ordered = apart ? 1 : 0;
  problem.manual = from.manual_digits();
  if (!from.unreduced().empty()) problem.combiner = from.unreduced()[0].combiner;
  return problem;
}

// The same tiles on the same devices in digits over `order`; nullopt where it has none for them.
std::optional<Sharding> in_order(const Sharding& s, int64_t rank, DeviceOrder order) {
  constexpr int64_t kMaxTable = 4096;  // of devices
  const bool plain = s.manual_digits().empty() && s.unreduced().empty();
  if (!plain || order->count > kMaxTable || !same_devices(s.order(), order)) return std::nullopt;
  const std::vector<int64_t> devices = sorted_devices(order);
  DeviceTiles tiles(devices.size());
  for (int64_t d = 0; d < rank; ++d)
    if (!tiles.add(coordinates(devices, s.order(), s.dim(d)))) return std::nullopt;
  std::optional<PlacedDigits> placed = tiles.place(devices, {order});
  if (!placed || placed->order != order) return std::nullopt;
  return Sharding::tiled(order, std::move(placed->digits));
}

ReshardPlan search(const Shape& global, const Sharding& from, const Sharding& to) {
  if (from.order() && to.order() && from.order() != to.order()) {
    if (const auto same = in_order(from, global.rank(), to.order()))
      return search(global, *same, to);
    if (const auto same = in_order(to, global.rank(), from.order()))
      return search(global, from, *same);
  }
  const int64_t rank = global.rank();
  const std::vector<Digits> have = digit_lists(from, rank);
  const std::vector<Digits> want = digit_lists(to, rank);
  std::vector<Digits> all = have;
  all.insert(all.end(), want.begin(), want.end());
  const std::optional<Digits> both = common_atoms(all);
  // Digits of one order that cut it at places which do not divide each other are as strange to each
  // other as two orders are.
  const bool apart = !both || (from.order() && to.order() && from.order() != to.order());
  const Digits a = both ? *both : common_atoms(have).value();
  const Digits b = both ? *both : common_atoms(want).value();
  ReshardPlan plan = ReshardSearch(problem_of(global, from, to, a, b, apart)).run();
  // Finer digits are worth a look where they are few.
  constexpr size_t kMaxFine = 4;
  if (!from.manual_digits().empty() || !from.unreduced().empty()) return plan;
  const DeviceOrder first = from.order() ? from.order() : to.order();
  const DeviceOrder second = to.order() ? to.order() : first;
  for (const bool primes : {true, false}) {
    const Digits x = finer_atoms(a, first, primes), y = finer_atoms(b, second, primes);
    if (std::max(x.size(), y.size()) > kMaxFine) continue;
    if (x.size() == a.size() && y.size() == b.size()) break;
    const ReshardSearch fine(problem_of(global, from, to, x, y, apart));
    if (auto better = fine.run_below(plan.cost.bytes)) plan = std::move(*better);
    break;
  }
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
std::optional<ReshardPlan> one_way(const Shape& global, const Sharding& from, const Sharding& to) {
  if (from.order() != to.order() && from.order() && to.order()) return std::nullopt;
  if (!from.unreduced().empty()) return std::nullopt;
  const bool slice = refines(global, to, from, true);
  if (!slice && !refines(global, from, to, false)) return std::nullopt;
  const DeviceOrder order = from.order() ? from.order() : to.order();
  ReshardPlan plan;
  Sharding here = from;
  for (int64_t d = 0; d < global.rank(); ++d) {
    const Digits &a = from.dim(d), &b = to.dim(d);
    if (a == b) continue;
    const Digits digits = slice ? difference(b, a).value() : difference(a, b).value();
    if (!slice)
      plan.cost.bytes +=
          saturating_multiply(local_shape(global, here).bytes(), tile_count(digits) - 1);
    Sharding next = here.with_dim(d, b, global.rank(), order);
    plan.steps.push_back(
        {slice ? ReshardKind::dynamic_slice : ReshardKind::all_gather, d, -1, digits, here, next});
    ++plan.cost.steps;
    here = std::move(next);
  }
  return plan;
}

// What a plan depends on, and nothing else of a sharding (open dims, names, groups).
Sharding bare(const Sharding& s) {
  if (s.is_unreduced_everywhere())
    return Sharding::unreduced_everywhere(s.unreduced().front().combiner);
  std::vector<Digits> dims;
  for (int64_t d = 0; d < s.rank(); ++d) dims.push_back(s.dim(d));
  return Sharding::tiled(s.order(), std::move(dims), s.manual_digits(), s.unreduced());
}

using Key = std::vector<int64_t>;

void append_key(Key& key, const Digits& digits) {
  key.push_back(static_cast<int64_t>(digits.size()));
  for (const Digit& digit : digits) key.insert(key.end(), {digit.size, digit.stride});
}

void append_key(Key& key, const Sharding& s) {
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

}  // namespace

ReshardPlan plan_reshard(const Shape& global, const Sharding& from, const Sharding& to) {
  check(global, from, to);
  const Sharding a = with_devices(bare(from), to), b = bare(to);
  if (equivalent(a, b)) return {};
  if (std::optional<ReshardPlan> plan = one_way(global, a, b)) return std::move(*plan);
  // The layers of a model ask the same again and again.
  static thread_local std::map<Key, ReshardPlan> known;
  constexpr size_t kMaxKnown = 10'000;
  Key key{dtype_size(global.dtype)};
  key.insert(key.end(), global.dims.begin(), global.dims.end());
  append_key(key, a);
  append_key(key, b);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  if (known.size() >= kMaxKnown) known.clear();
  return known.emplace(std::move(key), search(global, a, b)).first->second;
}

std::string to_string(const ReshardPlan& plan) {
  static const char* const names[] = {"all-gather",         "dynamic-slice", "all-to-all",
                                      "collective-permute", "all-reduce",    "reduce-scatter"};
  std::string text;
  for (const ReshardStep& step : plan.steps) {
    if (!text.empty()) text += "; ";
    text += names[static_cast<size_t>(step.kind)];
    if (step.dim >= 0) text += fmt::format(" dim {}", step.dim);
    if (step.dim_to >= 0) text += fmt::format(" to dim {}", step.dim_to);
    for (const Digit& digit : step.digits)
      text += fmt::format(" ({},{})", digit.size, digit.stride);
  }
  return text;
}

}  // namespace gspmd
