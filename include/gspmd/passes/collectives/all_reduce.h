#pragma once

// The ways in which devices reduce a value together.

#include <cstdint>
#include <string>
#include <string_view>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"

namespace gspmd {

// direct: one all-reduce. hierarchical: a reduce-scatter among neighbours, an all-reduce of what
// each then has among those of equal places, an all-gather among neighbours; on a mesh of two axes
// the second sends the payload over the size of the first's groups. ring: chunks go round twice.
// tree: pairs, pairs of pairs, ... and back, whole values: few messages. All four for any
// associative and commutative reduction; sums of floats are rounded in another order.
enum class AllReduceStrategy : uint8_t { direct, hierarchical, ring, tree };

// --- By name: direct, hierarchical, ring, tree. UserError lists the names.
GSPMD_API AllReduceStrategy all_reduce_strategy(std::string_view name);
GSPMD_API std::string to_string(AllReduceStrategy strategy);

// How all-reduces are carried out.
struct AllReduceOptions {
  AllReduceStrategy strategy = AllReduceStrategy::direct;  // of every all-reduce
  // hierarchical: members of a group, one after the other in its order, that are neighbours; on a
  // mesh (x,y) the size of y. 0: the largest divisor of the group's size up to its root.
  int64_t neighbours = 0;
};

// Writes the all-reduces of a per-device module as the strategy says: the values of each packed
// into one vector of a dtype, padded where it does not divide. All-reduces with other combiners
// than sum, product, maximum, minimum, and, or, and those whose groups differ in size or leave
// devices out stay. Returns whether anything changed. UserError: neighbours that do not divide a
// group, a ring of more than 256 devices.
GSPMD_API bool decompose_all_reduces(Module& module, const AllReduceOptions& options);

}  // namespace gspmd
