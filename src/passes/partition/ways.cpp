// Which of the things that a device has of a value a layout of it is made from.

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/emission/factor_sharding.h"
#include "ops/emission/index.h"
#include "passes/partition/some_devices.h"
#include "passes/partition/spmd_partitioner.h"

namespace gspmd {
namespace {

// How far back a value is looked for: through copies of copies, and what they are transposes of.
constexpr int kMostOrigins = 4;
constexpr int kMostBack = 12;  // of operands that say whether elements are alike

// Whether each element of the result is one of the only operand, at a place that its own place
// says dim by dim: copies, transposes, broadcasts.
bool rearranges(const Node& node) {
  const OpInfo& op = node.op();
  if (!op.has(kDataMovement) || op.partition || op.on_part || !op.factors || !node.called.empty() ||
      node.operands().size() != 1 || node.shape.is_tuple)
    return false;
  const FactorRule rule = op.factors(node);
  return std::all_of(rule.factors.begin(), rule.factors.end(),
                     [](const Factor& f) { return f.kind == FactorKind::pass; });
}

bool is_partitioned_by_element(const Node& node) {
  const OpInfo& op = node.op();
  return op.has(kElementwise) && !op.has(kSideEffect) && !op.has(kCollective) && !op.partition &&
         op.factors && !node.shape.is_tuple && node.called.empty() && !node.operands().empty();
}

Sharding layout_of_operand(const Node& node, const Sharding& to) {
  const FactorRule rule = node.op().factors(node);
  return project(to.order(), rule.operands[0], factors_of(rule, rule.results[0], to));
}

int64_t bytes_between(const Shape& shape, const Sharding& from, const Sharding& to,
                      int64_t num_devices) {
  if (equivalent(from, to)) return 0;
  return plan_reshard(shape, from, to, num_devices).cost.bytes;
}

// The layout without the digits of these dims, whose number there is 1.
Sharding without(const Sharding& s, const std::vector<bool>& dims) {
  if (!s.order()) return s;
  std::vector<Digits> kept;
  for (size_t d = 0; d < dims.size(); ++d)
    kept.push_back(dims[d] ? Digits{} : s.dim(static_cast<int64_t>(d)));
  return Sharding::tiled(s.order(), std::move(kept));
}

}  // namespace

// Dims along which all elements are alike, as far as a few operands back say: those that a
// broadcast makes, through elementwise ops and rearrangements.
std::vector<bool> SpmdPartitioner::uniform_dims(const Node& node, int operands_back) {
  const auto known = uniform_.find(node.id());
  if (known != uniform_.end()) return known->second;
  std::vector<bool> uniform(node.dims().size(), false);
  if (operands_back > 0 && (is_partitioned_by_element(node) || rearranges(node))) {
    const FactorRule rule = node.op().factors(node);
    for (size_t d = 0; d < uniform.size(); ++d)
      uniform[d] = node.dims()[d] > 1 && rule.results[0][d] >= 0;
    for (size_t i = 0; i < node.operands().size(); ++i) {
      if (rule.operands[i].empty()) continue;
      const std::vector<bool> of_operand = uniform_dims(*node.operands()[i], operands_back - 1);
      for (size_t d = 0; d < uniform.size(); ++d)
        for (size_t e = 0; e < of_operand.size(); ++e)
          if (rule.operands[i][e] == rule.results[0][d] && !of_operand[e]) uniform[d] = false;
    }
  }
  return uniform_.emplace(node.id(), std::move(uniform)).first->second;
}

// Dims along which all elements are alike and which are cut without a tail: one element of each
// stands for all.
std::vector<bool> SpmdPartitioner::narrowed_dims(const Node& node, const Sharding& from) {
  std::vector<bool> dims = uniform_dims(node, kMostBack);
  for (size_t d = 0; d < dims.size(); ++d)
    if (node.dims()[d] % from.tiles(static_cast<int64_t>(d)) != 0) dims[d] = false;
  return dims;
}

SpmdPartitioner::Way SpmdPartitioner::cheapest_way(Node& global, const Sharding& to, bool backward,
                                                   int origins) {
  const Entry& entry = frame_->values.at(global.id());
  Way best{bytes_between(global.shape, entry.held.sharding, to, num_devices_), Source::layout,
           entry.held};
  for (const Layout& layout : entry.layouts) {
    if (layout.backward != backward || !is_plain(layout.sharding) || best.bytes == 0) continue;
    const int64_t bytes = bytes_between(global.shape, layout.sharding, to, num_devices_);
    if (bytes < best.bytes) best = {bytes, Source::layout, {layout.local, layout.sharding}};
  }
  if (best.bytes == 0) return best;
  std::vector<bool> narrowed = narrowed_dims(global, entry.held.sharding);
  if (is_partial(entry.held.sharding, num_devices_) || is_partial(to, num_devices_))
    narrowed.clear();  // one element of such a value is on some of the devices still
  if (std::find(narrowed.begin(), narrowed.end(), true) != narrowed.end()) {
    Shape one = global.shape;
    for (size_t d = 0; d < narrowed.size(); ++d)
      if (narrowed[d]) one.dims[d] = 1;
    const int64_t bytes = bytes_between(one, without(entry.held.sharding, narrowed),
                                        without(to, narrowed), num_devices_);
    if (bytes < best.bytes) best = {bytes, Source::one_of_alike, entry.held};
  }
  if (origins > 0 && rearranges(global)) {
    Node& operand = *global.operand(0);
    const auto found = frame_->values.find(operand.id());
    if (found != frame_->values.end() && is_plain(found->second.held.sharding)) {
      const Sharding layout = layout_of_operand(global, to);
      const Way way = cheapest_way(operand, layout, backward, origins - 1);
      if (way.bytes < best.bytes) best = {way.bytes, Source::origin, {nullptr, layout}};
    }
  }
  return best;
}

Node* SpmdPartitioner::from_one_of_alike(const Node& global, const Partitioned& value,
                                         const Sharding& to) {
  const std::vector<bool> narrowed = narrowed_dims(global, value.sharding);
  Shape one = global.shape;
  Node* x = value.local;
  Dims others, at;
  for (size_t d = 0; d < narrowed.size(); ++d)
    if (narrowed[d]) {
      one.dims[d] = 1;
      x = cut(x, static_cast<int64_t>(d), 0, 1);
    }
  x = reshard({x, without(value.sharding, narrowed)}, one, without(to, narrowed));
  for (size_t d = 0; d < narrowed.size(); ++d)
    if (!narrowed[d]) {
      others.push_back(x->dims()[d]);
      at.push_back(static_cast<int64_t>(d));
    }
  return hlo::broadcast(hlo::reshape(x, others), local_shape(global.shape, to).dims, at);
}

Node* SpmdPartitioner::from_origin(Node& global, const Sharding& to) {
  Node* const x = reshard(global.operand(0), layout_of_operand(global, to));
  return emit(global.opcode(), local_shape(global.shape, to), {x}, global.attrs);
}

// Whether every device can make all of a value without being sent anything, though the value is
// laid out split: it is a broadcast, or a copy of what every device has.
bool SpmdPartitioner::is_at_hand(Node& global) {
  const Sharding& completed = sharding(global);
  if (global.shape.is_tuple || !is_plain(completed) || completed.is_replicated()) return false;
  const Entry& entry = frame_->values.at(global.id());
  const std::vector<bool> alike = uniform_dims(global, kMostBack);
  if (!is_plain(entry.held.sharding) ||
      (entry.layouts.empty() && !rearranges(global) &&
       std::find(alike.begin(), alike.end(), true) == alike.end()))
    return false;
  const bool backward = reader_ && reader_->backward;
  return cheapest_way(global, Sharding::replicated(), backward, kMostOrigins).bytes == 0;
}

// Whether only pieces of a value are read, of dims that it was made whole along, and to bring these
// to where they are wanted sends less than to bring all of it there.
bool SpmdPartitioner::is_only_cut(const Node& node, const Sharding& made) {
  const Sharding completed = placed(node);
  if (node.is_root() || node.users().empty() || !is_plain(made) || !is_plain(completed) ||
      equivalent(made, completed))
    return false;
  const int64_t whole = bytes_between(node.shape, made, completed, num_devices_);
  int64_t moved = whole, of_pieces = 0;
  for (const Node* user : node.users()) {
    const OpInfo& op = user->op();
    if (!op.has(kDataMovement) || user->shape.is_tuple || user->operand(0) != &node ||
        user->rank() != node.rank() || !is_plain(placed(*user)))
      return false;
    for (size_t i = 1; i < user->operands().size(); ++i)
      if (user->operands()[i]->rank() > 0) return false;
    for (int64_t d = 0; d < node.rank(); ++d)
      if (user->dim(d) > node.dim(d) || (user->dim(d) < node.dim(d) && !made.dim(d).empty()))
        return false;
    moved =
        saturating_add(moved, bytes_between(user->shape, completed, placed(*user), num_devices_));
    of_pieces =
        saturating_add(of_pieces, bytes_between(user->shape, made, placed(*user), num_devices_));
  }
  return whole > 0 && of_pieces < moved;
}

// The value by the way that sends the fewest bytes; nullptr: what is held serves as well as any.
Node* SpmdPartitioner::by_cheapest_way(Node& global, const Sharding& to, bool backward) {
  const Entry& entry = frame_->values.at(global.id());
  if (global.shape.is_tuple || !is_plain(to) || !is_plain(entry.held.sharding)) return nullptr;
  const Way way = cheapest_way(global, to, backward, kMostOrigins);
  switch (way.source) {
    case Source::layout:
      if (way.value.local == entry.held.local) return nullptr;
      return reshard(way.value, global.shape, to);
    case Source::one_of_alike:
      return from_one_of_alike(global, entry.held, to);
    case Source::origin:
      return from_origin(global, to);
  }
  internal_error("partition: {} has no source", global.name());
}

}  // namespace gspmd
