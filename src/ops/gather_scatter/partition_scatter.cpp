// Scatter: each device writes what falls into its part of the operands and drops the rest. Slices
// that are dealt out leave partial results, where the combiner is known.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"
#include "ops/emission/exchange.h"
#include "ops/gather_scatter/local_indices.h"

namespace gspmd {
namespace {

// The combiner with which partial results of one operand make the whole; nullopt where slices have
// to be written one after the other.
std::optional<Combiner> partial_combiner(const Node& node) {
  if (node.operands().size() != 3) return std::nullopt;
  const std::optional<Combiner> combiner = recognize_combiner(*node.called.at(0));
  const DType type = node.shape.dtype;
  if (combiner == Combiner::product && is_complex(type)) return std::nullopt;  // 1 * inf has a NaN
  if (combiner == Combiner::sum && type == DType::f8e8m0fnu) return std::nullopt;  // has no zero
  return combiner;
}

const Node* scalar_of(const Node& node) {
  const Node* value = &node;
  while (value->is(Opcode::broadcast)) value = value->operand(0);
  return value->rank() == 0 ? value : nullptr;
}

// A constant that changes nothing, so that every device may start from it.
bool is_identity(const Node& node, Combiner combiner) {
  const Node* value = scalar_of(node);
  return value && value->is(Opcode::constant) && !is_complex(value->shape.dtype) &&
         value->attrs.literal.at(0) == combiner_identity(combiner, value->shape.dtype);
}

class Scatter {
 public:
  Scatter(PartitionContext& spmd, Node& node)
      : spmd_(spmd),
        node_(node),
        inputs_(static_cast<int64_t>(node.operands().size()) / 2),
        combiner_(partial_combiner(node)),
        nest_(scatter_nest(node, combiner_.has_value())) {
    const IndexProblem problem = make_problem();
    spread_ = choose_index_spread(problem);
    layout_ = spread_.layout(nest_, IndexArray::operand);
    partial_ = spread_.partial(nest_);
  }

  Partitioned run() {
    const Dims room = rooms(nest_, spread_);
    LocalIndices local = local_indices(
        spmd_, spmd_.reshard(node_.operand(inputs_), spread_.layout(nest_, IndexArray::indices)),
        nest_, spread_, node_.operand(0)->shape, OutOfRange::drop);
    std::vector<Node*> operands, updates;
    for (int64_t i = 0; i < inputs_; ++i) {
      operands.push_back(with_room(spmd_, start_of(i), room));
      updates.push_back(
          spmd_.reshard(node_.operand(inputs_ + 1 + i), spread_.layout(nest_, IndexArray::slices)));
    }
    drop_tails(local, updates);
    std::vector<Shape> shapes;
    for (const Node* operand : operands) shapes.push_back(operand->shape);
    operands.push_back(local.indices);
    operands.insert(operands.end(), updates.begin(), updates.end());
    Attributes attrs = node_.attrs;
    attrs.scatter->scatter_dims_to_operand_dims = local.map;
    Node* result = spmd_.emit(Opcode::scatter, inputs_ == 1 ? shapes[0] : Shape::tuple(shapes),
                              operands, attrs, {spmd_.local_computation(*node_.called.at(0))});
    if (inputs_ == 1)
      return {without_room(result, room),
              combiner_ ? with_partial(layout_, spread_, partial_, *combiner_) : layout_};
    std::vector<Node*> leaves;
    for (int64_t i = 0; i < inputs_; ++i)
      leaves.push_back(without_room(hlo::get_tuple_element(result, i), room));
    return {hlo::tuple(spmd_.local(), std::move(leaves)),
            Sharding::tuple(std::vector<Sharding>(static_cast<size_t>(inputs_), layout_))};
  }

