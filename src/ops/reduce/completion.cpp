#include "ops/common/completion.h"

#include <algorithm>

#include "ops/common/completion_rules.h"
#include "ops/reduce/reduce.h"

namespace gspmd {
namespace {

// The inverse of kept_dims: where each dim of the whole is in what is kept, -1 for removed ones.
Dims places(const Dims& kept, int64_t rank) {
  Dims result(static_cast<size_t>(rank), -1);
  for (size_t i = 0; i < kept.size(); ++i)
    result[static_cast<size_t>(kept[i])] = static_cast<int64_t>(i);
  return result;
}

}  // namespace

// All results have one layout. Summing over devices needs SPMD.
Proposals reduce_forward(const Node& node, CompletionMode mode) {
  const Dims& reduced = node.attrs.dimensions;
  return for_every_result(node, pairs_of(node), [&](const Node& input, const Sharding& s) {
    const bool sums =
        std::any_of(reduced.begin(), reduced.end(), [&](int64_t d) { return s.tiles(d) > 1; });
    const Dims kept = kept_dims(input, reduced);
    if (sums && !mode.spmd) return whole_except(s, {}, static_cast<int64_t>(kept.size()));
    return select_dims(s, kept);
  });
}

// The result's layout on the kept dims, and what the other inputs add.
std::vector<OperandSuggestion> reduce_suggestions(const Node& reader, int64_t operand,
                                                  CompletionMode) {
  const Node& value = *reader.operand(operand);
  const Sharding* result = tiled_leaf(reader, operand);
  if (operand >= pairs_of(reader) || value.rank() == 0 || !result) return {};
  const Dims kept = kept_dims(value, reader.attrs.dimensions);
  std::vector<OperandSuggestion> said{
      {select_dims(*result, places(kept, value.rank())), -1, operand}};
  for (int64_t i = 0; i < pairs_of(reader); ++i) {
    const Node& other = *reader.operand(i);
    const Sharding* known = tiled_leaf(other);
    if (&other != &value && known) said.push_back({*known, i});
  }
  return said;
}

MaybeSharding reduce_backward(const Node& node, int64_t operand, CompletionMode mode) {
  const std::vector<OperandSuggestion> said = reduce_suggestions(node, operand, mode);
  if (said.empty()) return std::nullopt;
  Sharding s = said[0].sharding;
  for (size_t i = 1; i < said.size(); ++i) {
    const MaybeSharding both = merge(s, said[i].sharding, node.operand(operand)->rank());
    if (both && both->num_tiles() > s.num_tiles()) s = *both;
  }
  return s;
}

}  // namespace gspmd
