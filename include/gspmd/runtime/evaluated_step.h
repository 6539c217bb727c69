#pragma once

// What of a program has no kernel.

#include <string>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"

namespace gspmd {

// An instruction that runs as the reference evaluates it: element by element, on one worker.
struct EvaluatedStep {
  std::string op;           // opcode
  std::string instruction;  // its name
  Shape shape;              // of its result, on one device
  std::string source;       // "file:line" of the user's program; empty where it is not known
};
// "rng \"noise\" f32[64,64] (model.cpp:12)".
GSPMD_API std::string to_string(const EvaluatedStep& step);

}  // namespace gspmd
