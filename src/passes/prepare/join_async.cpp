#include "gspmd/passes/prepare/join_async.h"

#include <optional>
#include <vector>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

std::optional<Opcode> joined_opcode(Opcode start) {
  switch (start) {
    case Opcode::all_reduce_start:
      return Opcode::all_reduce;
    case Opcode::all_gather_start:
      return Opcode::all_gather;
    case Opcode::collective_permute_start:
      return Opcode::collective_permute;
    case Opcode::copy_start:
      return Opcode::copy;
    case Opcode::async_start:
      return Opcode::call;
    default:
      return std::nullopt;
  }
}

bool is_done(const Node& node) {
  return node.is(Opcode::all_reduce_done) || node.is(Opcode::all_gather_done) ||
         node.is(Opcode::collective_permute_done) || node.is(Opcode::copy_done) ||
         node.is(Opcode::async_done);
}

// What a -done ends, through the updates between.
Node* start_of(const Node& done) {
  Node* node = done.operand(0);
  while (node->is(Opcode::async_update)) node = node->operand(0);
  return node;
}

// collective-permute-start may carry more operands than the value: where to write, how much.
// Updates may bind operands behind those of an async-start.
std::vector<Node*> operands_of(const Node& start, const Node& done) {
  if (start.is(Opcode::collective_permute_start)) return {start.operand(0)};
  std::vector<const Node*> updates;
  for (const Node* at = done.operand(0); at != &start; at = at->operand(0)) updates.push_back(at);
  std::vector<Node*> operands = start.operands();
  while (!updates.empty()) {
    const std::vector<Node*>& more = updates.back()->operands();
    operands.insert(operands.end(), more.begin() + 1, more.end());
    updates.pop_back();
  }
  if (start.is(Opcode::async_start) && operands.size() != start.called.at(0)->parameters().size())
    user_error(place_of(done),
               "async-done: \"{}\" ends a call of \"{}\" with {} of its {} operands bound",
               done.name(), start.called[0]->name(), operands.size(),
               start.called[0]->parameters().size());
  return operands;
}

bool join_in(Computation& computation) {
  std::vector<Node*> ends;
  for (const auto& node : computation.nodes())
    if (is_done(*node) && joined_opcode(start_of(*node)->opcode())) ends.push_back(node.get());
  for (Node* done : ends) {
    const Node& start = *start_of(*done);
    const Opcode opcode = *joined_opcode(start.opcode());
    Attributes attrs = start.attrs;
    attrs.other.clear();
    Node* const joined = computation.append(opcode, done->shape, operands_of(start, *done),
                                            std::move(attrs), done->name());
    joined->called = start.called;
    copy_annotations(*done, *joined);
    computation.replace_uses(done, joined);
  }
  return !ends.empty();
}

}  // namespace

bool join_async(Module& module) {
  const bool changed = rewrite_each(module, join_in);
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace gspmd
