#include <algorithm>
#include <map>

#include "gspmd/ir/op.h"
#include "ops/dot/dot.h"
#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

bool takes_views(const Node& node) { return node.op().has(kTakesViews); }

bool is_transposing_view(const Node& node) { return is_view_op(node) && !node.op().has(kAlias); }

bool only_dots_read(const Node& node) {
  if (node.is_root()) return false;
  return std::all_of(node.users().begin(), node.users().end(), [](const Node* user) {
    return takes_views(*user) || (is_view_op(*user) && only_dots_read(*user));
  });
}

}  // namespace

Node* written_as(Node* dot) {
  Node* best = dot;
  for (Node* at = dot; at->users().size() == 1 && !at->is_root(); at = at->users()[0]) {
    Node* user = at->users()[0];
    if (!is_view_op(*user) || !view_into(*dot, *user)) break;
    if (is_transposing_view(*user)) best = user;
    if (user->is_root()) break;
  }
  return best;
}

Node* read_from(Node* operand) {
  Node* best = operand;
  bool transposed = false;
  for (Node* at = operand; is_view_op(*at) && only_dots_read(*at);) {
    transposed |= is_transposing_view(*at);
    at = at->operand(0);
    if (transposed && view_from(*operand, *at)) best = at;
  }
  return best;
}

Node* copy_chain(Computation& fused, const Node& node, const Node& source, Node* parameter) {
  if (&node == &source) return parameter;
  return copy_into(fused, node, {copy_chain(fused, *node.operand(0), source, parameter)});
}

Node* copy_views(Computation& fused, const Node& dot, Node* root, Node* copy) {
  if (root == &dot) return copy;
  return copy_into(fused, *root, {copy_views(fused, dot, root->operand(0), copy)});
}

namespace {

void build_fusion(Computation& c, Node* dot, Node* root, Node* const sources[2]) {
  Computation* fused = c.module().add_computation(c.module().unique_name("fused_dot"));
  Node* operands[2];
  std::vector<Node*> inputs;
  std::map<const Node*, Node*> parameters;
  for (int i = 0; i < 2; ++i) {
    Node*& parameter = parameters[sources[i]];
    if (parameter == nullptr) {
      inputs.push_back(sources[i]);
      parameter = add_parameter(*fused, inputs);
    }
    operands[i] = copy_chain(*fused, *dot->operand(i), *sources[i], parameter);
  }
  Node* const product = copy_into(*fused, *dot, {operands[0], operands[1]});
  fused->set_root(copy_views(*fused, *dot, root, product));
  c.replace_uses(root, append_fusion(c, *fused, std::move(inputs), "kOutput", *dot));
}

}  // namespace

bool fuse_dots(Computation& c) {
  std::vector<Node*> dots;
  for (const auto& node : c.nodes()) {
    if (takes_views(*node)) dots.push_back(node.get());
  }
  // Writing transposed serves all readers at once, so that comes first.
  std::map<Node*, Node*> roots;
  for (Node* dot : dots) roots[dot] = written_as(dot);
  bool changed = false;
  for (Node* dot : dots) {
    Node* sources[2];
    for (int i = 0; i < 2; ++i) {
      sources[i] = dot->operand(i);
      const Node* below = sources[i];
      while (is_view_op(*below)) below = below->operand(0);
      const bool written_there = takes_views(*below) && roots.count(const_cast<Node*>(below)) > 0 &&
                                 roots[const_cast<Node*>(below)] != below;
      if (!written_there) sources[i] = read_from(sources[i]);
    }
    if (roots[dot] == dot && sources[0] == dot->operand(0) && sources[1] == dot->operand(1))
      continue;
    build_fusion(c, dot, roots[dot], sources);
    changed = true;
  }
  if (!changed) return false;
  c.remove_dead();
  c.sort();
  return true;
}

}  // namespace gspmd
