#pragma once

// Ops of StableHLO in both forms, and the HLO that they are.

#include <string>
#include <vector>

namespace gspmd::stablehlo {

// A function @main with these arguments whose body returns `%r`. `pretty` and `generic` are the
// same ops, `hlo` is the body of the entry that they are, parameters apart: written by hand from
// the languages' specifications.
struct OpCase {
  std::string name;
  std::string arguments;  // "%a: tensor<4xf32>"
  std::string result;     // "tensor<4xf32>"
  std::string pretty;     // empty: the op has the generic form only
  std::string generic;
  std::string hlo;                // of parameters named as the arguments
  std::string computations = {};  // what `hlo` calls
};

std::vector<OpCase> elementwise_cases();
std::vector<OpCase> shape_cases();
std::vector<OpCase> contraction_cases();
std::vector<OpCase> region_cases();
std::vector<OpCase> other_cases();

}  // namespace gspmd::stablehlo
