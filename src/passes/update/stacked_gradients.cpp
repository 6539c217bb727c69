#include "passes/update/stacked_gradients.h"

#include <optional>

#include "passes/collectives/loop_state.h"

namespace gspmd {
namespace {

// The loop, the element of its state, and the values in its body that become the next one.
struct Stacked {
  LoopState loop;
  size_t element = 0;
  std::vector<Node*> values;
  Node* inner = nullptr;  // stacked by a loop in the body; nullptr: the rows are written here
};

std::optional<Stacked> stacked(const Node& value) {
  if (!value.is(Opcode::get_tuple_element) || !value.operand(0)->is(Opcode::while_) ||
      value.shape.is_tuple || value.rank() < 2)
    return std::nullopt;
  const std::optional<LoopState> loop = loop_state(*value.operand(0));
  if (!loop) return std::nullopt;
  Stacked result{*loop, static_cast<size_t>(value.attrs.index), {}, nullptr};
  Node* const start = loop->read_in_body(result.element);
  Node* next = loop->next->operand(value.attrs.index);
  if (start == nullptr) return std::nullopt;
  while (next != start) {
    result.values.push_back(next);
    if (next->is(Opcode::dynamic_update_slice)) {
      Node* const row = next->operand(1);  // or what is added to it
      if (row->is(Opcode::add)) {
        result.values.push_back(row);
        for (Node* term : row->operands())
          if (term->is(Opcode::dynamic_slice)) result.values.push_back(term);
      }
      next = next->operand(0);
    } else if (next->is(Opcode::add) && result.inner == nullptr) {
      const int64_t sum = next->operand(0) == start ? 1 : 0;
      result.inner = next->operand(sum);
      next = next->operand(1 - sum);
      if (!is_stacked(*result.inner)) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (result.values.empty()) return std::nullopt;
  result.values.push_back(start);
  return result;
}

void set_element(Node& tuple, size_t element, const Sharding& sharding) {
  if (!tuple.sharding || !tuple.sharding->is_tuple()) return;
  size_t leaf = 0;
  for (size_t i = 0; i < element; ++i)
    leaf += static_cast<size_t>(leaf_count(tuple.shape.elements[i]));
  std::vector<Sharding> leaves = tuple.sharding->elements();
  leaves.at(leaf) = sharding;
  tuple.sharding = Sharding::tuple(std::move(leaves));
}

}  // namespace

bool is_stacked(const Node& value) { return stacked(value).has_value(); }

void shard_stacked(Node& value, const Sharding& sharding) {
  const std::optional<Stacked> found = stacked(value);
  if (!found) return;
  const LoopState& loop = found->loop;
  if (found->inner) shard_stacked(*found->inner, sharding);
  for (Node* node : found->values) node->sharding = sharding;
  for (Node* node : loop.reads_after(found->element)) node->sharding = sharding;
  for (Node* tuple : {loop.loop, loop.initial, loop.next, loop.body->parameters().at(0),
                      loop.condition->parameters().at(0)})
    set_element(*tuple, found->element, sharding);
}

}  // namespace gspmd
