#include "gspmd/passes/collectives/all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "passes/collectives/ring.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxRing = 256;  // devices; a ring is written out
constexpr const char* kNames[] = {"direct", "hierarchical", "ring", "tree"};

// One all-reduce whose groups are regular, of vectors.
class Decomposition {
 public:
  Decomposition(const Node& reduce, const Ring& ring, const AllReduceOptions& options)
      : reduce_(reduce),
        ring_(ring),
        options_(options),
        opcode_(combiner_opcode(*recognize_combiner(*reduce.called[0]))) {}

  Node* operator()(Node* vector) const {
    const int64_t length = vector->dim(0);
    Node* reduced = nullptr;
    switch (options_.strategy) {
      case AllReduceStrategy::hierarchical:
        reduced = hierarchical(padded(vector, neighbours()));
        break;
      case AllReduceStrategy::ring:
        reduced = ring(padded(vector, ring_.size()));
        break;
      case AllReduceStrategy::tree:
        return tree(vector);
      case AllReduceStrategy::direct:
        internal_error("{}: a direct all-reduce is not rewritten", reduce_.name());
    }
    return cut(reduced, 0, 0, length);
  }

  // Of a hierarchy; 1 or the whole group: there is none.
  int64_t neighbours() const {
    const int64_t size = ring_.size();
    if (options_.neighbours > 0) {
      if (size % options_.neighbours != 0)
        user_error(
            "all-reduce: {} neighbours do not divide the {} devices of a group of \"{}\"; give a "
            "divisor, or 0",
            options_.neighbours, size, reduce_.name());
      return options_.neighbours;
    }
    int64_t largest = 1;
    for (int64_t n = 1; n * n <= size; ++n)
      if (size % n == 0) largest = n;
    return largest;
  }

 private:
  static Node* padded(Node* vector, int64_t multiple) {
    const int64_t length = vector->dim(0);
    const int64_t whole = (length + multiple - 1) / multiple * multiple;
    return pad(vector, 0, 0, whole - length);  // what the fill becomes is cut off
  }

  Node* collective(Opcode opcode, Node* operand, ReplicaGroups groups, int64_t length) const {
    Attributes attrs = reduce_.attrs;
    attrs.replica_groups = std::move(groups);
    if (opcode != Opcode::all_reduce) attrs.dimensions = {0};
    const std::vector<Computation*> called =
        opcode == Opcode::all_gather ? std::vector<Computation*>() : reduce_.called;
    return emit(operand->parent(), opcode, {operand}, std::move(attrs),
                Shape(operand->shape.dtype, {length}), called);
  }

  Node* hierarchical(Node* vector) const {
    const int64_t near = neighbours(), length = vector->dim(0);
    ReplicaGroups inner, outer;
    for (const std::vector<int64_t>& list : ring_.lists()) {
      for (auto at = list.begin(); at != list.end(); at += near)
        inner.lists.emplace_back(at, at + near);
      for (int64_t i = 0; i < near; ++i) {
        std::vector<int64_t>& peers = outer.lists.emplace_back();
        for (size_t k = static_cast<size_t>(i); k < list.size(); k += static_cast<size_t>(near))
          peers.push_back(list[k]);
      }
    }
    Node* const part = collective(Opcode::reduce_scatter, vector, inner, length / near);
    Node* const sum = collective(Opcode::all_reduce, part, outer, length / near);
    return collective(Opcode::all_gather, sum, inner, length);
  }

  // Chunk k of the vector, k modulo the ring's size.
  Node* chunk(Node* vector, IndexNode k) const {
    const int64_t size = vector->dim(0) / ring_.size();
    return cut(vector, 0, (k % ring_.size()) * size, size);
  }

  // Each chunk goes once round, and every member adds its own; then all go round again, whole.
  Node* ring(Node* vector) const {
    const int64_t n = ring_.size();
    const IndexNode place = ring_.place(vector->parent());
    Node* moving = chunk(vector, place);
    for (int64_t t = 1; t < n; ++t)
      moving = hlo::binary(opcode_, ring_.pass_on(moving, 1), chunk(vector, place + (n - t)));
    Node* result = put_block(vector, moving, 0, (place + 1) % n);
    for (int64_t t = 1; t < n; ++t) {
      moving = ring_.pass_on(moving, 1);
      result = put_block(result, moving, 0, (place + (n + 1 - t)) % n);
    }
    return result;
  }

  using Places = std::vector<std::pair<int64_t, int64_t>>;

