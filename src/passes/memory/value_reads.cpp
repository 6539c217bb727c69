#include "passes/memory/value_reads.h"

#include "gspmd/ir/effects.h"
#include "passes/graph/alias.h"

namespace gspmd {
namespace {

// The end of what a start has begun.
bool ends_start(const Node& node) {
  return !node.operands().empty() &&
         (node.is(Opcode::async_done) || node.is(Opcode::all_reduce_done) ||
          node.is(Opcode::all_gather_done) || node.is(Opcode::collective_permute_done));
}

}  // namespace

ValueReads::ValueReads(const Computation& computation) {
  const FlatSet<const Node*> running = running_nodes(computation);
  for (const auto& node : computation.nodes()) {
    if (!running.contains(node.get())) continue;
    const int64_t position = std::ssize(order_);
    order_.push_back(node.get());
    positions_.emplace(node.get(), position);
    visit(*node, position);
  }
  read(*computation.root(), std::ssize(order_), true);
}

int64_t ValueReads::position_of(const Node& node) const {
  const int64_t* const found = positions_.find(&node);
  return found == nullptr ? -1 : *found;
}

std::span<const int64_t> ValueReads::leaves_of(const Node& node) const {
  const std::vector<int64_t>* const found = leaves_.find(&node);
  return found == nullptr ? std::span<const int64_t>() : *found;
}

void ValueReads::visit(Node& node, int64_t position) {
  std::vector<int64_t> leaves;
  if (node.is(Opcode::get_tuple_element)) {
    const std::vector<int64_t>& all = leaves_.at(node.operand(0));
    const std::vector<Shape>& elements = node.operand(0)->shape.elements;
    int64_t first = 0;
    for (int64_t i = 0; i < node.attrs.index; ++i)
      first += leaf_count(elements[static_cast<size_t>(i)]);
    leaves.assign(all.begin() + first, all.begin() + first + leaf_count(node.shape));
  } else if (is_alias(node)) {
    for (const Node* operand : node.operands()) {
      const std::vector<int64_t>& more = leaves_.at(operand);
      leaves.insert(leaves.end(), more.begin(), more.end());
    }
  } else {
    for (const Node* operand : node.operands()) read(*operand, position, false);
    // What the start was given is read until here.
    if (ends_start(node))
      for (const Node* operand : node.operand(0)->operands()) read(*operand, position, true);
    for (const Shape& shape : leaf_shapes(node.shape)) {
      values_.push_back({&node, std::ssize(leaves), shape.bytes(), {}});
      leaves.push_back(std::ssize(values_) - 1);
    }
  }
  leaves_.emplace(&node, std::move(leaves));
}

void ValueReads::read(const Node& node, int64_t position, bool fixed) {
  for (const int64_t value : leaves_.at(&node)) {
    std::vector<ReadValue::Read>& reads = values_[static_cast<size_t>(value)].reads;
    if (!reads.empty() && reads.back().at == position)
      reads.back().fixed |= fixed;
    else
      reads.push_back({position, fixed});
  }
}

}  // namespace gspmd
