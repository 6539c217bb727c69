#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "ir/sdy_names.h"
#include "passes/shardy/prepare.h"
#include "passes/shardy/program_builder.h"

// What constraints, groups and loops mean for the values that they read, before propagation.

namespace gspmd {
namespace {

bool is_constraint(const Node& node) {
  return is_call_of(node, "Sharding") && !node.frontend_attributes.contains(kSdyReshard) &&
         !node.frontend_attributes.contains(kSdyCollective);
}

bool is_border(const Node& node) { return is_call_of(node, kToLocalShape); }

const std::string* said_sharding(const Node& node) {
  const std::string* text = attribute(node, kXlaSdySharding);
  return text != nullptr ? text : attribute(node, kSdySharding);
}

SdyMeshes meshes_of(const Module& module) {
  const auto text = module.frontend_attributes.find(kSdyMeshes);
  return text == module.frontend_attributes.end() ? SdyMeshes{} : parse_sdy_meshes(text->second);
}

// A constraint on `value`, all of whose dims are open.
Node* open_constraint(Node& value, int64_t mesh, const SdyMeshes& meshes) {
  Attributes attrs;
  attrs.custom_call_target = "Sharding";
  Node* const call =
      value.parent().append(Opcode::custom_call, value.shape, {&value}, std::move(attrs));
  call->metadata = value.metadata;
  call->frontend_attributes[kXlaSdySharding] =
      to_attribute(std::vector{open_sharding(mesh, value.rank())}, meshes);
  return call;
}

// The caller of every computation that is part of another.
std::map<const Computation*, const Node*> callers_of(const Module& module) {
  std::map<const Computation*, const Node*> callers;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      for (const Computation* called : node->called) callers[called] = node.get();
  return callers;
}

// The op whose data-flow edge flows into `value`, if it says no sharding; nullptr: there is none.
const Node* silent_owner(const Node& value,
                         const std::map<const Computation*, const Node*>& callers) {
  const Node* base = &value;
  while (base->is(Opcode::get_tuple_element)) base = base->operand(0);
  const Node* owner = base;
  if (base->is(Opcode::parameter)) {
    const auto caller = callers.find(&base->parent());
    if (caller == callers.end() || caller->second->is(Opcode::conditional)) return nullptr;
    owner = caller->second;
    // What a loop only reads is a value of its surroundings.
    const int64_t first = &value == base || !base->shape.is_tuple ? 0 : value.attrs.index;
    const auto carried = leaf_count(owner->shape) - static_cast<int64_t>(capture_count(*owner));
    if (owner->is(Opcode::while_) && first >= carried) return nullptr;
    if (said_sharding(*base) != nullptr) return nullptr;
  }
  const bool is_case =
      owner->is(Opcode::conditional) && owner->operand(0)->shape.dtype != DType::pred;
  const bool owns_edges = owner->is(Opcode::while_) || is_case ||
                          owner->is(Opcode::optimization_barrier) ||
                          (owner->is(Opcode::call) && !is_manual_body(*owner) &&
                           !owner->frontend_attributes.contains(kSdyNamed));
  return owns_edges && said_sharding(*owner) == nullptr ? owner : nullptr;
}

// Other nodes that name the same value.
std::vector<Node*> names_of(Node& value) {
  std::vector<Node*> names{&value};
  if (!value.is(Opcode::get_tuple_element)) return names;
  for (Node* user : value.operand(0)->users())
    if (user != &value && user->is(Opcode::get_tuple_element) &&
        user->attrs.index == value.attrs.index)
      names.push_back(user);
  return names;
}

// What readers of a value say it has to be there; nullopt: two differ, or one is open.
std::optional<SdySharding> agreed_wish(const std::vector<Node*>& names, const SdyMeshes& known) {
  SdyMeshes meshes = known;
  std::optional<SdySharding> agreed;
  for (const Node* name : names)
    for (const Node* user : name->users()) {
      if (is_border(*user)) return std::nullopt;
      if (!is_constraint(*user)) continue;
      const std::string* text = said_sharding(*user);
      if (text == nullptr) continue;
      const SdySharding sharding =
          at_node(*user, [&] { return parse_sdy_sharding(*text, meshes); });
      const bool open = std::any_of(sharding.dims.begin(), sharding.dims.end(),
                                    [](const SdyDim& dim) { return dim.open; });
      if (open || (agreed && !(*agreed == sharding))) return std::nullopt;
      agreed = sharding;
    }
  return agreed;
}

}  // namespace

void apply_constraint_chains(Module& module) {
  for (const auto& computation : module.computations()) {
    std::map<const Node*, size_t> position;
    for (size_t i = 0; i < computation->nodes().size(); ++i)
      position[computation->nodes()[i].get()] = i;
    const auto readers_that = [](const Node& node, auto predicate) {
      return std::count_if(node.users().begin(), node.users().end(),
                           [&](const Node* user) { return predicate(*user); });
    };
    for (size_t i = 0; i < computation->nodes().size(); ++i) {
      Node* const first = computation->nodes()[i].get();
      if (!is_constraint(*first)) continue;
      Node* const input = first->operand(0);
      if (is_constraint(*input) || attribute(*input, kSdySharding) != nullptr ||
          attribute(*input, kXlaSdySharding) != nullptr)
        continue;
      if (readers_that(*input, [](const Node& n) { return is_constraint(n) || is_border(n); }) != 1)
        continue;
      Node* last = first;
      while (last->users().size() == 1 && is_constraint(*last->users()[0])) last = last->users()[0];
      if (readers_that(*last, [](const Node& n) { return is_constraint(n) || is_border(n); }) != 0)
        continue;
      const std::vector<Node*> users = input->users();
      for (Node* user : users) {
        const bool returns = user->is_root() && user->is(Opcode::tuple);
        if (user == first || returns || is_result_call(*user) ||
            position.at(user) < position.at(last))
          continue;
        for (int64_t k = 0; k < std::ssize(user->operands()); ++k)
          if (user->operand(k) == input) user->set_operand(k, last);
      }
    }
  }
}

void read_edges_through_constraints(Module& module) {
  const std::map<const Computation*, const Node*> callers = callers_of(module);
  const SdyMeshes meshes = meshes_of(module);
  for (const auto& computation : module.computations()) {
    std::set<Node*> done;
    const size_t count = computation->nodes().size();
    for (size_t i = 0; i < count; ++i) {
      Node* const constraint = computation->nodes()[i].get();
      if (!is_constraint(*constraint)) continue;
      Node* const input = constraint->operand(0);
      if (done.contains(input) || silent_owner(*input, callers) == nullptr) continue;
      const std::vector<Node*> names = names_of(*input);
      done.insert(names.begin(), names.end());
      if (!agreed_wish(names, meshes)) continue;
      for (Node* name : names) computation->replace_uses(name, constraint);
    }
    if (!done.empty()) computation->sort();
  }
}

std::vector<Node*> read_captures_through_constraints(Module& module) {
  std::vector<Node*> made;
  SdyMeshes meshes = meshes_of(module);
  for (const auto& computation : module.computations()) {
    bool changed = false;
    const size_t count = computation->nodes().size();
    for (size_t i = 0; i < count; ++i) {
      Node* const loop = computation->nodes()[i].get();
      const auto captured = static_cast<int64_t>(capture_count(*loop));
      if (!loop->is(Opcode::while_) || captured == 0 || !loop->operand(0)->is(Opcode::tuple))
        continue;
      Node* const state = loop->operand(0);
      const int64_t carried = std::ssize(state->operands()) - captured;
      for (int64_t k = std::max<int64_t>(carried, 0); k < std::ssize(state->operands()); ++k) {
        Node* const value = state->operand(k);
        const std::string* text = said_sharding(*value);
        if (text == nullptr || value->shape.is_tuple || value->rank() == 0) continue;
        const SdySharding sharding =
            at_node(*value, [&] { return parse_sdy_sharding(*text, meshes); });
        if (meshes[sharding.mesh].axes.empty() || says_nothing(sharding)) continue;
        made.push_back(open_constraint(*value, sharding.mesh, meshes));
        state->set_operand(k, made.back());
        changed = true;
      }
    }
    if (changed) computation->sort();
  }
  return made;
}

void remove_idle_constraints(const std::vector<Node*>& constraints) {
  for (Node* constraint : constraints) {
    if (constraint->sharding != constraint->operand(0)->sharding) continue;
    constraint->parent().replace_uses(constraint, constraint->operand(0));
    constraint->frontend_attributes[kRemoved] = "true";
  }
}

bool route_differing_groups(Module& module, const SdyProgram& program) {
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < program.slots.size(); ++i)
    if (program.slots[i].group >= 0) groups[program.slots[i].group].push_back(i);
  std::map<int64_t, int64_t> differing;  // and the mesh that one of its members names
  for (const auto& [group, members] : groups) {
    const std::optional<SdySharding>* said = nullptr;
    for (const size_t i : members) {
      const std::optional<SdySharding>& sharding = program.slots[i].sharding;
      if (!sharding || says_nothing(*sharding)) continue;
      if (said != nullptr && *said != sharding) differing[group] = sharding->mesh;
      if (said == nullptr) said = &sharding;
    }
    if (differing.contains(group))
      fmt::print(stderr,
                 "gspmd: warning: sdy.sharding_group: {} values of one group have different "
                 "shardings; each keeps its own, and its readers see an open constraint of it\n",
                 members.size());
  }
  if (differing.empty()) return false;
  module.frontend_attributes[kSdyMeshes] = to_string(program.meshes);
  for (const auto& computation : module.computations()) {
    std::map<Node*, Node*> routed;
    const size_t count = computation->nodes().size();
    for (size_t i = 0; i < count; ++i) {
      Node* const node = computation->nodes()[i].get();
      const bool is_group_call = is_call_of(*node, kSdyGroupTarget);
      if (!is_group_call && attribute(*node, kSdyGroup) == nullptr) continue;
      Node* const value = is_group_call ? node->operand(0) : node;
      const auto leaves = program.leaves.find(value);
      if (leaves == program.leaves.end() || leaves->second.size() != 1 || value->shape.is_tuple ||
          routed.contains(value))
        continue;
      const int64_t slot = program.values[static_cast<size_t>(leaves->second[0].value)].slot;
      const auto mesh = differing.find(program.slots[static_cast<size_t>(slot)].group);
      if (mesh == differing.end()) continue;
      Node* const call = open_constraint(*value, mesh->second, program.meshes);
      computation->replace_uses(value, call);
      routed[value] = call;
      if (is_group_call) continue;
      call->frontend_attributes[kSdyGroup] = node->frontend_attributes[kSdyGroup];
      node->frontend_attributes.erase(kSdyGroup);
    }
    if (!routed.empty()) computation->sort();
  }
  return true;
}

}  // namespace gspmd
