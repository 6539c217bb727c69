#pragma once

#include <optional>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// What the structure of a combiner (n values, then n more, to n) proves of it. Known are: one op
// with a name per value, in a wider float type or not; and selections, which compare values of one
// place and hand them on unchanged (argmax, and the like), for all numbers, NaN apart. Neither of
// anything else: constants, arithmetic and clamps may make an order or a grouping matter.
struct CombinerLaws {
  bool associative = false;
  bool commutative = false;
};
CombinerLaws laws_of(const Computation& combiner);

// The ops of a combiner that joins n values each by itself, by one op that has a name: the
// reduction is that many reductions by one op each. Empty where it is none.
std::vector<Opcode> separate_ops(const Computation& combiner);

// A combiner of (value, place) pairs that hands on the pair of the extreme value, NaN before all
// numbers; of equal values the place that comes first, where places grow, so that the place of the
// first extreme is found along a line. Zeros of both signs are equal: which one it hands on is
// open.
struct ExtremePlace {
  bool greatest = true;
  bool least_place = true;  // of equal values the least place; else what comes first, all in all
};
std::optional<ExtremePlace> extreme_place_of(const Computation& combiner);

// The combiner on n values and a flag: what is not flagged is left out. So there is something to
// start from, and to put beside an end, that changes nothing. In the combiner's module.
Computation* with_flag(Computation& combiner);

}  // namespace gspmd
