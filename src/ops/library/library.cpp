#include "ops/library/library.h"

#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/library/memory.h"

namespace gspmd {
namespace library {
namespace {

Proposals batch_forward(const Node& node, CompletionMode mode) {
  FactorRule nest = node.op().factors(node);
  for (std::vector<int64_t>& result : nest.results)
    for (int64_t& factor : result)
      if (factor != FactorRule::kNone &&
          nest.factors[static_cast<size_t>(factor)].kind == FactorKind::blocked)
        factor = FactorRule::kNone;
  Proposals proposals = nest_forward(node, mode, std::move(nest));
  std::erase_if(proposals, [](const ShardingProposal& p) { return p.sharding.is_replicated(); });
  return proposals;
}

}  // namespace

FactorRule batch_factors(const Node& node, int64_t batch, const std::vector<bool>& operands,
                         const std::vector<bool>& results) {
  FactorRule rule = whole_factors(node);
  rule.scalars_start = false;
  for (int64_t d = 0; d < batch; ++d) {
    const auto at = static_cast<size_t>(d);
    int64_t factor = FactorRule::kNone;
    const auto share = [&](std::vector<int64_t>& dims, int64_t size) {
      if (factor == FactorRule::kNone) factor = add_factor(rule, size);
      dims[at] = factor;
    };
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i]) share(rule.operands[i], node.operand(static_cast<int64_t>(i))->dim(d));
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i]) share(rule.results[i], rule.factors[static_cast<size_t>(factor)].size);
  }
  return rule;
}

const CompletionRules kBatchCompletion{
    .forward = batch_forward, .speakers = Speakers::all, .operands_confer = true};

Attributes constraints_on_part(const Node& node, const NodePart& part) {
  Attributes attrs = node.attrs;
  if (!attrs.other.contains(kStatedLayouts)) return attrs;
  std::string text;
  for (size_t i = 0; i < part.operands.size(); ++i) {
    const Shape& shape = part.operands[i];
    const std::optional<Dims> layout = stated_layout(node, static_cast<int64_t>(i));
    text += (i > 0 ? ", " : "") + to_string(shape);
    if (layout && !layout->empty()) text += layout_text(*layout);
  }
  attrs.other[kStatedLayouts] = "{" + text + "}";
  return attrs;
}

}  // namespace library

const OpInfo* library_call_info(const Node& custom_call) {
  for (const auto row : {library::matrix_row, library::random_row, library::fourier_row,
                         library::sparse_row, library::buffer_row})
    if (const OpInfo* const info = row(custom_call)) return info;
  return nullptr;
}

}  // namespace gspmd
