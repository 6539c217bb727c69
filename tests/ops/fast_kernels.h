#pragma once

#include <string>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/ir/module.h"

namespace gspmd::testing {

// Values of a seed: small numbers with many ties, infinities, zeros of both signs and, where
// `nan`, NaNs. Of any type.
Array special_values(const Shape& shape, unsigned seed, bool nan);

// Runs the root of a module, an instruction on parameters, constants and iotas, on its fast kernel
// and on its reference kernel. Bits have to agree, those of NaNs aside, or numbers within
// `tolerance` of the largest. Fails where there is no fast kernel.
void expect_fast(const std::string& text, const std::vector<Array>& arguments,
                 double tolerance = 0);

// What the fast kernel of a node of one operand makes of it, in memory full of 77.
Array first_run(const Node& node, const Array& operand);

}  // namespace gspmd::testing
