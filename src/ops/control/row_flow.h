#pragma once

#include "ir/node_marks.h"
#include "ops/control/row_tiles.h"

namespace gspmd {

constexpr int64_t kMostRowDims = 4;  // more leading dims are not looked at

// Which values of a computation have the rows of its results, and which are the same for all.
class RowFlow {
 public:
  explicit RowFlow(const Computation& body);
  // Leading dims that all values with rows have, of the same sizes; 0: some op mixes rows.
  int64_t depth() const { return depth_; }
  bool is_read(const Node& node) const { return states_.at(&node) != kUnread; }
  bool has_rows(const Node& node) const { return states_.at(&node) == kRows; }

 private:
  enum State : uint8_t { kUnread, kWhole, kRows };
  void mark(const Node& node, State state);
  void enter(const Node& node, const Dims& first);

  NodeMap<State> states_;
  int64_t depth_;
};

}  // namespace gspmd
