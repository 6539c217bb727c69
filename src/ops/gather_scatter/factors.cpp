#include "ops/common/factors.h"

#include "gspmd/ops/builders.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace gspmd {
namespace {

int64_t& at(std::vector<int64_t>& dims, int64_t d) { return dims[static_cast<size_t>(d)]; }

// Slices that span a whole operand dim start at 0 there (gather clamps, scatter skips others), so
// the dim passes; dims that are cut must be whole.
void block_rest(FactorRule& rule, std::vector<int64_t>& dims, const Dims& sizes) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] == FactorRule::kNone) dims[d] = add_factor(rule, sizes[d], FactorKind::blocked);
}

}  // namespace

FactorRule gather_factors(const Node& node) {
  const SliceDims slices = gather_slice_dims(node);
  const Dims& operand = node.operand(0)->dims();
  FactorRule rule = no_factors(node);
  for (size_t i = 0; i < slices.batch_result.size(); ++i)
    at(rule.operands[1], slices.batch_indices[i]) = at(rule.results[0], slices.batch_result[i]) =
        add_factor(rule, node.dim(slices.batch_result[i]));
  for (size_t i = 0; i < slices.operand_batching.size(); ++i)
    at(rule.operands[0], slices.operand_batching[i]) =
        at(rule.operands[1], slices.indices_batching[i]);
  for (size_t i = 0; i < slices.window_result.size(); ++i)
    if (node.dim(slices.window_result[i]) == node.operand(0)->dim(slices.window_operand[i]))
      at(rule.operands[0], slices.window_operand[i]) =
          at(rule.results[0], slices.window_result[i]) =
              add_factor(rule, node.dim(slices.window_result[i]));
  block_rest(rule, rule.operands[0], operand);
  block_rest(rule, rule.operands[1], node.operand(1)->dims());
  block_rest(rule, rule.results[0], node.dims());
  return rule;
}

// The slices are a reduction: each part of them, scattered into the combiner's identity, is a
// partial result of the whole operand.
FactorRule scatter_factors(const Node& node) {
  const SliceDims slices = scatter_slice_dims(node);
  const size_t inputs = node.operands().size() / 2;
  const Node& updates = *node.operands()[inputs + 1];
  const Dims& operand = node.operand(0)->dims();
  const std::optional<Combiner> combiner =
      inputs == 1 ? recognize_combiner(*node.called[0]) : std::nullopt;
  FactorRule rule = no_factors(node);
  std::vector<int64_t>& in_operand = rule.operands[0];
  std::vector<int64_t>& in_indices = rule.operands[inputs];
  std::vector<int64_t>& in_updates = rule.operands[inputs + 1];
  for (size_t i = 0; i < slices.operand_batching.size(); ++i)
    at(in_operand, slices.operand_batching[i]) = at(in_indices, slices.indices_batching[i]) =
        add_factor(rule, node.operand(0)->dim(slices.operand_batching[i]));
  for (size_t i = 0; i < slices.batch_result.size(); ++i) {
    int64_t& factor = at(in_indices, slices.batch_indices[i]);
    if (factor == FactorRule::kNone)
      factor = add_factor(rule, updates.dim(slices.batch_result[i]),
                          combiner ? FactorKind::reduction : FactorKind::blocked,
                          combiner.value_or(Combiner::sum));
    at(in_updates, slices.batch_result[i]) = factor;
  }
  for (size_t i = 0; i < slices.window_result.size(); ++i)
    if (updates.dim(slices.window_result[i]) == node.operand(0)->dim(slices.window_operand[i]))
      at(in_operand, slices.window_operand[i]) = at(in_updates, slices.window_result[i]) =
          add_factor(rule, updates.dim(slices.window_result[i]));
  block_rest(rule, in_operand, operand);
  block_rest(rule, in_indices, node.operands()[inputs]->dims());
  block_rest(rule, in_updates, updates.dims());
  for (size_t i = 0; i < inputs; ++i) {
    rule.operands[i] = in_operand;
    rule.operands[inputs + 1 + i] = in_updates;
    rule.results[i] = in_operand;
  }
  return rule;
}

}  // namespace gspmd
