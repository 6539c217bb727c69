#include "passes/graph/alias.h"

#include "gspmd/ir/op.h"
#include "ops/control/control.h"

namespace gspmd {

bool is_alias(const Node& node) {
  if (node.is(Opcode::tuple) || node.is(Opcode::get_tuple_element) || is_annotation(node))
    return true;
  // Elements of less than a byte may be packed differently.
  return node.op().has(kAlias) && node.operand(0)->shape.bytes() == node.shape.bytes();
}

}  // namespace gspmd
