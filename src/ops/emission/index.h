#pragma once

// Arithmetic on what differs from device to device: partition ids, tiles, positions of elements;
// and what values have at such positions.

#include <cstdint>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/mesh/digits.h"

namespace gspmd {

// A whole number of the program being built, or an array of them; s32 where nothing else is said.
class IndexNode {
 public:
  explicit IndexNode(Node* node) : node_(node) {}
  IndexNode(Computation& c, int64_t value);  // s32[], the same on all devices
  operator Node*() const { return node_; }
  Node* operator->() const { return node_; }

 private:
  Node* node_;
};

// --- Numbers are of the type and the shape of the index; those that change nothing are left out
IndexNode operator+(IndexNode a, int64_t b);
IndexNode operator-(int64_t a, IndexNode b);
IndexNode operator*(IndexNode a, int64_t b);
IndexNode operator/(IndexNode a, int64_t b);  // rounds towards zero
IndexNode operator%(IndexNode a, int64_t b);  // has the sign of a
IndexNode minimum(IndexNode a, int64_t b);
IndexNode maximum(IndexNode a, int64_t b);
IndexNode operator+(IndexNode a, IndexNode b);
IndexNode operator-(IndexNode a, IndexNode b);

// This device, as computed anew in `c`.
IndexNode device_number(Computation& c);
// The tile of `digits`, one or more, that the device of that rank is in, of an order of `count`.
IndexNode digits_index(IndexNode rank, const Digits& digits, int64_t count);
// Entry number `at`; beyond both ends the first and the last.
IndexNode look_up(const std::vector<int64_t>& table, IndexNode at);

// Positions along `dim` of the elements of a value of these dims, whose first is number `first`.
IndexNode positions(const Dims& dims, int64_t dim, IndexNode first);
// Whether begin <= position < end, by element. The bounds are scalars.
Node* within(IndexNode positions, IndexNode begin, IndexNode end);
Node* compare(IndexNode positions, IndexNode bound, Direction direction);

// --- `size` elements of x along `dim` from `begin` on; x itself where that is plainly all of it
Node* cut(Node* x, int64_t dim, int64_t begin, int64_t size);
Node* cut(Node* x, int64_t dim, IndexNode begin, int64_t size);
// With `low` elements before and `high` behind those of the dim, which are `value`, or 0 where that
// is null.
Node* pad(Node* x, int64_t dim, int64_t low, int64_t high, Node* value = nullptr);
Node* pad(Node* x, std::vector<PaddingDim> padding, Node* value = nullptr);  // x itself for none

}  // namespace gspmd
