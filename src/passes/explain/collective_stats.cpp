#include "gspmd/passes/explain/collective_stats.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "mesh/digit_tools.h"
#include "moves/price.h"
#include "passes/graph/trip_count.h"

namespace gspmd {
namespace {

constexpr size_t kMaxAxes = 12;  // subsets of mesh axes are tried for a name

// The step that a collective is, and so its price.
ReshardKind kind_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::all_gather:
      return ReshardKind::all_gather;
    case Opcode::all_reduce:
      return ReshardKind::all_reduce;
    case Opcode::reduce_scatter:
      return ReshardKind::reduce_scatter;
    case Opcode::all_to_all:
      return ReshardKind::all_to_all;
    default:  // every operand goes as it is
      return ReshardKind::collective_permute;
  }
}

// What one device sends when the node runs once.
int64_t bytes_sent(const Node& node, int64_t num_devices) {
  int64_t operands = 0;
  for (const Node* x : node.operands()) operands = saturating_add(operands, x->shape.bytes());
  const int64_t group = std::max<int64_t>(group_size(node.attrs.replica_groups, num_devices), 1);
  return sent_bytes(kind_of(node.opcode()), operands, node.shape.bytes(), group);
}

// All pairs where devices are few, else by what tells them apart.
std::string pairs_text(const Permutation& permutation) {
  constexpr int64_t kMostListed = 4096;
  if (permutation.order != nullptr && permutation.order->count > kMostListed) {
    if (permutation.targets != nullptr)
      return fmt::format("{} devices, from order to order", permutation.order->count);
    std::string text;
    for (const Digit& digit : permutation.from)
      text += fmt::format("({},{})", digit.size, digit.stride);
    return text + " from tile to tile";
  }
  std::string text;
  const Pairs pairs = materialize(permutation);
  for (const auto& [source, target] : pairs)
    text += fmt::format("{}{{{},{}}}", text.empty() ? "" : ",", source, target);
  return fmt::format("{{{}}}", text);
}

std::string groups_text(const Node& node) {
  if (!node.is(Opcode::collective_permute)) return to_string(node.attrs.replica_groups);
  const Permutation& permutation = node.attrs.permutation;
  std::string text;
  if (permutation.order != nullptr) {  // digits, so that it stays short on any mesh
    if (permutation.shift != 0) {
      for (const Digit& digit : permutation.from)
        text += fmt::format("({},{})", digit.size, digit.stride);
      return fmt::format("{} shifted by {}{}", text, permutation.shift,
                         permutation.wraps ? ", round the end" : "");
    }
    if (permutation.tiles || permutation.rule || permutation.targets != nullptr)
      return pairs_text(permutation);
    for (size_t i = 0; i < permutation.from.size(); ++i)
      text +=
          fmt::format("{}({},{})->({},{})", i ? " " : "", permutation.from[i].size,
                      permutation.from[i].stride, permutation.to[i].size, permutation.to[i].stride);
    return text;
  }
  return pairs_text(permutation);
}

Digits by_stride(Digits digits) {
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  return canonical(std::move(digits));
}

std::vector<std::vector<int64_t>> sorted(std::vector<std::vector<int64_t>> lists) {
  for (std::vector<int64_t>& list : lists) std::sort(list.begin(), list.end());
  std::sort(lists.begin(), lists.end());
  return lists;
}

// The names of the mesh axes, major first, whose digits `fits` accepts; empty when no set of axes
// does.
template <class Fits>
std::string axes_that(const Mesh& mesh, Fits fits) {
  const size_t count = mesh.axes().size();
  if (count > kMaxAxes) return "";
  for (size_t set = 1; set < (size_t{1} << count); ++set) {
    Digits of_set;
    std::string names;
    for (size_t a = 0; a < count; ++a) {
      if ((set >> a & 1) == 0 || mesh.axes()[a].size == 1) continue;
      of_set.push_back(mesh.digit(static_cast<int64_t>(a)));
      names += (names.empty() ? "" : ",");
      names += mesh.axes()[a].name;
    }
    if (!of_set.empty() && fits(of_set)) return names;
  }
  return "";
}

