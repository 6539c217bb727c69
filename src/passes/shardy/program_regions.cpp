#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "passes/shardy/program_builder.h"

// Ops that hold computations, and the data-flow edges that they own.

namespace gspmd {
namespace {

// The reader of leaf `leaf` of a value that says that data flows into it; nullptr: none.
const Node* edge_reader(const Node& node, int64_t leaf) {
  for (const Node* user : node.users()) {
    if (is_call_of(*user, kSdyEdgeTarget) && !node.shape.is_tuple && leaf == 0) return user;
    if (!user->is(Opcode::get_tuple_element)) continue;
    const int64_t first = first_leaf(node.shape, user->attrs.index);
    if (leaf < first || leaf >= first + leaf_count(user->shape)) continue;
    const Node* const found = edge_reader(*user, leaf - first);
    if (found != nullptr) return found;
  }
  return nullptr;
}

// The parameter of a manual computation's body that takes leaf `i` of its border; nullptr: none.
const Node* argument_of(const Node& border, size_t i) {
  for (const Node* user : border.users()) {
    const Node* call = user;
    if (user->is(Opcode::get_tuple_element) && !user->users().empty()) call = user->users()[0];
    if (!is_manual_body(*call)) continue;
    const std::vector<Node*>& parameters = call->called[0]->parameters();
    return i < parameters.size() ? parameters[i] : nullptr;
  }
  return nullptr;
}

}  // namespace

const Node* SdyProgramBuilder::edge_node(const Node& node, int64_t leaf) const {
  return explicit_edges_ ? edge_reader(node, leaf) : nullptr;
}

int64_t SdyProgramBuilder::edge_target(const Node& node, int64_t leaf, int64_t own) {
  const Node* const reader = edge_node(node, leaf);
  if (reader == nullptr) return own;
  const Shape shape = program_.slots.at(static_cast<size_t>(own)).shape;
  const int64_t slot =
      at_node(*reader, [&] { return new_slot(shape, shardings_of(*reader).at(0)); });
  edge_slots_[reader] = slot;
  return slot;
}

bool SdyProgramBuilder::has_edge(const Node& node, int64_t leaf) const {
  return !explicit_edges_ || edge_reader(node, leaf) != nullptr;
}

std::vector<SdyProgramBuilder::Leaves> SdyProgramBuilder::split(const Computation& computation,
                                                                const Leaves& leaves) const {
  std::vector<Leaves> result;
  auto next = leaves.begin();
  for (const Node* parameter : computation.parameters()) {
    const int64_t count = leaf_count(parameter->shape);
    if (leaves.end() - next < count)
      user_error("\"{}\" is given {} values; its parameters have more", computation.name(),
                 leaves.size());
    result.emplace_back(next, next + count);
    next += count;
  }
  return result;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_while(Node& node) {
  const Leaves initial = operand_leaves(node);
  Leaves results = new_leaves(node);
  program_.written.push_back(&node);
  const size_t captured = capture_count(node);
  const int64_t carried = std::ssize(results) - static_cast<int64_t>(captured);
  use(std::span(initial).first(static_cast<size_t>(carried)));
  std::vector<int64_t> slots, condition_slots, body_slots;
  for (int64_t i = 0; i < std::ssize(results); ++i) {
    const auto at = static_cast<size_t>(i);
    if (i >= carried) results[at] = initial.at(at);
    const int64_t own = program_.values[static_cast<size_t>(results[at].value)].slot;
    const int64_t slot = i < carried ? edge_target(node, i, own) : own;
    // Without an edge the arguments have shardings of their own.
    const bool shared = i >= carried || has_edge(node, i);
    const Shape shape = program_.slots[static_cast<size_t>(slot)].shape;
    condition_slots.push_back(shared ? slot : new_slot(shape));
    body_slots.push_back(shared ? slot : new_slot(shape));
    slots.push_back(slot);
  }
  const auto arguments_of = [&](const std::vector<int64_t>& of) {
    Leaves leaves = leaves_in(of);
    for (int64_t i = carried; i < std::ssize(leaves); ++i)
      leaves[static_cast<size_t>(i)] = initial.at(static_cast<size_t>(i));
    return leaves;
  };
  Computation& condition = *node.called.at(0);
  Computation& body = *node.called.at(1);
  walk(condition, split(condition, arguments_of(condition_slots)));
  const Leaves next = walk(body, split(body, arguments_of(body_slots)), captured);
  for (int64_t i = 0; i < carried; ++i) {
    const auto at = static_cast<size_t>(i);
    if (!has_edge(node, i)) continue;
    const Node* const reader = edge_node(node, i);
    add_edge(reader != nullptr ? *reader : node, {initial.at(at), next.at(at)}, slots[at]);
  }
  return results;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_conditional(Node& node) {
  const Leaves operands = operand_leaves(node);
  Leaves results = new_leaves(node);
  program_.written.push_back(&node);
  use(std::span(operands).first(1));
  std::vector<Leaves> returned;
  // What a branch is given is the value itself: branches have no arguments in the dialect.
  size_t next = 1;
  for (Computation* branch : node.called) {
    Leaves given;
    for (const Node* parameter : branch->parameters())
      for (int64_t i = 0; i < leaf_count(parameter->shape); ++i)
        given.push_back(operands.at(next++));
    returned.push_back(walk(*branch, split(*branch, given)));
  }
  const bool is_if = node.operand(0)->shape.dtype == DType::pred;
  if (is_if && (options_.pipeline || explicit_edges_)) return results;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!has_edge(node, static_cast<int64_t>(i))) continue;
    std::vector<SdyLeaf> sources;
    for (const Leaves& leaves : returned) sources.push_back(leaves.at(i));
    const int64_t own = program_.values[static_cast<size_t>(results[i].value)].slot;
    add_edge(node, sources, edge_target(node, static_cast<int64_t>(i), own));
  }
  return results;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_barrier_of_tuple(Node& node) {
  const Leaves operands = operand_leaves(node);
  use(operands);
  Leaves results = new_leaves(node);
  program_.written.push_back(&node);
  for (size_t i = 0; i < results.size() && i < operands.size(); ++i)
    if (has_edge(node, static_cast<int64_t>(i))) {
      const int64_t own = program_.values[static_cast<size_t>(results[i].value)].slot;
      add_edge(node, {operands[i]}, edge_target(node, static_cast<int64_t>(i), own));
    }
  return results;
}

std::pair<int64_t, SdyAxes> SdyProgramBuilder::manual_axes(
    const Node& node, const std::vector<SdySharding>& shardings) {
  const std::string* text = attribute(node, kSdyManualAxes);
  if (text == nullptr)
    user_error("sdy.manual_computation: \"{}\" has no {}; it lists the axes that are manual",
               node.name(), kSdyManualAxes);
  std::pair<int64_t, SdyAxes> result{-1, {}};
  for (const SdySharding& sharding : shardings)
    if (!program_.meshes[sharding.mesh].axes.empty()) result.first = sharding.mesh;
  if (result.first < 0) return result;
  const SdyMesh& mesh = program_.meshes[result.first];
  for (const std::string& name : parse_sdy_manual_axes(*text)) {
    const int64_t axis = mesh.axis(name);
    if (axis < 0)
      user_error("sdy.manual_computation: manual axis \"{}\" of \"{}\" is not in the mesh {}", name,
                 node.name(), to_string(mesh));
    result.second.push_back({axis, 1, mesh.axes[static_cast<size_t>(axis)].size});
  }
  std::sort(result.second.begin(), result.second.end(),
            [](const SdyAxis& a, const SdyAxis& b) { return a.axis < b.axis; });
  return result;
}

// Manual axes that a sharding does not use are replicated in it.
void SdyProgramBuilder::complete_manual(SdySharding& sharding, const SdyAxes& manual) const {
  if (program_.meshes[sharding.mesh].axes.empty()) return;
  for (const SdyAxis& axis : manual) {
    const auto same = [&](const SdyAxis& other) { return other.axis == axis.axis; };
    bool used = std::any_of(sharding.replicated.begin(), sharding.replicated.end(), same) ||
                std::any_of(sharding.unreduced.begin(), sharding.unreduced.end(), same);
    for (const SdyDim& dim : sharding.dims)
      used |= std::any_of(dim.axes.begin(), dim.axes.end(), same);
    if (!used) sharding.replicated.push_back(axis);
  }
  std::sort(sharding.replicated.begin(), sharding.replicated.end(),
            [](const SdyAxis& a, const SdyAxis& b) {
              return std::pair(a.axis, a.pre) < std::pair(b.axis, b.pre);
            });
}

namespace {

// In each dim manual axes come first, and the dim divides by them.
void check_manual(const Node& node, const SdySharding& sharding, const Shape& global,
                  const Shape& local, const SdyAxes& manual) {
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    int64_t parts = 1;
    bool free = false;
    for (const SdyAxis& axis : sharding.dims[d].axes) {
      const bool is_manual = std::any_of(manual.begin(), manual.end(),
                                         [&](const SdyAxis& m) { return m.axis == axis.axis; });
      if (is_manual && free)
        user_error(
            "sdy.manual_computation: dim {} of a sharding of \"{}\" has a manual axis behind "
            "a free one; manual axes come first",
            d, node.name());
      free |= !is_manual;
      if (is_manual) parts = saturating_multiply(parts, axis.size);
    }
    if (global.rank() != local.rank() ||
        global.dims[d] != saturating_multiply(local.dims[d], parts))
      user_error(
          "sdy.manual_computation: \"{}\" takes {} to {} where dim {} is split {} ways by "
          "manual axes; state the manual axes that split it in {} and {} or {}",
          node.name(), to_string(global), to_string(local), d, parts, kSdyManualAxes,
          kSdyInShardings, kSdyOutShardings);
  }
}

}  // namespace

// The two sides of one value at a border.
SdyProgramBuilder::Border SdyProgramBuilder::border_slots(const Shape& global, const Shape& local,
                                                          const SdySharding& outside,
                                                          const SdyAxes& manual) {
  const Border border{new_slot(global, outside), new_slot(local, without_manual(outside, manual))};
  SdySlot &o = program_.slots[static_cast<size_t>(border.outside)],
          &n = program_.slots[static_cast<size_t>(border.inside)];
  o.border = border.inside;
  n.border = border.outside;
  o.manual = n.manual = manual;
  n.inside = true;
  return border;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_to_local(Node& node) {
  const Leaves operands = operand_leaves(node);
  use(operands);
  const std::string* text = attribute(node, kSdyInShardings);
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  if (text == nullptr || operands.size() != shapes.size())
    user_error("sdy.manual_computation: \"{}\" has no {}, or not one result per operand",
               node.name(), kSdyInShardings);
  std::vector<SdySharding> list = parse_list(node, *text, operands.size(), kSdyInShardings);
  const auto [mesh, manual] = manual_axes(node, list);
  SdyBorder border{&node, {}, manual_ ? manual_->second : SdyAxes{}};
  std::vector<int64_t> inside;
  for (size_t i = 0; i < list.size(); ++i) {
    if (options_.pipeline) complete_manual(list[i], manual);
    const Shape global = slot_of(operands[i]).shape;
    check_sharding(list[i], global, program_.meshes);
    check_manual(node, list[i], global, shapes[i], manual);
    // With edges of the module's own, those of the arguments stand in the body.
    const Node* const argument = argument_of(node, i);
    const Node* const reader =
        explicit_edges_ && argument != nullptr ? edge_reader(*argument, 0) : nullptr;
    Border slots = border_slots(global, shapes[i], list[i], manual);
    border.outside.push_back(slots.outside);
    inside.push_back(slots.inside);
    if (reader != nullptr) {
      SdySharding sharding = list[i];
      if (const auto given = shardings_of(*reader).at(0))
        sharding = with_manual(*given, list[i], manual);
      slots = border_slots(global, shapes[i], sharding, manual);
      inside.push_back(slots.inside);
      edge_slots_[reader] = slots.inside;
    }
    if (!explicit_edges_ || reader != nullptr) add_edge(node, {operands[i]}, slots.outside);
  }
  SdyAxes all = manual;
  all.insert(all.end(), border.outer.begin(), border.outer.end());
  program_.in_borders.push_back(std::move(border));
  for (const int64_t slot : inside) {
    program_.slots[static_cast<size_t>(slot)].region_mesh = mesh;
    program_.slots[static_cast<size_t>(slot)].region = all;
  }
  std::vector<int64_t> results;  // those of edges are no results
  for (const int64_t slot : inside) {
    const bool is_edge = std::any_of(edge_slots_.begin(), edge_slots_.end(),
                                     [&](const auto& entry) { return entry.second == slot; });
    if (!is_edge) results.push_back(slot);
  }
  return leaves_in(results);
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_manual_body(Node& node) {
  const Leaves operands = operand_leaves(node);
  std::vector<int64_t> slots;
  for (const SdyLeaf& leaf : operands)
    slots.push_back(program_.values.at(static_cast<size_t>(leaf.value)).slot);
  // What is manual stands at the borders: of the arguments, else of the results.
  std::pair<int64_t, SdyAxes> axes{-1, {}};
  const auto border = [&](const Node* at) {
    if (at->is(Opcode::get_tuple_element)) at = at->operand(0);
    if (!is_call_of(*at, kToLocalShape)) return false;
    const std::vector<SdyLeaf>& leaves = program_.leaves.at(at);
    if (leaves.empty()) return false;
    axes = {slot_of(leaves[0]).region_mesh, slot_of(leaves[0]).region};
    return true;
  };
  bool found = std::any_of(node.operands().begin(), node.operands().end(), border);
  for (const Node* user : node.users()) {
    const Node* at = user;
    if (at->is(Opcode::get_tuple_element) && !at->users().empty()) at = at->users()[0];
    if (found || !is_call_of(*at, kToGlobalShape)) continue;
    const std::string* text = attribute(*at, kSdyOutShardings);
    if (text == nullptr) continue;
    axes = manual_axes(*at, parse_sdy_shardings(*text, program_.meshes));
    found = true;
  }
  const auto outer = manual_;
  if (outer && axes.first < 0) axes.first = outer->first;
  if (outer)
    for (const SdyAxis& axis : outer->second)
      if (std::find(axes.second.begin(), axes.second.end(), axis) == axes.second.end())
        axes.second.push_back(axis);
  manual_ = axes;
  Computation& body = *node.called.at(0);
  const Computation* const outer_body = std::exchange(manual_body_, &body);
  const Leaves returned = walk(body, split(body, leaves_in(slots)));
  manual_ = outer;
  manual_body_ = outer_body;
  return returned;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_to_global(Node& node) {
  const Leaves operands = operand_leaves(node);
  const std::string* text = attribute(node, kSdyOutShardings);
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  if (text == nullptr || operands.size() != shapes.size())
    user_error("sdy.manual_computation: \"{}\" has no {}, or not one result per operand",
               node.name(), kSdyOutShardings);
  std::vector<SdySharding> list = parse_list(node, *text, operands.size(), kSdyOutShardings);
  const auto [mesh, manual] = manual_axes(node, list);
  SdyBorder border{&node, {}, manual_ ? manual_->second : SdyAxes{}};
  for (size_t i = 0; i < list.size(); ++i) {
    if (options_.pipeline) complete_manual(list[i], manual);
    const Shape local = slot_of(operands[i]).shape;
    check_sharding(list[i], shapes[i], program_.meshes);
    check_manual(node, list[i], shapes[i], local, manual);
    Border slots = border_slots(shapes[i], local, list[i], manual);
    border.outside.push_back(slots.outside);
    const Node* const reader = edge_node(node, static_cast<int64_t>(i));
    if (reader != nullptr) {
      slots = border_slots(shapes[i], local, shardings_of(*reader).at(0).value_or(list[i]), manual);
      edge_slots_[reader] = slots.outside;
    }
    if (!explicit_edges_ || reader != nullptr) add_edge(node, {operands[i]}, slots.inside);
  }
  Leaves results = leaves_in(border.outside);
  program_.out_borders.push_back(std::move(border));
  return results;
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_inlined(
    Node& node, const std::vector<int64_t>& in,
    const std::vector<std::optional<SdySharding>>& out) {
  const Leaves operands = operand_leaves(node);
  use(operands);
  Computation& callee = *node.called.at(0);
  std::vector<const Node*> of_leaf;
  for (const Node* parameter : callee.parameters())
    of_leaf.insert(of_leaf.end(), static_cast<size_t>(leaf_count(parameter->shape)), parameter);
  for (size_t i = 0; i < in.size(); ++i)
    if (!explicit_edges_ || edge_reader(*of_leaf.at(i), 0) != nullptr)
      add_edge(node, {operands.at(i)}, edge_target(*of_leaf[i], 0, in[i]));
  const std::vector<Leaves> arguments = split(callee, leaves_in(in));
  for (Node* parameter : callee.parameters()) program_.written.push_back(parameter);
  const Leaves returned = walk(callee, arguments);
  SdyFunction function{&callee, false, node.frontend_attributes.contains(kSdyNamed), in, {}};
  std::vector<int64_t> results;
  for (size_t i = 0; i < returned.size(); ++i) {
    std::optional<SdySharding> sharding = out.at(i);
    if (!sharding && returned[i].result_call != nullptr)
      sharding = shardings_of(*returned[i].result_call).at(0);
    const Shape shape = slot_of(returned[i]).shape;
    results.push_back(new_slot(shape, std::move(sharding)));
    const int64_t slot = program_.values.at(static_cast<size_t>(returned[i].value)).slot;
    function.results.push_back({returned[i], slot, slot, returned[i].result_call});
    const auto leaf = static_cast<int64_t>(i);
    if (has_edge(node, leaf))
      add_edge(node, {returned[i]}, edge_target(node, leaf, results.back()));
  }
  program_.functions.push_back(std::move(function));
  program_.call_results.insert(program_.call_results.end(), results.begin(), results.end());
  program_.written.push_back(&node);
  return leaves_in(results);
}

SdyProgramBuilder::Leaves SdyProgramBuilder::visit_call(Node& node) {
  Computation& callee = *node.called.at(0);
  const auto count = static_cast<size_t>(leaf_count(node.shape));
  const bool named = node.frontend_attributes.contains(kSdyNamed);
  if (!named && !options_.pipeline) {
    use(operand_leaves(node));
    calls_[&callee].push_back(&node);
    functions_.push_back(&callee);
    program_.written.push_back(&node);
    return new_leaves(node);
  }
  std::vector<std::optional<SdySharding>> out = shardings_of(node);
  if (const std::string* text = attribute(node, kSdyOutShardings)) {
    std::vector<SdySharding> list = parse_list(node, *text, count, kSdyOutShardings);
    for (size_t i = 0; i < count; ++i) out[i] = std::move(list[i]);
  }
  std::vector<std::optional<SdySharding>> given;
  std::vector<Shape> shapes;
  for (const Node* parameter : callee.parameters()) {
    for (auto& sharding : shardings_of(*parameter)) given.push_back(std::move(sharding));
    for (const Shape& shape : leaf_shapes(parameter->shape)) shapes.push_back(shape);
  }
  if (const std::string* text = attribute(node, kSdyInShardings)) {
    std::vector<SdySharding> list = parse_list(node, *text, given.size(), kSdyInShardings);
    for (size_t i = 0; i < given.size(); ++i) given[i] = std::move(list[i]);
  }
  std::vector<int64_t> in;
  for (size_t i = 0; i < given.size(); ++i) in.push_back(new_slot(shapes[i], std::move(given[i])));
  return visit_inlined(node, in, out);
}

}  // namespace gspmd
