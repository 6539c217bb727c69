#include "gspmd/passes/collectives/combine_collectives.h"

#include <map>
#include <tuple>
#include <unordered_map>

#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

bool is_combinable(const Node& node) {
  return (node.is(Opcode::all_reduce) || node.is(Opcode::all_gather) ||
          node.is(Opcode::reduce_scatter)) &&
         node.operands().size() == 1 && !node.shape.is_tuple;
}

// Collectives that may become one agree in this.
struct Kind {
  Opcode opcode;
  DType dtype;
  Dims dimensions;
  std::string groups;
  std::string combiner;  // recognised ones by name, others by their computation
  bool backward;
  auto operator<=>(const Kind&) const = default;
};

// The text of groups; of those of an order that is no iota, of its ranks and a number for the
// order, the same in every process.
std::string groups_key(ReplicaGroups groups) {
  if (groups.order == nullptr) return to_string(groups);
  static thread_local std::unordered_map<DeviceOrder, uint64_t> known;
  const auto [found, fresh] = known.try_emplace(groups.order, 0);
  if (fresh)
    for (const int64_t device : groups.order->devices())
      found->second = (found->second ^ static_cast<uint64_t>(device)) * 0x9e3779b97f4a7c15u + 1;
  groups.order = nullptr;
  return fmt::format("{} of {}", to_string(groups), found->second);
}

Kind kind_of(const Node& node) {
  Kind kind{node.opcode(),
            node.shape.dtype,
            node.attrs.dimensions,
            groups_key(node.attrs.replica_groups),
            {},
            node.backward};
  if (node.called.empty()) return kind;
  const std::optional<Combiner> combiner = recognize_combiner(*node.called[0]);
  kind.combiner = combiner ? std::string(combiner_name(*combiner)) : node.called[0]->name();
  return kind;
}

// Where a collective stands, for deciding which others it may join.
//
// depth: collectives on the longest path that leads to it. Two of one depth are independent, and
// joining nodes of one depth never makes a cycle, whatever else is joined. segment: gathering
// early, or scattering late, keeps large values alive; those two are joined only where no other
// kind of collective stands between (they run at one point of the program anyway).
struct Place {
  int64_t depth = 0;
  int64_t segment = 0;
  auto operator<=>(const Place&) const = default;
};

struct Combinable {
  Node* node;
  Kind kind;
  int64_t depth;
  size_t position;  // of its first reader for all-gather, else its own
};

std::vector<Combinable> candidates(const Computation& computation) {
  FlatMap<const Node*, size_t> position;
  FlatMap<const Node*, int64_t> depth;
  position.reserve(computation.nodes().size());
  depth.reserve(computation.nodes().size());
  for (const std::unique_ptr<Node>& node : computation.nodes())
    position.emplace(node.get(), position.size());
  std::vector<Combinable> found;
  for (const std::unique_ptr<Node>& node : computation.nodes()) {
    int64_t below = 0;
    for (const Node* operand : node->operands())
      below = std::max(below, depth.at(operand) + (operand->op().has(kCollective) ? 1 : 0));
    depth.emplace(node.get(), below);
    if (!is_combinable(*node)) continue;
    size_t at = position.at(node.get());
    if (node->is(Opcode::all_gather) && !node->users().empty()) {
      at = position.size();
      for (const Node* user : node->users()) at = std::min(at, position.at(user));
    }
    found.push_back({node.get(), kind_of(*node), below, at});
  }
  return found;
}

// Candidates that become one, in program order.
using Groups = std::map<std::tuple<Kind, Place>, std::vector<Node*>>;

Groups group(std::vector<Combinable> all) {
  std::stable_sort(all.begin(), all.end(), [](const Combinable& a, const Combinable& b) {
    return a.position < b.position;
  });
  std::map<Kind, int64_t> seen;  // collectives of this kind so far
  int64_t total = 0;
  Groups groups;
  for (const Combinable& c : all) {
    int64_t& same = seen[c.kind];
    const int64_t others = total - same;
    const bool anywhere = c.kind.opcode == Opcode::all_reduce;
    groups[{c.kind, Place{c.depth, anywhere ? 0 : others}}].push_back(c.node);
    ++same;
    ++total;
  }
  return groups;
}

void join(Computation& computation, std::span<Node* const> members) {
  std::vector<Node*> operands;
  std::vector<Shape> shapes;
  for (const Node* member : members) {
    operands.push_back(member->operand(0));
    shapes.push_back(member->shape);
  }
  const Node& first = *members.front();
  Node* const joined = computation.append(first.opcode(), Shape::tuple(std::move(shapes)),
                                          std::move(operands), first.attrs);
  copy_annotations(first, *joined);
  joined->called = first.called;
  std::vector<std::pair<Node*, Node*>> elements;
  for (size_t i = 0; i < members.size(); ++i) {
    Attributes attrs;
    attrs.index = static_cast<int64_t>(i);
    Node* const element = computation.append(Opcode::get_tuple_element, members[i]->shape, {joined},
                                             std::move(attrs));
    element->backward = members[i]->backward;
    element->metadata = members[i]->metadata;
    elements.emplace_back(members[i], element);
  }
  computation.replace_uses(elements);
}

// Splits a group where its operands would exceed the limit.
bool join_within(Computation& computation, const std::vector<Node*>& members,
                 const CombineOptions& options) {
  const auto bytes_of = [&](const Node& member) {
    return options.bytes ? options.bytes(member) : member.operand(0)->shape.bytes();
  };
  bool changed = false;
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i <= members.size(); ++i) {
    const int64_t next = i < members.size() ? bytes_of(*members[i]) : 0;
    if (i < members.size() && (i == begin || bytes <= options.max_bytes - next)) {
      bytes += next;
      continue;
    }
    if (i - begin > 1) {
      join(computation, {members.data() + begin, i - begin});
      changed = true;
    }
    begin = i;
    bytes = next;
  }
  return changed;
}

}  // namespace

bool combine_collectives(Module& module, const CombineOptions& options) {
  return rewrite_each(module, [&](Computation& computation) {
    bool changed = false;
    for (const auto& [key, members] : group(candidates(computation)))
      if (members.size() > 1) changed |= join_within(computation, members, options);
    return changed;
  });
}

}  // namespace gspmd
