// Where the digits of a sharding came from.

#include <algorithm>

#include "passes/propagation.h"

namespace gspmd {
namespace {

// Which leaf of `via` a leaf of its neighbour `node` is; -1: not known.
int64_t leaf_in(const Node& via, const Node& node, int64_t leaf) {
  if (!via.shape.is_tuple) return 0;
  int64_t element = -1;
  if (node.is(Opcode::get_tuple_element) && node.operand(0) == &via) element = node.attrs.index;
  for (size_t i = 0; via.is(Opcode::tuple) && element < 0 && i < via.operands().size(); ++i)
    if (via.operands()[i] == &node) element = static_cast<int64_t>(i);
  if (element < 0)
    return node.shape.is_tuple && leaf_count(node.shape) == leaf_count(via.shape) ? leaf : -1;
  for (int64_t e = 0; e < element; ++e)
    leaf += leaf_count(via.shape.elements[static_cast<size_t>(e)]);
  return leaf;
}

// The annotation behind a digit of `via`: the same digit, else one that it is a part of; of leaf
// `leaf`, -1: of any.
const Origin* source_of(const Node& via, int64_t leaf, int64_t dim, const Digit& digit) {
  const auto begin = std::lower_bound(via.origins.begin(), via.origins.end(), leaf,
                                      [](const Origin& o, int64_t l) { return o.leaf < l; });
  const Origin* best = nullptr;
  int best_score = 0;
  for (auto at = begin; at != via.origins.end() && (leaf < 0 || at->leaf == leaf); ++at) {
    const bool same = at->digit == digit;
    if (!same && (best_score > 2 || disjoint({at->digit}, {digit}))) continue;
    const int score = (same ? 3 : 1) + (at->dim == dim ? 1 : 0);
    if (score > best_score) {
      best = &*at;
      best_score = score;
    }
  }
  return best;
}

Origin origin_through(const Node& node, const Node& via, int64_t leaf, int64_t dim,
                      const Digit& digit) {
  Origin origin{leaf, dim, digit, node.name(), {}};
  if (&via == &node) return origin;
  origin.via = via.name();
  const Origin* source = source_of(via, leaf_in(via, node, leaf), dim, digit);
  // A loop that the reader's result does not show is known to its other operands.
  for (const Node* operand : via.operands())
    if (!source && operand != &node) source = source_of(*operand, -1, dim, digit);
  origin.annotation = source ? source->annotation : via.name();
  return origin;
}

// `known` is sorted by leaf.
void append_leaf(Node& node, int64_t leaf, const Sharding& sharding,
                 const std::vector<Origin>& known, const Node& via, std::vector<Origin>& out) {
  auto first = std::lower_bound(known.begin(), known.end(), leaf,
                                [](const Origin& o, int64_t l) { return o.leaf < l; });
  for (int64_t d = 0; d < sharding.rank(); ++d)
    for (const Digit& digit : sharding.dim(d)) {
      auto at = first;
      while (at != known.end() && at->leaf == leaf && !(at->dim == d && at->digit == digit)) ++at;
      const bool found = at != known.end() && at->leaf == leaf;
      out.push_back(found ? *at : origin_through(node, via, leaf, d, digit));
    }
}

// For a leaf of a tuple of values: the value that it is.
const Node& supplier(const Node& node, const Node& via, int64_t leaf) {
  if (!node.is(Opcode::tuple) || &via != &node) return via;
  for (const Node* operand : node.operands()) {
    const int64_t leaves = leaf_count(operand->shape);
    if (leaf < leaves) return *operand;
    leaf -= leaves;
  }
  return via;
}

}  // namespace

void record_origins(Node& node, const Node& via, const std::vector<const Node*>& by_leaf) {
  if (!node.sharding) return;
  const bool tuple = node.sharding->is_tuple();
  const size_t count = tuple ? node.sharding->elements().size() : 1;
  std::vector<Origin> origins;
  for (size_t i = 0; i < count; ++i) {
    const auto leaf = static_cast<int64_t>(i);
    const Sharding& s = tuple ? node.sharding->elements()[i] : *node.sharding;
    const Node* known = i < by_leaf.size() ? by_leaf[i] : nullptr;
    append_leaf(node, leaf, s, node.origins, known ? *known : supplier(node, via, leaf), origins);
  }
  node.origins = std::move(origins);
}

}  // namespace gspmd
