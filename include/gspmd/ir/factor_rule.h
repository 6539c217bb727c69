#pragma once

// Sharding rules as data: the loop nest of an op.

#include <cstdint>
#include <optional>
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

// How a window factor reads a dim of an operand: position p of the result reads `reach` places from
// p * step on, and element e of the operand is at place low + e * hole.
struct WindowStep {
  int64_t step = 1;   // places from one position of the result to the next; -1: counts backwards
  int64_t low = 0;    // places before the first element; negative: elements that are skipped
  int64_t hole = 1;   // places from one element to the next
  int64_t reach = 1;  // places that one position of the result reads
};

// An op's loop nest: which factor each dim of each operand and result is. "([i,k],[k,j])->([i,j])".
// Shardy's idea; docs/spec/partitioning.md 2.1. A dim is a factor or kNone (size 1, or unrelated).
struct FactorRule {
  static constexpr int64_t kNone = -1;         // in the lists below: no factor
  std::vector<Factor> factors;                 // in the order of the letters i, j, k, ...
  std::vector<std::vector<int64_t>> operands;  // [operand][dim] -> factor
  std::vector<std::vector<int64_t>> results;   // [result leaf][dim] -> factor
  // [operand][dim], of window factors; operands that have none may be missing at the end.
  std::vector<std::vector<WindowStep>> windows = {};
  // What windows read where there is no element: this number, or this scalar operand (-1: neither,
  // nothing is read there).
  std::optional<double> outside = std::nullopt;
  int64_t outside_operand = -1;  // which one
};

GSPMD_API std::string to_string(const FactorRule& rule);  // "([i,k],[k,j])->([i,j]) reduction={k}"

}  // namespace gspmd
