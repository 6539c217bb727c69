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
  bool cumulates = false;  // each position reads all elements up to it, or all from it on
};

// A loop that dims of the operands may be cut along instead of the one that they are, so that the
// parts make partial results: all of a dim in one window, or a kernel that is cut like its input.
struct WindowSum {
  Factor factor;    // a reduction
  int64_t dim = 0;  // of the first operand
  // The dim of the second operand that has the loop too and has to be split like `dim`, -1: none,
  // what a part sums is its elements. Of the former, iteration k of the loop reads the first
  // operand as `step` says of a position k; its steps may go backwards.
  int64_t with = -1;
  WindowStep step = {};  // what one iteration reads
};

// Groups of a dim of the first operand, each of which meets a group of another loop's iterations.
struct WindowGroups {
  int64_t dim = 0;     // of the first operand
  int64_t factor = 0;  // the other loop, of the result: its groups lie one behind the other
  int64_t count = 1;   // how many groups
};

// An op's loop nest: which factor each dim of each operand and result is. "([i,k],[k,j])->([i,j])".
// Shardy's idea; docs/spec/partitioning.md 2.1. A dim is a factor or kNone (size 1, or unrelated).
struct FactorRule {
  static constexpr int64_t kNone = -1;         // in the lists below: no factor
  std::vector<Factor> factors;                 // in the order of the letters i, j, k, ...
  std::vector<std::vector<int64_t>> operands;  // [operand][dim] -> factor
  std::vector<std::vector<int64_t>> results;   // [result leaf][dim] -> factor
  // [operand][dim], of window factors; operands that have none may be missing at the end. Windows
  // of several operands: these stand one behind the other along one dim.
  std::vector<std::vector<WindowStep>> windows = {};
  // What windows read where there is no element: this number, or this scalar operand (-1: neither,
  // nothing is read there).
  std::optional<double> outside = std::nullopt;
  int64_t outside_operand = -1;  // which one
  // Scalar operands are what sums start from: they count once, however many parts there are.
  bool scalars_start = true;
  std::vector<WindowSum> sums = {};                   // other ways to cut dims
  std::optional<WindowGroups> groups = std::nullopt;  // what may be cut group by group
};

GSPMD_API std::string to_string(const FactorRule& rule);  // "([i,k],[k,j])->([i,j]) reduction={k}"

}  // namespace gspmd
