#pragma once

#include <map>
#include <set>
#include <vector>

#include "gspmd/ir/op.h"
#include "kernels/row_blocks.h"

namespace gspmd {

// Which columns of a block of rows add nothing, as a mask hides them: where a select between scores
// and a constant is decided by positions, and what follows from the constant is zero.
class HiddenColumns {
 public:
  // The value of a row that a guard looks at.
  struct Guard {
    const Node* value = nullptr;
    float least = 0;
    bool is_divisor = false;
    bool operator<(const Guard& other) const {
      return std::tie(value, least, is_divisor) <
             std::tie(other.value, other.least, other.is_divisor);
    }
  };

  // `summed`: the values of the space that products sum. Row dims are those behind `batch`, without
  // the last.
  HiddenColumns(const Computation& fused, Dims space, std::vector<const Node*> summed);

  // The columns of rows `first` to `last` (of the last row dim) that are to be gone through.
  BlockColumns live(int64_t first, int64_t last);
  // What has to hold wherever fewer than all columns are.
  const std::set<Guard>& guards() const { return guards_; }

 private:
  // What a value is in columns that are looked at.
  struct State {
    enum Kind : uint8_t { unknown, number, row, low, zero } kind = unknown;
    double number_is = 0;             // number
    const Node* row_value = nullptr;  // row: that value
  };
  struct Interval {
    bool is_known = false;
    double low = 0, high = 0;
  };
  using Embedding = std::vector<int64_t>;

  size_t number_of(const Embedding& embedding);
  bool add_nothing(int64_t first_column, int64_t last_column);
  State state_of(const Node& node, const Embedding& embedding);
  State computed_state(const Node& node, const Embedding& embedding);
  State product_state(const State& a, const State& b);
  State quotient_state(const State& a, const State& b);
  State difference_state(const State& a, const State& b);
  bool reduces_to_same(const Node& reduce);
  Interval combined_truth(const Node& node, const Interval& a, const Interval& b) const;
  Interval chosen_interval(const Node& select, const Embedding& embedding) const;
  Interval interval_of(const Node& node, const Embedding& embedding) const;

  const Computation& fused_;
  Dims space_;
  Dims rows_;                  // dims without the columns
  Embedding whole_, of_rows_;  // dims of the space and of rows as they are
  std::vector<const Node*> summed_;
  std::vector<std::pair<int64_t, int64_t>> box_;            // of each dim of the space: first, last
  std::vector<Embedding> embeddings_;                       // that were met, by number
  std::map<std::pair<const Node*, size_t>, State> states_;  // under an embedding
  std::set<Guard> found_, guards_;
};

}  // namespace gspmd
