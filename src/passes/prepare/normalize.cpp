#include "passes/prepare/normalize.h"

#include <map>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "ir/call_nesting.h"

namespace gspmd {
namespace {

Node* zeros(Computation& c, const Shape& shape) {
  if (!shape.is_tuple && shape.dtype == DType::token) return c.append(Opcode::after_all, shape, {});
  if (!shape.is_tuple) {
    Attributes attrs;
    attrs.literal = Array(Shape(shape.dtype, shape.dims));
    return c.append(Opcode::constant, shape, {}, std::move(attrs));
  }
  std::vector<Node*> elements;
  for (const Shape& element : shape.elements) elements.push_back(zeros(c, element));
  return c.append(Opcode::tuple, shape, std::move(elements));
}

Node* element(Computation& c, Node* tuple, int64_t index) {
  Attributes attrs;
  attrs.index = index;
  return c.append(Opcode::get_tuple_element, tuple->shape.elements.at(static_cast<size_t>(index)),
                  {tuple}, std::move(attrs));
}

// What an op that starts something declares: the first two elements as given, zeros for the rest.
Node* started(Computation& c, const Shape& shape, Node* first, Node* second) {
  std::vector<Node*> elements{first, second};
  for (size_t i = 2; i < shape.elements.size(); ++i)
    elements.push_back(zeros(c, shape.elements[i]));
  return c.append(Opcode::tuple, shape, std::move(elements));
}

Node* operands_of(Computation& c, const Node& node, const Shape& shape) {
  if (!shape.is_tuple || (node.operands().size() == 1 && node.operand(0)->shape == shape))
    return node.operand(0);
  return c.append(Opcode::tuple, shape, node.operands());
}

// The op that does at once what `node` starts or ends; nullptr where it does neither.
Node* synchronous(Computation& c, Node& node) {
  const auto start = [&](Opcode opcode) {
    Node* made = c.append(opcode, node.shape.elements.at(1), node.operands(), node.attrs);
    made->called = node.called;
    return started(c, node.shape, operands_of(c, node, node.shape.elements.at(0)), made);
  };
  switch (node.opcode()) {
    case Opcode::async_start:
      return start(Opcode::call);
    case Opcode::all_gather_start:
      return start(Opcode::all_gather);
    case Opcode::collective_permute_start:
      return start(Opcode::collective_permute);
    case Opcode::all_reduce_start: {
      Node* made = c.append(Opcode::all_reduce, node.shape, node.operands(), node.attrs);
      made->called = node.called;
      return made;
    }
    case Opcode::copy_start: {
      Node* x = node.operand(0);
      return started(c, node.shape, c.append(Opcode::copy, x->shape, {x}), x);
    }
    case Opcode::copy_done:
      return element(c, node.operand(0), 0);
    case Opcode::async_done:
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
      return element(c, node.operand(0), 1);
    case Opcode::async_update:
    case Opcode::all_reduce_done:
    case Opcode::domain:
      return node.operand(0);
    default:
      return nullptr;
  }
}

// Whether there were any.
bool join_pairs_in(Computation& computation) {
  std::vector<Node*> nodes;
  for (const auto& node : computation.nodes()) nodes.push_back(node.get());
  bool changed = false;
  for (Node* node : nodes) {
    Node* made = synchronous(computation, *node);
    if (made == nullptr) continue;
    computation.replace_uses(node, made);
    changed = true;
  }
  if (!changed) return false;
  computation.remove_dead();
  computation.sort();
  return true;
}

// Whether a kernel of its own cannot run it: it asks which device it is on, or has control flow.
bool needs_executor(const Computation& computation, std::set<const Computation*>& seen) {
  if (!seen.insert(&computation).second) return false;
  for (const auto& node : computation.nodes()) {
    if (node->op().has(kCollective) || node->is(Opcode::partition_id) ||
        node->is(Opcode::conditional) || node->is(Opcode::while_) || node->is(Opcode::async_start))
      return true;
    for (const Computation* called : node->called)
      if (needs_executor(*called, seen)) return true;
  }
  return false;
}

bool is_inlined(const Node& node) {
  if (!node.is(Opcode::fusion)) return node.is(Opcode::call);
  std::set<const Computation*> seen;
  return needs_executor(*node.called.at(0), seen);
}

void inline_calls_in(Computation& computation) {
  bool changed = false;
  while (true) {
    Node* call = nullptr;
    for (const auto& node : computation.nodes()) {
      if (is_inlined(*node)) call = node.get();
    }
    if (call == nullptr) break;
    Node* root = inline_computation(*call->called.at(0), computation, call->operands());
    computation.replace_uses(call, root);
    computation.remove_dead();
    changed = true;
  }
  if (changed) computation.sort();
}

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
    } else if (node->is(Opcode::optimization_barrier) || node->is(Opcode::reshape) ||
               node->is(Opcode::bitcast_convert)) {
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

void normalize_from(Module& module, Computation& computation, std::set<Computation*>& owned) {
  do {  // an async computation becomes a call, a called one may have pairs
    inline_calls_in(computation);
  } while (join_pairs_in(computation));
  for (size_t i = 0; i < computation.nodes().size(); ++i) {
    Node* node = computation.nodes()[i].get();
    if (!node->is(Opcode::while_) && !node->is(Opcode::conditional)) continue;
    for (Computation*& called : node->called) {
      if (!owned.insert(called).second) {
        called = copy_of(*called);
        owned.insert(called);
      }
      normalize_from(module, *called, owned);
    }
    if (node->is(Opcode::conditional)) continue;
    copy_moving_leaves(*node->called.at(1),
                       [](const Dims& path, const Source& source) { return path != source.path; });
  }
}

}  // namespace

void normalize(Module& module) {
  if (module.entry() == nullptr)
    user_error("build_program: module {} has no entry computation", module.name);
  check_nesting(module);
  Computation& entry = *module.entry();
  std::set<Computation*> owned{&entry};
  normalize_from(module, entry, owned);
  copy_moving_leaves(entry, [&](const Dims& path, const Source& source) {
    for (const Alias& alias : module.aliases) {
      const bool donated =
          alias.parameter == source.parameter->attrs.index && alias.parameter_index == source.path;
      if (donated) return alias.output != path;
    }
    return false;
  });
  module.remove_unreachable();  // they would count as callers of what was inlined
}

}  // namespace gspmd
