#include "passes/prepare/normalize.h"

#include <map>
#include <set>

#include "ir/call_nesting.h"
#include "passes/graph/alias.h"

namespace gspmd {
namespace {

Computation* copy_of(Computation& source) {
  Computation* copy = source.module().add_computation(source.module().unique_name(source.name()));
  std::vector<Node*> parameters;
  for (const Node* parameter : source.parameters()) {
    parameters.push_back(
        copy->append(Opcode::parameter, parameter->shape, {}, parameter->attrs, parameter->name()));
  }
  copy->set_root(inline_computation(source, *copy, parameters));
  return copy;
}

Node* leaf_of(Computation& c, Node* node, const Dims& path) {
  for (const int64_t index : path) {
    Attributes attrs;
    attrs.index = index;
    node = c.append(Opcode::get_tuple_element, node->shape.elements.at(static_cast<size_t>(index)),
                    {node}, std::move(attrs));
  }
  return node;
}

void leaf_paths(const Shape& shape, Dims& path, std::vector<Dims>& out) {
  if (!shape.is_tuple) {
    out.push_back(path);
    return;
  }
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    path.push_back(static_cast<int64_t>(i));
    leaf_paths(shape.elements[i], path, out);
    path.pop_back();
  }
}

// What leaf of which parameter a root leaf is, unchanged, through loops that hand it on as it is
// too; nullopt where it was computed.
struct Source {
  const Node* parameter = nullptr;
  Dims path;
};
std::optional<Source> source_of(const Node* node, Dims path) {
  while (true) {
    if (node->is(Opcode::parameter)) return Source{node, path};
    if (node->is(Opcode::tuple)) {
      node = node->operand(path.at(0));
      path.erase(path.begin());
    } else if (node->is(Opcode::get_tuple_element)) {
      path.insert(path.begin(), node->attrs.index);
      node = node->operand(0);
    } else if (is_alias(*node)) {
      node = node->operand(0);
    } else if (node->is(Opcode::while_)) {
      const std::optional<Source> next = source_of(node->called.at(1)->root(), path);
      if (!next || next->path != path) return std::nullopt;
      node = node->operand(0);
    } else {
      return std::nullopt;
    }
  }
}

Node* rebuild(Computation& c, const Shape& shape, const std::vector<Node*>& leaves, size_t& at) {
  if (!shape.is_tuple) return leaves[at++];
  std::vector<Node*> elements;
  for (const Shape& element : shape.elements) elements.push_back(rebuild(c, element, leaves, at));
  return c.append(Opcode::tuple, shape, std::move(elements));
}

// Copies the root leaves for which `moves(leaf path, source)` holds.
template <class Moves>
void copy_moving_leaves(Computation& c, Moves&& moves) {
  const Shape shape = c.root()->shape;
  std::vector<Dims> paths;
  Dims path;
  leaf_paths(shape, path, paths);
  std::set<size_t> moving;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::optional<Source> source = source_of(c.root(), paths[i]);
    if (source && moves(paths[i], *source)) moving.insert(i);
  }
  if (moving.empty()) return;
  Node* root = c.root();
  std::vector<Node*> leaves;
  for (size_t i = 0; i < paths.size(); ++i) {
    Node* leaf = leaf_of(c, root, paths[i]);
    leaves.push_back(moving.count(i) > 0 ? c.append(Opcode::copy, leaf->shape, {leaf}) : leaf);
  }
  size_t at = 0;
  c.set_root(rebuild(c, shape, leaves, at));
}

void normalize_from(Computation& computation, std::set<Computation*>& owned) {
  for (size_t i = 0; i < computation.nodes().size(); ++i) {
    Node* node = computation.nodes()[i].get();
    if (!node->is(Opcode::while_) && !node->is(Opcode::conditional)) continue;
    for (Computation*& called : node->called) {
      if (!owned.insert(called).second) {
        called = copy_of(*called);
        owned.insert(called);
      }
      normalize_from(*called, owned);
    }
    if (node->is(Opcode::conditional)) continue;
    copy_moving_leaves(*node->called.at(1),
                       [](const Dims& path, const Source& source) { return path != source.path; });
  }
}

}  // namespace

void normalize(Module& module) {
  check_nesting(module);
  Computation& entry = *module.entry();
  std::set<Computation*> owned{&entry};
  normalize_from(entry, owned);
  copy_moving_leaves(entry, [&](const Dims& path, const Source& source) {
    for (const Alias& alias : module.aliases) {
      const bool donated =
          alias.parameter == source.parameter->attrs.index && alias.parameter_index == source.path;
      if (donated) return alias.output != path;
    }
    return false;
  });
  module.remove_unreachable();  // they would count as callers
}

}  // namespace gspmd
