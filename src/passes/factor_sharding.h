#pragma once

#include <optional>
#include <vector>

#include "gspmd/ir/factor_rule.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Digits per factor: how an op's loop nest is spread over devices.
using FactorDigits = std::vector<Digits>;

// The sharding of an operand (result) whose dim d is factor `dims[d]`, when factors are spread so.
Sharding project(DeviceOrder order, const std::vector<int64_t>& dims, const FactorDigits& factors);

// What a tensor's sharding says of each factor: its digits on the dim that is the factor.
FactorDigits factors_of(const FactorRule& rule, const std::vector<int64_t>& dims,
                        const Sharding& sharding);

// Candidate for a result leaf from one operand, for one operand from the result, and for one
// operand from another one; nullopt where the neighbour has no sharding that can be mapped. Blocked
// factors carry nothing.
std::optional<Sharding> result_from_operand(const Node& node, const FactorRule& rule,
                                            int64_t operand, int64_t leaf = 0);
std::optional<Sharding> operand_from_result(const Node& node, const FactorRule& rule,
                                            int64_t operand);
std::optional<Sharding> operand_from_operand(const Node& node, const FactorRule& rule,
                                             int64_t operand, int64_t other);

}  // namespace gspmd
