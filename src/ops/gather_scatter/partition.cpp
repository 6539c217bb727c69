#include "ops/gather_scatter/partition.h"

#include <algorithm>

#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"
#include "ops/emission/factor_sharding.h"
#include "ops/emission/index.h"

namespace gspmd {
namespace {

size_t slot(int64_t d) { return static_cast<size_t>(d); }

bool is_wide(DType type) { return type == DType::s64 || type == DType::u64 || type == DType::u32; }

// Makes the components of index vectors, one after the other.
class Components {
 public:
  Components(PartitionContext& spmd, Node* indices, const IndexNest& nest,
             const IndexFactorSharding& spread, const Shape& operand, OutOfRange mode)
      : spmd_(spmd),
        indices_(indices),
        nest_(nest),
        layout_(spread.layout(nest, IndexArray::operand)),
        slices_(spread.layout(nest, IndexArray::slices)),
        rooms_(rooms(nest, spread)),
        operand_(operand),
        mode_(mode) {
    for (size_t l = 0; l < nest.loops.size(); ++l) {
      if (spread.loops[l].empty()) continue;
      if (nest.loops[l].method == IndexMethod::cut) cut_.push_back(nest.loops[l].operand);
      if (nest.loops[l].method == IndexMethod::part) parts_.push_back(nest.loops[l]);
    }
    shape_ = indices->dims();
    if (vector_dim() == indices->rank()) shape_.push_back(1);
    shape_[slot(vector_dim())] = 1;
    // Clamped starts fit the dims; others are as wide as they come.
    const int64_t largest =
        operand.dims.empty() ? 0 : *std::max_element(operand.dims.begin(), operand.dims.end());
    const bool fits = largest < (int64_t(1) << 31);
    type_ = (mode == OutOfRange::clamp ? fits : !is_wide(indices->shape.dtype)) ? DType::s32
                                                                                : DType::s64;
  }

  LocalIndices run() {
    LocalIndices result;
    result.map = nest_.dims.index_to_operand;
    std::vector<Node*> parts;
    for (size_t k = 0; k < result.map.size(); ++k)
      parts.push_back(
          relative(looked_up(static_cast<int64_t>(k), result.map[k]), result.map[k], result));
    std::vector<int64_t> others = cut_;
    for (const IndexLoop& part : parts_) others.push_back(part.operand);
    for (const int64_t d : others) {
      if (std::count(result.map.begin(), result.map.end(), d)) continue;
      result.map.push_back(d);
      parts.push_back(relative(hlo::splat(spmd_.local(), Shape(type_, shape_), 0), d, result));
    }
    result.indices = parts.empty()       ? indices_
                     : parts.size() == 1 ? parts[0]
                                         : hlo::concatenate(parts, vector_dim());
    return result;
  }

 private:
  int64_t vector_dim() const { return nest_.dims.index_vector_dim; }
  IndexNode number(int64_t value) {
    return IndexNode(hlo::splat(spmd_.local(), Shape(type_, shape_), static_cast<double>(value)));
  }

  // Component k of all index vectors, of the type that is computed with; clamped where gathers do.
  Node* looked_up(int64_t k, int64_t d) {
    Node* part = vector_dim() < indices_->rank() ? gspmd::cut(indices_, vector_dim(), k, 1)
                                                 : hlo::reshape(indices_, shape_);
    if (!is_wide(part->shape.dtype)) part = hlo::convert(part, type_);
    if (mode_ == OutOfRange::clamp) {
      if (is_signed_integer(part->shape.dtype)) part = maximum(IndexNode(part), 0);
      part = minimum(IndexNode(part), last_start(d));
    }
    return hlo::convert(part, type_);
  }

  int64_t last_start(int64_t d) const { return nest_.operand[slot(d)] - nest_.window[slot(d)]; }

  Node* relative(Node* part, int64_t d, LocalIndices& result) {
    for (const IndexLoop& loop : parts_) {
      if (loop.operand != d) continue;
      Node* offset =
          hlo::convert(spmd_.offset(slices_, Shape(type_, nest_.slices), loop.slices), type_);
      return hlo::binary(Opcode::add, part, hlo::broadcast(offset, shape_, {}));
    }
    const bool is_window = nest_.window[slot(d)] == nest_.operand[slot(d)];
    const bool is_cut = std::count(cut_.begin(), cut_.end(), d) > 0;
    if (layout_.dim(d).empty() || (is_window && !is_cut)) return part;
    Node* const global = part;
    Node* offset = hlo::convert(spmd_.offset(layout_, operand_, d), type_);
    part = hlo::binary(Opcode::subtract, part, hlo::broadcast(offset, shape_, {}));
    if (is_cut) {
      Dims batch = shape_;
      batch.erase(batch.begin() + vector_dim());
      result.starts.emplace_back(d, hlo::reshape(part, batch));
    }
    if (rooms_[slot(d)] == 0) return part;  // what is outside of the dim is outside of every part
    part = IndexNode(part) + rooms_[slot(d)];
    if (mode_ == OutOfRange::clamp) return part;
    Node* inside = hlo::binary(Opcode::and_, compare(IndexNode(global), number(0), Direction::ge),
                               compare(IndexNode(global), number(last_start(d)), Direction::le));
    return hlo::select(inside, part, number(-1));
  }

