#include "passes/shardy/import_shardings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/builders.h"
#include "ir/sdy_names.h"
#include "mesh/device_terms.h"
#include "ops/common/open_dims.h"
#include "passes/shardy/program_builder.h"

namespace gspmd {
namespace {

using Visit = std::function<void(const Sharding& sharding)>;

void for_each_leaf(const Sharding& sharding, const Visit& visit) {
  if (!sharding.is_tuple()) return visit(sharding);
  for (const Sharding& leaf : sharding.elements()) visit(leaf);
}

void for_each_sharding(const Module& module, const Visit& visit) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (node->sharding) for_each_leaf(*node->sharding, visit);
}

// One mesh for all shardings that have none of their own, with axes for every part that one reads;
// nullptr: their parts do not fit into one mesh, and each gets its own.
std::shared_ptr<const Mesh> common_mesh(const Module& module) {
  std::vector<Digits> lists;
  DeviceOrder order = nullptr;
  std::shared_ptr<const Mesh> named;
  bool fits = true;
  for_each_sharding(module, [&](const Sharding& sharding) {
    if (!sharding.is_tiled() || sharding.order() == nullptr) return;
    if (named == nullptr) named = sharding.mesh();
    if (order == nullptr) order = sharding.order();
    fits &= sharding.order() == order;
    for (int64_t d = 0; d < sharding.rank(); ++d) lists.push_back(sharding.dim(d));
    for (const Unreduced& unreduced : sharding.unreduced()) lists.push_back(unreduced.digits);
  });
  if (named != nullptr) return named;
  if (order != nullptr && !order->is_iota()) {
    const std::vector<int64_t> devices = order->devices();
    if (*std::max_element(devices.begin(), devices.end()) >= order->count) return nullptr;
  }
  const std::optional<Digits> atoms = fits && order != nullptr ? common_atoms(lists) : std::nullopt;
  if (!atoms) return nullptr;
  std::vector<MeshAxis> axes;
  const auto add = [&](int64_t size) {
    if (size > 1) axes.push_back({fmt::format("_axis_{}", axes.size()), size});
  };
  int64_t above = order->count;
  for (const Digit& atom : *atoms) {
    if (above % (atom.stride * atom.size) != 0) return nullptr;
    add(above / (atom.stride * atom.size));
    add(atom.size);
    above = atom.stride;
  }
  add(above);
  return std::make_shared<const Mesh>(std::move(axes), ids_in_text(order), Site{});
}

// A flag per value, or one for all, of the module's header.
bool is_open(const Module& module, const char* name, size_t i) {
  for (const auto& [key, text] : module.header) {
    if (key != name) continue;
    std::vector<bool> flags;
    for (const char c : text) {
      if (c == 't' || c == '1') flags.push_back(true);
      if (c == 'f' || c == '0') flags.push_back(false);
    }
    if (flags.size() == 1) return flags[0];
    return i < flags.size() && flags[i];
  }
  return false;
}

Node* result_call(Node* value, std::string sharding) {
  Attributes attrs;
  attrs.custom_call_target = kSdyResultTarget;
  attrs.other["custom_call_has_side_effect"] = "true";
  Node* const call =
      value->parent().append(Opcode::custom_call, value->shape, {value}, std::move(attrs));
  call->frontend_attributes[kXlaSdySharding] = std::move(sharding);
  return call;
}

// Takes an attribute of the module that lists shardings; `count`: how many it has to have.
std::optional<std::vector<SdySharding>> take_list(Module& module, const char* key, int64_t count,
                                                  SdyMeshes& meshes) {
  const auto found = module.frontend_attributes.find(key);
  if (found == module.frontend_attributes.end()) return std::nullopt;
  std::vector<SdySharding> list = parse_sdy_shardings(found->second, meshes);
  if (std::ssize(list) != count)
    user_error("{}: {} shardings for {} values; give one for each", key, list.size(), count);
  module.frontend_attributes.erase(found);
  return list;
}

class Importer {
 public:
  explicit Importer(Module& module) : module_(module) {
    const auto said = module.frontend_attributes.find(kSdyMeshes);
    if (said != module.frontend_attributes.end()) {
      meshes_ = parse_sdy_meshes(said->second);
      return;
    }
    mesh_ = common_mesh(module);
    if (mesh_ != nullptr) meshes_.add("mesh", {mesh_->axes(), ids_in_text(mesh_->order())});
  }

