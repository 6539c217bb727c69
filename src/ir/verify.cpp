#include <fmt/format.h>

#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "gspmd/ir/text.h"
#include "ir/verify_node.h"

namespace gspmd {
namespace {

void check_operand_count(const Node& node, const OpInfo& op) {
  const auto count = static_cast<int>(node.operands().size());
  if (count >= op.operands.least && (op.operands.most < 0 || count <= op.operands.most)) return;
  if (op.operands.most == op.operands.least)
    user_error("{}: {} operands given, {} needed", opcode_name(node.opcode()), count,
               op.operands.least);
  if (op.operands.most < 0)
    user_error("{}: {} operands given, at least {} needed", opcode_name(node.opcode()), count,
               op.operands.least);
  user_error("{}: {} operands given, {} to {} needed", opcode_name(node.opcode()), count,
             op.operands.least, op.operands.most);
}

Shape inferred_shape(const Node& node, const OpInfo& op) {
  try {
    return op.infer(node);
  } catch (const std::out_of_range&) {
    // An attribute names a dim or operand that is not there.
    user_error("{}: an attribute names a dim or operand that the operands do not have",
               opcode_name(node.opcode()));
  }
}

void check_sharding(const Node& node) {
  if (!node.sharding) return;
  const Sharding& sharding = *node.sharding;
  const auto check_leaf = [&](const Sharding& leaf, const Shape& shape) {
    if (leaf.is_tiled() && leaf.rank() > shape.rank())
      user_error("{}: the sharding {} has {} dims, the value {} has {}", opcode_name(node.opcode()),
                 to_string(leaf), leaf.rank(), to_string(shape), shape.rank());
  };
  if (!sharding.is_tuple()) {
    if (!node.shape.is_tuple) check_leaf(sharding, node.shape);
    return;
  }
  if (node.shape.dtype == DType::token && !node.shape.is_tuple) return;  // of what it reads
  const std::vector<Shape> leaves = leaf_shapes(node.shape);
  if (!node.shape.is_tuple || leaves.size() != sharding.elements().size())
    user_error("{}: the sharding {} has {} elements for {}", opcode_name(node.opcode()),
               to_string(sharding), sharding.elements().size(), to_string(node.shape));
  for (size_t i = 0; i < leaves.size(); ++i) check_leaf(sharding.elements()[i], leaves[i]);
}

void check_edges(const Computation& computation) {
  FlatMap<const Node*, size_t> position;
  position.reserve(computation.nodes().size());
  for (const std::unique_ptr<Node>& node : computation.nodes()) {
    for (const Node* operand : node->operands())
      if (!position.contains(operand))
        user_error(place_of(*node), "\"{}\" stands before its operand \"{}\" in \"{}\": {}",
                   node->name(), operand->name(), computation.name(), to_text(*node));
    position.emplace(node.get(), position.size());
  }
  // Operands of the nodes that have many: a tuple of n operands is not searched n times.
  std::unordered_map<const Node*, std::unordered_set<const Node*>> many;
  const auto reads = [&](const Node& user, const Node* operand) {
    const std::vector<Node*>& read = user.operands();
    if (read.size() <= 32) return std::find(read.begin(), read.end(), operand) != read.end();
    std::unordered_set<const Node*>& set = many[&user];
    if (set.empty()) set.insert(read.begin(), read.end());
    return set.contains(operand);
  };
  for (const std::unique_ptr<Node>& node : computation.nodes()) {
    for (const Node* user : node->users())
      if (!position.contains(user) || !reads(*user, node.get()))
        user_error(place_of(*node), "\"{}\" in \"{}\" lists a user that does not read it: {}",
                   node->name(), computation.name(), to_text(*node));
  }
  for (const Node* parameter : computation.parameters())
    if (parameter == nullptr || !position.contains(parameter))
      user_error("computation \"{}\": a parameter number is missing", computation.name());
  if (computation.root() == nullptr || !position.contains(computation.root()))
    user_error("computation \"{}\" has no root", computation.name());
}

void check_calls_stand_above(const Module& module) {
  std::unordered_map<const Computation*, size_t> position;
  for (const std::unique_ptr<Computation>& computation : module.computations()) {
    for (const std::unique_ptr<Node>& node : computation->nodes())
      for (const Computation* called : node->called)
        if (!position.contains(called))
          user_error(place_of(*node), "computation \"{}\" stands before \"{}\", which it calls: {}",
                     computation->name(), called ? called->name() : "?", to_text(*node));
    position.emplace(computation.get(), position.size());
  }
}

}  // namespace

void verify_node(const Node& node) {
  const OpInfo& op = node.op();
  check_operand_count(node, op);
  check_called(node);
  check_sharding(node);
  if (op.infer == nullptr) return;
  const Shape inferred = inferred_shape(node, op);
  if (!(inferred == node.shape))
    user_error("{}: the result is declared as {}, but the operands give {}",
               opcode_name(node.opcode()), to_string(node.shape), to_string(inferred));
}

void verify_aliases(const Module& module) {
  if (module.aliases.empty()) return;
  for (const Alias& alias : module.aliases) {
    const Shape* const output = output_shape(module, alias);
    const Shape* const parameter = parameter_shape(module, alias);
    if (output == nullptr || parameter == nullptr)
      user_error("input_output_alias: output {{{}}} and parameter {} {{{}}} are not both there",
                 fmt::join(alias.output, ","), alias.parameter,
                 fmt::join(alias.parameter_index, ","));
    if (!(*output == *parameter))
      user_error("input_output_alias: output {{{}}} is {}, parameter {} is {}",
                 fmt::join(alias.output, ","), to_string(*output), alias.parameter,
                 to_string(*parameter));
  }
}

void verify_module(const Module& module) {
  if (module.entry() == nullptr) user_error("module \"{}\" has no entry computation", module.name);
  check_calls_stand_above(module);
  for (const std::unique_ptr<Computation>& computation : module.computations()) {
    check_edges(*computation);
    for (const std::unique_ptr<Node>& node : computation->nodes()) {
      try {
        verify_node(*node);
      } catch (const UserError& error) {
        user_error(place_of(*node), "{}: {}", error.what(), to_text(*node));
      }
    }
  }
  verify_aliases(module);
}

}  // namespace gspmd
