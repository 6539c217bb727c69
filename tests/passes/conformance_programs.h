#pragma once

#include <string>
#include <vector>

namespace gspmd::testing {

// An entry computation's lines, beside the samples of the op table.
struct Program {
  std::string name;
  std::string body;
};

// Scans, cumulative windows, sorts, choices, reductions of any computation.
std::vector<Program> order_programs();
std::string order_computations();  // what they call

}  // namespace gspmd::testing