  void run() {
    for (const auto& computation : module_.computations()) {
      const size_t count = computation->nodes().size();
      for (size_t i = 0; i < count; ++i) {
        Node& node = *computation->nodes()[i];
        if (is_silent_border(node)) at_node(node, [&] { import_border(node); });
      }
      for (size_t i = 0; i < count; ++i) {
        Node& node = *computation->nodes()[i];
        if (node.sharding) at_node(node, [&] { import(node); });
      }
    }
    for (const auto& computation : module_.computations())
      for (const auto& node : computation->nodes()) node->sharding.reset();
    if (meshes_.size() > 0) module_.frontend_attributes[kSdyMeshes] = to_string(meshes_);
  }

 private:
  // Copies of what the dialect says elsewhere, and what readers keep of dead code.
  static bool is_said_elsewhere(const Node& node) {
    return attribute(node, kSdySharding) != nullptr ||
           attribute(node, kXlaSdySharding) != nullptr || is_manual_border(node) ||
           (node.users().empty() && !node.is_root());
  }

  static bool is_manual_border(const Node& node) {
    return is_call_of(node, kToLocalShape) || is_call_of(node, kToGlobalShape) ||
           is_manual_body(node);
  }

  // The borders of a manual computation say their shardings in HLO's form where its shardings are
  // named: those of the operands by calls before it, those of the results as its own, the manual
  // axes by what is inside.
  void import_border(Node& node) {
    const bool enters = is_call_of(node, kToLocalShape);
    std::vector<SdySharding> list;
    if (enters) {
      for (size_t i = 0; i < node.operands().size(); ++i) {
        Node& value = *node.operand(static_cast<int64_t>(i));
        add_border(list, value);
        if (!is_call_of(value, "Sharding") || value.operands().size() != 1 ||
            !(value.operand(0)->shape == value.shape))
          continue;
        node.set_operand(static_cast<int64_t>(i), value.operand(0));
        if (value.users().empty()) value.frontend_attributes[kRemoved] = "true";
      }
    } else {
      add_border(list, node);
    }
    if (list.empty()) return;
    node.frontend_attributes[enters ? kSdyInShardings : kSdyOutShardings] =
        to_attribute(list, meshes_);
    const Node* inside = &node;
    if (!enters && !node.operands().empty()) inside = node.operand(0);
    if (inside->is(Opcode::get_tuple_element)) inside = inside->operand(0);
    if (attribute(node, kSdyManualAxes) == nullptr)
      node.frontend_attributes[kSdyManualAxes] = manual_axes(*inside, list);
  }

  void add_border(std::vector<SdySharding>& list, const Node& value) {
    const std::vector<Shape> shapes = leaf_shapes(value.shape);
    std::vector<Sharding> shardings;
    if (value.sharding)
      for_each_leaf(*value.sharding, [&](const Sharding& leaf) { shardings.push_back(leaf); });
    shardings.resize(shapes.size(), Sharding::replicated());
    for (size_t i = 0; i < shapes.size(); ++i)
      if (const auto sharding = imported(value, shardings[i], shapes[i].rank()))
        list.push_back(*sharding);
  }

