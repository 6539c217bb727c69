#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "ir/sdy_names.h"
#include "passes/shardy/prepare.h"
#include "passes/shardy/program_builder.h"

namespace gspmd {
namespace {

// The shardings of a node's leaves; empty where none has one. Leaves without one beside others are
// open.
std::vector<SdySharding> shardings_of(const SdyProgram& program, std::span<const SdyLeaf> leaves,
                                      bool closed) {
  const auto slot_of = [&](const SdyLeaf& leaf) -> const SdySlot& {
    const auto slot = program.values.at(static_cast<size_t>(leaf.value)).slot;
    return program.slots.at(static_cast<size_t>(slot));
  };
  int64_t mesh = -1;
  for (const SdyLeaf& leaf : leaves)
    if (slot_of(leaf).sharding && mesh < 0) mesh = slot_of(leaf).sharding->mesh;
  std::vector<SdySharding> list;
  if (mesh < 0) return list;
  for (const SdyLeaf& leaf : leaves) {
    const SdySlot& slot = slot_of(leaf);
    const int64_t rank = slot.shape.rank();
    list.push_back(slot.sharding ? *slot.sharding
                   : closed      ? closed_sharding(mesh, rank)
                                 : open_sharding(mesh, rank));
  }
  return list;
}

void write_attribute(Node& node, const char* key, const std::string& text) {
  if (text.empty())
    node.frontend_attributes.erase(key);
  else
    node.frontend_attributes[key] = text;
}

// The call that says a result's sharding, for the root to read: the computation is sorted after
// all.
Node* result_call(Computation& computation, size_t leaf) {
  Node* root = computation.root();
  Attributes attrs;
  attrs.custom_call_target = kSdyResultTarget;
  attrs.other["custom_call_has_side_effect"] = "true";
  const auto call_on = [&](Node* value) {
    return computation.append(Opcode::custom_call, value->shape, {value}, attrs);
  };
  if (!root->shape.is_tuple) {
    Node* const call = call_on(root);
    computation.set_root(call);
    return call;
  }
  if (!root->is(Opcode::tuple)) {
    std::vector<Node*> elements;
    for (int64_t i = 0; i < std::ssize(root->shape.elements); ++i)
      elements.push_back(hlo::get_tuple_element(root, i));
    root = hlo::tuple(computation, std::move(elements));
    computation.set_root(root);
  }
  const auto index = static_cast<int64_t>(leaf);
  if (root->operand(index)->shape.is_tuple) return nullptr;
  Node* const call = call_on(root->operand(index));
  root->set_operand(index, call);
  return call;
}

std::vector<SdyLeaf> leaves_of_results(const SdyFunction& function) {
  std::vector<SdyLeaf> leaves;
  for (const SdyResult& result : function.results) leaves.push_back(result.leaf);
  return leaves;
}

void write_results(SdyProgram& program, SdyFunction& function) {
  bool has_new_calls = false;
  for (size_t i = 0; i < function.results.size(); ++i) {
    SdyResult& result = function.results[i];
    const std::optional<SdySharding>& sharding =
        program.slots[static_cast<size_t>(result.result)].sharding;
    if (result.call == nullptr) {
      if (!sharding || function.is_named) continue;
      // Results that are tuples in tuples have no place for it.
      const Shape& shape = function.computation->root()->shape;
      if (shape.is_tuple && shape.elements.size() != function.results.size()) continue;
      result.call = result_call(*function.computation, i);
      if (result.call == nullptr) continue;
      result.leaf.result_call = result.call;
      program.leaves[result.call] = {result.leaf};
      has_new_calls = true;
    }
    result.call->frontend_attributes.erase(kSdySharding);
    write_attribute(*result.call, kXlaSdySharding,
                    sharding ? to_attribute(std::vector{*sharding}, program.meshes) : "");
  }
  if (!has_new_calls) return;
  program.leaves[function.computation->root()] = leaves_of_results(function);
  function.computation->sort();
}

// A named computation says its shardings beside its operands and results.
void write_named(const SdyProgram& program, Node& call, const std::string& results) {
  call.frontend_attributes.erase(kSdySharding);
  write_attribute(call, kSdyOutShardings, results);
  std::vector<SdyLeaf> arguments;
  for (const Node* parameter : call.called.at(0)->parameters()) {
    const std::vector<SdyLeaf>& leaves = program.leaves.at(parameter);
    arguments.insert(arguments.end(), leaves.begin(), leaves.end());
  }
  const std::vector<SdySharding> list = shardings_of(program, arguments, false);
  write_attribute(call, kSdyInShardings, list.empty() ? "" : to_attribute(list, program.meshes));
}

void write_border(const SdyProgram& program, const SdyBorder& border, const char* key) {
  std::vector<SdySharding> list;
  for (const int64_t slot : border.outside)
    list.push_back(*program.slots[static_cast<size_t>(slot)].sharding);
  border.node->frontend_attributes[key] = to_attribute(list, program.meshes);
  const SdySlot* first =
      border.outside.empty() ? nullptr : &program.slots[static_cast<size_t>(border.outside[0])];
  if (first == nullptr || program.meshes[first->sharding->mesh].axes.empty()) return;
  const SdyMesh& mesh = program.meshes[first->sharding->mesh];
  std::string names;
  for (const SdyAxis& axis : first->manual)
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ",
                         mesh.axes.at(static_cast<size_t>(axis.axis)).name);
  border.node->frontend_attributes[kSdyManualAxes] = fmt::format("#sdy<manual_axes{{{}}}>", names);
}

}  // namespace

