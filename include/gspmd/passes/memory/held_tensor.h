#pragma once

// Where values live, one by one.

#include <cstdint>
#include <string>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"

namespace gspmd {

// Where one leaf of one node's value lives.
struct BufferPlace {
  // Which storage holds it.
  enum Kind : uint8_t { arena, parameter, output, constant };
  Kind kind = arena;   // which storage holds it
  int64_t offset = 0;  // arena: bytes from the start, 64-aligned
  int64_t index = 0;   // parameter: flat entry parameter leaf; output: flat result leaf
  int64_t bytes = 0;   // of the leaf, on one device
};

// A value that a device holds at some moment.
struct HeldTensor {
  BufferPlace::Kind kind = BufferPlace::arena;  // where it is
  std::string name = {};                        // of the instruction
  Shape shape = {};                             // on one device
  int64_t bytes = 0;                            // on one device
  std::string source = {};  // "file:line" of the user's program; empty where it is not known
  bool operator==(const HeldTensor&) const = default;
};
// "dot.3 f32[64,64] 16384 bytes (model.cpp:12)".
GSPMD_API std::string to_string(const HeldTensor& tensor);

}  // namespace gspmd