  // The attribute that names the axes along which a value inside is manual.
  std::string manual_axes(const Node& inside, const std::vector<SdySharding>& list) const {
    std::optional<Sharding> sharding = inside.sharding;
    if (sharding && sharding->is_tuple()) {
      if (sharding->elements().empty())
        sharding.reset();
      else
        sharding = Sharding(sharding->elements()[0]);
    }
    std::string names;
    for (const SdySharding& border : list) {
      const SdyMesh& mesh = meshes_[border.mesh];
      if (mesh.axes.empty() || !sharding || !names.empty()) continue;
      SdyAxes all;
      for (int64_t i = 0; i < std::ssize(mesh.axes); ++i)
        all.push_back({i, 1, mesh.axes[static_cast<size_t>(i)].size});
      const auto axes = sharding->is_manual()  ? std::optional(all)
                        : sharding->is_tiled() ? to_axes(mesh, sharding->manual_digits())
                                               : std::nullopt;
      for (const SdyAxis& axis : axes.value_or(SdyAxes{}))
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ",
                             mesh.axes[static_cast<size_t>(axis.axis)].name);
    }
    return fmt::format("#sdy<manual_axes{{{}}}>", names);
  }

  void import(Node& node) {
    if (is_said_elsewhere(node) || node.is(Opcode::get_tuple_element)) return;
    const std::vector<Shape> shapes = leaf_shapes(node.shape);
    std::vector<std::optional<SdySharding>> list;
    for_each_leaf(*node.sharding, [&](const Sharding& sharding) {
      if (list.size() == shapes.size()) return;
      if (sharding.shard_group() > 0 && sharding.shard_group_is_as())
        node.frontend_attributes[kSdyGroup] = fmt::format("{}", sharding.shard_group());
      const Shape& shape = shapes[list.size()];
      list.push_back(imported(node, sharding, shape.rank()));
      if (!list.back()) return;
      for (size_t d = 0; d < list.back()->dims.size(); ++d)
        if (shape.dims.at(d) == 0) list.back()->dims[d].axes.clear();
    });
    if (list.size() != shapes.size()) return;
    if (node.is(Opcode::tuple)) {
      if (node.is_root() && &node.parent() == module_.entry()) import_results(node, list);
      return;
    }
    std::vector<SdySharding> all;
    for (const std::optional<SdySharding>& sharding : list) {
      if (!sharding) return;
      all.push_back(*sharding);
    }
    if (node.is(Opcode::parameter) && &node.parent() == module_.entry() &&
        is_open(module_, "allow_spmd_sharding_propagation_to_parameters",
                static_cast<size_t>(node.attrs.index)))
      open(all);
    if (!all.empty()) node.frontend_attributes[kSdySharding] = to_attribute(all, meshes_);
  }

  static void open(std::vector<SdySharding>& list) {
    for (SdySharding& sharding : list)
      for (SdyDim& dim : sharding.dims) dim.open = true;
  }

  // Of the root's tuple: where no result says it by a call, all do so from here on.
  void import_results(Node& root, const std::vector<std::optional<SdySharding>>& list) {
    if (root.operands().size() != list.size()) return;
    for (const Node* operand : root.operands())
      if (is_result_call(*operand)) return;
    for (size_t i = 0; i < list.size(); ++i) {
      if (!list[i]) continue;
      std::vector<SdySharding> one{*list[i]};
      if (is_open(module_, "allow_spmd_sharding_propagation_to_output", i)) open(one);
      const auto index = static_cast<int64_t>(i);
      root.set_operand(index, result_call(root.operand(index), to_attribute(one, meshes_)));
    }
    root.parent().sort();
  }

