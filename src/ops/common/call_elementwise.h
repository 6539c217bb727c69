#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// What a computation of scalars gives for each element of arrays of equal dims, emitted beside
// them; a tuple where it returns one. nullptr: it calls or reads something that is no scalar.
Node* call_elementwise(const Computation& scalars, const std::vector<Node*>& arguments);

// What `combiner` gives for each pair of elements: values of n arrays and n others.
std::vector<Node*> combine_elementwise(const Computation& combiner, const std::vector<Node*>& a,
                                       const std::vector<Node*>& b);

}  // namespace gspmd
