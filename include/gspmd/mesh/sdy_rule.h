#pragma once

// Factor rules as Shardy's dialect says them: which loop each dim of operands and results is.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"

namespace gspmd {

// What a factor is to its op, which decides from which round of propagation on it is heard.
enum class SdyFactorKind : uint8_t { pass_through, reduction, need_replication, permutation };

// One loop of an op.
struct SdyFactor {
  int64_t size = 1;                                  // number of iterations
  SdyFactorKind kind = SdyFactorKind::pass_through;  // what it is to the op
  bool blocked = false;                              // never propagates
  bool operator==(const SdyFactor&) const = default;
};

// "([ij, k], [k])->([ij]) {i=2, j=4, k=8} reduction={k}": the factors of every dim, major first.
struct SdyRule {
  using Tensor = std::vector<std::vector<int64_t>>;  // [dim] -> factors
  std::vector<SdyFactor> factors = {};               // i, j, ...
  std::vector<Tensor> operands = {}, results = {};   // one entry per tensor
  bool custom = false;                               // given by the user
  bool operator==(const SdyRule&) const = default;
};

GSPMD_API std::string sdy_factor_name(int64_t factor);  // i j ... z z_1 z_2
// "#sdy.op_sharding_rule<...>", with or without that. UserError with the column and the way out
// where the text is none, or says of a factor what cannot be.
GSPMD_API SdyRule parse_sdy_rule(std::string_view text);
GSPMD_API std::string to_string(const SdyRule& rule);  // #sdy.op_sharding_rule<...>
// UserError where the rule has not one entry per operand, result and dim.
GSPMD_API void check_rule(const SdyRule& rule, std::span<const Shape> operands,
                          std::span<const Shape> results);

}  // namespace gspmd