  PartitionContext& spmd_;
  Node* indices_;
  const IndexNest& nest_;
  Sharding layout_, slices_;
  Dims rooms_;
  const Shape& operand_;
  OutOfRange mode_;
  std::vector<int64_t> cut_;      // operand dims that are split and looked up
  std::vector<IndexLoop> parts_;  // whose digits split the slices
  Dims shape_;                    // of one component, with an index vector of one
  DType type_ = DType::s32;
};

}  // namespace

LocalIndices local_indices(PartitionContext& spmd, Node* indices, const IndexNest& nest,
                           const IndexFactorSharding& spread, const Shape& operand,
                           OutOfRange mode) {
  if (spread.of(nest, IndexMethod::cut).empty() && spread.of(nest, IndexMethod::parallel).empty() &&
      spread.of(nest, IndexMethod::part).empty())
    return {indices, nest.dims.index_to_operand, {}};
  return Components(spmd, indices, nest, spread, operand, mode).run();
}

Dims rooms(const IndexNest& nest, const IndexFactorSharding& spread) {
  Dims result(nest.operand.size(), 0);
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (nest.loops[l].method == IndexMethod::cut && !spread.loops[l].empty())
      result[slot(nest.loops[l].operand)] = nest.window[slot(nest.loops[l].operand)] - 1;
  return result;
}

Node* with_room(Node* operand, const Dims& rooms) {
  std::vector<PaddingDim> padding(rooms.size());
  for (size_t d = 0; d < rooms.size(); ++d) padding[d] = {rooms[d], rooms[d], 0};
  return pad(operand, std::move(padding));
}

Node* without_room(Node* operand, const Dims& rooms) {
  if (std::all_of(rooms.begin(), rooms.end(), [](int64_t room) { return room == 0; }))
    return operand;
  Dims limits = operand->dims();
  for (size_t d = 0; d < rooms.size(); ++d) limits[d] -= rooms[d];
  return hlo::slice(operand, rooms, limits, Dims(rooms.size(), 1));
}

Sharding layout_before(PartitionContext& spmd, const Node& node, int64_t operand) {
  Node* value = node.operand(operand);
  const Sharding s =
      spmd.keeps_unreduced(node, operand) ? spmd.held(value).sharding : spmd.sharding(*value);
  return s.is_tiled() ? without_manual(s) : Sharding::replicated();
}

std::vector<Sharding> wanted_layouts(PartitionContext& spmd, const Node& node) {
  const Sharding& s = spmd.sharding(node);
  return s.is_tuple() ? s.elements() : std::vector<Sharding>{s};
}

void set_region(IndexProblem& problem, const Sharding& wanted) {
  if (!has_manual_digits(wanted)) return;
  problem.manual_order = wanted.order();
  problem.manual = wanted.manual_digits();
}

Combiner combiner_of_one(DType type) {
  if (type == DType::pred) return Combiner::logical_or;
  return type == DType::f8e8m0fnu ? Combiner::max : Combiner::sum;  // which has no zero
}

Node* neutral_scalar(PartitionContext& spmd, Combiner combiner, DType type) {
  Computation& c = spmd.local();
  if (!is_complex(type) || combiner != Combiner::sum)
    return hlo::scalar(c, type, neutral_contribution(combiner, type));
  Node* part = hlo::scalar(c, type == DType::c64 ? DType::f32 : DType::f64, -0.0);
  return spmd.emit(Opcode::complex, Shape(type, {}), {part, part});
}

Sharding with_partial(const Sharding& layout, const IndexFactorSharding& spread,
                      const Digits& digits, Combiner combiner) {
  if (digits.empty()) return layout;
  std::vector<Unreduced> partial(1);
  partial[0].digits = digits;
  partial[0].combiner = combiner;
  return with_unreduced(layout, spread.order, partial);
}

namespace {

IndexProblem problem_of(PartitionContext& spmd, const Node& node, const IndexNest& nest) {
  IndexProblem p;
  p.nest = &nest;
  p.combiner = combiner_of_one(node.shape.dtype);
  const Sharding& wanted = spmd.sharding(node);
  set_region(p, wanted);
  p.values.push_back({IndexArray::slices, node.shape,
                      wanted.is_tiled() ? without_manual(wanted) : Sharding::replicated(), true});
  p.values.push_back({IndexArray::operand, node.operand(0)->shape, layout_before(spmd, node, 0)});
  p.values.push_back({IndexArray::indices, node.operand(1)->shape, layout_before(spmd, node, 1)});
  return p;
}

// Where the elements of the result come from this device's part of every operand dim that is cut,
// pred of the result's shape.
Node* served_here(const LocalIndices& local, const IndexNest& nest, const Dims& shards,
                  const Dims& result, Computation& c) {
  Node* served = nullptr;
  for (const auto& [d, start] : local.starts) {
    Node* position = hlo::broadcast(start, result, nest.dims.batch_result);
    const Shape shape = position->shape;
    for (size_t w = 0; w < nest.dims.window_operand.size(); ++w)
      if (nest.dims.window_operand[w] == d && nest.window[static_cast<size_t>(d)] > 1)
        position =
            hlo::binary(Opcode::add, position, hlo::iota(c, shape, nest.dims.window_result[w]));
    const auto end = static_cast<double>(shards[static_cast<size_t>(d)]);
    Node* mine =
        hlo::binary(Opcode::and_, hlo::compare(position, hlo::splat(c, shape, 0), Direction::ge),
                    hlo::compare(position, hlo::splat(c, shape, end), Direction::lt));
    served = served ? hlo::binary(Opcode::and_, served, mine) : mine;
  }
  return served;
}

// The operand so long behind its end that the last device's parts of slices lie in it.
Node* with_tails(Node* operand, const IndexNest& nest, const IndexFactorSharding& spread) {
  std::vector<PaddingDim> padding(operand->dims().size());
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    if (nest.loops[l].method != IndexMethod::part || spread.loops[l].empty()) continue;
    const auto d = static_cast<size_t>(nest.loops[l].operand);
    const int64_t tiles = tile_count(spread.loops[l]);
    padding[d].high = ceil_div(nest.window[d], tiles) * tiles - nest.window[d];
  }
  return pad(operand, std::move(padding));
}

}  // namespace

