#include "moves/reshard_subset.h"

#include <algorithm>
#include <map>

#include "mesh/digit_tools.h"
#include "moves/price.h"
#include "moves/reshard_detour.h"

namespace gspmd {
namespace {

// All coordinates along the digits, as device ids: the set's own first.
std::vector<int64_t> copy_offsets(const Digits& out, int64_t own) {
  std::vector<int64_t> offsets = ranks_in_order(out);
  const auto at = std::find(offsets.begin(), offsets.end(), own);
  std::rotate(offsets.begin(), at, at + 1);
  return offsets;
}

std::optional<DeviceSubset> find_subset(DeviceOrder set, int64_t num_devices) {
  constexpr int64_t kMostListed = int64_t(1) << 17;
  if (!set->counts() || set->count >= num_devices || set->last() >= num_devices)
    return std::nullopt;
  Digits inside;  // of the device ids
  for (const DeviceOrderValue::Place& place : set->places) {
    inside.push_back({place.size, place.step});
    if (set->least / place.step % place.size != 0) return std::nullopt;
  }
  if (!fits(inside, num_devices) || num_devices % set->count != 0) return std::nullopt;
  const Digits out = complement(inside, num_devices);
  DeviceSubset subset;
  subset.copies = {num_devices / set->count, set->count};
  std::vector<DeviceStep> steps;
  int64_t own = 0;  // the part of an id of the set that leads out of it
  for (const Digit& digit : out) {
    steps.push_back({digit.size, digit.stride});
    own += set->least / digit.stride % digit.size * digit.stride;
  }
  steps.insert(steps.end(), set->steps.begin(), set->steps.end());
  subset.all = stepped_order(set->first - own, steps);
  if (own == 0) {
    subset.from_set = subset.all;
  } else {
    if (num_devices > kMostListed) return std::nullopt;
    std::vector<int64_t> devices;
    for (const int64_t offset : copy_offsets(out, own))
      for (int64_t rank = 0; rank < set->count; ++rank)
        devices.push_back(set->device(rank) - own + offset);
    subset.from_set = list_order(std::move(devices));
  }
  for (const int64_t offset : copy_offsets(out, own)) subset.distances.push_back(offset - own);
  return subset;
}

Sharding over(DeviceOrder order, const Sharding& s, int64_t rank) {
  std::vector<Digits> dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(s.dim(d));
  return Sharding::tiled(order, std::move(dims));
}

// The source as it is, cut by what it leaves of the set's digits along some dim, or as the target
// cuts.
std::vector<Sharding> finer_sources(const Shape& global, const Sharding& from, DeviceOrder set) {
  Digits used;
  for (int64_t d = 0; d < global.rank(); ++d)
    used.insert(used.end(), from.dim(d).begin(), from.dim(d).end());
  const Digits left = complement(used, set->count);
  std::vector<Sharding> all{from};
  if (left.empty()) return all;
  for (int64_t d = 0; d < global.rank(); ++d)
    if (global.dims[static_cast<size_t>(d)] >= from.tiles(d) * tile_count(left))
      all.push_back(from.with_dim(d, concat(from.dim(d), left), global.rank(), set));
  return all;
}

bool only_slices(const ReshardPlan& plan) {
  return std::all_of(plan.steps.begin(), plan.steps.end(), [](const ReshardStep& step) {
    return step.kind == ReshardKind::dynamic_slice && !step.realigned;
  });
}

class FromSubset {
 public:
  FromSubset(const Shape& global, const Sharding& to, DeviceOrder set, const DeviceSubset& subset,
             int64_t num_devices)
      : global_(global), to_(to), set_(set), subset_(subset), num_devices_(num_devices) {}

  ReshardPlan run(const Sharding& from) {
    for (const Sharding& source : finer_sources(global_, from, set_)) {
      ReshardPlan cut = plan_reshard(global_, from, source, num_devices_);
      const Sharding everywhere = over(subset_.all, source, global_.rank());
      const ReshardPlan rest = plan_reshard(global_, everywhere, to_, num_devices_);
      keep(joined(joined(cut, broadcast(source)), rest));
      if (only_slices(rest) && to_.order() && to_.order()->is_iota() && few_copies())
        keep(joined(cut, spread(source)));
    }
    return std::move(*best_);
  }

 private:
  static constexpr int64_t kMostPermutes = 16;
  bool few_copies() const { return subset_.copies.size <= kMostPermutes; }

  void keep(ReshardPlan plan) {
    if (!best_ || plan.cost < best_->cost) best_ = std::move(plan);
  }

  ReshardPlan one_step(const Sharding& before, const Sharding& after, int64_t times) const {
    const int64_t bytes = local_shape(global_, after).bytes();
    const auto kind = ReshardKind::collective_broadcast;
    const Sharding held = before.is_replicated() ? Sharding::maximal(set_->device(0)) : before;
    ReshardPlan plan;
    plan.steps.push_back({kind, -1, -1, {subset_.copies}, held, after});
    plan.cost = {saturating_multiply(times, sent_bytes(kind, bytes, bytes, 1)), times};
    return plan;
  }
  ReshardPlan broadcast(const Sharding& source) const {
    return one_step(source, over(subset_.from_set, source, global_.rank()), 1);
  }
  ReshardPlan spread(const Sharding& source) const {
    return one_step(source, to_, subset_.copies.size - 1);
  }

  const Shape& global_;
  const Sharding& to_;
  DeviceOrder set_;
  const DeviceSubset& subset_;
  int64_t num_devices_;
  std::optional<ReshardPlan> best_;
};

}  // namespace

std::optional<DeviceSubset> subset_of_all(DeviceOrder set, int64_t num_devices) {
  static thread_local std::map<std::pair<DeviceOrder, int64_t>, std::optional<DeviceSubset>> known;
  const std::pair key(set, num_devices);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, find_subset(set, num_devices)).first->second;
}

std::optional<ReshardPlan> plan_over_all(const Shape& global, const Sharding& from,
                                         const Sharding& to, DeviceOrder from_devices,
                                         DeviceOrder to_devices, int64_t num_devices) {
  for (const Sharding* s : {&from, &to})
    if (!s->unreduced().empty() || !s->manual_digits().empty()) return std::nullopt;
  if (to_devices->count < num_devices) {
    if (!to.is_tiled()) return std::nullopt;
    const auto subset = subset_of_all(to_devices, num_devices);
    if (!subset) return std::nullopt;
    return plan_reshard(global, from, over(subset->all, to, global.rank()), num_devices);
  }
  const auto subset = subset_of_all(from_devices, num_devices);
  if (!subset) return std::nullopt;
  const Sharding source = from.is_tiled() ? from : Sharding::replicated();
  return FromSubset(global, to, from_devices, *subset, num_devices).run(source);
}

}  // namespace gspmd
