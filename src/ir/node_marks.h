#pragma once

// Which nodes of a computation are marked.

#include <algorithm>

#include "gspmd/ir/module.h"

namespace gspmd {

// A set of a computation's nodes: a byte for each id, where the ids lie near one another.
class NodeMarks {
 public:
  explicit NodeMarks(const Computation& computation) {
    if (computation.nodes().empty()) return;
    int64_t last = 0;
    first_ = INT64_MAX;
    for (const std::unique_ptr<Node>& node : computation.nodes()) {
      first_ = std::min(first_, node->id());
      last = std::max(last, node->id());
    }
    const auto range = static_cast<size_t>(last - first_) + 1;
    if (range <= kMostIdsPerNode * computation.nodes().size()) by_id_.resize(range);
  }

  bool contains(const Node* node) const {
    return by_id_.empty() ? others_.contains(node) : by_id_[index(node)] != 0;
  }
  // Whether it was not there.
  bool insert(const Node* node) {
    if (by_id_.empty()) return others_.insert(node);
    uint8_t& mark = by_id_[index(node)];
    count_ += mark == 0;
    return std::exchange(mark, uint8_t{1}) == 0;
  }
  size_t size() const { return by_id_.empty() ? others_.size() : count_; }

  // Adds values and all that they are made of to a set that has all that its nodes are made of.
  void insert_needed(std::span<const Node* const> values) {
    std::vector<const Node*> stack(values.begin(), values.end());
    while (!stack.empty()) {
      const Node* const node = stack.back();
      stack.pop_back();
      if (!insert(node)) continue;
      for (const Node* operand : node->operands())
        if (!contains(operand)) stack.push_back(operand);
    }
  }

 private:
  static constexpr size_t kMostIdsPerNode = 64;
  size_t index(const Node* node) const { return static_cast<size_t>(node->id() - first_); }

  int64_t first_ = 0;
  size_t count_ = 0;
  std::vector<uint8_t> by_id_;
  FlatSet<const Node*> others_;  // where a byte for each id would be many bytes for each node
};

// As running_nodes().
NodeMarks running_marks(const Computation& computation);

}  // namespace gspmd
