#pragma once

#include <span>
#include <vector>

#include "gspmd/base/flat_map.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// A leaf of what one instruction makes, and when it is read.
struct ReadValue {
  struct Read {
    int64_t at = 0;      // position of the reader
    bool fixed = false;  // the result, or a collective under way: it reads this value and no other
  };
  Node* made_by = nullptr;
  int64_t leaf = 0;         // of its shape
  int64_t bytes = 0;        // on one device
  std::vector<Read> reads;  // in order

  int64_t last() const { return reads.empty() ? -1 : reads.back().at; }
};

// The values of one computation, names for others' storage (reshapes, tuples, ...) looked through.
class ValueReads {
 public:
  explicit ValueReads(const Computation& computation);

  // Of what runs, in order.
  Node& node_at(int64_t position) const { return *order_[static_cast<size_t>(position)]; }
  int64_t size() const { return std::ssize(order_); }
  // -1: it does not run.
  int64_t position_of(const Node& node) const;
  const ReadValue& operator[](int64_t value) const { return values_[static_cast<size_t>(value)]; }
  // The values that a node's leaves are, whoever made them; of a node that came later, none.
  std::span<const int64_t> leaves_of(const Node& node) const;

 private:
  void visit(Node& node, int64_t position);
  void read(const Node& node, int64_t position, bool fixed);

  std::vector<Node*> order_;
  FlatMap<const Node*, int64_t> positions_;
  FlatMap<const Node*, std::vector<int64_t>> leaves_;
  std::vector<ReadValue> values_;
};

}  // namespace gspmd
