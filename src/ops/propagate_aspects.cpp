#include "ops/propagate_aspects.h"

#include <algorithm>

#include "ops/completion.h"
#include "ops/reshape_sharding.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

bool is_laid_out(const Node& node) { return node.sharding && node.sharding->is_tiled(); }

bool names(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

Proposals nothing_forward(const Node&, CompletionMode) { return {}; }
MaybeSharding nothing_backward(const Node&, int64_t, CompletionMode) { return std::nullopt; }
bool never_tiled(const Node&, bool) { return false; }

Proposals reshape_forward(const Node& node, CompletionMode) {
  const Node& operand = *node.operand(0);
  if (!is_laid_out(operand)) return {};
  return {{reshape_sharding(operand.dims(), node.dims(), *operand.sharding), 0}};
}

MaybeSharding reshape_backward(const Node& node, int64_t, CompletionMode) {
  if (!is_laid_out(node)) return std::nullopt;
  return reshape_sharding(node.dims(), node.operand(0)->dims(), *node.sharding);
}

// Low priority, so that a large value's new dims are decided by its other readers.
Proposals broadcast_forward(const Node& node, CompletionMode mode) {
  const Node& operand = *node.operand(0);
  if (mode.level < 3 || !is_laid_out(operand) || operand.sharding->is_replicated()) return {};
  const FactorRule rule = node.op().factors(node);
  return {{carry_sharding(rule, rule.operands[0], *operand.sharding, rule.results[0]), 0}};
}

MaybeSharding broadcast_backward(const Node& node, int64_t, CompletionMode mode) {
  if (mode.level < 2 || !is_laid_out(node)) return std::nullopt;
  for (int64_t d = 0; d < node.rank() && !mode.spmd; ++d)
    if (!names(node.attrs.dimensions, d) && node.sharding->tiles(d) > 1) return std::nullopt;
  const FactorRule rule = node.op().factors(node);
  return carry_sharding(rule, rule.results[0], *node.sharding, rule.operands[0]);
}

// The device that holds the first part of a reversed dim holds the last part of the operand: the
// same digits over an order that counts backwards there.
Sharding reversed(const Sharding& s, const Dims& dims) {
  Digits flipped;
  for (const int64_t d : dims)
    for (const Digit& digit : s.dim(d)) flipped.push_back(digit);
  if (flipped.empty()) return s;
  std::vector<int64_t> devices;
  for (int64_t rank = 0; rank < s.order()->count; ++rank) {
    int64_t other = rank;
    for (const Digit& digit : flipped) {
      const int64_t at = rank / digit.stride % digit.size;
      other += (digit.size - 1 - 2 * at) * digit.stride;
    }
    devices.push_back(s.order()->device(other));
  }
  std::vector<Digits> digits;
  for (int64_t d = 0; d < s.rank(); ++d) digits.push_back(s.dim(d));
  return Sharding::tiled(list_order(std::move(devices)), std::move(digits), s.manual_digits());
}

Proposals reverse_forward(const Node& node, CompletionMode mode) {
  if (mode.level < 1 || !is_laid_out(*node.operand(0))) return {};
  return {{reversed(*node.operand(0)->sharding, node.attrs.dimensions), 0}};
}

MaybeSharding reverse_backward(const Node& node, int64_t, CompletionMode mode) {
  if (mode.level < 1 || !is_laid_out(node)) return std::nullopt;
  return reversed(*node.sharding, node.attrs.dimensions);
}

bool in_spmd_only(const Node&, bool spmd) { return spmd; }

// At level 0 only parameters seen through reshapes, all laid out, whole along the joined dim.
bool concatenates_at_once(const Node& node) {
  for (const Node* operand : node.operands()) {
    if (!is_laid_out(*operand) || operand->sharding->tiles(node.attrs.dimensions.at(0)) > 1)
      return false;
    if (!operand->is(Opcode::reshape)) return false;
    const Node& source = *operand->operand(0);
    if (!source.is(Opcode::parameter) && !source.is(Opcode::get_tuple_element)) return false;
  }
  return true;
}

Proposals concatenate_forward(const Node& node, CompletionMode mode) {
  if (mode.level < 1 && !concatenates_at_once(node)) return {};
  int64_t best = -1;
  for (int64_t i = 0; i < static_cast<int64_t>(node.operands().size()); ++i) {
    const Node& operand = *node.operand(i);
    if (is_laid_out(operand) &&
        (best < 0 || more_specific(*operand.sharding, *node.operand(best)->sharding)))
      best = i;
  }
  if (best < 0) return {};
  return {{*node.operand(best)->sharding, best}};
}

// Without SPMD a piece of a split dim lives on the devices that hold it in the result.
MaybeSharding piece_of(const Node& node, int64_t operand, int64_t dim) {
  int64_t start = 0;
  for (int64_t i = 0; i < operand; ++i) start += node.operand(i)->dim(dim);
  const int64_t end = start + node.operand(operand)->dim(dim);
  if (start == end) return std::nullopt;
  const int64_t shard = ceil_div(node.dim(dim), node.sharding->tiles(dim));
  const int64_t first = start / shard, last = ceil_div(end, shard);
  const DeviceArray array = device_array(*node.sharding, node.rank());
  Dims dims = array.dims;
  if (static_cast<int64_t>(dims.size()) != node.rank() || last <= first) return std::nullopt;
  dims[static_cast<size_t>(dim)] = last - first;
  const Dims strides = row_major_strides(array.dims);
  std::vector<int64_t> devices;
  for (size_t i = 0; i < array.devices.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / strides[static_cast<size_t>(dim)] %
                       array.dims[static_cast<size_t>(dim)];
    if (at >= first && at < last) devices.push_back(array.devices[i]);
  }
  if (devices.size() == 1) return Sharding::maximal(devices[0]);
  std::vector<Digits> digits(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) digits[d] = {{dims[d], stride}};
  return Sharding::tiled(list_order(std::move(devices)), std::move(digits));
}

MaybeSharding concatenate_backward(const Node& node, int64_t operand, CompletionMode mode) {
  if (mode.level < 1 || !is_laid_out(node)) return std::nullopt;
  const int64_t dim = node.attrs.dimensions.at(0);
  if (!mode.spmd && node.sharding->tiles(dim) > 1) return piece_of(node, operand, dim);
  return node.sharding;
}

// The update first: where it is split, so is the whole.
Proposals dynamic_update_slice_forward(const Node& node, CompletionMode) {
  const FactorRule rule = node.op().factors(node);
  Proposals proposals;
  for (const int64_t i : {1, 0})
    if (is_laid_out(*node.operand(i)))
      proposals.push_back({carry_sharding(rule, rule.operands[static_cast<size_t>(i)],
                                          *node.operand(i)->sharding, rule.results[0]),
                           i});
  return proposals;
}

MaybeSharding dynamic_update_slice_backward(const Node& node, int64_t operand,
                                            CompletionMode mode) {
  if (mode.level < 1 || operand > 1 || !is_laid_out(node)) return std::nullopt;
  const FactorRule rule = node.op().factors(node);
  return carry_sharding(rule, rule.results[0], *node.sharding,
                        rule.operands[static_cast<size_t>(operand)]);
}

// All results have one layout. Summing over devices needs SPMD.
Proposals reduce_forward(const Node& node, CompletionMode mode) {
  if (mode.level < 1) return {};
  const FactorRule rule = node.op().factors(node);
  Proposals proposals;
  for (size_t i = 0; i < node.operands().size() / 2; ++i) {
    const Node& input = *node.operands()[i];
    if (!is_laid_out(input)) continue;
    const Dims& reduced = node.attrs.dimensions;
    const bool sums = std::any_of(reduced.begin(), reduced.end(),
                                  [&](int64_t d) { return input.sharding->tiles(d) > 1; });
    proposals.push_back({sums && !mode.spmd ? Sharding::replicated()
                                            : carry_sharding(rule, rule.operands[i],
                                                             *input.sharding, rule.results[0]),
                         static_cast<int64_t>(i)});
  }
  return proposals;
}

// The result's layout on the kept dims, and what the other inputs add.
MaybeSharding reduce_backward(const Node& node, int64_t operand, CompletionMode mode) {
  const auto inputs = static_cast<int64_t>(node.operands().size()) / 2;
  const int64_t rank = node.operand(operand)->rank();
  if (mode.level < 1 || operand >= inputs || rank == 0) return std::nullopt;
  const Sharding* result = leaf_sharding(node, operand);
  if (!result || !result->is_tiled()) return std::nullopt;
  const FactorRule rule = node.op().factors(node);
  Sharding s = carry_sharding(rule, rule.results[0], *result, rule.operands[0]);
  for (int64_t i = 0; i < inputs; ++i) {
    const Node& other = *node.operand(i);
    if (i == operand || &other == node.operand(operand) || !is_laid_out(other)) continue;
    const MaybeSharding both = merge(s, *other.sharding, rank);
    if (both && both->num_tiles() > s.num_tiles()) s = *both;
  }
  return s;
}

}  // namespace

