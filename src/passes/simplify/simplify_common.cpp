#include <deque>

#include "gspmd/ops/builders.h"
#include "gspmd/passes/simplify/simplify.h"

namespace gspmd {
namespace {

size_t mix(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2));
}

// All bits of a number in all bits of the result (splitmix64): sums of such tell pairs apart whose
// numbers have the same sum.
size_t scramble(size_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

size_t hash_dims(size_t seed, const Dims& dims) {
  for (const int64_t d : dims) seed = mix(seed, static_cast<size_t>(d));
  return mix(seed, dims.size());
}

size_t hash_shape(size_t seed, const Shape& shape) {
  for (const Shape& element : shape.elements) seed = hash_shape(seed, element);
  return hash_dims(mix(seed, static_cast<size_t>(shape.dtype)), shape.dims);
}

size_t hash_literal(size_t seed, const Array& literal) {
  if (literal.empty()) return seed;
  const std::span<std::byte> bytes = literal.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return mix(seed, std::hash<std::string_view>()(text));
}

bool is_commutative_pair(const Node& node) {
  return node.operands().size() == 2 && node.op().has(kCommutative);
}

// Nodes that cost nothing to repeat and whose value may be that of another by chance: the rows of a
// shard that are as many as the devices along an axis, two tensors whose shards have the same
// shape. They are equal as operands but stay apart, so that the number of instructions does not
// depend on the sizes of the mesh's axes.
bool stays_apart(const Node& node) {
  if (node.is(Opcode::iota)) return true;
  if (node.is(Opcode::broadcast)) return node.operand(0)->rank() == 0;
  return node.is(Opcode::constant) && node.shape == Shape(DType::s32, {}) &&
         node.attrs.literal.item() > 0;
}

bool same_operand(const Node& a, const Node& b) {
  if (&a == &b) return true;
  if (!a.is(b.opcode()) || !stays_apart(a) || !stays_apart(b)) return false;
  return a.shape == b.shape && a.sharding == b.sharding &&
         a.frontend_attributes == b.frontend_attributes && equal(a.attrs, b.attrs) &&
         (a.operands().empty() || same_operand(*a.operand(0), *b.operand(0)));
}

size_t hash_operand(const Node& node) {
  if (!stays_apart(node)) return scramble(static_cast<size_t>(node.id()));
  const size_t seed = hash_literal(hash_shape(2, node.shape), node.attrs.literal);
  return node.operands().empty() ? scramble(seed) : mix(seed, hash_operand(*node.operand(0)));
}

bool same_operands(const Node& a, const Node& b) {
  if (a.operands().size() != b.operands().size()) return false;
  bool same = true;
  for (int64_t i = 0; same && i < std::ssize(a.operands()); ++i)
    same = same_operand(*a.operand(i), *b.operand(i));
  return same || (is_commutative_pair(a) && same_operand(*a.operand(0), *b.operand(1)) &&
                  same_operand(*a.operand(1), *b.operand(0)));
}

// Two computations that combine alike count as one: texts of other origin repeat their adders.
bool same_called(const Node& a, const Node& b) {
  if (a.called == b.called) return true;
  if (a.called.size() != 1 || b.called.size() != 1) return false;
  const std::optional<Combiner> combiner = recognize_combiner(*a.called[0]);
  return combiner && combiner == recognize_combiner(*b.called[0]) &&
         a.called[0]->root()->shape == b.called[0]->root()->shape;
}

bool same_attributes(const Node& a, const Node& b) {
  if (!a.op().has(kCollective)) return equal(a.attrs, b.attrs);
  // A channel only tells collectives apart.
  Attributes x = a.attrs;
  x.channel_id = b.attrs.channel_id;
  return equal(x, b.attrs);
}

// Scalars and constants are merged whatever their phase: keeping them costs nothing.
bool same_phase(const Node& a, const Node& b) {
  if (a.backward == b.backward || a.is(Opcode::constant)) return true;
  return a.shape.elements_count() == 1 && !a.op().has(kCollective);
}

bool may_merge(const Node& node) {
  const OpInfo& op = node.op();
  // Constants whose elements the text left out may differ.
  if (node.is(Opcode::constant) && node.attrs.literal.empty()) return false;
  return !node.is(Opcode::parameter) && !node.is(Opcode::custom_call) &&
         !node.is(Opcode::optimization_barrier) && !op.has(kSideEffect);
}

// Nodes of one computation by the value they compute.
class ValueTable {
 public:
  explicit ValueTable(bool across_phases) : across_phases_(across_phases) {}

  // The earlier node that computes the same; nullptr and remembered when there is none.
  Node* find_or_add(Node* node) {
    Entry** entry = &table_[hash(*node)];
    for (; *entry != nullptr; entry = &(*entry)->next)
      if (same(*(*entry)->node, *node)) return (*entry)->node;
    *entry = &entries_.emplace_back(Entry{node, nullptr});
    return nullptr;
  }

 private:
  static size_t hash(const Node& node) {
    size_t seed = hash_shape(static_cast<size_t>(node.opcode()), node.shape);
    size_t sum = 0;  // order-free, for commutative ops
    for (const Node* operand : node.operands()) sum += hash_operand(*operand);
    seed = mix(seed, sum);
    seed = hash_dims(mix(seed, static_cast<size_t>(node.attrs.index)), node.attrs.dimensions);
    seed = hash_dims(hash_dims(seed, node.attrs.starts), node.attrs.strides);
    return hash_literal(mix(seed, static_cast<size_t>(node.attrs.direction)), node.attrs.literal);
  }

  bool same(const Node& a, const Node& b) const {
    return a.is(b.opcode()) && same_operands(a, b) && a.shape == b.shape &&
           (across_phases_ || same_phase(a, b)) && a.sharding == b.sharding &&
           a.frontend_attributes == b.frontend_attributes && same_called(a, b) &&
           same_attributes(a, b);
  }

  struct Entry {
    Node* node;
    Entry* next;  // another one of this hash
  };
  bool across_phases_;
  FlatMap<size_t, Entry*> table_;  // by hash, the first
  std::deque<Entry> entries_;
};

bool merge_in(Computation& computation, bool across_phases) {
  ValueTable values(across_phases);
  bool changed = false;
  // Operands stand first, so by the time a node is looked at its operands are merged already.
  for (const std::unique_ptr<Node>& node : computation.nodes()) {
    if (!may_merge(*node) || stays_apart(*node)) continue;
    Node* const earlier = values.find_or_add(node.get());
    if (earlier == nullptr) continue;
    computation.replace_uses(node.get(), earlier);
    changed = true;
  }
  if (changed) computation.remove_dead();
  return changed;
}

}  // namespace

bool eliminate_common_subexpressions(Module& module, bool across_phases) {
  bool changed = false;
  for (const std::unique_ptr<Computation>& computation : module.computations())
    changed |= merge_in(*computation, across_phases);
  return changed;
}

}  // namespace gspmd
