// All-reduces of which each device keeps a part become reduce-scatters. Most reduce-scatters are
// not made here: a sum over a split loop stays unreduced (partition/partition_factors.cpp), and the
// planner of the reshard that ends it reduces and scatters at once (moves/reshard_moves.cpp).

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/passes/simplify/simplify.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxDevices = 1024;   // offsets are worked out for each of them
constexpr int64_t kMaxNodes = 256;      // of one offset expression
constexpr int64_t kMaxTable = 1 << 16;  // elements of a constant that an offset reads

// The scalar expression under `root` in operand order; nullopt where something in it is not known
// when compiling (a parameter, a loop counter) or it is large.
std::optional<std::vector<Node*>> expression(Node* root) {
  std::vector<Node*> order;
  std::unordered_map<const Node*, bool> done;  // false: operands pushed
  std::vector<Node*> stack = {root};
  while (!stack.empty()) {
    Node* const node = stack.back();
    const auto [mark, fresh] = done.emplace(node, false);
    if (!fresh) {
      stack.pop_back();
      if (!mark->second) order.push_back(node);
      mark->second = true;
      continue;
    }
    const OpInfo& op = node->op();
    const bool known =
        node->is(Opcode::partition_id) || op.has(kConstantLike) ||
        ((op.has(kElementwise) || op.has(kDataMovement)) && !node->operands().empty());
    if (!known || op.evaluate == nullptr || node->shape.is_tuple || !node->called.empty() ||
        node->shape.elements_count() > kMaxTable || static_cast<int64_t>(done.size()) > kMaxNodes)
      return std::nullopt;
    stack.insert(stack.end(), node->operands().begin(), node->operands().end());
  }
  return order;
}

// The expression's value on each device.
std::vector<int64_t> evaluate_on_devices(const std::vector<Node*>& order, int64_t num_devices) {
  const CallComputation no_calls = [](const Computation& called, std::span<const Value>) -> Value {
    internal_error("reduce-scatter: \"{}\" was called in an offset", called.name());
  };
  std::vector<int64_t> values;
  std::unordered_map<const Node*, Value> known;
  for (int64_t device = 0; device < num_devices; ++device) {
    if (device > 0)
      std::erase_if(known, [](const auto& entry) { return !entry.first->is(Opcode::constant); });
    for (const Node* node : order) {
      if (known.contains(node)) continue;
      if (node->is(Opcode::partition_id)) {
        Array id(node->shape.dtype, {});
        id.set(0, static_cast<double>(device));
        known.emplace(node, Value{std::move(id), {}, false});
        continue;
      }
      std::vector<Value> operands;
      for (const Node* operand : node->operands()) operands.push_back(known.at(operand));
      known.emplace(node, node->op().evaluate({*node, operands, no_calls}));
    }
    values.push_back(static_cast<int64_t>(known.at(order.back()).array.item()));
  }
  return values;
}

// The offset of each device along dim d of a dynamic-slice, clamped as the op does.
std::optional<std::vector<int64_t>> offsets(const Node& slice, int64_t d, int64_t num_devices) {
  const auto order = expression(slice.operand(1 + d));
  if (!order) return std::nullopt;
  std::vector<int64_t> values = evaluate_on_devices(*order, num_devices);
  const int64_t last = slice.operand(0)->dim(d) - slice.dim(d);
  for (int64_t& value : values) value = std::clamp<int64_t>(value, 0, last);
  return values;
}

// What a reduce-scatter needs to stand for an all-reduce and its slices.
struct Match {
  int64_t dim = 0;
  ReplicaGroups groups;  // members in the order of their tiles
};

// The only dim that shrinks, by the group's size.
std::optional<int64_t> sliced_dim(const Node& slice, int64_t group) {
  std::optional<int64_t> found;
  const Dims& whole = slice.operand(0)->dims();
  for (size_t d = 0; d < whole.size(); ++d) {
    if (slice.dims()[d] == whole[d]) continue;
    if (found || slice.dims()[d] * group != whole[d]) return std::nullopt;
    found = static_cast<int64_t>(d);
  }
  return found;
}

std::optional<Match> match(const Node& reduce, const Node& slice, int64_t num_devices) {
  auto lists = materialize(reduce.attrs.replica_groups, num_devices);
  const size_t group = lists.front().size();
  const bool even = std::all_of(lists.begin(), lists.end(),
                                [&](const auto& list) { return list.size() == group; });
  if (!even || static_cast<int64_t>(group * lists.size()) != num_devices || group < 2)
    return std::nullopt;
  const std::optional<int64_t> dim = sliced_dim(slice, static_cast<int64_t>(group));
  if (!dim) return std::nullopt;
  const auto starts = offsets(slice, *dim, num_devices);
  if (!starts) return std::nullopt;
  bool in_order = true;
  for (std::vector<int64_t>& list : lists) {
    std::vector<int64_t> by_tile(group, -1);
    for (size_t i = 0; i < group; ++i) {
      const int64_t device = list[i];
      if (device < 0 || device >= num_devices) return std::nullopt;
      const int64_t start = (*starts)[static_cast<size_t>(device)];
      const int64_t tile = start / slice.dim(*dim);
      if (start % slice.dim(*dim) != 0 || by_tile[static_cast<size_t>(tile)] != -1)
        return std::nullopt;
      by_tile[static_cast<size_t>(tile)] = device;
      in_order = in_order && tile == static_cast<int64_t>(i);
    }
    list = std::move(by_tile);
  }
  Match result{*dim, reduce.attrs.replica_groups};
  if (!in_order) {
    result.groups = {};
    result.groups.lists = std::move(lists);
  }
  return result;
}

bool operator==(const Match& a, const Match& b) { return a.dim == b.dim && a.groups == b.groups; }

bool rewrite(Node& reduce, int64_t num_devices) {
  if (reduce.operands().size() != 1 || reduce.users().empty() || reduce.is_root()) return false;
  std::optional<Match> common;
  const std::vector<Node*> slices = reduce.users();
  for (const Node* slice : slices) {
    if (!slice->is(Opcode::dynamic_slice) || slice->operand(0) != &reduce ||
        !(slice->shape == slices.front()->shape))
      return false;
    const std::optional<Match> found = match(reduce, *slice, num_devices);
    if (!found || (common && !(*common == *found))) return false;
    common = found;
  }
  Attributes attrs = reduce.attrs;
  attrs.dimensions = {common->dim};
  attrs.replica_groups = common->groups;
  Computation& computation = reduce.parent();
  Node* const scatter = computation.append(Opcode::reduce_scatter, slices.front()->shape,
                                           {reduce.operand(0)}, std::move(attrs));
  copy_annotations(reduce, *scatter);
  scatter->sharding.reset();
  scatter->called = reduce.called;
  for (Node* slice : slices) computation.replace_uses(slice, scatter);
  return true;
}

}  // namespace

bool rewrite_reduce_scatter(Module& module) {
  const int64_t num_devices = module.num_partitions;
  if (num_devices < 2 || num_devices > kMaxDevices) return false;
  return rewrite_each(module, [&](Computation& computation) {
    bool changed = false;
    const size_t count = computation.nodes().size();
    for (size_t i = 0; i < count; ++i)
      if (Node& node = *computation.nodes()[i]; node.is(Opcode::all_reduce))
        changed |= rewrite(node, num_devices);
    return changed;
  });
}

}  // namespace gspmd