std::optional<Partitioned> partition_gather(PartitionContext& spmd, Node& node) {
  Computation& c = spmd.local();
  if (node.shape.elements_count() == 0) {
    const Sharding& wanted = spmd.sharding(node);
    return Partitioned{hlo::splat(c, local_shape(node.shape, wanted), 0), wanted};
  }
  const IndexNest nest = gather_nest(node);
  const IndexProblem problem = problem_of(spmd, node, nest);
  const IndexFactorSharding spread = choose_index_factor_sharding(problem);
  const Sharding result = spread.layout(nest, IndexArray::slices);
  Node* operand = spmd.reshard_table(node.operand(0), spread.layout(nest, IndexArray::operand));
  Node* indices = spmd.reshard(node.operand(1), spread.layout(nest, IndexArray::indices));
  const Dims shards = operand->dims();
  const LocalIndices local =
      local_indices(spmd, indices, nest, spread, node.operand(0)->shape, OutOfRange::clamp);
  Attributes attrs = node.attrs;
  attrs.gather.edit().start_index_map = local.map;
  for (const IndexLoop& loop : nest.loops)
    if (loop.method == IndexMethod::window)
      attrs.slice_sizes.edit()[static_cast<size_t>(loop.operand)] = operand->dim(loop.operand);
  const Shape shape = local_shape(node.shape, result);
  for (const IndexLoop& loop : nest.loops)
    if (loop.method == IndexMethod::part)
      attrs.slice_sizes.edit()[static_cast<size_t>(loop.operand)] =
          shape.dims[static_cast<size_t>(loop.slices)];
  operand = with_tails(with_room(operand, rooms(nest, spread)), nest, spread);
  Node* slices = spmd.emit(Opcode::gather, shape, {operand, local.indices}, attrs);
  if (local.starts.empty()) return Partitioned{slices, result};
  Node* neutral = neutral_scalar(spmd, problem.combiner, shape.dtype);
  slices = hlo::select(served_here(local, nest, shards, shape.dims, c), slices,
                       hlo::broadcast(neutral, shape.dims, {}));
  return Partitioned{slices, with_partial(result, spread, spread.partial(nest), problem.combiner)};
}

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

const Node* splatted_scalar(const Node& node) {
  const Node* value = &node;
  while (value->is(Opcode::broadcast)) value = value->operand(0);
  return value->rank() == 0 ? value : nullptr;
}

// A constant that changes nothing, so that every device may start from it.
bool is_identity(const Node& node, Combiner combiner) {
  const Node* value = splatted_scalar(node);
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
    spread_ = choose_index_factor_sharding(problem);
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
      operands.push_back(with_room(start_of(i), room));
      updates.push_back(
          spmd_.reshard(node_.operand(inputs_ + 1 + i), spread_.layout(nest_, IndexArray::slices)));
    }
    drop_tails(local, updates);
    std::vector<Shape> shapes;
    for (const Node* operand : operands) shapes.push_back(operand->shape);
    operands.push_back(local.indices);
    operands.insert(operands.end(), updates.begin(), updates.end());
    Attributes attrs = node_.attrs;
    attrs.scatter.edit().scatter_dims_to_operand_dims = local.map;
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
      const bool is_splat =
          node_.operand(i)->is(Opcode::broadcast) && splatted_scalar(*node_.operand(i));
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
  IndexFactorSharding spread_;
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
