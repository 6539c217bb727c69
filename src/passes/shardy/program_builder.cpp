#include "passes/shardy/program_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "ops/control/control.h"

namespace gspmd {

bool is_call_of(const Node& node, std::string_view target) { return is_custom_call(node, target); }

const std::string* attribute(const Node& node, const char* key) {
  const auto found = node.frontend_attributes.find(key);
  return found == node.frontend_attributes.end() ? nullptr : &found->second;
}

size_t capture_count(const Node& node) {
  const std::string* text = attribute(node, kCaptures);
  size_t count = 0;
  if (text != nullptr)
    for (const char c : *text)
      if (c >= '0' && c <= '9' && count < 1000000)
        count = count * 10 + static_cast<size_t>(c - '0');
  return std::min(count, static_cast<size_t>(leaf_count(node.shape)));
}

bool is_manual_body(const Node& call) {
  return call.is(Opcode::call) &&
         call.called.at(0)->name().starts_with("xla.sdy.manual_computation_body");
}

bool is_result_call(const Node& node) {
  if (!is_call_of(node, kSdyResultTarget)) return false;
  const Node* root = node.parent().root();
  return std::all_of(node.users().begin(), node.users().end(), [&](const Node* user) {
    const bool plumbing = user->is(Opcode::tuple) || user->is(Opcode::get_tuple_element);
    if (user == root) return plumbing;
    if (user->users().empty()) return true;
    return plumbing && std::all_of(user->users().begin(), user->users().end(), [&](const Node* u) {
             return u == root && (u->is(Opcode::tuple) || u->is(Opcode::get_tuple_element));
           });
  });
}

bool says_nothing(const SdySharding& sharding) {
  return sharding.splits_nothing() && sharding.replicated.empty() && sharding.unreduced.empty() &&
         std::all_of(sharding.dims.begin(), sharding.dims.end(),
                     [](const SdyDim& dim) { return dim.open; });
}

SdySharding without_manual(const SdySharding& outside, const SdyAxes& manual) {
  const auto is_manual = [&](const SdyAxis& axis) {
    return std::any_of(manual.begin(), manual.end(),
                       [&](const SdyAxis& m) { return m.axis == axis.axis; });
  };
  SdySharding inside = outside;
  for (SdyDim& dim : inside.dims) std::erase_if(dim.axes, is_manual);
  std::erase_if(inside.replicated, is_manual);
  std::erase_if(inside.unreduced, is_manual);
  return inside;
}

SdySharding with_manual(const SdySharding& inside, const SdySharding& outside,
                        const SdyAxes& manual) {
  const auto is_manual = [&](const SdyAxis& axis) {
    return std::any_of(manual.begin(), manual.end(),
                       [&](const SdyAxis& m) { return m.axis == axis.axis; });
  };
  SdySharding result = outside;
  result.mesh = inside.mesh;
  for (size_t d = 0; d < result.dims.size() && d < inside.dims.size(); ++d) {
    std::erase_if(result.dims[d].axes, [&](const SdyAxis& axis) { return !is_manual(axis); });
    for (const SdyAxis& axis : inside.dims[d].axes) append_axis(result.dims[d].axes, axis);
    result.dims[d].open = inside.dims[d].open;
    result.dims[d].priority = inside.dims[d].priority;
  }
  return result;
}

SdyProgram build_sdy_program(Module& module, const SdyProgramOptions& options) {
  return SdyProgramBuilder(module, options).build();
}

SdyProgramBuilder::SdyProgramBuilder(Module& module, const SdyProgramOptions& options)
    : module_(module), options_(options) {
  const auto meshes = module.frontend_attributes.find(kSdyMeshes);
  if (meshes != module.frontend_attributes.end())
    program_.meshes = parse_sdy_meshes(meshes->second);
  if (options.pipeline) return;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      explicit_edges_ |=
          is_call_of(*node, kSdyEdgeTarget) || is_call_of(*node, kSdyFunctionEdgeTarget);
}

SdyProgram SdyProgramBuilder::build() {
  std::set<const Computation*> called;
  for (const auto& computation : module_.computations())
    for (const auto& node : computation->nodes())
      called.insert(node->called.begin(), node->called.end());
  functions_.push_back(module_.entry());
  for (const auto& computation : module_.computations())
    if (!called.contains(computation.get()) && computation.get() != module_.entry())
      functions_.push_back(computation.get());
  const size_t mains = functions_.size();
  for (size_t i = 0; !functions_.empty(); ++i) {
    Computation* const function = functions_.front();
    functions_.pop_front();
    if (seen_functions_.insert(function).second) walk_function(*function, i < mains);
  }
  for (const auto& [edge, node] : call_edges_)
    for (const SdyLeaf& source : call_sources(*node->operand(0))) add_source(edge, source);
  for (SdyOp& op : program_.ops)
    for (size_t i = 0; i < op.operand_values.size(); ++i)
      if (program_.slots[static_cast<size_t>(op.operands[i])].shape.rank() > 0)
        op.single_use &= program_.values[static_cast<size_t>(op.operand_values[i])].uses == 1;
  return std::move(program_);
}

int64_t SdyProgramBuilder::new_slot(const Shape& shape, std::optional<SdySharding> sharding) {
  if (sharding) check(*sharding, shape);
  program_.slots.push_back({shape, std::move(sharding)});
  if (manual_) {
    program_.slots.back().region_mesh = manual_->first;
    program_.slots.back().region = manual_->second;
  }
  return std::ssize(program_.slots) - 1;
}

int64_t SdyProgramBuilder::new_value(int64_t slot) {
  program_.values.push_back({slot, 0});
  return std::ssize(program_.values) - 1;
}

// Maximal meshes say nothing of dims; placeholders fit any rank that they are given for.
void SdyProgramBuilder::check(const SdySharding& sharding, const Shape& shape) const {
  check_sharding(sharding, shape, program_.meshes);
  if (!manual_) return;
  for (const SdyAxis& axis : manual_->second) {
    const auto is_manual = [&](const SdyAxis& other) { return other.axis == axis.axis; };
    bool used = std::any_of(sharding.replicated.begin(), sharding.replicated.end(), is_manual) ||
                std::any_of(sharding.unreduced.begin(), sharding.unreduced.end(), is_manual);
    for (const SdyDim& dim : sharding.dims)
      used |= std::any_of(dim.axes.begin(), dim.axes.end(), is_manual);
    if (used && program_.meshes[sharding.mesh] == program_.meshes[manual_->first])
      user_error(
          "sdy.manual_computation: {} inside of it uses an axis that is manual there; leave "
          "it out",
          to_string(sharding, program_.meshes));
  }
}

SdyProgramBuilder::Leaves SdyProgramBuilder::leaves_in(const std::vector<int64_t>& slots) {
  Leaves leaves;
  for (const int64_t slot : slots) leaves.push_back({new_value(slot), nullptr});
  return leaves;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::new_leaves(const Node& node) {
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  std::vector<std::optional<SdySharding>> shardings = shardings_of(node);
  std::vector<int64_t> slots;
  for (size_t i = 0; i < shapes.size(); ++i)
    slots.push_back(new_slot(shapes[i], std::move(shardings[i])));
  return leaves_in(slots);
}

SdySlot& SdyProgramBuilder::slot_of(const SdyLeaf& leaf) {
  const SdyValue& value = program_.values.at(static_cast<size_t>(leaf.value));
  return program_.slots.at(static_cast<size_t>(value.slot));
}

void SdyProgramBuilder::use(std::span<const SdyLeaf> leaves) {
  for (const SdyLeaf& leaf : leaves) ++program_.values.at(static_cast<size_t>(leaf.value)).uses;
}

void SdyProgramBuilder::add_op(SdyOp op) {
  const int64_t index = std::ssize(program_.ops);
  for (const int64_t slot : op.operands) {
    SdySlot& operand = program_.slots[static_cast<size_t>(slot)];
    (op.is_edge ? operand.edges : operand.users).push_back(index);
  }
  for (const int64_t slot : op.results) {
    SdySlot& result = program_.slots[static_cast<size_t>(slot)];
    if (op.is_edge)
      result.edges.push_back(index);
    else
      result.definer = index;
  }
  program_.ops.push_back(std::move(op));
}

void SdyProgramBuilder::add_edge(const Node& owner, const std::vector<SdyLeaf>& sources,
                                 int64_t target) {
  SdyOp op;
  op.node = &owner;
  op.is_edge = true;
  op.traits.round = SdyRound::pass_through;
  op.results = {target};
  const Shape& shape = program_.slots[static_cast<size_t>(target)].shape;
  if (shape.is_tuple || shape.rank() == 0) return;
  SdyRule::Tensor tensor;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    tensor.push_back({d});
    op.rule.factors.push_back({shape.dims[static_cast<size_t>(d)]});
  }
  op.rule.results = {tensor};
  add_op(std::move(op));
  for (const SdyLeaf& source : sources) add_source(std::ssize(program_.ops) - 1, source);
}

void SdyProgramBuilder::add_source(int64_t edge, const SdyLeaf& source) {
  SdyOp& op = program_.ops[static_cast<size_t>(edge)];
  SdySlot& slot = slot_of(source);
  if (slot.shape.rank() != std::ssize(op.rule.results[0])) return;
  op.operands.push_back(program_.values.at(static_cast<size_t>(source.value)).slot);
  op.rule.operands.push_back(op.rule.results[0]);
  slot.edges.push_back(edge);
}

// What all calls of a function give to its parameter, or what a function returns to its call.
SdyProgramBuilder::Leaves SdyProgramBuilder::call_sources(const Node& owner) {
  Leaves sources;
  if (owner.is(Opcode::parameter)) {
    for (const Node* call : calls_[&owner.parent()])
      sources.push_back(program_.leaves.at(call->operand(owner.attrs.index)).at(0));
    return sources;
  }
  const bool is_element = owner.is(Opcode::get_tuple_element);
  const Node& call = is_element ? *owner.operand(0) : owner;
  if (!call.is(Opcode::call)) return sources;
  const int64_t leaf = is_element ? first_leaf(call.shape, owner.attrs.index) : 0;
  return {program_.leaves.at(call.called.at(0)->root()).at(static_cast<size_t>(leaf))};
}

// XLA drops its attribute where passes may have copied it from another op; ours is of the op.
bool SdyProgramBuilder::is_heard(const Node& node) const {
  if (node.is(Opcode::parameter) || node.is(Opcode::send) || node.is(Opcode::recv) ||
      node.is(Opcode::after_all))
    return true;
  if (!node.is(Opcode::custom_call)) return false;
  const std::string& target = node.attrs.custom_call_target;
  return target == "Sharding" || target == kSdyResultTarget || target == "X64Combine" ||
         (target.find("python") != std::string::npos && target.ends_with("callback"));
}

std::vector<SdySharding> SdyProgramBuilder::parse_list(const Node& node, const std::string& text,
                                                       size_t count, const char* what) {
  std::vector<SdySharding> list = parse_sdy_shardings(text, program_.meshes);
  if (list.size() != count)
    user_error("{}: {} shardings on \"{}\", which has {}; give one for each", what, list.size(),
               node.name(), count);
  return list;
}

// An op without results says by one sharding on which device, or that on all, it runs.
void SdyProgramBuilder::check_of_no_value(const Node& node,
                                          const std::vector<SdySharding>& list) const {
  if (list.empty()) return;
  if (list.size() > 1 || !list[0].dims.empty())
    user_error("{}: \"{}\" has no results; it may have one sharding without dims, not {}",
               kSdySharding, node.name(), to_attribute(list, program_.meshes));
}

std::vector<std::optional<SdySharding>> SdyProgramBuilder::shardings_of(const Node& node) {
  std::vector<std::optional<SdySharding>> result(static_cast<size_t>(leaf_count(node.shape)));
  const size_t count = result.size() - capture_count(node);
  const std::string* text = attribute(node, kSdySharding);
  if (text == nullptr && is_heard(node)) text = attribute(node, kXlaSdySharding);
  if (text == nullptr) return result;
  if (count == 0) {
    check_of_no_value(node, parse_sdy_shardings(*text, program_.meshes));
    return result;
  }
  std::vector<SdySharding> list = parse_list(node, *text, count, kSdySharding);
  for (size_t i = 0; i < count; ++i) result[i] = std::move(list[i]);
  return result;
}

void SdyProgramBuilder::walk_function(Computation& computation, bool is_main) {
  SdyFunction function{&computation, is_main, false, {}, {}};
  std::vector<Leaves> parameters;
  for (Node* parameter : computation.parameters()) {
    parameters.push_back(at_node(*parameter, [&] { return new_leaves(*parameter); }));
    program_.written.push_back(parameter);
    for (const SdyLeaf& leaf : parameters.back())
      function.arguments.push_back(program_.values.at(static_cast<size_t>(leaf.value)).slot);
  }
  const Leaves returned = walk(computation, parameters);
  for (const SdyLeaf& leaf : returned) {
    SdyResult result;
    result.leaf = leaf;
    result.returned = program_.values.at(static_cast<size_t>(leaf.value)).slot;
    result.call = leaf.result_call;
    const Shape shape = slot_of(leaf).shape;
    result.result = leaf.result_call == nullptr ? new_slot(shape) : at_node(*leaf.result_call, [&] {
      return new_slot(shape, shardings_of(*leaf.result_call).at(0));
    });
    if (is_main && shape.rank() > 0) {
      SdyOp op;
      op.results = {result.result};
      op.operands = {result.returned};
      SdyRule::Tensor tensor;
      for (int64_t d = 0; d < shape.rank(); ++d) {
        tensor.push_back({d});
        op.rule.factors.push_back({shape.dims[static_cast<size_t>(d)]});
      }
      op.rule.operands = op.rule.results = {tensor};
      program_.function_results.push_back(std::move(op));
    }
    function.results.push_back(result);
  }
  program_.functions.push_back(std::move(function));
}

SdyProgramBuilder::Leaves SdyProgramBuilder::walk(Computation& computation,
                                                  const std::vector<Leaves>& parameters,
                                                  size_t captured) {
  for (const auto& node : computation.nodes()) {
    Leaves leaves;
    if (node->is(Opcode::parameter))
      leaves = parameters.at(static_cast<size_t>(node->attrs.index));
    else
      leaves = at_node(*node, [&] { return visit(*node); });
    program_.leaves[node.get()] = std::move(leaves);
  }
  const Leaves& returned = program_.leaves.at(computation.root());
  use(std::span(returned).first(returned.size() - captured));
  return returned;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::operand_leaves(const Node& node) {
  Leaves leaves;
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    const Leaves& more = program_.leaves.at(sdy_operand(node, i).node);
    leaves.insert(leaves.end(), more.begin(), more.end());
  }
  return leaves;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit(Node& node) {
  if (node.is(Opcode::tuple)) {
    Leaves leaves;
    for (const Node* operand : node.operands()) {
      const Leaves& more = program_.leaves.at(operand);
      leaves.insert(leaves.end(), more.begin(), more.end());
    }
    return leaves;
  }
  if (node.is(Opcode::get_tuple_element)) {
    const Leaves& all = program_.leaves.at(node.operand(0));
    const auto first = all.begin() + first_leaf(node.operand(0)->shape, node.attrs.index);
    return {first, first + leaf_count(node.shape)};
  }
  if (node.frontend_attributes.contains(kImplicit)) return new_leaves(node);
  if (is_result_call(node)) {
    Leaves leaves = program_.leaves.at(node.operand(0));
    for (SdyLeaf& leaf : leaves) leaf.result_call = &node;
    return leaves;
  }
  if (is_call_of(node, kSdyEdgeTarget) || is_call_of(node, kSdyFunctionEdgeTarget))
    return visit_edge(node);
  if (is_call_of(node, kSdyGroupTarget)) return visit_group(node);
  if (is_call_of(node, kToLocalShape)) return visit_to_local(node);
  if (is_call_of(node, kToGlobalShape)) return visit_to_global(node);
  if (node.is(Opcode::while_)) return visit_while(node);
  if (node.is(Opcode::conditional)) return visit_conditional(node);
  if (node.is(Opcode::optimization_barrier)) return visit_barrier_of_tuple(node);
  if (is_manual_body(node)) return visit_manual_body(node);
  if (node.is(Opcode::call)) return visit_call(node);
  return visit_op(node);
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_op(Node& node) {
  const Leaves operands = operand_leaves(node);
  use(operands);
  Leaves results = new_leaves(node);
  program_.written.push_back(&node);
  const std::string* group = attribute(node, kSdyGroup);
  if (group != nullptr && results.size() == 1) join_group(slot_of(results[0]), *group);
  std::optional<SdyRule> rule;
  const bool is_barrier = is_call_of(node, kSdyBarrierTarget);
  if (node.shape.is_tuple || node.rank() >= 0) rule = sdy_rule(node, options_.conservative);
  SdyOp op;
  if (is_barrier) {
    const std::string* text = attribute(node, kSdyDirection);
    if (text == nullptr || text->empty() || (*text)[0] < '0' || (*text)[0] > '2')
      user_error(
          "sdy.propagation_barrier: \"{}\" has no allowed_direction; it is 0 (NONE), 1 "
          "(FORWARD) or 2 (BACKWARD)",
          node.name());
    op.barrier = static_cast<SdyDirection>((*text)[0] - '0');
  }
  if (!rule || (operands.size() != rule->operands.size())) return results;
  op.node = &node;
  op.rule = std::move(*rule);
  op.traits = sdy_traits(node);
  for (const SdyLeaf& leaf : operands) {
    op.operands.push_back(program_.values.at(static_cast<size_t>(leaf.value)).slot);
    op.operand_values.push_back(leaf.value);
  }
  for (const SdyLeaf& leaf : results)
    op.results.push_back(program_.values.at(static_cast<size_t>(leaf.value)).slot);
  add_op(std::move(op));
  return results;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_edge(Node& node) {
  const Leaves operands = operand_leaves(node);
  use(operands);
  if (options_.pipeline) return operands;
  if (is_call_of(node, kSdyFunctionEdgeTarget)) return visit_call_edge(node, operands);
  const auto made = edge_slots_.find(&node);
  const Shape shape = slot_of(operands.at(0)).shape;
  const int64_t index =
      made != edge_slots_.end() ? made->second : new_slot(shape, shardings_of(node).at(0));
  program_.written.push_back(&node);
  return leaves_in({index});
}

// The edge of an argument, or of a call's result, has the sharding of that.
SdyProgramBuilder::Leaves SdyProgramBuilder::visit_call_edge(Node& node, const Leaves& owner) {
  const int64_t index = program_.values.at(static_cast<size_t>(owner.at(0).value)).slot;
  SdySlot& slot = program_.slots[static_cast<size_t>(index)];
  if (!slot.sharding) slot.sharding = shardings_of(node).at(0);
  if (slot.sharding) check(*slot.sharding, slot.shape);
  node.frontend_attributes.erase(kSdySharding);
  if (!slot.shape.is_tuple && slot.shape.rank() > 0) {
    add_edge(node, {}, index);
    call_edges_.emplace_back(std::ssize(program_.ops) - 1, &node);
  }
  return leaves_in({index});
}

void SdyProgramBuilder::join_group(SdySlot& slot, const std::string& id) {
  const auto [found, is_new] = groups_.emplace(id.substr(0, id.find(' ')), std::ssize(groups_));
  if (slot.group >= 0 && slot.group != found->second) {  // two groups that share a value are one
    const int64_t joined = slot.group, other = found->second;
    for (SdySlot& s : program_.slots)
      if (s.group == other) s.group = joined;
    for (auto& [name, number] : groups_)
      if (number == other) number = joined;
  }
  slot.group = found->second;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_group(Node& node) {
  const Leaves operands = operand_leaves(node);
  use(operands);
  const std::string* id = attribute(node, kSdyGroup);
  if (id == nullptr || operands.size() != 1)
    user_error("sdy.sharding_group: \"{}\" has no group_id, or not one operand", node.name());
  SdySlot& slot = slot_of(operands[0]);
  const std::string number = id->substr(0, id->find(' '));
  const auto [found, is_first] =
      first_of_group_.emplace(number, std::pair(slot.shape.dims, manual_body_));
  const auto& [dims, body] = found->second;
  if (!is_first && dims != slot.shape.dims)
    user_error(
        "sdy.sharding_group: {} joins group {}, which has a value with dims [{}]; values "
        "of one group have one shape",
        to_string(slot.shape), number, fmt::join(dims, ","));
  if (!is_first && body != manual_body_)
    user_error(
        "sdy.sharding_group: group {} has values inside and outside of a manual "
        "computation; use a group on each side",
        number);
  join_group(slot, number);
  return new_leaves(node);
}

}  // namespace gspmd
