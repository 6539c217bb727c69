#pragma once

// Sharding rules as data: the loop nest of an op.

#include <cstdint>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// How a loop meets shards.
enum class FactorKind : uint8_t {
  pass,       // a loop that operands and result share
  reduction,  // summed (or combined) out of the result
  window,     // operand and result dims differ in size or offset: propagates; local only when whole
  blocked,    // must be whole on every device; does not propagate
};

// One loop.
struct Factor {
  int64_t size = 1;                    // number of iterations
  FactorKind kind = FactorKind::pass;  // what the loop is
  Combiner combiner = Combiner::sum;   // of a reduction
  bool operator==(const Factor&) const = default;
};

// An op's loop nest: which factor each dim of each operand and result is. "([i,k],[k,j])->([i,j])".
// Shardy's idea; docs/spec/partitioning.md 2.1. A dim is a factor or kNone (size 1, or unrelated).
struct FactorRule {
  static constexpr int64_t kNone = -1;         // in the lists below: no factor
  std::vector<Factor> factors;                 // in the order of the letters i, j, k, ...
  std::vector<std::vector<int64_t>> operands;  // [operand][dim] -> factor
  std::vector<std::vector<int64_t>> results;   // [result leaf][dim] -> factor
};

GSPMD_API std::string to_string(const FactorRule& rule);  // "([i,k],[k,j])->([i,j]) reduction={k}"

}  // namespace gspmd