  // By the axes of a mesh of the module, where one has them; absent: not decided.
  std::optional<SdySharding> imported(const Node& node, const Sharding& sharding, int64_t rank) {
    if (sharding.kind() == ShardingKind::unknown) return std::nullopt;
    std::optional<SdySharding> result = spelled(sharding, rank);
    if (!result) result = from_sharding(sharding, rank, meshes_);
    if (!result)
      user_error(
          "\"{}\" has the sharding {}, which Shardy's rules have no word for; complete with "
          "--strategy gspmd",
          node.name(), to_string(sharding));
    if (is_call_of(node, "Sharding")) {
      const std::vector<bool> flags = unspecified_dims(node);
      for (size_t d = 0; d < flags.size() && d < result->dims.size(); ++d)
        result->dims[d].open = result->dims[d].open || flags[d];
    }
    if (const std::string* priority = attribute(node, "gspmd.priority"))
      for (SdyDim& dim : result->dims)
        if (dim.open || !dim.axes.empty())
          dim.priority = std::strtoll(priority->c_str(), nullptr, 10);
    return result;
  }

  std::optional<SdySharding> spelled(const Sharding& sharding, int64_t rank) {
    if (!sharding.is_tiled()) return std::nullopt;
    for (int64_t i = 0; i < meshes_.size(); ++i) {
      if (meshes_.name(i).empty() || meshes_[i].axes.empty()) continue;
      if (sharding.order() == nullptr) {
        SdySharding result = closed_sharding(i, rank);
        for (size_t d = 0; d < sharding.open().size() && d < result.dims.size(); ++d)
          result.dims[d].open = sharding.open()[d];
        return result;
      }
      const auto mesh = std::make_shared<const Mesh>(to_mesh(meshes_[i]));
      if (mesh->order() != sharding.order()) continue;
      std::optional<SdySharding> result = from_sharding(sharding.with_mesh(mesh), rank, meshes_);
      if (!result) continue;
      result->mesh = i;
      return result;
    }
    return std::nullopt;
  }

  Module& module_;
  SdyMeshes meshes_;
  std::shared_ptr<const Mesh> mesh_;
};

}  // namespace

bool is_silent_border(const Node& node) {
  return (is_call_of(node, kToLocalShape) && attribute(node, kSdyInShardings) == nullptr) ||
         (is_call_of(node, kToGlobalShape) && attribute(node, kSdyOutShardings) == nullptr);
}

void import_shardings(Module& module) { Importer(module).run(); }

void read_tuple_shardings(Module& module) {
  Computation& entry = *module.entry();
  const auto said = module.frontend_attributes.find(kSdyMeshes);
  SdyMeshes meshes =
      said == module.frontend_attributes.end() ? SdyMeshes{} : parse_sdy_meshes(said->second);
  int64_t leaves = 0;
  for (const Node* parameter : entry.parameters()) leaves += leaf_count(parameter->shape);
  if (const auto list = take_list(module, "xla.sdy.tuple_args_shardings", leaves, meshes)) {
    auto next = list->begin();
    for (Node* parameter : entry.parameters()) {
      const auto end = next + leaf_count(parameter->shape);
      parameter->frontend_attributes[kXlaSdySharding] =
          to_attribute(std::vector<SdySharding>(next, end), meshes);
      next = end;
    }
  }
  Node* const root = entry.root();
  const auto list =
      take_list(module, "xla.sdy.tuple_results_shardings", leaf_count(root->shape), meshes);
  if (!list) return;
  if (!root->shape.is_tuple) {
    entry.set_root(result_call(root, to_attribute(*list, meshes)));
    return;
  }
  Node* results = root;
  if (!root->is(Opcode::tuple)) {
    std::vector<Node*> elements;
    for (int64_t i = 0; i < std::ssize(root->shape.elements); ++i)
      elements.push_back(hlo::get_tuple_element(root, i));
    results = hlo::tuple(entry, std::move(elements));
    entry.set_root(results);
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (index == std::ssize(results->operands()) || results->operand(index)->shape.is_tuple)
      user_error("xla.sdy.tuple_results_shardings: the results are tuples in tuples");
    results->set_operand(
        index, result_call(results->operand(index), to_attribute(std::vector{(*list)[i]}, meshes)));
  }
  entry.sort();
}

}  // namespace gspmd
