// All-reduces of which each device keeps a part become reduce-scatters. Most reduce-scatters are
// not made here: a sum over a split loop stays unreduced (partition/partition_factors.cpp), and the
// planner of the reshard that ends it reduces and scatters at once (moves/reshard_moves.cpp).

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
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
  if (!sliced_dim(slice, group_size(reduce.attrs.replica_groups, num_devices))) return std::nullopt;
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

bool is_zero(const Node& node) {
  return node.is(Opcode::constant) && node.rank() == 0 && is_floating(node.shape.dtype) &&
         node.attrs.literal.at(0) == 0;
}

// The reshapes and paddings with zeros that alone read a sum, up to slices of what they make.
std::vector<Node*> before_slices(const Node& reduce) {
  std::vector<Node*> between;
  const Node* last = &reduce;
  while (last->users().size() == 1 && !last->is_root()) {
    Node* const user = last->users()[0];
    const bool pads = user->is(Opcode::pad) && user->operand(0) == last &&
                      is_zero(*user->operand(1)) &&
                      recognize_combiner(*reduce.called.at(0)) == Combiner::sum;
    if (!pads && !user->is(Opcode::reshape)) break;
    between.push_back(user);
    last = user;
  }
  return between;
}

// The sum of what `between` makes of the parts: of the same values. nullptr: there is nothing.
Node* sum_behind(Node& reduce, const std::vector<Node*>& between) {
  if (between.empty() || reduce.operands().size() != 1) return nullptr;
  Computation& computation = reduce.parent();
  Node* part = reduce.operand(0);
  for (const Node* node : between) {
    std::vector<Node*> operands = node->operands();
    operands[0] = part;
    part = computation.append(node->opcode(), node->shape, std::move(operands), node->attrs);
    copy_annotations(*node, *part);
  }
  Node* const sum = computation.append(Opcode::all_reduce, part->shape, {part}, reduce.attrs);
  copy_annotations(reduce, *sum);
  sum->called = reduce.called;
  return sum;
}

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

// As rewrite, where reshapes and paddings stand between the sum and its slices.
bool rewrite_behind(Node& reduce, int64_t num_devices) {
  const std::vector<Node*> between = before_slices(reduce);
  Node* const sum = sum_behind(reduce, between);
  if (sum == nullptr) return false;
  Computation& computation = reduce.parent();
  computation.replace_uses(between.back(), sum);
  if (rewrite(*sum, num_devices)) return true;
  computation.replace_uses(sum, between.back());
  return false;  // what was made is dead
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
        changed |= rewrite(node, num_devices) || rewrite_behind(node, num_devices);
    return changed;
  });
}

}  // namespace gspmd
