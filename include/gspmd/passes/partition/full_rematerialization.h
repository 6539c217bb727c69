#pragma once

// What partitioning found no direct way for.

#include <string>

namespace gspmd {

// Replicate-then-slice where no direct way was found: the complaint to be able to explain.
struct FullRematerialization {
  std::string tensor;    // the value that is moved
  std::string shape;     // "f32[8,16]"
  std::string from, to;  // shardings
  std::string op;        // the reader that needed it
  std::string source;    // file:line, may be empty
  std::string avoid;     // annotations of either side, tried, that need none; empty: none was found
};

}  // namespace gspmd
