#pragma once

#include <vector>

#include "gspmd/ir/factor_rule.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Digits per factor: how an op's loop nest is spread over devices.
using FactorDigits = std::vector<Digits>;

// The sharding of an operand (result) whose dim d is factor `dims[d]`, when factors are spread so.
Sharding project(DeviceOrder order, const std::vector<int64_t>& dims, const FactorDigits& factors);

// The layout of a value that is partial as well: along digits of that order.
Sharding with_unreduced(const Sharding& layout, DeviceOrder order,
                        const std::vector<Unreduced>& unreduced);

// What a tensor's sharding says of each factor: its digits on the dim that is the factor.
FactorDigits factors_of(const FactorRule& rule, const std::vector<int64_t>& dims,
                        const Sharding& sharding);

}  // namespace gspmd