  // `then` of what is received where something is sent, `value` elsewhere.
  Node* receive(Node* value, const Places& places, const std::function<Node*(Node*)>& then) const {
    std::vector<int64_t> receives(static_cast<size_t>(ring_.size()));
    for (const auto& [from, to] : places) receives[static_cast<size_t>(to)] = 1;
    Computation& c = value->parent();
    Node* const here =
        hlo::compare(look_up(receives, ring_.place(c)), IndexNode(c, 1), Direction::eq);
    Node* const everywhere = hlo::broadcast(here, value->dims(), {});
    return hlo::select(everywhere, then(ring_.send(value, places)), value);
  }

  Node* tree(Node* value) const {
    std::vector<Places> levels;
    for (int64_t span = 1; span < ring_.size(); span *= 2) {
      Places& level = levels.emplace_back();
      for (int64_t k = 0; k + span < ring_.size(); k += 2 * span) level.emplace_back(k + span, k);
    }
    for (const Places& level : levels)
      value = receive(value, level,
                      [&](Node* received) { return hlo::binary(opcode_, value, received); });
    std::reverse(levels.begin(), levels.end());
    for (Places& level : levels) {
      for (auto& [from, to] : level) std::swap(from, to);
      value = receive(value, level, [](Node* received) { return received; });
    }
    return value;
  }

  const Node& reduce_;
  const Ring& ring_;
  const AllReduceOptions& options_;
  Opcode opcode_;
};

// Whether there is anything to do for an all-reduce.
bool is_decomposed(const Node& reduce, const Ring& ring, const AllReduceOptions& options) {
  if (reduce.called.empty() || !recognize_combiner(*reduce.called[0])) return false;
  if (ring.size() < 2 || !ring.regular()) return false;
  if (options.strategy == AllReduceStrategy::ring && ring.size() > kMaxRing)
    user_error(
        "all-reduce: \"{}\" is over {} devices, rings are written out for {} at most; choose "
        "hierarchical or tree",
        reduce.name(), ring.size(), kMaxRing);
  if (options.strategy != AllReduceStrategy::hierarchical) return true;
  const int64_t near = Decomposition(reduce, ring, options).neighbours();
  return near > 1 && near < ring.size();
}

// The operands of one dtype as one vector, reduced, and taken apart.
void reduce_packed(const std::vector<size_t>& members, const Node& reduce,
                   const Decomposition& decomposition, std::vector<Node*>& results) {
  std::vector<Node*> flat;
  for (const size_t i : members) {
    Node* const operand = reduce.operands()[i];
    flat.push_back(hlo::reshape(operand, {operand->shape.elements_count()}));
  }
  Node* const packed = flat.size() == 1 ? flat[0] : hlo::concatenate(flat, 0);
  Node* const reduced = packed->dim(0) == 0 ? packed : decomposition(packed);
  int64_t begin = 0;
  for (size_t k = 0; k < members.size(); ++k) {
    const int64_t length = flat[k]->dim(0);
    Node* const part = cut(reduced, 0, begin, length);
    results[members[k]] = hlo::reshape(part, reduce.operands()[members[k]]->dims());
    begin += length;
  }
}

bool rewrite(Node& reduce, const AllReduceOptions& options, int64_t num_devices) {
  const Ring ring(reduce.attrs.replica_groups, num_devices);
  if (!is_decomposed(reduce, ring, options)) return false;
  Computation& c = reduce.parent();
  const EmissionScope scope(reduce.metadata, reduce.backward);
  std::map<DType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < reduce.operands().size(); ++i)
    by_dtype[reduce.operands()[i]->shape.dtype].push_back(i);
  const Decomposition decomposition(reduce, ring, options);
  std::vector<Node*> results(reduce.operands().size());
  for (const auto& [dtype, members] : by_dtype)
    reduce_packed(members, reduce, decomposition, results);
  c.replace_uses(&reduce, hlo::from_leaves(c, reduce.shape, results));
  return true;
}

}  // namespace

AllReduceStrategy all_reduce_strategy(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<AllReduceStrategy>(i);
  user_error("all-reduce: there is no strategy \"{}\"; choose one of {}", name,
             fmt::join(kNames, ", "));
}

std::string to_string(AllReduceStrategy strategy) { return kNames[static_cast<size_t>(strategy)]; }

bool decompose_all_reduces(Module& module, const AllReduceOptions& options) {
  const int64_t num_devices = module.num_partitions;
  if (options.strategy == AllReduceStrategy::direct || num_devices < 2) return false;
  return rewrite_each(module, [&](Computation& computation) {
    bool changed = false;
    const size_t count = computation.nodes().size();
    for (size_t i = 0; i < count; ++i)
      if (Node& node = *computation.nodes()[i]; node.is(Opcode::all_reduce))
        changed |= rewrite(node, options, num_devices);
    return changed;
  });
}

}  // namespace gspmd
