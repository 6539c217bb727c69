#pragma once

#include <map>
#include <string>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// Nodes that the root reaches, operands first: what runs.
std::vector<const Node*> live_nodes(const Computation& computation);

// The line "file:line" that an instruction comes from; of one that passes made, that of an
// instruction it reads. Empty where none is known.
std::string source_line_of(const Node& node);

// Storage of one or several leaves, and the positions in the linear order of the program tree
// between which it holds a value.
struct PlannedBuffer {
  enum Kind : uint8_t { arena, parameter, constant, output } kind = arena;
  int64_t index = 0;  // parameter: flat leaf; output: flat result leaf
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
  int64_t last_inside = -1;                // loop-carried: the last read inside condition and body
  int64_t free_first = 0, free_last = -1;  // loop-carried: where in the body it holds nothing
  mutable int64_t merged = -1;             // became part of that buffer; find() shortens the way
  int64_t shared_at = -1;                  // where a result was last put over an operand
  int64_t offset = 0;
  const Node* node = nullptr;  // it was made for
  Shape shape;
};

// A pair that one op allows to share storage: `result` written at the position where `operand` is
// read.
struct ShareCandidate {
  int64_t position = 0, operand = 0, result = 0;
};
// The body's new value of a loop-carried leaf.
struct CarryCandidate {
  int64_t carried = 0, next = 0;
};

// The program tree laid out on one line: buffers with lifetimes before any sharing. `of_leaf` in
// ascending order, each leaf once.
struct BufferTable {
  std::vector<PlannedBuffer> buffers;
  std::vector<std::pair<std::pair<int64_t, int64_t>, int64_t>> of_leaf;  // (node id, leaf), buffer
  std::vector<ShareCandidate> shares;
  std::vector<CarryCandidate> carries;
  std::vector<int64_t> parameters;  // flat entry leaves -> buffer
  std::vector<int64_t> roots;       // flat result leaves -> buffer
  std::vector<const Node*> at;      // position -> node
  int64_t find(int64_t buffer) const {
    for (;;) {
      const PlannedBuffer& b = buffers[static_cast<size_t>(buffer)];
      if (b.merged < 0) return buffer;
      const int64_t further = buffers[static_cast<size_t>(b.merged)].merged;
      if (further >= 0) b.merged = further;  // the next way is half as long
      buffer = b.merged;
    }
  }
  PlannedBuffer& operator[](int64_t buffer) { return buffers[static_cast<size_t>(find(buffer))]; }
};

BufferTable table_of_buffers(const Module& module, const std::map<int64_t, int64_t>& scratch);

}  // namespace gspmd
