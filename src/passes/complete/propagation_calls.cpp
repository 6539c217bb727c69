// Loops, branches and calls: nodes of several computations that stand for one value.

#include <algorithm>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "passes/complete/propagation.h"

namespace gspmd {
namespace {

bool is_channel_op(const Node& node) {
  switch (node.opcode()) {
    case Opcode::send:
    case Opcode::send_done:
    case Opcode::recv:
    case Opcode::recv_done:
      return true;
    default:
      return false;
  }
}

// The one device that a value is on; -1: none or several.
int64_t single_device(const std::optional<Sharding>& sharding) {
  if (!sharding) return -1;
  if (!sharding->is_tuple())
    return sharding->kind() == ShardingKind::maximal ? sharding->device() : -1;
  int64_t device = -1;
  for (const Sharding& leaf : sharding->elements()) {
    if (leaf.kind() != ShardingKind::maximal || (device >= 0 && leaf.device() != device)) return -1;
    device = leaf.device();
  }
  return device;
}

}  // namespace

// A loop whose body talks over a channel on one device is on that device as a whole.
void Propagation::place_channels() {
  for (const auto& computation : module_.computations())
    for (const auto& loop : computation->nodes()) {
      if (!loop->is(Opcode::while_)) continue;
      const Computation& body = *loop->called.at(1);
      const Node* channel = nullptr;
      int64_t device = -1;
      for (const auto& node : body.nodes())
        if (is_channel_op(*node) && single_device(node->sharding) >= 0) {
          channel = node.get();
          device = single_device(node->sharding);
          break;
        }
      if (!channel) continue;
      const auto check = [&](const Node& node) {
        const int64_t other = single_device(node.sharding);
        if (other >= 0 && other != device)
          user_error(
              place_of(node),
              "while: Instruction: {} is on device: {}, which conflicts with device: {} of channel "
              "instruction: {}; put the loop on one device",
              node.name(), other, device, channel->name());
      };
      check(*loop);
      for (const auto& node : body.nodes()) check(*node);
      Node& root = *body.root();
      if (root.sharding) continue;
      root.sharding =
          root.shape.is_tuple
              ? Sharding::tuple(std::vector<Sharding>(static_cast<size_t>(leaf_count(root.shape)),
                                                      Sharding::maximal(device)))
              : Sharding::maximal(device);
    }
}

// What the parameter of a branch or callee learns, its argument does; the other way it is a rule of
// the parameter (infer_from_operands).
void Propagation::link_argument(const Node& parameter, Node& argument) {
  related_[parameter.id()].push_back(&argument);
}

// Nodes that stand for one value: what one of them learns, all do. The first that has a sharding
// gives it to all, before anything else is heard.
void Propagation::link(const std::vector<Node*>& nodes) {
  for (Node* node : nodes) {
    auto& others = related_[node->id()];
    for (Node* other : nodes)
      if (other != node && std::find(others.begin(), others.end(), other) == others.end())
        others.push_back(other);
  }
  for (Node* node : nodes) {
    if (!node->sharding) continue;
    copy_to_related(*node);
    return;
  }
}

void Propagation::link_related_nodes() {
  std::set<const Computation*> visited{module_.entry()};
  std::vector<Computation*> found{module_.entry()};
  for (size_t i = 0; i < found.size(); ++i)
    for (const auto& node : found[i]->nodes())
      if (!node->is(Opcode::fusion))
        for (Computation* called : node->called)
          if (visited.insert(called).second) found.push_back(called);
  for (const auto& computation : module_.computations())
    if (visited.contains(computation.get())) computations_.push_back(computation.get());
  for (Computation* computation : computations_) {
    std::vector<Visited>& order = orders_[computation];
    for (Node* node : post_order(*computation)) {
      order.push_back({node, static_cast<size_t>(node->id())});
      if (const auto group = group_of_.find(node->id()); group != group_of_.end())
        members_[computation].push_back({node, &groups_.at(group->second)});
    }
  }
  for (Computation* computation : computations_)
    for (const auto& node : computation->nodes()) {
      if (node->is(Opcode::while_)) {
        for (Computation* called : node->called) caller_[called] = node.get();
        link({node.get(), node->called[1]->root(), node->called[1]->parameters().at(0),
              node->called[0]->parameters().at(0)});
      } else if (node->is(Opcode::call)) {
        caller_[node->called[0]] = node.get();
        link({node.get(), node->called[0]->root()});
        for (size_t p = 0; p < node->operands().size(); ++p)
          link_argument(*node->called[0]->parameters().at(p), *node->operands()[p]);
      } else if (node->is(Opcode::conditional)) {
        std::vector<Node*> results{node.get()};
        for (Computation* branch : node->called) {
          caller_[branch] = node.get();
          results.push_back(branch->root());
        }
        link(results);
        for (size_t b = 0; b < node->called.size() && b + 1 < node->operands().size(); ++b)
          link_argument(*node->called[b]->parameters().at(0), *node->operands()[b + 1]);
      }
    }
}

const Node* Propagation::argument_of(const Node& parameter) const {
  const auto found = caller_.find(&parameter.parent());
  if (found == caller_.end()) return nullptr;
  const Node& caller = *found->second;
  if (caller.is(Opcode::call)) return caller.operand(parameter.attrs.index);
  if (!caller.is(Opcode::conditional)) return nullptr;
  for (size_t b = 0; b < caller.called.size() && b + 1 < caller.operands().size(); ++b)
    if (caller.called[b] == &parameter.parent()) return caller.operand(static_cast<int64_t>(b) + 1);
  return nullptr;
}

void Propagation::copy_to_related(Node& node) {
  const auto found = related_.find(node.id());
  if (found == related_.end()) return;
  for (Node* other : found->second) {
    if (other->sharding && *other->sharding == *node.sharding) continue;
    if (given(*other)) continue;
    set_sharding(*other, *node.sharding, node);
  }
}

}  // namespace gspmd
