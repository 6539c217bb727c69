#include "passes/partition/poison_absent.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "gspmd/ops/builders.h"
#include "ops/emission/index.h"

namespace gspmd {
namespace {

// By device, whether it has the value in this layout; empty where all devices have.
std::vector<bool> holders(const Sharding& s, int64_t num_devices) {
  std::vector<bool> held(static_cast<size_t>(num_devices), false);
  if (s.kind() == ShardingKind::maximal) {
    held.at(static_cast<size_t>(s.device())) = true;
    return held;
  }
  if (!s.is_tiled() || !s.order() || s.order()->count >= num_devices) return {};
  for (int64_t rank = 0; rank < s.order()->count; ++rank)
    held.at(static_cast<size_t>(s.order()->device(rank))) = true;
  return held;
}

// By local node, the devices that have its value in any layout.
std::unordered_map<int64_t, std::vector<bool>> holders_by_node(
    std::span<const PartitionedValue> layouts, int64_t num_devices) {
  std::unordered_map<int64_t, std::vector<bool>> all;
  for (const PartitionedValue& layout : layouts) {
    const std::vector<bool> held = holders(layout.sharding, num_devices);
    const auto [at, is_new] = all.emplace(layout.local, held);
    if (is_new) continue;
    std::vector<bool>& known = at->second;
    if (held.empty()) known.clear();
    for (size_t device = 0; device < known.size(); ++device)
      known[device] = known[device] || held[device];
  }
  return all;
}

double wrong_number(DType dtype) {
  Array nan(dtype, {});
  if (is_floating(dtype) || is_complex(dtype)) {
    nan.set(0, std::numeric_limits<double>::quiet_NaN());
    if (std::isnan(nan.at(0))) return std::numeric_limits<double>::quiet_NaN();
  }
  return combiner_identity(Combiner::min, dtype);
}

Node* poison_like(Node* x) {
  if (x->shape.dtype == DType::pred) return hlo::unary(Opcode::not_, x);
  return hlo::splat(x->parent(), Shape(x->shape.dtype, x->dims()), wrong_number(x->shape.dtype));
}

// Whether this device is one of the holders.
Node* is_holder(Computation& c, const std::vector<bool>& held) {
  const IndexNode here = look_up({held.begin(), held.end()}, device_number(c));
  return compare(here, IndexNode(c, 0), Direction::ne);
}

}  // namespace

bool poison_absent(Module& local, std::span<const PartitionedValue> layouts, int64_t num_devices) {
  const auto by_node = holders_by_node(layouts, num_devices);
  bool changed = false;
  for (const auto& computation : local.computations()) {
    std::vector<std::pair<Node*, const std::vector<bool>*>> absent;
    for (const auto& node : computation->nodes()) {
      const auto found = by_node.find(node->id());
      if (found == by_node.end() || found->second.empty() || node->shape.is_tuple ||
          node->shape.dtype == DType::token || node->shape.dtype == DType::opaque)
        continue;
      absent.emplace_back(node.get(), &found->second);
    }
    for (const auto& [node, held] : absent) {
      Node* const poison = poison_like(node);
      Node* const here = hlo::broadcast(is_holder(*computation, *held), node->dims(), {});
      Node* const value = hlo::select(here, node, poison);
      computation->replace_uses(node, value);
      if (poison->is(Opcode::not_)) poison->set_operand(0, node);
    }
    if (!absent.empty()) computation->sort();
    changed = changed || !absent.empty();
  }
  return changed;
}

}  // namespace gspmd
