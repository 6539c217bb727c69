#include "gspmd/passes/reshard.h"

#include <algorithm>

#include "gspmd/base/error.h"
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

Sharding in_order(const Sharding& s, DeviceOrder order) {
  std::vector<Digits> dims;
  for (int64_t d = 0; d < s.rank(); ++d) dims.push_back(s.dim(d));
  return Sharding::tiled(order, std::move(dims));
}

void join(ReshardPlan& plan, ReshardPlan more) {
  for (ReshardStep& step : more.steps) plan.steps.push_back(std::move(step));
  plan.cost.bytes += more.cost.bytes;
  plan.cost.steps += more.cost.steps;
  plan.full_rematerialization |= more.full_rematerialization;
}

bool splits(const Sharding& s) { return s.num_tiles() > 1; }

ReshardPlan plan_in_one_order(const Shape& global, const Sharding& from, const Sharding& to) {
  const int64_t rank = global.rank();
  std::vector<Digits> lists = digit_lists(from, rank);
  for (Digits& list : digit_lists(to, rank)) lists.push_back(std::move(list));
  const DeviceOrder order = from.order() ? from.order() : to.order();
  const std::optional<Digits> atoms = common_atoms(lists);
  if (!atoms) {
    // Digits that cut the rank at places which do not divide each other: through the whole value.
    const Sharding whole = Sharding::replicated();
    ReshardPlan plan = plan_in_one_order(global, from, whole);
    join(plan, plan_in_one_order(global, whole, to));
    plan.full_rematerialization = splits(from) && splits(to);
    return plan;
  }
  const Combiner combiner = from.unreduced().empty() ? Combiner::sum : from.unreduced()[0].combiner;
  return ReshardSearch(global, order, *atoms, layout_of(from, rank, *atoms), layout_of(to, rank, *atoms),
                       combiner)
      .run();
}

ReshardPlan permute_order(const Shape& global, const Sharding& from, const Sharding& to) {
  ReshardPlan plan;
  if (equivalent(from, to)) return plan;
  plan.steps.push_back({ReshardKind::collective_permute, -1, -1, {}, from, to});
  plan.cost = {local_shape(global, from).bytes(), 1};
  return plan;
}

void check_unreduced(const Sharding& from, const Sharding& to) {
  for (const Unreduced& u : to.unreduced()) {
    bool found = false;
    for (const Unreduced& have : from.unreduced())
      found = found || (have.combiner == u.combiner && intersection(have.digits, u.digits) == u.digits);
    if (!found)
      user_error("reshard: {} is unreduced where {} is not; a whole value has no partial sums",
                 to_string(to), to_string(from));
  }
}

}  // namespace

ReshardPlan plan_reshard(const Shape& global, const Sharding& from, const Sharding& to) {
  if (!from.is_tiled() || !to.is_tiled())
    user_error("reshard: from {} to {}: only tiled and replicated shardings can be resharded",
               to_string(from), to_string(to));
  if (equivalent(from, to)) return {};
  check_unreduced(from, to);
  if (!from.order() || !to.order() || from.order() == to.order())
    return plan_in_one_order(global, from, to);
  if (from.order()->count != to.order()->count)
    user_error("reshard: {} is over {} devices and {} over {}; reshard within one set of devices",
               to_string(from), from.order()->count, to_string(to), to.order()->count);
  // Two device orders: move whole shards from one order to the other, either last or first.
  const Sharding last = in_order(to, from.order());
  ReshardPlan a = plan_in_one_order(global, from, last);
  join(a, permute_order(global, last, to));
  if (!from.unreduced().empty()) return a;
  const Sharding first = in_order(from, to.order());
  ReshardPlan b = permute_order(global, from, first);
  join(b, plan_in_one_order(global, first, to));
  return b.cost < a.cost ? b : a;
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
    for (const Digit& digit : step.digits) text += fmt::format(" ({},{})", digit.size, digit.stride);
  }
  return text;
}

}  // namespace gspmd
