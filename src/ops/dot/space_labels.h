#pragma once

#include <optional>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// Which dims of values are the same dim of a space: of the result of a product with batches, of
// what elementwise ops make of it in whatever order of dims, and of reductions of these.
class SpaceLabels {
 public:
  // One for each dim; -1: of size 1.
  using Labels = Dims;

  // The dims of one space, by what `roots` gives.
  struct Space {
    std::vector<Node*> products;    // whose results are values of it, in order
    std::vector<Node*> values;      // these and what follows, in order
    std::vector<const Node*> sums;  // products that sum its values
    Dims order;                     // batches, rows, the column: that of all values without turns
    int64_t batches = 0;            // the first of `order`
    bool is_reduced = false;        // along the column
    bool is_turned = false;         // some value has another order, or dims of size 1 on the way
  };

  // Of a sorted computation.
  explicit SpaceLabels(const Computation& computation);

  // Of values of spaces; nullptr: of no space.
  const Labels* find(const Node* node) const;
  // Equal for labels of the same dim.
  Labels roots(Labels labels) const;
  // Those whose values products sum; first those that are reduced.
  std::vector<Space> spaces() const;

 private:
  std::optional<Labels> labels_of(const Node& node);
  std::optional<Labels> elementwise_labels(const Node& node);
  void add_product(Node* dot);
  bool join(const Labels& a, const Labels& b);
  bool share_product(int64_t a, int64_t b) const;
  int64_t root(int64_t label) const;
  bool set_order(Space& space) const;
  int64_t column_of(Space& space) const;
  bool fits(const Space& space, const Node& dot) const;
  bool find_sums(Space& space) const;
  bool is_turned(const Space& space, const Node& value) const;

  FlatMap<const Node*, Labels> labels_;
  std::vector<Node*> values_;
  int64_t products_ = 0;                           // how many
  std::vector<int64_t> parent_;                    // of labels
  std::vector<std::vector<int64_t>> products_of_;  // of roots: the products that have this dim
};

// The labels of the dims of an operand of a product: of those that its result has; -1: others.
Dims operand_labels(const Node& dot, int64_t side, const Dims& of_result);

}  // namespace gspmd