 private:
  IndexProblem make_problem() {
    IndexProblem p;
    p.nest = &nest_;
    p.combiner = combiner_.value_or(Combiner::sum);
    const std::vector<Sharding> wanted = wanted_layouts(spmd_, node_);
    set_region(p, wanted.at(0));
    const std::vector<Shape> shapes = leaf_shapes(node_.shape);
    for (size_t i = 0; i < wanted.size(); ++i)
      p.values.push_back({IndexArray::operand, shapes[i],
                          wanted[i].is_tiled() ? without_manual(wanted[i]) : Sharding::replicated(),
                          true});
    for (int64_t i = 0; i < 2 * inputs_ + 1; ++i) {
      const IndexArray array = i < inputs_    ? IndexArray::operand
                               : i == inputs_ ? IndexArray::indices
                                              : IndexArray::slices;
      const bool is_splat = node_.operand(i)->is(Opcode::broadcast) && scalar_of(*node_.operand(i));
      p.values.push_back(
          {array, node_.operand(i)->shape, layout_before(spmd_, node_, i), false, !is_splat});
    }
    return p;
  }

  // What updates are written into: the operand, of partial results on the first device only.
  Node* start_of(int64_t i) {
    Node* global = node_.operand(i);
    Node* operand = spmd_.reshard(global, layout_);
    if (partial_.empty() || is_identity(*global, *combiner_)) return operand;
    Node* first = hlo::compare(spmd_.digits_index(spread_.order, partial_),
                               hlo::scalar(spmd_.local(), DType::s32, 0), Direction::eq);
    Node* neutral = neutral_scalar(spmd_, *combiner_, operand->shape.dtype);
    return hlo::select(hlo::broadcast(first, operand->dims(), {}), operand,
                       hlo::broadcast(neutral, operand->dims(), {}));
  }

  // Slices behind the end of an uneven dim are written nowhere: they have no place in the operand,
  // or, without index components, change nothing.
  void drop_tails(LocalIndices& local, std::vector<Node*>& updates) {
    std::vector<int64_t> of_indices, of_updates;
    for (size_t l = 0; l < nest_.loops.size(); ++l) {
      const IndexLoop& loop = nest_.loops[l];
      const bool shares_nothing =
          loop.method == IndexMethod::batch || loop.method == IndexMethod::parallel;
      if (!shares_nothing || spread_.loops[l].empty()) continue;
      of_indices.push_back(loop.indices);
      of_updates.push_back(loop.slices);
    }
    if (of_indices.empty()) return;
    if (local.map.empty()) {
      updates[0] = spmd_.mask_tail(updates[0], node_.operand(inputs_ + 1)->shape,
                                   spread_.layout(nest_, IndexArray::slices), of_updates,
                                   neutral_scalar(spmd_, *combiner_, updates[0]->shape.dtype));
      return;
    }
    if (!is_signed_integer(local.indices->shape.dtype))
      local.indices = hlo::convert(local.indices, DType::s64);
    local.indices = spmd_.mask_tail(local.indices, node_.operand(inputs_)->shape,
                                    spread_.layout(nest_, IndexArray::indices), of_indices,
                                    hlo::scalar(spmd_.local(), local.indices->shape.dtype, -1));
  }

  PartitionContext& spmd_;
  Node& node_;
  int64_t inputs_ = 1;
  std::optional<Combiner> combiner_;
  IndexNest nest_;
  IndexSpread spread_;
  Sharding layout_;  // of operands and results
  Digits partial_;
};

// Nothing is written.
Partitioned operands_of(PartitionContext& spmd, Node& node) {
  const std::vector<Sharding> wanted = wanted_layouts(spmd, node);
  std::vector<Node*> leaves;
  for (size_t i = 0; i < wanted.size(); ++i)
    leaves.push_back(spmd.reshard(node.operand(static_cast<int64_t>(i)), wanted[i]));
  if (!node.shape.is_tuple) return {leaves.at(0), wanted.at(0)};
  return {hlo::tuple(spmd.local(), std::move(leaves)), Sharding::tuple(wanted)};
}

}  // namespace

std::optional<Partitioned> partition_scatter(PartitionContext& spmd, Node& node) {
  const auto inputs = static_cast<int64_t>(node.operands().size()) / 2;
  if (node.operand(inputs + 1)->shape.elements_count() == 0) return operands_of(spmd, node);
  return Scatter(spmd, node).run();
}

}  // namespace gspmd
