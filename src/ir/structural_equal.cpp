#include <unordered_map>

#include "gspmd/ir/text.h"

namespace gspmd {
namespace {

// Whether the same dims of equal shapes are bounds only.
bool same_bounds(const Shape& a, const Shape& b) {
  for (size_t i = 0; i < a.elements.size(); ++i)
    if (!same_bounds(a.elements[i], b.elements[i])) return false;
  return a.dynamic_dims == b.dynamic_dims;
}

// Pairs nodes and computations of two modules, one to one, starting from the entries.
class Comparison {
 public:
  bool equal(const Module& a, const Module& b) {
    if (a.num_partitions != b.num_partitions || a.num_replicas != b.num_replicas ||
        a.aliases != b.aliases || a.frontend_attributes != b.frontend_attributes)
      return false;
    if (a.entry() == nullptr || b.entry() == nullptr) return a.entry() == b.entry();
    if (!pair(a.entry(), b.entry())) return false;
    while (!pending_computations_.empty()) {
      const auto [x, y] = pending_computations_.back();
      pending_computations_.pop_back();
      if (!equal_bodies(*x, *y)) return false;
    }
    return true;
  }

 private:
  // False when either has another partner already.
  bool pair(const Computation* a, const Computation* b) {
    const auto [forward, fresh] = computations_.emplace(a, b);
    const auto [backward, fresh_back] = computations_back_.emplace(b, a);
    if (fresh && fresh_back) pending_computations_.emplace_back(a, b);
    return forward->second == b && backward->second == a;
  }

  bool pair(const Node* a, const Node* b) {
    const auto [forward, fresh] = nodes_.emplace(a, b);
    const auto [backward, fresh_back] = nodes_back_.emplace(b, a);
    if (fresh && fresh_back) pending_.emplace_back(a, b);
    return forward->second == b && backward->second == a;
  }

  bool equal_bodies(const Computation& a, const Computation& b) {
    if (a.parameters().size() != b.parameters().size() || a.nodes().size() != b.nodes().size() ||
        a.attributes != b.attributes)
      return false;
    for (size_t i = 0; i < a.parameters().size(); ++i)
      if (!pair(a.parameters()[i], b.parameters()[i])) return false;
    if (a.root() == nullptr || b.root() == nullptr || !pair(a.root(), b.root()))
      return a.root() == nullptr && b.root() == nullptr;
    while (!pending_.empty()) {
      const auto [x, y] = pending_.back();
      pending_.pop_back();
      if (!equal_nodes(*x, *y)) return false;
    }
    return true;
  }

  bool equal_nodes(const Node& a, const Node& b) {
    if (!a.is(b.opcode()) || !(a.shape == b.shape) || !same_bounds(a.shape, b.shape) ||
        a.sharding != b.sharding || a.backward != b.backward ||
        a.frontend_attributes != b.frontend_attributes ||
        a.operands().size() != b.operands().size() || a.called.size() != b.called.size() ||
        !gspmd::equal(a.attrs, b.attrs))
      return false;
    for (size_t i = 0; i < a.operands().size(); ++i)
      if (!pair(a.operands()[i], b.operands()[i])) return false;
    for (size_t i = 0; i < a.called.size(); ++i)
      if (!pair(a.called[i], b.called[i])) return false;
    return true;
  }

  std::unordered_map<const Computation*, const Computation*> computations_, computations_back_;
  std::unordered_map<const Node*, const Node*> nodes_, nodes_back_;
  std::vector<std::pair<const Computation*, const Computation*>> pending_computations_;
  std::vector<std::pair<const Node*, const Node*>> pending_;
};

}  // namespace

bool structurally_equal(const Module& a, const Module& b) { return Comparison().equal(a, b); }

}  // namespace gspmd
