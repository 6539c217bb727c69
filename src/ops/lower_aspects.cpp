#include "ops/convolution.h"
#include "ops/loop_lowering.h"
#include "ops/rows.h"
#include "ops/shape_lower.h"
#include "ops/strided_view.h"
#include "ops/window.h"

namespace gspmd {
namespace {

PreparedKernel first_of(const Node& node, PreparedKernel (*one)(const Node&),
                        PreparedKernel (*other)(const Node&)) {
  PreparedKernel kernel = one(node);
  return kernel.run ? std::move(kernel) : other(node);
}

PreparedKernel lower_any_broadcast(const Node& node) {
  return first_of(node, lower_loop_node, lower_broadcast);
}

PreparedKernel lower_fusion(const Node& node) {
  return node.attrs.fusion_kind == "kOutput" ? lower_dot_fusion(node) : lower_loop_fusion(node);
}

std::vector<LowerAspect> build_aspects() {
  std::vector<LowerAspect> aspects{
      {Opcode::broadcast, lower_any_broadcast},
      {Opcode::iota, lower_loop_node},
      {Opcode::reduce, lower_loop_node},
      {Opcode::fusion, lower_fusion},
      {Opcode::dot, lower_dot},
      {Opcode::transpose, lower_transpose},
      {Opcode::reverse, lower_reverse},
      {Opcode::slice, lower_slice},
      {Opcode::concatenate, lower_concatenate},
      {Opcode::pad, lower_pad},
      {Opcode::dynamic_slice, lower_dynamic_slice},
      {Opcode::dynamic_update_slice, lower_dynamic_update_slice},
      {Opcode::gather, lower_gather},
      {Opcode::scatter, lower_scatter},
      {Opcode::convolution, lower_convolution},
      {Opcode::reduce_window, lower_reduce_window},
      {Opcode::select_and_scatter, lower_select_and_scatter},
  };
  for (const OpInfo& row : elementwise_rows()) {
    if (row.has(kElementwise)) aspects.push_back({row.opcode, lower_loop_node});
  }
  return aspects;
}

}  // namespace

std::span<const LowerAspect> lower_aspects() {
  static const std::vector<LowerAspect> aspects = build_aspects();
  return aspects;
}

}  // namespace gspmd
