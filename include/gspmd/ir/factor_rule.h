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

// How an op's operands meet when completion goes forward (docs/spec/completion.md 6).
enum class CombinePolicy : uint8_t {
  merge_all,      // each operand in turn (level > 0), else the most specific one
  first_operand,  // operand 0 only
  larger_first,   // larger operand in bytes first, with look-ahead to the first sharded user
};

// An op's loop nest: which factor each dim of each operand and result is. "([i,k],[k,j])->([i,j])".
// Shardy's idea; docs/spec/partitioning.md 2.1. A dim is a factor or kNone (size 1, or unrelated).
struct FactorRule {
  static constexpr int64_t kNone = -1;              // in the lists below: no factor
  std::vector<Factor> factors;                      // in the order of the letters i, j, k, ...
  std::vector<std::vector<int64_t>> operands;       // [operand][dim] -> factor
  std::vector<std::vector<int64_t>> results;        // [result leaf][dim] -> factor
  CombinePolicy policy = CombinePolicy::merge_all;  // how operands meet
  int forward_level = 1;   // aggressiveness at which operands give to results
  int backward_level = 1;  // aggressiveness at which results give to operands
};

GSPMD_API std::string to_string(const FactorRule& rule);  // "([i,k],[k,j])->([i,j]) reduction={k}"

}  // namespace gspmd
