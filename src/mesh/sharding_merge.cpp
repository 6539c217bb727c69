#include <algorithm>
#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"
#include "mesh/device_terms.h"
#include "mesh/digit_tools.h"
#include "mesh/layout.h"

namespace gspmd {
namespace {

enum class DimRule : uint8_t { equal, prefix };

// Same order: the digits that refine both, nullptr where there are none.
const Digits* finer(const Digits& a, const Digits& b, DimRule rule) {
  if (b.empty() || a == b) return &a;
  if (a.empty()) return &b;
  if (rule == DimRule::equal) return nullptr;
  if (is_prefix(a, b)) return &b;
  return is_prefix(b, a) ? &a : nullptr;
}

std::shared_ptr<const Mesh> mesh_for(DeviceOrder order, const Sharding& a, const Sharding& b) {
  for (const Sharding* s : {&a, &b})
    if (s->mesh() && (!order || s->mesh()->order() == order)) return s->mesh();
  return nullptr;
}

// Digits of `a` and `b` joined per combiner; what both hold, in any order, is taken once.
std::vector<Unreduced> joined_unreduced(const Sharding& a, const Sharding& b) {
  std::vector<Unreduced> joined = a.unreduced();
  for (const Unreduced& u : b.unreduced())
    if (as_set(unreduced_digits(a, u.combiner)) != as_set(u.digits)) joined.push_back(u);
  return joined;
}

// The coordinates of what both are unreduced over; members of a group may count differently.
std::optional<Coordinates> unreduced_by_device(const std::vector<int64_t>& devices,
                                               const Sharding& a, const Sharding& b,
                                               Combiner combiner) {
  const Digits& x = unreduced_digits(a, combiner);
  const Digits& y = unreduced_digits(b, combiner);
  if (x.empty()) return coordinates(devices, b.order(), y);
  if (!y.empty() && !same_groups(devices, a.order(), x, b.order(), y)) return std::nullopt;
  return coordinates(devices, a.order(), x);
}

// What arithmetic can say of a merge: a result, or that there is none.
struct ByStep {
  bool known = false;
  std::optional<Sharding> merged;
};

// The dims of both in digits over `order`, where it has them; they may read the same.
ByStep placed_over(DeviceOrder order, const std::vector<DeviceFunction>& dims) {
  std::vector<Digits> digits;
  for (const DeviceFunction& dim : dims) {
    std::optional<Digits> found = digits_of(dim, order);
    if (!found) return {};
    digits.push_back(std::move(*found));
  }
  if (!fits(all_digits(digits, {}, {}), order->count))
    return {common_atoms(digits).has_value(), std::nullopt};
  return {true, Sharding::tiled(order, std::move(digits))};
}

// Of the plain cases in which two orders count by steps: the dims of one are those of the other, or
// whole there.
ByStep merge_by_steps(const Sharding& a, const Sharding& b, int64_t rank) {
  for (const Sharding* s : {&a, &b})
    if (!s->manual_digits().empty() || !s->unreduced().empty()) return {};
  std::vector<DeviceFunction> dims;
  for (int64_t i = 0; i < rank; ++i) {
    const auto x = tile_function(a.order(), a.dim(i)), y = tile_function(b.order(), b.dim(i));
    if (!x || !y) return {};
    if (!a.dim(i).empty() && !b.dim(i).empty() && *x != *y) return {true, std::nullopt};
    dims.push_back(a.dim(i).empty() ? *y : *x);
  }
  for (const DeviceOrder order : {a.order(), b.order()})
    if (ByStep placed = placed_over(order, dims); placed.known) return placed;
  return {};
}

// False where a look at some devices shows that a dim of one does not refine that of the other.
bool may_merge(const Sharding& a, const Sharding& b, int64_t rank, DimRule rule) {
  const std::vector<int64_t> telling = telling_ranks(a, b);
  for (int64_t i = 0; i < rank; ++i)
    for (const int64_t r : telling) {
      const int64_t there = b.order()->rank(a.order()->device(r));
      if (there < 0) return false;
      Coordinates x{a.tiles(i), {tile_index(a.dim(i), r)}};
      Coordinates y{b.tiles(i), {tile_index(b.dim(i), there)}};
      if (!finer_of(std::move(x), std::move(y), rule == DimRule::prefix)) return false;
    }
  return true;
}

// Two shardings over the same devices whose digits have nothing in common: device by device. The
// result is a table over devices, so it is refused where no table can exist yet.
std::optional<Sharding> merge_by_device(const Sharding& a, const Sharding& b, int64_t rank,
                                        DimRule rule) {
  constexpr int64_t kMaxTable = int64_t{1} << 20;
  if (!may_merge(a, b, rank, rule) || !same_devices(a.order(), b.order())) return std::nullopt;
  if (rule == DimRule::equal)
    if (ByStep by_step = merge_by_steps(a, b, rank); by_step.known) return by_step.merged;
  if (a.order()->count > kMaxTable) return std::nullopt;
  const std::vector<int64_t> devices = sorted_devices(a.order());
  DeviceTiles tiles(devices.size());
  for (int64_t i = 0; i < rank; ++i) {
    Coordinates x = coordinates(devices, a.order(), a.dim(i));
    Coordinates y = coordinates(devices, b.order(), b.dim(i));
    if (!tiles.add(finer_of(std::move(x), std::move(y), rule == DimRule::prefix)))
      return std::nullopt;
  }
  const Coordinates manual = coordinates(devices, a.order(), a.manual_digits());
  if (!(manual == coordinates(devices, b.order(), b.manual_digits())) || !tiles.add(manual))
    return std::nullopt;
  std::vector<Combiner> combiners;
  for (int c = 0; c <= static_cast<int>(Combiner::logical_or); ++c) {
    const auto combiner = static_cast<Combiner>(c);
    const std::optional<Coordinates> both = unreduced_by_device(devices, a, b, combiner);
    if (both && both->count == 1) continue;
    if (!tiles.add(both)) return std::nullopt;
    combiners.push_back(combiner);
  }
  std::optional<PlacedDigits> placed = tiles.place(devices, {a.order(), b.order()});
  if (!placed) return std::nullopt;
  std::vector<Digits>& found = placed->digits;
  std::vector<Unreduced> unreduced;
  for (size_t i = 0; i < combiners.size(); ++i)
    unreduced.push_back({found[static_cast<size_t>(rank) + 1 + i], combiners[i]});
  Digits manual_digits = found[static_cast<size_t>(rank)];
  found.resize(static_cast<size_t>(rank));
  return Sharding::tiled(placed->order, std::move(found), std::move(manual_digits),
                         std::move(unreduced));
}

std::optional<Sharding> merge_digits(const Sharding& a, const Sharding& b, int64_t rank,
                                     DimRule rule) {
  std::vector<Digits> dims;
  for (int64_t i = 0; i < rank; ++i) {
    const Digits* digits = finer(a.dim(i), b.dim(i), rule);
    if (!digits) return std::nullopt;
    dims.push_back(*digits);
  }
  if (a.manual_digits() != b.manual_digits()) return std::nullopt;
  std::vector<Unreduced> unreduced = joined_unreduced(a, b);
  const Digits all = all_digits(dims, a.manual_digits(), unreduced);
  if (fits(all, a.order()->count))
    return Sharding::tiled(a.order(), std::move(dims), a.manual_digits(), std::move(unreduced));
  // Digits that share an atom conflict. Digits without a common chain may still tile evenly, as
  // rank % 2 and rank % 3 do over 6 devices.
  if (common_atoms(std::span(&all, 1))) return std::nullopt;
  return merge_by_device(a, b, rank, rule);
}

Sharding closed(const Sharding& s) { return s.with_open({}).with_shard_group(0, false); }

// `{unreduced}` takes the devices of the other side: all of them that its dims leave.
Sharding with_devices_of(const Sharding& everywhere, const Sharding& other) {
  std::vector<Unreduced> unreduced = everywhere.unreduced();
  unreduced[0].digits = complement({}, other.order()->count);
  return Sharding::tiled(other.order(), {}, {}, std::move(unreduced));
}

std::optional<Sharding> merge_with(const Sharding& a, const Sharding& b, int64_t rank,
                                   DimRule rule);

std::optional<Sharding> merge_tuples(const Sharding& a, const Sharding& b, int64_t rank,
                                     DimRule rule) {
  if (a.elements().size() != b.elements().size()) return std::nullopt;
  std::vector<Sharding> elements;
  for (size_t i = 0; i < a.elements().size(); ++i) {
    std::optional<Sharding> element = merge_with(a.elements()[i], b.elements()[i], rank, rule);
    if (!element) return std::nullopt;
    elements.push_back(std::move(*element));
  }
  return Sharding::tuple(std::move(elements));
}

std::optional<Sharding> merge_with(const Sharding& a, const Sharding& b, int64_t rank,
                                   DimRule rule) {
  if (a.kind() == ShardingKind::unknown) return closed(b);
  if (b.kind() == ShardingKind::unknown) return closed(a);
  if (a.kind() != b.kind()) return std::nullopt;
  if (a.is_tuple()) return merge_tuples(a, b, rank, rule);
  if (!a.is_tiled()) return a.device() == b.device() ? std::optional(closed(a)) : std::nullopt;
  if (a.is_replicated()) return closed(b.mesh() ? b : b.with_mesh(mesh_for(b.order(), a, b)));
  if (b.is_replicated()) return closed(a.mesh() ? a : a.with_mesh(mesh_for(a.order(), a, b)));
  if (a.is_unreduced_everywhere() && b.is_unreduced_everywhere())
    return a.unreduced() == b.unreduced() ? std::optional(closed(a)) : std::nullopt;
  rank = std::max({rank, a.rank(), b.rank()});
  std::optional<Sharding> merged;
  if (a.is_unreduced_everywhere())
    merged = merge_digits(with_devices_of(a, b), b, rank, rule);
  else if (b.is_unreduced_everywhere())
    merged = merge_digits(a, with_devices_of(b, a), rank, rule);
  else if (a.order() == b.order())
    merged = merge_digits(a, b, rank, rule);
  else
    merged = merge_by_device(a, b, rank, rule);
  if (!merged) return std::nullopt;
  return merged->with_mesh(mesh_for(merged->order(), a, b));
}

}  // namespace

std::optional<Sharding> merge(const Sharding& a, const Sharding& b, int64_t rank) {
  return merge_with(a, b, rank, DimRule::equal);
}

std::optional<Sharding> merge_by_prefix(const Sharding& a, const Sharding& b, int64_t rank) {
  return merge_with(a, b, rank, DimRule::prefix);
}

}  // namespace gspmd
