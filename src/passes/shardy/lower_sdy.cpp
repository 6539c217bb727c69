#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "gspmd/passes/shardy/propagate_shardy.h"
#include "ir/sdy_names.h"
#include "passes/shardy/import_shardings.h"
#include "passes/shardy/prepare.h"
#include "passes/shardy/program_builder.h"

namespace gspmd {
namespace {

Node* border_call(Node* value, const char* target, Shape shape, const Sharding& sharding,
                  const Node& like) {
  Attributes attrs;
  attrs.custom_call_target = target;
  Node* const call = value->parent().append(Opcode::custom_call, std::move(shape), {value},
                                            std::move(attrs), like.name());
  call->metadata = like.metadata;
  call->sharding = sharding;
  return call;
}

const Sharding& leaf_sharding(const Node& node, size_t leaf) {
  return node.sharding->is_tuple() ? node.sharding->elements().at(leaf) : *node.sharding;
}

// The values that a manual computation's border takes, leaf by leaf.
std::vector<Node*> border_operands(const Node& border) {
  std::vector<Node*> values;
  for (Node* operand : border.operands()) {
    const std::vector<Node*> leaves = hlo::leaves(operand);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i]->sharding && operand->sharding)
        leaves[i]->sharding = leaf_sharding(*operand, i);
      values.push_back(leaves[i]);
    }
  }
  return values;
}

Sharding outside_of(const SdyProgram& program, const SdyBorder& border, size_t i) {
  return to_sharding(*program.slots.at(static_cast<size_t>(border.outside.at(i))).sharding,
                     program.meshes, border.outer);
}

void enter_region(const SdyProgram& program, const SdyBorder& border) {
  Node& node = *border.node;
  const std::vector<Node*> values = border_operands(node);
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  std::vector<Node*> parts;
  for (size_t i = 0; i < values.size(); ++i) {
    Node* const whole =
        border_call(values[i], "Sharding", values[i]->shape, outside_of(program, border, i), node);
    parts.push_back(
        border_call(whole, "SPMDFullToShardShape", shapes[i], leaf_sharding(node, i), node));
  }
  Node* const all = node.shape.is_tuple ? hlo::tuple(node.parent(), parts) : parts.at(0);
  all->sharding = node.sharding;
  node.parent().replace_uses(&node, all);
}

void leave_region(const SdyProgram& program, const SdyBorder& border) {
  Node& node = *border.node;
  const std::vector<Node*> values = border_operands(node);
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  std::vector<Node*> wholes;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]->sharding) internal_error("sdy: \"{}\" has no sharding", values[i]->name());
    const Sharding inside = *values[i]->sharding;
    Node* const part = border_call(values[i], "Sharding", values[i]->shape, inside, node);
    wholes.push_back(
        border_call(part, "SPMDShardToFullShape", shapes[i], outside_of(program, border, i), node));
  }
  Node* const all = node.shape.is_tuple ? hlo::tuple(node.parent(), wholes) : wholes.at(0);
  all->sharding = node.sharding;
  node.parent().replace_uses(&node, all);
}

// Bodies inside bodies too: what is inlined stands behind, and is looked at as well. Borders were
// added at the end of their computations: in order of use they can be copied.
void inline_bodies(Computation& computation) {
  for (size_t i = 0; i < computation.nodes().size(); ++i) {
    Node* const call = computation.nodes()[i].get();
    if (!is_manual_body(*call)) continue;
    Computation& body = *call->called.at(0);
    body.sort();
    computation.replace_uses(call, inline_computation(body, computation, call->operands()));
  }
}

// Calls of the dialect that are nothing to HLO, and attributes that it has no use for.
void strip(Module& module, bool completed) {
  for (const auto& computation : module.computations()) {
    const size_t count = computation->nodes().size();
    for (size_t i = 0; i < count; ++i) {
      Node& node = *computation->nodes()[i];
      const std::string target = node.attrs.custom_call_target;
      if (node.is(Opcode::custom_call) && target == kSdyResultTarget) {
        node.attrs.custom_call_target = "Sharding";
        node.attrs.other.erase("custom_call_has_side_effect");
        if (!node.sharding) computation->replace_uses(&node, node.operand(0));
      } else if (node.is(Opcode::custom_call) &&
                 (target.starts_with("xla.sdy.") || target.starts_with("sdy.")) &&
                 !node.operands().empty()) {
        node.attrs.other.erase("custom_call_has_side_effect");
        if (node.shape == node.operand(0)->shape)
          computation->replace_uses(&node, node.operand(0));
        else if (target == kSdyGroupTarget && !completed && module.num_partitions > 1)
          at_node(node, [&] {
            user_error(
                "sdy.sharding_group: \"{}\": groups are known to Shardy's rules; complete with "
                "--strategy shardy",
                node.name());
          });
      }
      std::erase_if(node.frontend_attributes.edit(), [](const auto& attribute) {
        return attribute.first.starts_with("xla.sdy.") || attribute.first.starts_with("sdy.") ||
               attribute.first == "inlineable" || attribute.first == kRemoved;
      });
    }
    computation->remove_dead();
    computation->sort();
  }
  std::erase_if(module.frontend_attributes, [](const auto& attribute) {
    return attribute.first.starts_with("xla.sdy.") || attribute.first.starts_with("sdy.");
  });
}

}  // namespace

bool lower_sdy(Module& module) {
  if (module.entry() == nullptr || !says_sdy(module)) return false;
  const bool completed = module.frontend_attributes.contains(kSdyCompleted);
  read_tuple_shardings(module);
  const auto is_silent = [](const auto& computation) {
    const auto& nodes = computation->nodes();
    return std::any_of(nodes.begin(), nodes.end(),
                       [](const auto& node) { return is_silent_border(*node); });
  };
  if (!completed &&
      std::any_of(module.computations().begin(), module.computations().end(), is_silent))
    import_shardings(module);
  give_each_call_its_own(module, false);
  SdyProgram program = build_sdy_program(module, {true, false});
  normalize_axes(program);
  write_shardings(module, program, completed);
  for (const SdyBorder& border : program.in_borders)
    at_node(*border.node, [&] { enter_region(program, border); });
  for (const SdyBorder& border : program.out_borders)
    at_node(*border.node, [&] { leave_region(program, border); });
  for (const auto& computation : module.computations()) inline_bodies(*computation);
  strip(module, completed);
  module.remove_unreachable();
  return true;
}

}  // namespace gspmd
