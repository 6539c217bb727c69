#include "moves/table_reshard.h"

#include <optional>

#include "moves/reshard_detour.h"

namespace gspmd {
namespace {

Digits all_digits(const Sharding& s, int64_t rank) {
  Digits all;
  for (int64_t d = 0; d < rank; ++d) {
    const Digits& digits = s.dim(d);
    all.insert(all.end(), digits.begin(), digits.end());
  }
  return all;
}

bool moves_between_dims(const Sharding& from, const Sharding& to, int64_t rank) {
  for (int64_t d = 0; d < rank; ++d)
    for (int64_t e = 0; e < rank; ++e)
      if (d != e && !disjoint(from.dim(d), to.dim(e))) return true;
  return false;
}

// `to`, and what `from` has beyond it on the largest dim that `to` leaves whole; nullopt where
// there is nothing that both moves and is gathered.
std::optional<Sharding> stopover(const Shape& global, const Sharding& from, const Sharding& to) {
  const int64_t rank = global.rank();
  const bool plain = from.is_tiled() && to.is_tiled() && from.order() &&
                     from.order() == to.order() && from.unreduced().empty() &&
                     to.unreduced().empty() && from.manual_digits() == to.manual_digits();
  if (!plain || !moves_between_dims(from, to, rank)) return std::nullopt;
  const Digits have = all_digits(from, rank), want = all_digits(to, rank);
  const std::optional<Digits> lost = difference(have, want), gained = difference(want, have);
  if (!lost || lost->empty() || !gained || !gained->empty()) return std::nullopt;
  int64_t whole = -1;
  for (int64_t d = 0; d < rank; ++d) {
    if (from.dim(d).empty() || !to.dim(d).empty()) continue;
    if (whole < 0 || global.dims[size_t(d)] > global.dims[size_t(whole)]) whole = d;
  }
  if (whole < 0) return std::nullopt;
  return to.with_dim(whole, *lost, rank, to.order());
}

}  // namespace

ReshardPlan plan_table_reshard(const Shape& global, const Sharding& from, const Sharding& to,
                               int64_t num_devices) {
  ReshardPlan plan = plan_reshard(global, from, to, num_devices);
  const std::optional<Sharding> stop = stopover(global, from, to);
  if (!stop) return plan;
  ReshardPlan both = joined(plan_reshard(global, from, *stop, num_devices),
                            plan_reshard(global, *stop, to, num_devices));
  return both.cost.bytes <= plan.cost.bytes + plan.cost.bytes / 4 ? both : plan;
}

}  // namespace gspmd
