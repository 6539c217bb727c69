#include "ops/common/completion.h"

#include <algorithm>
#include <array>

namespace gspmd {

Sharding whole_on(const Sharding& s, const Dims& dims, int64_t rank) {
  Dims source(static_cast<size_t>(rank));
  for (int64_t d = 0; d < rank; ++d)
    source[static_cast<size_t>(d)] =
        std::find(dims.begin(), dims.end(), d) == dims.end() ? d : int64_t{-1};
  return select_dims(s, source);
}

Sharding whole_except(const Sharding& s, const Dims& dims, int64_t rank) {
  Dims source(static_cast<size_t>(rank), -1);
  for (const int64_t d : dims)
    if (d >= 0 && d < rank) source[static_cast<size_t>(d)] = d;
  return select_dims(s, source);
}

Sharding carry_sharding(const std::vector<int64_t>& from_dims, const Sharding& from,
                        const std::vector<int64_t>& to_dims) {
  if (!from.order()) return Sharding::replicated();
  Dims source(to_dims.size(), -1);
  for (size_t d = 0; d < to_dims.size(); ++d)
    for (size_t e = 0; e < from_dims.size() && to_dims[d] >= 0; ++e)
      if (from_dims[e] == to_dims[d]) source[d] = static_cast<int64_t>(e);
  return select_dims(from, source);
}

bool more_specific(const Sharding& a, const Sharding& b) {
  const bool a_whole = a.is_replicated() || a.kind() == ShardingKind::maximal;
  const bool b_whole = b.is_replicated() || b.kind() == ShardingKind::maximal;
  if (a.is_manual() && b_whole) return true;
  if (a.is_manual() || b.is_manual()) return false;
  if (!b_whole) return !a_whole && a.num_tiles() > b.num_tiles();
  return b.is_replicated() ? !a.is_replicated() : !a_whole;
}

bool propagates(const Sharding& sharding) {
  if (sharding.is_tuple())
    return std::any_of(sharding.elements().begin(), sharding.elements().end(),
                       [](const Sharding& element) { return propagates(element); });
  return sharding.is_tiled() || sharding.is_manual();
}

bool propagates(const std::optional<Sharding>& sharding) {
  return sharding && propagates(*sharding);
}

bool is_all_manual(const std::optional<Sharding>& sharding) {
  if (!sharding) return false;
  if (!sharding->is_tuple()) return sharding->is_manual();
  return std::all_of(sharding->elements().begin(), sharding->elements().end(),
                     [](const Sharding& leaf) { return leaf.is_manual(); });
}

const Sharding* leaf_sharding(const Node& node, int64_t leaf) {
  if (!node.sharding) return nullptr;
  if (!node.sharding->is_tuple()) return &*node.sharding;
  const auto& elements = node.sharding->elements();
  return leaf < static_cast<int64_t>(elements.size()) ? &elements[static_cast<size_t>(leaf)]
                                                      : nullptr;
}

const Sharding* tiled_leaf(const Node& node, int64_t leaf) {
  const Sharding* s = leaf_sharding(node, leaf);
  return s && s->is_tiled() ? s : nullptr;
}

bool is_pointwise(const Node& node) {
  if (node.is(Opcode::bitcast_convert)) return node.rank() == node.operand(0)->rank();
  return node.op().has(kElementwise) || node.op().has(kPointwise);
}

int completion_level(const Node& node) {
  const bool annotation =
      node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
  return annotation || is_pointwise(node) ? 0 : node.op().completion.level;
}

bool reshards_freely(const Node& node) {
  if (node.op().has(kFixedLayout)) return false;
  // The result lies between the layout it has and the one reader it has.
  const Node* root = node.parent().root();
  int64_t readers = 0;
  for (const Node* user : node.users()) readers += user != root ? 1 : 0;
  return readers == 1;
}

bool has_effects(const Node& node) {
  switch (node.opcode()) {
    case Opcode::rng:
    case Opcode::rng_get_and_update_state:
    case Opcode::infeed:
    case Opcode::outfeed:
    case Opcode::send:
    case Opcode::send_done:
    case Opcode::recv:
    case Opcode::recv_done:
    case Opcode::all_gather_start:
    case Opcode::all_gather_done:
    case Opcode::all_reduce_start:
    case Opcode::all_reduce_done:
    case Opcode::collective_permute_start:
    case Opcode::collective_permute_done:
      return true;
    case Opcode::custom_call: {
      const auto found = node.attrs.other.find("custom_call_has_side_effect");
      return found != node.attrs.other.end() && found->second == "true";
    }
    default:
      return node.op().has(kSideEffect) || node.attrs.channel_id.has_value();
  }
}

bool same_dims(const Shape& a, const Shape& b) {
  if (a.is_tuple != b.is_tuple) return false;
  if (!a.is_tuple) return a.dims == b.dims;
  return std::equal(a.elements.begin(), a.elements.end(), b.elements.begin(), b.elements.end(),
                    same_dims);
}

const Node* representative_operand(const Node& node) {
  const auto usable = [](const Node* operand) {
    return operand && propagates(operand->sharding) ? operand : nullptr;
  };
  if (node.op().has(kFirstLeads))
    return node.operands().empty() ? nullptr : usable(node.operand(0));
  const Node* best = nullptr;
  for (const Node* operand : node.operands()) {
    if (!operand->sharding || operand->sharding->is_tuple()) continue;
    // A scalar beside arrays (a bound, a condition, an initial value) can only be whole.
    if (operand->rank() == 0 && leaf_shapes(node.shape).front().rank() > 0 &&
        !(is_pointwise(node) && operand->sharding->is_replicated()))
      continue;
    if (!best || more_specific(*operand->sharding, *best->sharding)) best = operand;
  }
  return usable(best);
}

}  // namespace gspmd
