// What is one loop through all steps of a scan: dims of inputs, carries and outputs that every op
// of the computation passes on as they are.

#include <algorithm>
#include <map>

#include "ops/common/factors.h"
#include "ops/scan/scan.h"

namespace gspmd {
namespace {

// Classes of dims of all values of the computation, and of the scan's operands and results.
class BodyLoops {
 public:
  explicit BodyLoops(const Node& scan) : body_(*scan.called.at(0)), parts_(scan_parts(scan)) {
    for (const auto& node : body_.nodes()) add(node.get(), leaf_shapes(node->shape));
    for (const auto& node : body_.nodes()) pass_through(*node);
    meet_scan();
    for (const auto& node : body_.nodes()) block_squares(*node);
  }

  // Class of dim `dim` of leaf `leaf`.
  int64_t loop(const Node& node, size_t leaf, size_t dim) const {
    return find(first_.at(&node).at(leaf) + static_cast<int64_t>(dim));
  }
  bool is_free(int64_t loop) const { return !blocked_[static_cast<size_t>(loop)]; }

  const ScanParts& parts() const { return parts_; }
  const Computation& body() const { return body_; }
  // The leaf of the computation's root that output or carry number i is.
  int64_t returned(size_t leaf, size_t dim) const { return loop(*body_.root(), leaf, dim); }

 private:
  void add(const Node* node, const std::vector<Shape>& leaves) {
    for (const Shape& leaf : leaves) {
      first_[node].push_back(std::ssize(parent_));
      for (const int64_t size : leaf.dims) {
        parent_.push_back(std::ssize(parent_));
        size_.push_back(size);
        blocked_.push_back(false);
      }
    }
  }

  int64_t find(int64_t x) const {
    while (parent_[static_cast<size_t>(x)] != x) x = parent_[static_cast<size_t>(x)];
    return x;
  }

  void join(int64_t a, int64_t b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    const bool blocked = blocked_[static_cast<size_t>(a)] || blocked_[static_cast<size_t>(b)] ||
                         size_[static_cast<size_t>(a)] != size_[static_cast<size_t>(b)];
    parent_[static_cast<size_t>(b)] = a;
    blocked_[static_cast<size_t>(a)] = blocked;
  }

  void block(int64_t x) { blocked_[static_cast<size_t>(find(x))] = true; }

  void block_all(const Node& node) {
    const std::vector<Shape> leaves = leaf_shapes(node.shape);
    for (size_t l = 0; l < leaves.size(); ++l)
      for (size_t d = 0; d < leaves[l].dims.size(); ++d) block(loop(node, l, d));
  }

  void join_leaf(const Node& a, size_t leaf_a, const Node& b, size_t leaf_b) {
    const size_t rank = leaf_shapes(a.shape).at(leaf_a).dims.size();
    for (size_t d = 0; d < rank; ++d) join(loop(a, leaf_a, d), loop(b, leaf_b, d));
  }

  void pass_through(const Node& node) {
    if (node.is(Opcode::parameter)) return;
    if (node.is(Opcode::tuple)) {
      size_t leaf = 0;
      for (const Node* operand : node.operands())
        for (size_t l = 0; l < leaf_shapes(operand->shape).size(); ++l)
          join_leaf(node, leaf++, *operand, l);
      return;
    }
    if (node.is(Opcode::get_tuple_element) && !node.shape.is_tuple) {
      const Shape& tuple = node.operand(0)->shape;
      size_t leaf = 0;
      for (int64_t i = 0; i < node.attrs.index; ++i)
        leaf += static_cast<size_t>(leaf_count(tuple.elements[static_cast<size_t>(i)]));
      join_leaf(node, 0, *node.operand(0), leaf);
      return;
    }
    if (is_opaque(node)) {
      block_all(node);
      for (const Node* operand : node.operands()) block_all(*operand);
      return;
    }
    if (node.is(Opcode::iota)) block(loop(node, 0, static_cast<size_t>(node.attrs.index)));
    const FactorRule rule = node.op().factors(node);
    std::vector<int64_t> seen(rule.factors.size(), -1);
    const auto meet = [&](const Node& value, size_t leaf, const std::vector<int64_t>& dims) {
      for (size_t d = 0; d < dims.size(); ++d) {
        const int64_t at = loop(value, leaf, d);
        const auto f = static_cast<size_t>(dims[d]);
        if (dims[d] < 0 || rule.factors[f].kind != FactorKind::pass)
          block(at);
        else if (seen[f] >= 0)
          join(seen[f], at);
        else
          seen[f] = at;
      }
    };
    for (size_t i = 0; i < rule.operands.size(); ++i)
      meet(*node.operands()[i], 0, rule.operands[i]);
    for (size_t l = 0; l < rule.results.size(); ++l) meet(node, l, rule.results[l]);
  }

