#include "ops/gather_scatter/local_indices.h"

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"

namespace gspmd {
namespace {

size_t at(int64_t d) { return static_cast<size_t>(d); }

bool is_wide(DType type) { return type == DType::s64 || type == DType::u64 || type == DType::u32; }

// Makes the components of index vectors, one after the other.
class Components {
 public:
  Components(PartitionContext& spmd, Node* indices, const IndexNest& nest,
             const IndexSpread& spread, const Shape& operand, OutOfRange mode)
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
    shape_[at(vector_dim())] = 1;
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
  Node* number(int64_t value, DType type) {
    return hlo::splat(spmd_.local(), Shape(type, shape_), static_cast<double>(value));
  }
  Node* combine(Opcode opcode, Node* a, int64_t b) {
    return hlo::binary(opcode, a, number(b, a->shape.dtype));
  }

  // Component k of all index vectors, of the type that is computed with; clamped where gathers do.
  Node* looked_up(int64_t k, int64_t d) {
    Node* part = indices_;
    if (vector_dim() < indices_->rank()) {
      Dims starts(shape_.size(), 0), limits = shape_;
      starts[at(vector_dim())] = k;
      limits[at(vector_dim())] = k + 1;
      part = hlo::slice(part, starts, limits, Dims(shape_.size(), 1));
    } else {
      part = hlo::reshape(part, shape_);
    }
    if (!is_wide(part->shape.dtype)) part = hlo::convert(part, type_);
    if (mode_ == OutOfRange::clamp) {
      if (is_signed_integer(part->shape.dtype)) part = combine(Opcode::maximum, part, 0);
      part = combine(Opcode::minimum, part, last_start(d));
    }
    return hlo::convert(part, type_);
  }

  int64_t last_start(int64_t d) const { return nest_.operand[at(d)] - nest_.window[at(d)]; }

  Node* relative(Node* part, int64_t d, LocalIndices& result) {
    for (const IndexLoop& loop : parts_) {
      if (loop.operand != d) continue;
      Node* offset = spmd_.offset(slices_, Shape(type_, nest_.slices), loop.slices);
      offset = hlo::convert(offset, type_);
      return hlo::binary(Opcode::add, part, hlo::broadcast(offset, shape_, {}));
    }
    const bool is_window = nest_.window[at(d)] == nest_.operand[at(d)];
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
    if (rooms_[at(d)] == 0) return part;  // what is outside of the dim is outside of every part
    part = combine(Opcode::add, part, rooms_[at(d)]);
    if (mode_ == OutOfRange::clamp) return part;
    Node* inside = hlo::binary(Opcode::and_, hlo::compare(global, number(0, type_), Direction::ge),
                               hlo::compare(global, number(last_start(d), type_), Direction::le));
    return hlo::select(inside, part, number(-1, type_));
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
                           const IndexSpread& spread, const Shape& operand, OutOfRange mode) {
  if (spread.of(nest, IndexMethod::cut).empty() && spread.of(nest, IndexMethod::parallel).empty() &&
      spread.of(nest, IndexMethod::part).empty())
    return {indices, nest.dims.index_to_operand, {}};
  return Components(spmd, indices, nest, spread, operand, mode).run();
}

Dims rooms(const IndexNest& nest, const IndexSpread& spread) {
  Dims result(nest.operand.size(), 0);
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (nest.loops[l].method == IndexMethod::cut && !spread.loops[l].empty())
      result[at(nest.loops[l].operand)] = nest.window[at(nest.loops[l].operand)] - 1;
  return result;
}

Node* with_room(PartitionContext& spmd, Node* operand, const Dims& rooms) {
  if (std::all_of(rooms.begin(), rooms.end(), [](int64_t room) { return room == 0; }))
    return operand;
  std::vector<PaddingDim> padding(rooms.size());
  for (size_t d = 0; d < rooms.size(); ++d) padding[d] = {rooms[d], rooms[d], 0};
  return hlo::pad(operand, hlo::scalar(spmd.local(), operand->shape.dtype, 0), std::move(padding));
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

Sharding with_partial(const Sharding& layout, const IndexSpread& spread, const Digits& digits,
                      Combiner combiner) {
  if (digits.empty()) return layout;
  std::vector<Unreduced> partial(1);
  partial[0].digits = digits;
  partial[0].combiner = combiner;
  return layout.is_replicated() ? Sharding::tiled(spread.order, {}, {}, std::move(partial))
                                : layout.with_unreduced(std::move(partial));
}

}  // namespace gspmd
