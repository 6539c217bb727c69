#pragma once

// What recompute() did to a value.

#include <cstdint>
#include <string>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"

namespace gspmd {

// A value that is made a second time instead of being kept.
struct Recomputation {
  std::string name;    // of the instruction that made it first
  Shape shape;         // on one device
  std::string before;  // the instruction that reads it made again; others may follow
  int64_t bytes = 0;   // that are free on one device meanwhile
  double flops = 0;    // of one device, that are spent again; 0 where it is only made later
  std::string source;  // "file:line" of the user's program; empty where it is not known
};
// "gelu.3 f32[64,64] again before dot.9: 16384 bytes less for 4096 FLOPs (model.cpp:12)".
GSPMD_API std::string to_string(const Recomputation& recomputation);

}  // namespace gspmd