  // Ops whose parts are not the same op on smaller shapes.
  static bool is_opaque(const Node& node) {
    if (!node.op().factors || node.is(Opcode::scan) || node.op().has(kCollective) ||
        node.op().has(kSideEffect))
      return true;
    if (node.is(Opcode::constant)) return node.rank() > 0;
    for (const Node* operand : node.operands())
      if (operand->shape.is_tuple) return true;
    for (const Computation* called : node.called)
      for (const Node* parameter : called->parameters())
        if (parameter->shape.is_tuple || parameter->rank() > 0) return true;
    return false;
  }

  // A value over two dims of one class has more than the pieces that cuts of both leave.
  void block_squares(const Node& node) {
    const std::vector<Shape> leaves = leaf_shapes(node.shape);
    for (size_t l = 0; l < leaves.size(); ++l)
      for (size_t d = 0; d < leaves[l].dims.size(); ++d)
        for (size_t e = 0; e < d; ++e)
          if (loop(node, l, d) == loop(node, l, e)) block(loop(node, l, d));
  }

  // What one step returns as a carry, the next one takes.
  void meet_scan() {
    for (int64_t i = 0; i < parts_.carries; ++i) {
      const Node& taken = *body_.parameters().at(static_cast<size_t>(parts_.inputs + i));
      join_leaf(taken, 0, *body_.root(), static_cast<size_t>(parts_.outputs + i));
    }
  }

  const Computation& body_;
  ScanParts parts_;
  std::map<const Node*, std::vector<int64_t>> first_;
  std::vector<int64_t> parent_, size_;
  std::vector<bool> blocked_;
};

// The rule, and which class of the body each factor is (-1: the scan dim).
struct LoopFactors {
  FactorRule rule;
  std::map<int64_t, int64_t> factor_of;
};

LoopFactors loop_factors(const Node& node, const BodyLoops& loops) {
  LoopFactors result;
  FactorRule& rule = result.rule = no_factors(node);
  const ScanParts& parts = loops.parts();
  const int64_t along = add_factor(rule, parts.length, FactorKind::blocked);
  const auto factor = [&](int64_t loop, int64_t size) {
    const auto [at, fresh] = result.factor_of.emplace(loop, std::ssize(rule.factors));
    if (fresh) add_factor(rule, size, loops.is_free(loop) ? FactorKind::pass : FactorKind::blocked);
    return at->second;
  };
  // `scanned`: the value has the scan dim, which a step of it has not.
  const auto fill = [&](std::vector<int64_t>& dims, const Shape& shape, bool scanned,
                        const auto& loop_of) {
    size_t step = 0;
    for (size_t d = 0; d < dims.size(); ++d)
      dims[d] = scanned && static_cast<int64_t>(d) == parts.dim
                    ? along
                    : factor(loop_of(step++), shape.dims[d]);
  };
  const std::vector<Node*>& taken = loops.body().parameters();
  for (size_t i = 0; i < rule.operands.size(); ++i)
    fill(rule.operands[i], node.operands()[i]->shape, static_cast<int64_t>(i) < parts.inputs,
         [&](size_t d) { return loops.loop(*taken.at(i), 0, d); });
  const std::vector<Shape> shapes = leaf_shapes(node.shape);
  for (size_t l = 0; l < rule.results.size(); ++l)
    fill(rule.results[l], shapes[l], static_cast<int64_t>(l) < parts.outputs,
         [&](size_t d) { return loops.returned(l, d); });
  return result;
}

}  // namespace

FactorRule scan_factors(const Node& node) { return loop_factors(node, BodyLoops(node)).rule; }

Computation* scan_body_on_parts(const Node& scan, const std::vector<int64_t>& sizes, Module& target,
                                const std::function<Computation*(const Computation&)>& called) {
  const BodyLoops loops(scan);
  const LoopFactors factors = loop_factors(scan, loops);
  Computation* made = target.add_computation(loops.body().name());
  std::map<const Node*, Node*> copies;
  const auto cut = [&](const Node& node, size_t leaf, Shape shape) {
    for (size_t d = 0; d < shape.dims.size(); ++d) {
      const auto f = factors.factor_of.find(loops.loop(node, leaf, d));
      if (f != factors.factor_of.end()) shape.dims[d] = sizes.at(static_cast<size_t>(f->second));
    }
    return shape;
  };
  for (const auto& node : loops.body().nodes()) {
    std::vector<Shape> leaves = leaf_shapes(node->shape);
    for (size_t l = 0; l < leaves.size(); ++l) leaves[l] = cut(*node, l, leaves[l]);
    std::vector<Node*> operands;
    for (const Node* operand : node->operands()) operands.push_back(copies.at(operand));
    Attributes attrs = attributes_on_part(*node, operands, leaves);
    Shape shape = node->shape;
    if (shape.is_tuple)
      shape = Shape::tuple(leaves);
    else
      shape.dims = leaves.at(0).dims;
    Node* copy = made->append(node->opcode(), shape, operands, attrs, node->name());
    for (const Computation* computation : node->called)
      copy->called.push_back(called(*computation));
    copy_annotations(*node, *copy);
    copy->sharding.reset();
    copies[node.get()] = copy;
  }
  made->set_root(copies.at(loops.body().root()));
  return made;
}

}  // namespace gspmd
