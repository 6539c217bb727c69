#include "ops/propagate_aspects.h"

#include <algorithm>

#include "ops/completion.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

Proposals nothing_forward(const Node&, CompletionMode) { return {}; }
MaybeSharding nothing_backward(const Node&, int64_t, CompletionMode) { return std::nullopt; }
bool never_tiled(const Node&, bool) { return false; }
bool in_spmd_only(const Node&, bool spmd) { return spmd; }
bool pointwise_may_be_tiled(const Node& node, bool) { return is_pointwise(node); }
// Over a channel partitions speak of their own values, which completion has no whole value for; but
// where only some axes are manual, values are whole along the others.
bool without_channel(const Node& node, bool) {
  const auto is_partly_manual = [](const Node* n) {
    return n->sharding && n->sharding->is_tiled() && !n->sharding->manual_digits().empty();
  };
  return !node.attrs.channel_id ||
         std::any_of(node.operands().begin(), node.operands().end(), is_partly_manual) ||
         std::any_of(node.users().begin(), node.users().end(), is_partly_manual);
}

// Ops that have no entry are not laid out by completion; a value of the dims of their result is.
constexpr auto kDefault = [](Opcode opcode) {
  return PropagateAspect{opcode, pointwise_forward, same_dims_backward, pointwise_may_be_tiled};
};

std::vector<PropagateAspect> listed_aspects() {
  return {
      {Opcode::parameter, nothing_forward, nothing_backward},
      {Opcode::constant, nothing_forward, nothing_backward},
      {Opcode::iota, nothing_forward, nothing_backward},
      {Opcode::reshape, reshape_forward, reshape_backward},
      {Opcode::broadcast, broadcast_forward, broadcast_backward},
      {Opcode::transpose, transpose_forward, transpose_backward},
      {Opcode::reverse, reverse_forward, reverse_backward, in_spmd_only},
      {Opcode::concatenate, concatenate_forward, concatenate_backward},
      {Opcode::pad, representative_forward, first_operand_backward},
      {Opcode::slice, representative_forward, first_operand_backward},
      {Opcode::dynamic_slice, dynamic_slice_forward, dynamic_slice_backward},
      {Opcode::dynamic_update_slice, dynamic_update_slice_forward, dynamic_update_slice_backward},
      // Forward these two are einsums first; what is left of them is here.
      {Opcode::dot, nothing_forward, nothing_backward},
      {Opcode::convolution, convolution_forward, nothing_backward},
      {Opcode::reduce, reduce_forward, reduce_backward},
      {Opcode::reduce_window, reduce_window_forward, reduce_window_backward},
      {Opcode::select_and_scatter, select_and_scatter_forward, same_dims_backward},
      {Opcode::sort, sort_forward, result_of_same_number},
      {Opcode::scan, scan_forward, scan_backward},
      {Opcode::rng, rng_forward, same_dims_backward, in_spmd_only},
      {Opcode::rng_bit_generator, nothing_forward, nothing_backward},
      {Opcode::gather, gather_forward, gather_backward},
      {Opcode::scatter, scatter_forward, scatter_backward},
      {Opcode::tuple, tuple_forward, tuple_backward},
      {Opcode::get_tuple_element, element_forward, element_backward},
      {Opcode::optimization_barrier, same_forward, same_backward},
      {Opcode::while_, same_forward, same_backward},
      // Results follow their computations, which completion ties to them.
      {Opcode::call, nothing_forward, same_dims_backward},
      {Opcode::conditional, nothing_forward, same_dims_backward},
      {Opcode::custom_call, custom_call_forward, custom_call_backward, custom_call_may_be_tiled},
      {Opcode::infeed, nothing_forward, nothing_backward},
      {Opcode::outfeed, nothing_forward, outfeed_backward, never_tiled},
      {Opcode::all_reduce, pointwise_forward, same_dims_backward, without_channel},
      {Opcode::reduce_scatter, representative_forward, same_dims_backward, without_channel},
      // A fusion is read as it was partitioned.
      {Opcode::fusion, nothing_forward, nothing_backward, never_tiled},
  };
}

// A scalar beside arrays can only say that all is whole.
bool has_a_say(const Node& operand, const Sharding& s, const Node& result) {
  return operand.rank() == result.rank() || s.is_replicated();
}

}  // namespace

Proposals representative_forward(const Node& node, CompletionMode) {
  const Node* operand = representative_operand(node);
  if (!operand || !operand->sharding || operand->sharding->is_tuple()) return {};
  int64_t at = 0;
  while (node.operand(at) != operand) ++at;
  return {{*operand->sharding, at}};
}

// Partial shardings of several operands merge where that is allowed; else the most specific one
// decides, or the first where it leads.
Proposals pointwise_forward(const Node& node, CompletionMode mode) {
  if (node.shape.is_tuple) return node.is(Opcode::copy) ? same_forward(node, mode) : Proposals{};
  if (!mode.spmd || mode.level == 0) {
    const Node* operand = representative_operand(node);
    if (!operand || !has_a_say(*operand, *operand->sharding, node)) return {};
    return representative_forward(node, mode);
  }
  Proposals proposals;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const Node& operand = *node.operands()[i];
    const Sharding* s = tiled_leaf(operand);
    if (s && has_a_say(operand, *s, node)) proposals.push_back({*s, static_cast<int64_t>(i)});
  }
  return proposals;
}

MaybeSharding same_dims_backward(const Node& node, int64_t operand, CompletionMode) {
  if (!same_dims(node.operand(operand)->shape, node.shape)) return std::nullopt;
  return node.sharding;
}

std::vector<OperandSuggestion> suggestions_of_reader(const Node& reader, int64_t operand,
                                                     CompletionMode mode) {
  if (!reader.sharding) return {};
  switch (reader.opcode()) {
    case Opcode::dot:
    case Opcode::convolution:
      return einsum_suggestions(reader, operand);
    case Opcode::reduce:
      return reduce_suggestions(reader, operand);
    case Opcode::scatter:
      return scatter_suggestions(reader, operand, mode);
    default:
      break;
  }
  if (!reader.op().backward_sharding) return {};
  MaybeSharding s = reader.op().backward_sharding(reader, operand, mode);
  if (!s) return {};
  const bool by_number = reader.is(Opcode::sort) || reader.is(Opcode::reduce_window);
  return {{std::move(*s), -1, by_number ? operand : 0}};
}

std::span<const PropagateAspect> propagate_aspects() {
  static const std::vector<PropagateAspect> aspects = [] {
    std::vector<PropagateAspect> all = listed_aspects();
    for (int64_t i = 0; i < opcode_count(); ++i) {
      const auto opcode = static_cast<Opcode>(i);
      const bool listed = std::any_of(all.begin(), all.end(),
                                      [&](const PropagateAspect& a) { return a.opcode == opcode; });
      if (!listed) all.push_back(kDefault(opcode));
    }
    return all;
  }();
  return aspects;
}

}  // namespace gspmd
