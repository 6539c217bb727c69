#include <algorithm>
#include <array>
#include <string_view>

#include "ops/sdy_rules/rule_builder.h"

namespace gspmd {
namespace {

// Targets whose result is laid out as their operand, dim by dim.
constexpr std::array<std::string_view, 17> kPointwise{"xla.sdy.PropagationBarrier",
                                                      "Sharding",
                                                      "annotate_device_placement",
                                                      "Cholesky",
                                                      "InspectSharding",
                                                      "LayoutConstraint",
                                                      "MoveToDevice",
                                                      "MoveToHost",
                                                      "mhlo.erf",
                                                      "X64SplitHigh",
                                                      "X64SplitLow",
                                                      "PinToDevice",
                                                      "PinToDeviceSram",
                                                      "ShardBarrierFrom",
                                                      "ShardBarrierTo",
                                                      "X64Combine",
                                                      "xla.sdy.FuncResultSharding"};

bool is_in(const auto& list, std::string_view target) {
  return std::find(list.begin(), list.end(), target) != list.end();
}

bool is_used_by_generator(const Node& node) {
  return std::any_of(node.users().begin(), node.users().end(),
                     [](const Node* user) { return user->is(Opcode::rng_bit_generator); });
}

// Eigenvectors as the matrix, eigenvalues as its columns.
SdyRule eigen_rule(const Node& node) {
  SdyRuleBuilder builder(node);
  const Dims& x = builder.operand(0);
  const int64_t rank = std::ssize(x);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t value = d + 2 == rank ? kNoDim : d + 1 == rank ? rank - 2 : d;
    builder.add({d}, {d, value}, x[static_cast<size_t>(d)]);
  }
  return builder.build();
}

SdyRule batched_rule(const Node& node) {
  SdyRuleBuilder builder(node);
  const Dims& x = builder.operand(0);
  const int64_t rank = std::ssize(x);
  for (int64_t d = 0; d + 2 < rank; ++d)
    builder.add({d}, Dims(static_cast<size_t>(builder.result_count()), d),
                x[static_cast<size_t>(d)]);
  for (int64_t d = std::max<int64_t>(rank - 2, 0); d < rank; ++d)
    builder.own_operand(0, d, SdyFactorKind::need_replication);
  for (int64_t i = 0; i < builder.result_count(); ++i)
    for (int64_t d = std::max<int64_t>(rank - 2, 0); d < std::ssize(builder.result(i)); ++d)
      builder.own_result(i, d, SdyFactorKind::need_replication);
  return builder.build();
}

}  // namespace

std::optional<SdyRule> top_k_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const Dims x = builder.operand(0);
  const int64_t rank = std::ssize(x);
  for (int64_t d = 0; d < rank; ++d) {
    const bool last = d + 1 == rank;
    builder.share(d, rank, x[static_cast<size_t>(d)],
                  last ? SdyFactorKind::need_replication : SdyFactorKind::pass_through, last);
  }
  return builder.build();
}

std::optional<SdyRule> custom_call_sdy_rule(const Node& node, bool conservative) {
  const std::string_view target = node.attrs.custom_call_target;
  if (node.frontend_attributes.contains("sdy.reshard") ||
      node.frontend_attributes.contains("sdy.collective"))
    return std::nullopt;
  if (node.operands().empty() || leaf_shapes(node.shape).empty()) return std::nullopt;
  if (target == "X64Combine" && is_used_by_generator(node)) {
    SdyRuleBuilder builder(node);
    for (int64_t d = 0; d < node.rank(); ++d)
      builder.share(d, node.rank(), node.dim(d), SdyFactorKind::need_replication, true);
    return builder.build();
  }
  if (is_in(kPointwise, target) && !node.shape.is_tuple)
    return pointwise_sdy_rule(node, conservative);
  if (target == "TopK" || target == "mhlo.topk") return top_k_sdy_rule(node, conservative);
  if (target == "Eigh" && node.shape.is_tuple) return eigen_rule(node);
  if (target == "Qr") return batched_rule(node);
  return std::nullopt;
}

}  // namespace gspmd
