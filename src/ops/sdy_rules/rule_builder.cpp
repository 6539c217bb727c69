#include "ops/sdy_rules/rule_builder.h"

#include "gspmd/base/error.h"
#include "gspmd/ops/sdy_rules.h"

namespace gspmd {

SdyRuleBuilder::SdyRuleBuilder(const Node& node) {
  for (const Node* operand : node.operands()) operands_.push_back(operand->shape);
  if (const auto exchange = sdy_all_to_all(node)) operands_ = {exchange->operand->shape};
  results_ = leaf_shapes(node.shape);
  for (const Shape& shape : operands_)
    rule_.operands.emplace_back(static_cast<size_t>(shape.rank()));
  for (const Shape& shape : results_) rule_.results.emplace_back(static_cast<size_t>(shape.rank()));
}

void SdyRuleBuilder::add(const Dims& operand_dims, const Dims& result_dims, int64_t size,
                         SdyFactorKind kind, bool blocked) {
  const int64_t factor = std::ssize(rule_.factors);
  rule_.factors.push_back({size, kind, blocked});
  const auto put = [&](std::vector<SdyRule::Tensor>& tensors, const Dims& dims) {
    for (size_t i = 0; i < dims.size() && i < tensors.size(); ++i)
      if (dims[i] != kNoDim) tensors[i].at(static_cast<size_t>(dims[i])).push_back(factor);
  };
  put(rule_.operands, operand_dims);
  put(rule_.results, result_dims);
}

void SdyRuleBuilder::share(int64_t d, int64_t rank, int64_t size, SdyFactorKind kind,
                           bool blocked) {
  Dims operand_dims, result_dims;
  for (const Shape& shape : operands_) operand_dims.push_back(shape.rank() == rank ? d : kNoDim);
  for (const Shape& shape : results_) result_dims.push_back(shape.rank() == rank ? d : kNoDim);
  add(operand_dims, result_dims, size, kind, blocked);
}

void SdyRuleBuilder::own_operand(int64_t i, int64_t d, SdyFactorKind kind, bool blocked) {
  Dims dims(operands_.size(), kNoDim);
  dims.at(static_cast<size_t>(i)) = d;
  add(dims, {}, operand(i).at(static_cast<size_t>(d)), kind, blocked);
}

void SdyRuleBuilder::own_result(int64_t i, int64_t d, SdyFactorKind kind, bool blocked) {
  Dims dims(results_.size(), kNoDim);
  dims.at(static_cast<size_t>(i)) = d;
  add({}, dims, result(i).at(static_cast<size_t>(d)), kind, blocked);
}

SdyRule SdyRuleBuilder::build() {
  const auto fill = [&](std::vector<SdyRule::Tensor>& tensors) {
    for (SdyRule::Tensor& tensor : tensors)
      for (std::vector<int64_t>& dim : tensor)
        if (dim.empty()) {
          dim.push_back(std::ssize(rule_.factors));
          rule_.factors.push_back({1});
        }
  };
  fill(rule_.operands);
  fill(rule_.results);
  return std::move(rule_);
}

}  // namespace gspmd
