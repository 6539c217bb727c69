#include "api/copy_module.h"

#include <memory>
#include <unordered_map>

#include "gspmd/ops/builders.h"

namespace gspmd::detail {
namespace {

// The nodes of computations that a module's entry reaches, copied into the trace's module.
class Copier {
 public:
  explicit Copier(Computation& entry) : entry_(entry) {}

  // The entry's root, with its parameters replaced.
  Node* copy_entry(const Computation& from, const std::vector<Node*>& arguments) {
    return copy_nodes(from, entry_, &arguments);
  }

 private:
  Computation* copy(const Computation& from) {
    if (const auto known = computations_.find(&from); known != computations_.end())
      return known->second;
    Computation* const to = entry_.module().add_computation(from.name());
    to->set_root(copy_nodes(from, *to, nullptr));
    return computations_[&from] = to;
  }

  Node* copy_nodes(const Computation& from, Computation& to, const std::vector<Node*>* arguments) {
    std::unordered_map<const Node*, Node*> twins;
    for (const std::unique_ptr<Node>& node : from.nodes()) {
      if (arguments != nullptr && node->is(Opcode::parameter)) {
        twins[node.get()] = arguments->at(static_cast<size_t>(node->attrs.index));
        continue;
      }
      std::vector<Node*> operands;
      for (const Node* operand : node->operands()) operands.push_back(twins.at(operand));
      std::vector<Computation*> called;
      for (const Computation* computation : node->called) called.push_back(copy(*computation));
      Node* const twin =
          to.append(node->opcode(), node->shape, std::move(operands), node->attrs, node->name());
      copy_annotations(*node, *twin);
      twin->called = std::move(called);
      twins[node.get()] = twin;
    }
    return twins.at(from.root());
  }

  Computation& entry_;
  std::unordered_map<const Computation*, Computation*> computations_;
};

}  // namespace

Node* copy_entry(const Computation& entry, Computation& to, const std::vector<Node*>& arguments) {
  return Copier(to).copy_entry(entry, arguments);
}

}  // namespace gspmd::detail