std::span<const PropagateAspect> propagate_aspects() {
  static const PropagateAspect aspects[] = {
      {Opcode::reshape, reshape_forward, reshape_backward},
      {Opcode::broadcast, broadcast_forward, broadcast_backward},
      {Opcode::reverse, reverse_forward, reverse_backward, in_spmd_only},
      {Opcode::concatenate, concatenate_forward, concatenate_backward},
      {Opcode::dynamic_update_slice, dynamic_update_slice_forward, dynamic_update_slice_backward},
      {Opcode::reduce, reduce_forward, reduce_backward},
      {Opcode::gather, gather_forward, gather_backward},
      {Opcode::scatter, scatter_forward, scatter_backward},
      {Opcode::tuple, tuple_forward, tuple_backward},
      {Opcode::get_tuple_element, element_forward, element_backward},
      {Opcode::optimization_barrier, same_forward, same_backward},
      {Opcode::while_, same_forward, same_backward},
      // Results follow their computation, which completion ties to them.
      {Opcode::call, nothing_forward, nothing_backward},
      {Opcode::custom_call, custom_call_forward, custom_call_backward, custom_call_may_be_tiled},
      {Opcode::fusion, nothing_forward, nothing_backward, never_tiled},
      {Opcode::all_gather, nothing_forward, nothing_backward, never_tiled},
      {Opcode::all_to_all, nothing_forward, nothing_backward, never_tiled},
      {Opcode::partition_id, nothing_forward, nothing_backward, never_tiled},
  };
  return aspects;
}

}  // namespace gspmd