// The axes whose digits the groups run over: "data,model".
std::string axes_of(const ReplicaGroups& groups, const Mesh& mesh) {
  const int64_t size = group_size(groups, mesh.num_devices());
  const Digits digits = by_stride(group_digits(groups));
  const bool by_digits = groups.num_groups > 0 && mesh.order()->is_iota() && !digits.empty();
  return axes_that(mesh, [&](const Digits& of_set) {
    if (tile_count(of_set) != size) return false;
    if (by_digits) return by_stride(of_set) == digits;
    return sorted(materialize(groups_over(mesh.order(), of_set), mesh.num_devices())) ==
           sorted(materialize(groups, mesh.num_devices()));
  });
}

// The axes along which senders and receivers differ; empty for lists of pairs.
std::string axes_of(const Permutation& permutation, const Mesh& mesh) {
  if (permutation.order != mesh.order() || permutation.targets != nullptr) return "";
  Digits moved;
  for (size_t i = 0; i < permutation.from.size(); ++i)
    if (permutation.shift != 0 || permutation.from[i] != permutation.to[i])
      moved.push_back(permutation.from[i]);
  moved = by_stride(std::move(moved));
  return axes_that(mesh, [&](const Digits& of_set) { return by_stride(of_set) == moved; });
}

std::string axes_of(const Node& collective, const Mesh& mesh) {
  return collective.is(Opcode::collective_permute)
             ? axes_of(*collective.attrs.permutation, mesh)
             : axes_of(*collective.attrs.replica_groups, mesh);
}

// Everything but numbers and what depends on the mesh.
CollectiveStats describe_cause(const Node& node) {
  CollectiveStats stats;
  stats.kind = opcode_name(node.opcode());
  stats.groups = groups_text(node);
  const Metadata& why = node.metadata;
  stats.op = why.op_name.empty() ? node.name() : *why.op_name;
  stats.instruction = why.cause.empty() ? stats.op : *why.cause;
  stats.tensor = why.moved.empty() ? stats.instruction : *why.moved;
  stats.source = source_line(why);
  stats.backward = node.backward;
  return stats;
}

}  // namespace

CollectiveStats describe_collective(const Node& node, int64_t num_devices, const Mesh* mesh) {
  CollectiveStats stats = describe_cause(node);
  stats.digits = group_digits(node.attrs.replica_groups);
  if (mesh != nullptr) stats.axes = axes_of(node, *mesh);
  stats.count = stats.sites = 1;
  stats.bytes = bytes_sent(node, num_devices);
  return stats;
}

std::vector<CollectiveStats> collective_stats(const Module& local, const Mesh* mesh) {
  if (local.entry() == nullptr) return {};
  const std::unordered_map<const Computation*, int64_t> counts = run_counts(local);
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string,
                         std::string, bool>;
  std::map<Key, size_t> index;
  std::map<std::string, std::string> axes;  // by groups
  std::vector<CollectiveStats> result;
  for (const std::unique_ptr<Computation>& computation : local.computations()) {
    const auto runs = counts.find(computation.get());
    if (runs == counts.end()) continue;
    for (const std::unique_ptr<Node>& node : computation->nodes()) {
      if (!node->op().has(kCollective)) continue;
      CollectiveStats stats = describe_cause(*node);
      const auto [at, fresh] =
          index.emplace(Key{stats.kind, stats.groups, stats.op, stats.instruction, stats.tensor,
                            stats.source, stats.backward},
                        result.size());
      if (fresh) {
        stats.digits = group_digits(node->attrs.replica_groups);
        if (mesh != nullptr) {
          const auto [name, unknown] = axes.emplace(stats.groups, "");
          if (unknown) name->second = axes_of(*node, *mesh);
          stats.axes = name->second;
        }
        result.push_back(std::move(stats));
      }
      CollectiveStats& entry = result[at->second];
      entry.sites += 1;
      entry.count = saturating_add(entry.count, runs->second);
      entry.bytes = saturating_add(
          entry.bytes, saturating_multiply(runs->second, bytes_sent(*node, local.num_partitions)));
    }
  }
  return result;
}

}  // namespace gspmd
