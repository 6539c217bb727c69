// Steps from one device order, or set of devices, to another.

#include <algorithm>
#include <set>

#include "gspmd/base/error.h"
#include "moves/price.h"
#include "moves/reshard_search.h"

namespace gspmd {
namespace {

// Whole shards for the devices that lack theirs.
struct Needs {
  int64_t rounds = 0;    // of permutes: most devices in need for each holder of a shard
  bool in_place = true;  // nobody needs anything
  bool apart = true;     // nobody both sends and needs
  std::vector<std::vector<int64_t>> groups;  // of a broadcast: a sender and those that it serves
};

Needs needs_of(const std::vector<HeldBox>& have, const std::vector<HeldBox>& want) {
  std::map<Dims, std::vector<int64_t>> holders, needy;
  for (const HeldBox& h : have) holders[h.box.start].push_back(h.device);
  Needs needs;
  std::set<int64_t> in_need;
  for (const HeldBox& w : want) {
    if (std::find(w.box.size.begin(), w.box.size.end(), 0) != w.box.size.end()) continue;
    const auto at = holders.find(w.box.start);
    if (at == holders.end()) internal_error("reshard: nobody holds a shard that is wanted");
    if (std::find(at->second.begin(), at->second.end(), w.device) != at->second.end()) continue;
    needy[w.box.start].push_back(w.device);
    in_need.insert(w.device);
  }
  for (const auto& [start, devices] : needy) {
    const std::vector<int64_t>& from = holders.at(start);
    const size_t each = static_cast<size_t>(ceil_div(std::ssize(devices), std::ssize(from)));
    needs.rounds = std::max(needs.rounds, static_cast<int64_t>(each));
    for (size_t i = 0; i < devices.size(); ++i) {
      if (i % each == 0) {
        needs.apart = needs.apart && in_need.count(from[i / each]) == 0;
        needs.groups.push_back({from[i / each]});
      }
      needs.groups.back().push_back(devices[i]);
    }
  }
  needs.in_place = needy.empty();
  return needs;
}

// Lists of devices are made for these only.
void check_listed(int64_t num_devices) {
  constexpr int64_t kMost = int64_t(1) << 17;
  if (num_devices > kMost)
    user_error(
        "reshard: values on some of {} devices are moved from one to another for up to {} devices; "
        "put them on all devices",
        num_devices, kMost);
}

}  // namespace

DeviceOrder covering_order(DeviceOrder order, int64_t num_devices) {
  if (order->count == num_devices) return order;
  if (num_devices % order->count != 0) return nullptr;
  if (order->is_iota()) return iota_order(num_devices);
  check_listed(num_devices);
  static thread_local std::map<std::pair<DeviceOrder, int64_t>, DeviceOrder> known;
  DeviceOrder& covering = known[{order, num_devices}];
  if (covering != nullptr) return covering;
  std::vector<int64_t> devices = order->devices();
  for (int64_t device = 0; device < num_devices; ++device)
    if (order->rank(device) < 0) devices.push_back(device);
  return covering = list_order(std::move(devices));
}

Dims ReshardSearch::local_dims(const AtomLayout& s) const {
  Dims dims;
  for (size_t d = 0; d < s.dims.size(); ++d)
    dims.push_back(ceil_div(p_.global.dims[d], tiles(s.dims[d], s.ordered)));
  return dims;
}

ReshardSearch::Boxes ReshardSearch::boxes(const AtomLayout& s) const {
  const auto known = boxes_.find(s);
  if (known != boxes_.end()) return known->second;
  const DeviceOrder order = p_.orders[s.ordered];
  const Dims shard = local_dims(s);
  std::vector<Digits> lists;
  for (const auto& dim : s.dims) lists.push_back(digits(dim, s.ordered));
  std::vector<HeldBox> result;
  for (int64_t rank = 0; rank < order->count; ++rank) {
    Box box{shard, shard};
    for (size_t d = 0; d < shard.size(); ++d) {
      const int64_t n = p_.global.dims[d];
      box.start[d] = std::min(n, saturating_multiply(tile_index(lists[d], rank), shard[d]));
      box.size[d] = std::min(shard[d], n - box.start[d]);
    }
    result.push_back({order->device(rank), std::move(box)});
  }
  std::sort(result.begin(), result.end(),
            [](const HeldBox& a, const HeldBox& b) { return a.device < b.device; });
  Boxes shared = std::make_shared<const std::vector<HeldBox>>(std::move(result));
  if (is_few()) boxes_.emplace(s, shared);
  return shared;
}

int64_t ReshardSearch::bytes_needed(const AtomLayout& before, const AtomLayout& after) const {
  return saturating_multiply(elements_needed(*boxes(before), *boxes(after)),
                             dtype_size(p_.global.dtype));
}

int64_t ReshardSearch::rounds_needed(const AtomLayout& before, const AtomLayout& after,
                                     int64_t bytes) const {
  const int64_t most = std::min(local_bytes(before), local_bytes(after));
  return bytes == 0 || most == 0 ? 0 : ceil_div(bytes, most);
}

std::shared_ptr<const PieceTransfer> ReshardSearch::pieces(const AtomLayout& before,
                                                           const AtomLayout& after) const {
  return std::make_shared<PieceTransfer>(
      plan_pieces(*boxes(before), *boxes(after), local_dims(before), local_dims(after)));
}

void ReshardSearch::count_pieces(const AtomLayout& before, Move& move) const {
  set_pieces(before, move, pieces(before, move.after));
}

void ReshardSearch::relay_pieces(const AtomLayout& before, Move& move, int64_t below) const {
  const int64_t size = dtype_size(p_.global.dtype);
  const int64_t most = std::min(move.pieces->elements, below / size + (below % size != 0 ? 1 : 0));
  if (auto relays = plan_relays(*boxes(before), *boxes(move.after), local_dims(before),
                                local_dims(move.after), most))
    set_pieces(before, move, std::make_shared<PieceTransfer>(std::move(*relays)));
}

void ReshardSearch::set_pieces(const AtomLayout& before, Move& move,
                               std::shared_ptr<const PieceTransfer> transfer) const {
  move.counted = true;
  move.bytes = saturating_multiply(transfer->elements, dtype_size(p_.global.dtype));
  const bool same = transfer->in_place && local_dims(before) == local_dims(move.after);
  move.steps = same ? 0 : std::max<int64_t>(1, std::ssize(transfer->rounds));
  move.pieces = std::move(transfer);
}

// Every device that is to have the whole value and has it not gets it from the first that has.
ReshardSearch::Move ReshardSearch::whole_crossing(const AtomLayout& s,
                                                  const AtomLayout& after) const {
  const DeviceOrder a = p_.orders[0], b = p_.orders[1];
  std::vector<int64_t> group{a->device(0)};
  if (a->count < p_.num_devices) {
    check_listed(b->count);
    for (int64_t rank = 0; rank < b->count; ++rank)
      if (a->rank(b->device(rank)) < 0) group.push_back(b->device(rank));
  }
  if (group.size() == 1) {
    Move m{ReshardKind::collective_broadcast, -1, -1, {}, after, 0};
    m.steps = 0;
    return m;
  }
  return broadcast(s, after, {std::move(group)});
}

// The first of each group sends its whole shard to the others.
ReshardSearch::Move ReshardSearch::broadcast(const AtomLayout& s, const AtomLayout& after,
                                             std::vector<std::vector<int64_t>> groups) const {
  const int64_t bytes = local_bytes(s);
  const auto kind = ReshardKind::collective_broadcast;
  Move m{kind, -1, -1, {}, after, sent_bytes(kind, bytes, bytes, 1)};
  auto transfer = std::make_shared<PieceTransfer>();
  transfer->have = *boxes(s);
  transfer->want = *boxes(after);
  transfer->groups = std::move(groups);
  m.pieces = std::move(transfer);
  return m;
}

// Whole shards, after the same number of tiles in each dim.
std::optional<ReshardSearch::Move> ReshardSearch::crossing(const AtomLayout& s,
                                                           const AtomLayout& after) const {
  if (is_whole(s)) return whole_crossing(s, after);
  Move m = permute(s, after);
  const int64_t count = p_.orders[0]->count;
  const bool equal_sets = count == p_.orders[1]->count;
  if (count + p_.orders[1]->count > kManyDevices || p_.num_devices > kMostListed)
    return equal_sets ? std::optional(m) : std::nullopt;
  Needs needs = needs_of(*boxes(s), *boxes(after));
  if (needs.in_place) {
    m.bytes = m.steps = 0;
    return m;
  }
  if (equal_sets) return m;
  if (needs.rounds == 1 || !needs.apart) {
    if (!is_few() && s != p_.from && after != p_.to) return std::nullopt;
    m.kind = ReshardKind::piecewise_permutes;
    m.counted = false;
    return m;
  }
  return broadcast(s, after, std::move(needs.groups));
}

void ReshardSearch::crossings(const AtomLayout& s, std::vector<Move>& out) const {
  AtomLayout after{std::vector<Atoms>(s.dims.size()), {}, 1};
  permutes(s, after, 0, out);
}

// All layouts over the atoms of layout.ordered that are `layout` or finer.
void ReshardSearch::place(AtomLayout& layout, std::vector<AtomLayout>& out) const {
  constexpr size_t kMost = 400;
  if (out.size() >= kMost) return;
  out.push_back(layout);
  for (size_t d = 0; d < layout.dims.size(); ++d)
    for (int atom = 0; atom < static_cast<int>(atoms_of(layout).size()); ++atom) {
      if (!is_free(layout, atom)) continue;
      layout.dims[d].push_back(atom);
      if (std::find(out.begin(), out.end(), layout) == out.end()) place(layout, out);
      layout.dims[d].pop_back();
    }
}

std::vector<AtomLayout> ReshardSearch::all_layouts(int ordered) const {
  AtomLayout start{std::vector<Atoms>(p_.from.dims.size()), {}, ordered};
  std::vector<AtomLayout> all;
  place(start, all);
  return all;
}

// Whether s is the source, or parts of its shards.
bool ReshardSearch::refines_source(const AtomLayout& s) const {
  for (size_t d = 0; d < s.dims.size(); ++d) {
    const Atoms& coarse = p_.from.dims[d];
    if (coarse.size() > s.dims[d].size() ||
        !std::equal(coarse.begin(), coarse.end(), s.dims[d].begin()))
      return false;
  }
  return s.ordered == 0;
}

// Straight to the target, from anywhere; and from the source or parts of it to anywhere in either
// order, or to all of it where no groups can gather it.
void ReshardSearch::piecewise(const AtomLayout& s, std::vector<Move>& out) const {
  if (s.ordered != 0 || s == p_.to || p_.num_devices > kMostListed) return;
  const auto add = [&](AtomLayout after) {
    Move m{ReshardKind::piecewise_permutes, -1, -1, {}, std::move(after), 0};
    m.counted = false;
    out.push_back(std::move(m));
  };
  const int64_t devices = p_.orders[0]->count * p_.orders[1]->count;
  if (is_few() || (s == p_.from && devices <= kManyDevices)) add(p_.to);
  if (s == p_.from && !p_.has_groups(0) && p_.two_orders())  // gathered, one by one
    add({std::vector<Atoms>(s.dims.size()), {}, 0});
  if (!is_few() || !refines_source(s)) return;
  for (int ordered = 0; ordered <= p_.to.ordered; ++ordered)
    for (AtomLayout& layout : all_layouts(ordered))
      if (layout != p_.to && layout != s) add(std::move(layout));
}

std::optional<ReshardPlan> ReshardSearch::pieces_below(int64_t bytes) const {
  if (!is_few() || !p_.in_pieces || !p_.from.unreduced.empty() || !p_.manual.empty())
    return std::nullopt;
  if (is_whole(p_.to)) return std::nullopt;  // gathers and broadcasts are few steps
  const int64_t needed = bytes_needed(p_.from, p_.to);
  if (needed >= bytes) return std::nullopt;
  std::vector<Move> moves{{ReshardKind::piecewise_permutes, -1, -1, {}, p_.to, 0}};
  count_pieces(p_.from, moves.back());
  if (moves.back().bytes > needed) relay_pieces(p_.from, moves.back(), INT64_MAX);
  if (moves.back().bytes >= bytes || moves.back().steps > kMostRounds) return std::nullopt;
  return plan_of(moves);
}

// Where a dim has fewer elements than tiles, empty shards hide that nobody lacks anything: each
// device cuts what it is to have out of what it has. From anywhere to anywhere, so that no detour
// is a cheaper way.
void ReshardSearch::cuts(const AtomLayout& s, std::vector<Move>& out) const {
  if (cuttable_.empty()) {
    std::vector<AtomLayout> all = all_layouts(s.ordered);
    if (std::find(all.begin(), all.end(), p_.to) == all.end()) all.push_back(p_.to);
    for (AtomLayout& layout : all) {
      Boxes held = boxes(layout);
      cuttable_.emplace_back(std::move(layout), std::move(held));
    }
  }
  const Boxes have = boxes(s);
  for (const auto& [after, want] : cuttable_)
    if (after != s && lacks_nothing(*have, *want))
      out.push_back({ReshardKind::piecewise_permutes, -1, -1, {}, after, 0});
}

ReshardPlan ReshardSearch::without_groups() const {
  constexpr int64_t kMost = 256;
  const int64_t count = p_.orders[0]->count;
  check_listed(p_.num_devices);
  if (count > kMost || !p_.from.unreduced.empty())
    user_error(
        "reshard: values on {} of {} devices are moved device by device, which is done for up to "
        "{}; use a number of devices that divides {}",
        count, p_.num_devices, kMost, p_.num_devices);
  std::vector<Move> moves;
  AtomLayout after = p_.to;
  if (p_.two_orders()) after = {std::vector<Atoms>(p_.from.dims.size()), {}, 0};
  if (after != p_.from) {
    moves.push_back({ReshardKind::piecewise_permutes, -1, -1, {}, after, 0});
    count_pieces(p_.from, moves.back());
  }
  if (p_.two_orders()) slice_whole(after, moves);
  return plan_of(moves);
}

}  // namespace gspmd