void write_back(Module& module, SdyProgram& program, bool closed_results) {
  for (Node* node : program.written) {
    const std::span<const SdyLeaf> leaves = program.leaves.at(node);
    if (leaves.empty()) continue;  // an op without results keeps what it says
    const std::vector<SdySharding> list =
        shardings_of(program, leaves.first(leaves.size() - capture_count(*node)), closed_results);
    // Where XLA looks for it, and for other ops where we do.
    const bool is_parameter = node->is(Opcode::parameter);
    const bool is_xlas = is_parameter || is_call_of(*node, "Sharding");
    node->frontend_attributes.erase(is_xlas ? kSdySharding : kXlaSdySharding);
    std::string text;
    if (!list.empty())
      text = is_parameter && list.size() == 1 ? to_attribute(list[0], program.meshes)
                                              : to_attribute(list, program.meshes);
    write_attribute(*node, is_xlas ? kXlaSdySharding : kSdySharding, text);
    if (node->frontend_attributes.contains(kSdyNamed)) write_named(program, *node, text);
  }
  for (SdyFunction& function : program.functions) write_results(program, function);
  for (const SdyBorder& border : program.in_borders) write_border(program, border, kSdyInShardings);
  for (const SdyBorder& border : program.out_borders)
    write_border(program, border, kSdyOutShardings);
  if (program.meshes.size() > 0) module.frontend_attributes[kSdyMeshes] = to_string(program.meshes);
}

void write_rules(Module& module, const SdyProgram& program, bool conservative) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      if (!program.leaves.contains(node.get()) || node->is(Opcode::tuple) ||
          node->frontend_attributes.contains(kImplicit) || is_result_call(*node))
        continue;
      const std::optional<SdyRule> rule =
          at_node(*node, [&] { return sdy_rule(*node, conservative); });
      if (rule) node->frontend_attributes[kSdyRule] = to_string(*rule);
    }
}

namespace {

// Writes Node::sharding from the program.
class ShardingWriter {
 public:
  ShardingWriter(SdyProgram& program, bool complete) : program_(program), complete_(complete) {
    for (const SdyFunction& function : program.functions)
      for (const SdyResult& result : function.results)
        if (result.call != nullptr) results_[result.call] = result.result;
  }

  void write(Node& node) {
    const auto found = program_.leaves.find(&node);
    if (found == program_.leaves.end()) return;
    if (complete_) node.sharding.reset();
    if (node.frontend_attributes.contains(kImplicit) || node.shape.dtype == DType::token ||
        found->second.empty())
      return;
    std::vector<Sharding> leaves;
    bool any = complete_;
    for (const SdyLeaf& leaf : found->second) {
      const SdySlot& slot = slot_of(leaf);
      any |= slot.sharding.has_value() || slot.region_mesh >= 0;
      leaves.push_back(sharding_of(slot));
    }
    if (!any) return;
    if (node.shape.is_tuple)
      node.sharding = Sharding::tuple(std::move(leaves));
    else
      node.sharding = leaves[0];
  }

 private:
  const SdySlot& slot_of(const SdyLeaf& leaf) const {
    const auto result = results_.find(leaf.result_call);
    const int64_t slot = result != results_.end()
                             ? result->second
                             : program_.values.at(static_cast<size_t>(leaf.value)).slot;
    return program_.slots.at(static_cast<size_t>(slot));
  }

  Sharding sharding_of(const SdySlot& slot) const {
    const std::optional<SdySharding>& sharding = slot.sharding;
    if (slot.region_mesh < 0 || slot.region.empty())
      return sharding ? to_sharding(*sharding, program_.meshes, {}, !complete_)
                      : Sharding::replicated();
    const bool says = sharding && !program_.meshes[sharding->mesh].is_empty();
    return to_sharding(says ? *sharding : closed_sharding(slot.region_mesh, slot.shape.rank()),
                       program_.meshes, slot.region);
  }

  SdyProgram& program_;
  const bool complete_;
  std::unordered_map<const Node*, int64_t> results_;
};

}  // namespace

void write_shardings(Module& module, SdyProgram& program, bool complete) {
  ShardingWriter writer(program, complete);
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) writer.write(*node);
}

}  // namespace gspmd
