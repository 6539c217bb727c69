#include "passes/graph/started_collective.h"

#include <algorithm>

#include "gspmd/ir/op.h"

namespace gspmd {

bool begins_collective(const Node& node) {
  if (!node.is(Opcode::async_start) || node.called.size() != 1) return false;
  const Node* const root = node.called[0]->root();
  return root != nullptr && root->op().has(kCollective) &&
         root->operands() == node.called[0]->parameters() &&
         root->operands().size() == node.operands().size() &&
         std::all_of(node.users().begin(), node.users().end(),
                     [](const Node* user) { return user->is(Opcode::async_done); });
}

}  // namespace gspmd
