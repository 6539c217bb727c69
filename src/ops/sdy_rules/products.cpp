#include <algorithm>

#include "ops/common/check.h"
#include "ops/sdy_rules/rule_builder.h"

namespace gspmd {
namespace {

int64_t size_at(const Dims& dims, int64_t d) { return dims.at(static_cast<size_t>(d)); }

// Dims of a tensor of `rank` in neither list.
Dims dims_of_one_side(int64_t rank, const Dims& batch, const Dims& contracting) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d)
    if (!contains(batch, d) && !contains(contracting, d)) dims.push_back(d);
  return dims;
}

}  // namespace

std::optional<SdyRule> dot_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const DotDims& dot = *node.attrs.dot;
  const Dims &l = builder.operand(0), &r = builder.operand(1);
  int64_t out = 0;
  for (size_t i = 0; i < dot.lhs_batch.size(); ++i, ++out)
    builder.add({dot.lhs_batch[i], dot.rhs_batch[i]}, {out}, size_at(l, dot.lhs_batch[i]));
  for (const int64_t d : dims_of_one_side(std::ssize(l), dot.lhs_batch, dot.lhs_contracting))
    builder.add({d, kNoDim}, {out++}, size_at(l, d));
  for (const int64_t d : dims_of_one_side(std::ssize(r), dot.rhs_batch, dot.rhs_contracting))
    builder.add({kNoDim, d}, {out++}, size_at(r, d));
  for (size_t i = 0; i < dot.lhs_contracting.size(); ++i)
    builder.add({dot.lhs_contracting[i], dot.rhs_contracting[i]}, {},
                size_at(l, dot.lhs_contracting[i]), SdyFactorKind::reduction);
  return builder.build();
}

// As a dot; the ragged dim and the groups that it is cut into have to be whole.
std::optional<SdyRule> ragged_dot_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const DotDims& dot = *node.attrs.dot;
  const RaggedDotDims& ragged = *node.attrs.ragged;
  const Dims &l = builder.operand(0), &r = builder.operand(1);
  const auto kind_of = [&](int64_t d, SdyFactorKind kind) {
    return contains(ragged.lhs_ragged, d) ? SdyFactorKind::need_replication : kind;
  };
  const bool ragged_is_contracting =
      !ragged.lhs_ragged.empty() && contains(dot.lhs_contracting, ragged.lhs_ragged[0]);
  int64_t out = ragged_is_contracting ? 1 : 0;
  if (ragged_is_contracting) builder.own_result(0, 0, SdyFactorKind::need_replication);
  for (size_t i = 0; i < dot.lhs_batch.size(); ++i, ++out)
    builder.add({dot.lhs_batch[i], dot.rhs_batch[i]}, {out}, size_at(l, dot.lhs_batch[i]),
                kind_of(dot.lhs_batch[i], SdyFactorKind::pass_through));
  for (const int64_t d : dims_of_one_side(std::ssize(l), dot.lhs_batch, dot.lhs_contracting))
    builder.add({d, kNoDim}, {out++}, size_at(l, d), kind_of(d, SdyFactorKind::pass_through));
  for (const int64_t d : dims_of_one_side(std::ssize(r), dot.rhs_batch, dot.rhs_contracting))
    if (!contains(ragged.rhs_group, d)) builder.add({kNoDim, d}, {out++}, size_at(r, d));
  for (size_t i = 0; i < dot.lhs_contracting.size(); ++i)
    builder.add({dot.lhs_contracting[i], dot.rhs_contracting[i]}, {},
                size_at(l, dot.lhs_contracting[i]),
                kind_of(dot.lhs_contracting[i], SdyFactorKind::reduction));
  for (const int64_t d : ragged.rhs_group)
    builder.own_operand(1, d, SdyFactorKind::need_replication);
  if (builder.operand_count() > 2)
    for (int64_t d = 0; d < std::ssize(builder.operand(2)); ++d)
      builder.own_operand(2, d, SdyFactorKind::need_replication);
  return builder.build();
}

std::optional<SdyRule> convolution_sdy_rule(const Node& node, bool conservative) {
  SdyRuleBuilder builder(node);
  const ConvDims& conv = *node.attrs.conv;
  const Dims &kernel = builder.operand(1), &out = builder.result();
  if (conv.batch_group_count > 1)
    builder.add({conv.input_batch, conv.kernel_output_feature}, {conv.output_feature},
                conv.batch_group_count);
  builder.add({conv.input_batch, kNoDim}, {conv.output_batch}, size_at(out, conv.output_batch));
  for (size_t s = 0; s < conv.input_spatial.size(); ++s) {
    if (conservative) break;
    const int64_t windows = size_at(out, conv.output_spatial[s]);
    const int64_t window = size_at(kernel, conv.kernel_spatial[s]);
    const auto add_windows = [&] {
      builder.add({conv.input_spatial[s], kNoDim}, {conv.output_spatial[s]}, windows,
                  SdyFactorKind::permutation);
    };
    if (windows >= window) add_windows();
    builder.add({conv.input_spatial[s], conv.kernel_spatial[s]}, {}, window,
                SdyFactorKind::reduction);
    if (windows < window) add_windows();
  }
  if (conv.feature_group_count > 1)
    builder.add({conv.input_feature, conv.kernel_output_feature}, {conv.output_feature},
                conv.feature_group_count);
  builder.add({conv.input_feature, conv.kernel_input_feature}, {},
              size_at(kernel, conv.kernel_input_feature), SdyFactorKind::reduction);
  const int64_t groups = std::max(conv.feature_group_count, conv.batch_group_count);
  builder.add({kNoDim, conv.kernel_output_feature}, {conv.output_feature},
              size_at(kernel, conv.kernel_output_feature) / std::max<int64_t>(groups, 1));
  return builder.build();
}

std::optional<SdyRule> triangular_solve_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const Dims& b = builder.operand(1);
  const int64_t rank = std::ssize(b);
  for (int64_t d = 0; d + 2 < rank; ++d) builder.share(d, rank, size_at(b, d));
  for (int64_t d = std::max<int64_t>(rank - 2, 0); d < rank; ++d)
    builder.add({kNoDim, d}, {d}, size_at(b, d), SdyFactorKind::need_replication);
  for (int64_t d = std::max<int64_t>(rank - 2, 0); d < rank; ++d)
    builder.own_operand(0, d, SdyFactorKind::need_replication);
  return builder.build();
}

}  // namespace gspmd
