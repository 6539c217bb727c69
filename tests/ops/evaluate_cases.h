#pragma once

#include <string>
#include <vector>

#include "gspmd/ops/evaluate.h"

namespace gspmd::testing {

// A computation on constants with its result, both as HLO text: `body` ends in ROOT, `expected` is
// constants separated by blanks: "s8[2] {1,2} f32[] 3" (a tuple's leaves).
struct EvaluateCase {
  std::string name;
  std::string body;
  std::string expected;
};

// Runs the entry lines without arguments (samples.h: with_entry).
Value run_text(const std::string& body);
std::vector<Array> literals(const std::string& text);
// CHECKs that the case gives the expected leaves bit for bit.
void check_case(const EvaluateCase& test);
// The message of the error that reading and running `body` throws; "" when none.
std::string error_of(const std::string& body);

}  // namespace gspmd::testing
