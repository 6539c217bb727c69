#pragma once

// Which nodes of a computation are marked, and what is known of each.

#include <algorithm>

#include "gspmd/ir/module.h"

namespace gspmd {

// The ids of a computation's nodes, for tables by id.
class NodeIds {
 public:
  explicit NodeIds(const Computation& computation) {
    if (computation.nodes().empty()) return;
    int64_t last = 0;
    first_ = INT64_MAX;
    for (const std::unique_ptr<Node>& node : computation.nodes()) {
      first_ = std::min(first_, node->id());
      last = std::max(last, node->id());
    }
    const auto range = static_cast<size_t>(last - first_) + 1;
    if (range <= kMostIdsPerNode * computation.nodes().size()) range_ = range;
  }

  // How many entries a table has; 0 where they would be many for each node.
  size_t range() const { return range_; }
  size_t index(const Node* node) const { return static_cast<size_t>(node->id() - first_); }

 private:
  static constexpr size_t kMostIdsPerNode = 64;
  int64_t first_ = 0;
  size_t range_ = 0;
};

// A set of a computation's nodes: a byte for each id, where the ids lie near one another.
class NodeMarks {
 public:
  explicit NodeMarks(const Computation& computation) : ids_(computation), by_id_(ids_.range()) {}

  bool contains(const Node* node) const {
    return by_id_.empty() ? others_.contains(node) : by_id_[ids_.index(node)] != 0;
  }
  // Whether it was not there.
  bool insert(const Node* node) {
    if (by_id_.empty()) return others_.insert(node);
    uint8_t& mark = by_id_[ids_.index(node)];
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
  // Adds what the root needs to an empty set: by the list from behind, where most stand behind what
  // they read, so that nodes are gone through as they lie in memory.
  void insert_needed_by_root(const Computation& computation) {
    const Node* const root = computation.root();
    if (by_id_.empty()) return insert_needed({&root, 1});
    std::vector<uint8_t> passed(by_id_.size());
    std::vector<const Node*> late;  // needed, and passed before that was known
    const auto insert_operands = [&](const Node* node) {
      for (const Node* operand : node->operands())
        if (insert(operand) && passed[ids_.index(operand)] != 0) late.push_back(operand);
    };
    insert(root);
    for (auto node = computation.nodes().rbegin(); node != computation.nodes().rend(); ++node) {
      passed[ids_.index(node->get())] = 1;
      if (contains(node->get())) insert_operands(node->get());
      while (!late.empty()) {
        const Node* const next = late.back();
        late.pop_back();
        insert_operands(next);
      }
    }
  }

 private:
  NodeIds ids_;
  size_t count_ = 0;
  std::vector<uint8_t> by_id_;
  FlatSet<const Node*> others_;  // where a byte for each id would be many bytes for each node
};

// What is known of each node that a computation had when this was made: a number or a pointer.
template <class T>
class NodeMap {
 public:
  explicit NodeMap(const Computation& computation) : ids_(computation), by_id_(ids_.range()) {
    if (by_id_.empty()) others_.reserve(computation.nodes().size());
  }

  // T's default where nothing was said yet.
  T& operator[](const Node* node) {
    return by_id_.empty() ? others_[node] : by_id_.at(ids_.index(node));
  }
  // std::out_of_range of nodes of which nothing was said, where that is seen.
  const T& at(const Node* node) const {
    return by_id_.empty() ? others_.at(node) : by_id_.at(ids_.index(node));
  }

 private:
  NodeIds ids_;
  std::vector<T> by_id_;
  FlatMap<const Node*, T> others_;  // as above
};

// The place of each node in the computation's list.
inline NodeMap<int64_t> node_positions(const Computation& computation) {
  NodeMap<int64_t> positions(computation);
  int64_t position = 0;
  for (const std::unique_ptr<Node>& node : computation.nodes()) positions[node.get()] = position++;
  return positions;
}

// As running_nodes().
NodeMarks running_marks(const Computation& computation);

}  // namespace gspmd
