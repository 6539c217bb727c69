#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "gspmd/mesh/sdy.h"
#include "gspmd/mesh/sdy_rule.h"

namespace gspmd {

// How one factor of one tensor is split.
struct FactorSharding {
  SdyAxes axes;            // major first
  SdyAxes overflow = {};   // axes of its dim that the factor cannot take, behind `axes`
  bool closed = false;     // takes no more axes
  bool minor_most = true;  // the last factor of its dim
};

// A tensor's sharding as shardings of its factors (docs/spec/completion.md 10.2).
struct TensorProjection {
  std::vector<std::pair<int64_t, FactorSharding>> factors;  // by dim, major first
  SdyAxes reserved;  // replicated and unreduced axes: not to be used
  FactorSharding* find(int64_t factor);
  const FactorSharding* find(int64_t factor) const;
};

// All tensors of an op, operands before results.
struct Projection {
  std::vector<TensorProjection> tensors;
  size_t operands = 0;  // how many of them are operands
  bool is_operand(size_t tensor) const { return tensor < operands; }
};

// `sharding` absent: all dims open.
TensorProjection project(const std::optional<SdySharding>& sharding, const SdyRule::Tensor& tensor,
                         const SdyRule& rule);
// The dims' axes that the factors make, major first; what lies on minor factors behind one that is
// not fully split is lost.
std::vector<SdyAxes> project_back(const TensorProjection& projection, const SdyRule::Tensor& tensor,
                                  const SdyRule& rule);

}  // namespace gspmd
