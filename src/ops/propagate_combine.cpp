// Completion through ops that combine elements: reductions, windows, sorts, scans, products.

#include <algorithm>

#include "ops/completion.h"
#include "ops/propagate_aspects.h"

namespace gspmd {
namespace {

Proposals for_every_result(const Node& node, int64_t count,
                           const std::function<MaybeSharding(const Node&, const Sharding&)>& rule) {
  Proposals proposals;
  for (int64_t i = 0; i < count; ++i) {
    const Node& operand = *node.operand(i);
    const Sharding* s = tiled_leaf(operand);
    if (!s) continue;
    if (MaybeSharding proposal = rule(operand, *s)) proposals.push_back({*proposal, i});
  }
  return proposals;
}

int64_t inputs_of(const Node& node) { return static_cast<int64_t>(node.operands().size()) / 2; }

Dims kept_dims(const Node& node, const Dims& removed) {
  Dims kept;
  for (int64_t d = 0; d < node.rank(); ++d)
    if (std::find(removed.begin(), removed.end(), d) == removed.end()) kept.push_back(d);
  return kept;
}

// The inverse of kept_dims: where each dim of the whole is in what is kept, -1 for removed ones.
Dims places(const Dims& kept, int64_t rank) {
  Dims result(static_cast<size_t>(rank), -1);
  for (size_t i = 0; i < kept.size(); ++i)
    result[static_cast<size_t>(kept[i])] = static_cast<int64_t>(i);
  return result;
}

// Some other dim is whole and takes the tiles of `dim`.
bool can_move_tiles(const Node& node, const Sharding& s, int64_t dim) {
  for (int64_t d = 0; d < node.rank(); ++d)
    if (d != dim && s.tiles(d) == 1 && node.dim(d) % s.tiles(dim) == 0) return true;
  return false;
}

struct ScanParts {
  int64_t dim = 0, inputs = 0, carries = 0, outputs = 0;
};

ScanParts scan_parts(const Node& node) {
  ScanParts parts;
  const auto operands = static_cast<int64_t>(node.operands().size());
  const int64_t given = node.attrs.scalar->num_carries;
  parts.dim = node.attrs.dimensions.at(0);
  parts.carries = std::min(given > 0 ? given : operands / 2, operands);
  parts.inputs = operands - parts.carries;
  const int64_t results = leaf_count(node.shape);
  parts.carries = std::min(parts.carries, results);
  parts.outputs = results - parts.carries;
  return parts;
}

}  // namespace

// All results have one layout. Summing over devices needs SPMD.
Proposals reduce_forward(const Node& node, CompletionMode mode) {
  const Dims& reduced = node.attrs.dimensions;
  return for_every_result(node, inputs_of(node), [&](const Node& input, const Sharding& s) {
    const bool sums =
        std::any_of(reduced.begin(), reduced.end(), [&](int64_t d) { return s.tiles(d) > 1; });
    const Dims kept = kept_dims(input, reduced);
    if (sums && !mode.spmd) return whole_except(s, {}, static_cast<int64_t>(kept.size()));
    return select_dims(s, kept);
  });
}

// The result's layout on the kept dims, and what the other inputs add.
std::vector<OperandSuggestion> reduce_suggestions(const Node& reader, int64_t operand) {
  const Node& value = *reader.operand(operand);
  const Sharding* result = tiled_leaf(reader, operand);
  if (operand >= inputs_of(reader) || value.rank() == 0 || !result) return {};
  const Dims kept = kept_dims(value, reader.attrs.dimensions);
  std::vector<OperandSuggestion> said{
      {select_dims(*result, places(kept, value.rank())), -1, operand}};
  for (int64_t i = 0; i < inputs_of(reader); ++i) {
    const Node& other = *reader.operand(i);
    const Sharding* known = tiled_leaf(other);
    if (&other != &value && known) said.push_back({*known, i});
  }
  return said;
}

MaybeSharding reduce_backward(const Node& node, int64_t operand, CompletionMode) {
  const std::vector<OperandSuggestion> said = reduce_suggestions(node, operand);
  if (said.empty()) return std::nullopt;
  Sharding s = said[0].sharding;
  for (size_t i = 1; i < said.size(); ++i) {
    const MaybeSharding both = merge(s, said[i].sharding, node.operand(operand)->rank());
    if (both && both->num_tiles() > s.num_tiles()) s = *both;
  }
  return s;
}

Proposals reduce_window_forward(const Node& node, CompletionMode) {
  for (const WindowDim& w : node.attrs.window)
    if (w.base_dilation > 1 || w.window_dilation > 1) return {};
  return for_every_result(node, inputs_of(node), [](const Node&, const Sharding& s) { return s; });
}

MaybeSharding reduce_window_backward(const Node& node, int64_t operand, CompletionMode) {
  const Sharding* s = tiled_leaf(node, operand);
  return s && operand < inputs_of(node) ? MaybeSharding(*s) : std::nullopt;
}

Proposals select_and_scatter_forward(const Node& node, CompletionMode) {
  for (const WindowDim& w : node.attrs.window)
    if (w.base_dilation > 1) return {};
  return for_every_result(node, 1, [](const Node&, const Sharding& s) { return s; });
}

// A sharding on the sorted dim goes on only where another dim could take it over.
Proposals sort_forward(const Node& node, CompletionMode) {
  const Node* operand = representative_operand(node);
  const Sharding* s = operand ? tiled_leaf(*operand) : nullptr;
  if (!s) return {};
  const int64_t dim = node.attrs.dimensions.at(0);
  if (s->tiles(dim) > 1 && !can_move_tiles(*operand, *s, dim)) return {};
  int64_t at = 0;
  while (node.operand(at) != operand) ++at;
  return {{*s, at}};
}

MaybeSharding result_of_same_number(const Node& node, int64_t operand, CompletionMode) {
  const Sharding* s = tiled_leaf(node, operand);
  return s && operand < leaf_count(node.shape) ? MaybeSharding(*s) : std::nullopt;
}

// Outputs are laid out as the inputs; a carry as what one step of an input is, and as its start.
Proposals scan_forward(const Node& node, CompletionMode) {
  const ScanParts parts = scan_parts(node);
  const std::vector<Shape> results = leaf_shapes(node.shape);
  Proposals proposals;
  for (int64_t i = 0; i < parts.inputs; ++i) {
    const Node& input = *node.operand(i);
    const Sharding* s = tiled_leaf(input);
    if (!s) continue;
    if (i < parts.outputs && results[static_cast<size_t>(i)].dims == input.dims())
      proposals.push_back({*s, i, i});
    const Dims step = kept_dims(input, {parts.dim});
    const auto carry = static_cast<size_t>(parts.outputs + i);
    if (i < parts.carries && results[carry].rank() == static_cast<int64_t>(step.size()))
      proposals.push_back({select_dims(*s, step), i, parts.outputs + i});
  }
  for (int64_t c = 0; c < parts.carries; ++c)
    if (const Sharding* s = tiled_leaf(*node.operand(parts.inputs + c)))
      proposals.push_back({*s, parts.inputs + c, parts.outputs + c});
  return proposals;
}

MaybeSharding scan_backward(const Node& node, int64_t operand, CompletionMode) {
  const ScanParts parts = scan_parts(node);
  const int64_t result = operand < parts.inputs ? operand : operand - parts.inputs + parts.outputs;
  const std::vector<Shape> results = leaf_shapes(node.shape);
  if (operand < parts.inputs && result >= parts.outputs) return std::nullopt;
  if (result >= static_cast<int64_t>(results.size())) return std::nullopt;
  const Sharding* s = tiled_leaf(node, result);
  const bool same = results[static_cast<size_t>(result)].dims == node.operand(operand)->dims();
  return s && same ? MaybeSharding(*s) : std::nullopt;
}

// Beside its split window dims: a small kernel leaves the result where the input is, of what a
// large one makes only the batch is known.
Proposals convolution_forward(const Node& node, CompletionMode) {
  const Node& lhs = *node.operand(0);
  const ConvDims& conv = *node.attrs.conv;
  const Sharding* s = tiled_leaf(lhs);
  if (!s) return {};
  if (s->is_replicated()) return {{*s, 0}};
  Dims source(static_cast<size_t>(node.rank()), -1);
  source.at(static_cast<size_t>(conv.output_batch)) = conv.input_batch;
  if (has_small_kernel(node)) {
    if (s->tiles(conv.input_feature) > 1) return {};
    source.at(static_cast<size_t>(conv.output_feature)) = conv.input_feature;
    for (size_t i = 0; i < conv.output_spatial.size(); ++i)
      source.at(static_cast<size_t>(conv.output_spatial[i])) = conv.input_spatial.at(i);
  }
  return {{select_dims(*s, source), 0}};
}

Proposals rng_forward(const Node& node, CompletionMode) {
  return for_every_result(
      node, static_cast<int64_t>(node.operands().size()),
      [&](const Node&, const Sharding& s) { return whole_except(s, {}, node.rank()); });
}

MaybeSharding outfeed_backward(const Node& node, int64_t operand, CompletionMode) {
  if (operand != 0 || !node.sharding) return std::nullopt;
  if (!node.sharding->is_tuple()) return node.sharding;
  const Shape& value = node.operand(0)->shape;
  const std::vector<Sharding>& leaves = node.sharding->elements();
  if (!value.is_tuple) return leaves.at(0);
  const int64_t count = leaf_count(value);
  if (count > static_cast<int64_t>(leaves.size())) return std::nullopt;
  return Sharding::tuple({leaves.begin(), leaves.begin() + count});
}

}  // namespace gspmd
