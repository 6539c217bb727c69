#pragma once

#include "gspmd/ir/module.h"
#include "gspmd/mesh/sdy_rule.h"

namespace gspmd {

constexpr int64_t kNoDim = -1;

// Collects the factors of one op. Dims that get none have one of size 1 of their own in the end.
class SdyRuleBuilder {
 public:
  explicit SdyRuleBuilder(const Node& node);

  const Dims& operand(int64_t i) const { return operands_.at(static_cast<size_t>(i)).dims; }
  const Dims& result(int64_t i = 0) const { return results_.at(static_cast<size_t>(i)).dims; }
  int64_t operand_count() const { return std::ssize(operands_); }
  int64_t result_count() const { return std::ssize(results_); }

  // A factor on one dim of each operand and result, kNoDim: not there; shorter lists are filled
  // with kNoDim.
  void add(const Dims& operand_dims, const Dims& result_dims, int64_t size,
           SdyFactorKind kind = SdyFactorKind::pass_through, bool blocked = false);
  // A factor on dim `d` of all operands and results that have this rank.
  void share(int64_t d, int64_t rank, int64_t size,
             SdyFactorKind kind = SdyFactorKind::pass_through, bool blocked = false);
  void own_operand(int64_t i, int64_t d, SdyFactorKind kind, bool blocked = false);
  void own_result(int64_t i, int64_t d, SdyFactorKind kind, bool blocked = false);
  SdyRule build();

 private:
  std::vector<Shape> operands_, results_;
  SdyRule rule_;
};

// --- The rules by kind of op; null where an op has none
using SdyRuleFunction = std::optional<SdyRule> (*)(const Node& node, bool conservative);

std::optional<SdyRule> pointwise_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> dot_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> ragged_dot_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> convolution_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> triangular_solve_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> gather_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> scatter_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> dynamic_slice_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> dynamic_update_slice_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> reshape_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> custom_call_sdy_rule(const Node& node, bool conservative);
std::optional<SdyRule> top_k_sdy_rule(const Node& node, bool conservative);

}  // namespace gspmd
