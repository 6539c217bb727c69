#include <algorithm>
#include <array>
#include <string_view>

#include "ir/sdy_names.h"
#include "ops/sdy_rules/rule_builder.h"

namespace gspmd {
namespace {

// Targets whose result is laid out as their operand, dim by dim.
constexpr std::array<std::string_view, 18> kPointwiseTargets{
    kSdyBarrierTarget,  "Sharding",        "annotate_device_placement",
    "Cholesky",         "CompactWyHelper", "InspectSharding",
    "LayoutConstraint", "MoveToDevice",    "MoveToHost",
    "mhlo.erf",         "X64SplitHigh",    "X64SplitLow",
    "PinToDevice",      "PinToDeviceSram", "ShardBarrierFrom",
    "ShardBarrierTo",   "X64Combine",      kSdyResultTarget};

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

// The number after `key` in what a call says of itself: a dictionary of MLIR, or JSON.
std::optional<int64_t> configured(const Node& node, std::string_view key) {
  std::string_view text;
  for (const char* name : {"mlir.mhlo.backend_config", "mlir.backend_config"}) {
    const auto found = node.frontend_attributes.find(name);
    if (found != node.frontend_attributes.end()) text = found->second;
  }
  const auto other = node.attrs.other.find("backend_config");
  if (text.empty() && other != node.attrs.other.end()) text = other->second;
  size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  at = text.find_first_not_of(" \t\"\\:=", at + key.size());
  if (at == std::string_view::npos || text[at] < '0' || text[at] > '9') return std::nullopt;
  int64_t number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    number = std::min<int64_t>(number * 10 + (text[at] - '0'), 1000000);
  return number;
}

// Values with their positions, then where each begins; the largest few along one dim.
std::optional<SdyRule> approximate_top_k_rule(const Node& node) {
  SdyRuleBuilder builder(node);
  const std::optional<int64_t> reduced = configured(node, "reduction_dim");
  const int64_t inputs = builder.operand_count() / 2, results = builder.result_count();
  if (!reduced || inputs == 0 || results == 0) return std::nullopt;
  const Dims& x = builder.operand(0);
  const int64_t rank = std::ssize(x);
  if (*reduced >= rank) return std::nullopt;
  for (int64_t i = 0; i < inputs; ++i)
    if (std::ssize(builder.operand(i)) != rank) return std::nullopt;
  for (int64_t i = 0; i < results; ++i)
    if (std::ssize(builder.result(i)) != rank) return std::nullopt;
  for (int64_t d = 0; d < rank; ++d) {
    const Dims in(static_cast<size_t>(inputs), d), out(static_cast<size_t>(results), d);
    builder.add(in, d == *reduced ? Dims{} : out, x[static_cast<size_t>(d)]);
    if (d == *reduced)
      builder.add({}, out, builder.result().at(static_cast<size_t>(d)),
                  SdyFactorKind::need_replication, true);
  }
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
  const std::string_view target = *node.attrs.custom_call_target;
  if (node.frontend_attributes.contains(kSdyReshard) ||
      node.frontend_attributes.contains(kSdyCollective))
    return std::nullopt;
  if (node.operands().empty() || leaf_shapes(node.shape).empty()) return std::nullopt;
  if (target == "X64Combine" && is_used_by_generator(node)) {
    SdyRuleBuilder builder(node);
    for (int64_t d = 0; d < node.rank(); ++d)
      builder.share(d, node.rank(), node.dim(d), SdyFactorKind::need_replication, true);
    return builder.build();
  }
  if (is_in(kPointwiseTargets, target) && !node.shape.is_tuple)
    return pointwise_sdy_rule(node, conservative);
  if (target == "TopK" || target == "mhlo.topk") return top_k_sdy_rule(node, conservative);
  if (target == "ApproxTopK" || target == "PartialReduce") return approximate_top_k_rule(node);
  if (target == "Eigh" && node.shape.is_tuple) return eigen_rule(node);
  if (target == "Qr") return batched_rule(node);
  return std::nullopt;
}

}  // namespace gspmd
