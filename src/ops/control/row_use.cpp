// Which ops go through an array row by row, by their loop nests.

#include <algorithm>

#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "ops/control/row_flow.h"
#include "ops/control/row_tiles.h"

namespace gspmd {
namespace {

bool is_view(const Node& node) {
  return node.is(Opcode::tuple) || node.is(Opcode::get_tuple_element);
}

bool has_dynamic_dims(const Shape& shape) {
  return !shape.dynamic_dims.empty() ||
         std::any_of(shape.elements.begin(), shape.elements.end(), has_dynamic_dims);
}

bool may_have_rows(const Node& node) {
  const OpInfo& op = node.op();
  const auto& operands = node.operands();
  return op.factors != nullptr && !operands.empty() && !op.has(kCollective) &&
         !op.has(kWritesFirst) && !has_side_effect(node) && !has_dynamic_dims(node.shape) &&
         std::none_of(operands.begin(), operands.end(), [](const Node* x) {
           return x->shape.is_tuple || has_dynamic_dims(x->shape);
         });
}

// The loop of leading dim d of all results, if it is all of the dim and passes, else -1.
int64_t leading_loop(const FactorRule& rule, const std::vector<Shape>& leaves, size_t d) {
  int64_t loop = FactorRule::kNone;
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const std::vector<int64_t>& dims = rule.results[leaf];
    if (d >= dims.size() || dims[d] < 0 || (leaf > 0 && dims[d] != loop)) return -1;
    loop = dims[d];
    const Factor& factor = rule.factors[static_cast<size_t>(loop)];
    if (factor.kind != FactorKind::pass || factor.size != leaves[leaf].dims[d] ||
        std::count(dims.begin(), dims.end(), loop) != 1)
      return -1;
  }
  return loop;
}

// Whether operand dims have the loop at place d alone, or, if they have no rows, nowhere.
bool agrees(const std::vector<int64_t>& dims, size_t d, int64_t loop, bool has_rows) {
  const auto times = std::count(dims.begin(), dims.end(), loop);
  return has_rows ? times == 1 && d < dims.size() && dims[d] == loop : times == 0;
}

// Products of matrices go through memory in blocks of their own, and read an operand whole.
bool sums_products(const Node& node, const FactorRule& rule) {
  return node.op().has(kLinearInEach) &&
         std::any_of(rule.factors.begin(), rule.factors.end(), [](const Factor& factor) {
           return factor.kind == FactorKind::reduction && factor.size > 1;
         });
}

RowUse use_of_nest(const Node& node) {
  RowUse use;
  use.rows.assign(node.operands().size(), false);
  if (!may_have_rows(node)) return use;
  const FactorRule rule = node.op().factors(node);
  if (sums_products(node, rule)) return use;
  const std::vector<Shape> leaves = leaf_shapes(node.shape);
  for (size_t d = 0;; ++d) {
    const int64_t loop = leading_loop(rule, leaves, d);
    if (loop < 0) return use;
    for (size_t i = 0; i < rule.operands.size(); ++i) {
      if (d == 0) use.rows[i] = !rule.operands[i].empty() && rule.operands[i][0] == loop;
      if (!agrees(rule.operands[i], d, loop, use.rows[i])) return use;
    }
    ++use.depth;
  }
}

}  // namespace

RowUse row_use(const Node& node) {
  if (is_view(node)) return {kMostRowDims, std::vector<bool>(node.operands().size(), true)};
  if (!node.is(Opcode::fusion)) return use_of_nest(node);
  const Computation& body = *node.called.at(0);
  const RowFlow flow(body);
  RowUse use{flow.depth(), {}};
  for (const Node* parameter : body.parameters()) use.rows.push_back(flow.has_rows(*parameter));
  return use;
}

RowFlow::RowFlow(const Computation& body) : states_(body), depth_(kMostRowDims) {
  for (const auto& node : body.nodes()) states_[node.get()] = kUnread;
  const Dims first = leaf_shapes(body.root()->shape).at(0).dims;
  mark(*body.root(), kRows);
  const auto& nodes = body.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend() && depth_ > 0; ++node)
    if (states_[node->get()] != kUnread) enter(**node, first);
}

void RowFlow::mark(const Node& node, State state) {
  State& now = states_[&node];
  if (now != kUnread && now != state) depth_ = 0;
  now = state;
}

void RowFlow::enter(const Node& node, const Dims& first) {
  const bool has_rows = states_[&node] == kRows;
  RowUse use;
  if (has_rows) {
    for (const Shape& leaf : leaf_shapes(node.shape)) {
      const auto end =
          std::mismatch(first.begin(), first.end(), leaf.dims.begin(), leaf.dims.end());
      depth_ = std::min<int64_t>(depth_, end.first - first.begin());
    }
    if (node.is(Opcode::parameter)) return;
    use = row_use(node);
    depth_ = std::min(depth_, use.depth);
  }
  for (size_t i = 0; i < node.operands().size(); ++i)
    mark(*node.operands()[i], has_rows && use.rows[i] ? kRows : kWhole);
}

double arithmetic_of(const Node& node) {
  if (node.is(Opcode::fusion)) {
    double all = 0;
    for (const auto& inner : node.called.at(0)->nodes()) all += arithmetic_of(*inner);
    return all;
  }
  if (node.op().flops) return static_cast<double>(node.op().flops(node));
  return node.op().has(kElementwise) ? static_cast<double>(node.shape.elements_count()) : 0;
}

}  // namespace gspmd
