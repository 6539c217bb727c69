#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gspmd/mesh/replica_groups.h"

// What the files of this module share about digits, beyond the public algebra.

namespace gspmd {

// Whether no two digits read the same part of a rank and all their boundaries lie on one chain of
// divisors of `count`.
bool fits(Digits digits, int64_t count);

// What fitting digits leave of `count`, by descending stride.
Digits complement(Digits digits, int64_t count);

// All that a sharding's dims, its manual digits and its unreduced ones name.
struct Unreduced;
Digits all_digits(const std::vector<Digits>& dims, const Digits& manual,
                  const std::vector<Unreduced>& unreduced);

// The digits without their order: by descending stride, canonical.
Digits as_set(Digits digits);

// The ranks met when counting through `sequence`, major first: [(2,1),(2,2)] -> 0,2,1,3.
std::vector<int64_t> ranks_in_order(const Digits& sequence);

// The same list of ranks as iota(prod(reshape)).reshape(reshape).transpose(transpose), shortest
// form; transpose is empty for the identity. `sequence` reads the whole rank.
struct IotaForm {
  std::vector<int64_t> reshape;
  std::vector<int64_t> transpose;
};
IotaForm iota_form(Digits sequence);

// The digits, in the order of the members, of which groups in the iota form are the tiles; empty
// for lists, and where there are none.
Digits group_digits(const ReplicaGroups& groups);

// Digits of the positions in a row-major array.
std::vector<Digits> row_major_digits(std::span<const int64_t> dims);

// The digits of every dim of a row-major array of ranks (a permutation of 0..n-1), where the array
// is such a digit permutation. Linear in the array.
std::optional<std::vector<Digits>> find_digits(std::span<const int64_t> dims,
                                               std::span<const int64_t> ranks);

}  // namespace gspmd
