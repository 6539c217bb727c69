// Cumulative sums (products, maxima, ...) along split dims, in the form of windows over whole dims:
// each device accumulates its part, and joins what the parts before it come to.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/common/in_dim.h"
#include "ops/emission/collectives.h"
#include "ops/emission/emit_reshard.h"
#include "ops/emission/exchange.h"
#include "ops/emission/index.h"
#include "ops/reduce/combiner_structure.h"
#include "ops/window/window.h"

namespace gspmd {
namespace {

struct SplitDim {
  ExchangedDim from;  // of the input
  CumulativeDim form;
  int64_t part = 0;  // positions of a shard
};

class Cumulate {
 public:
  Cumulate(PartitionContext& spmd, Node& node, Sharding layout)
      : spmd_(spmd), node_(node), layout_(std::move(layout)), count_(node.operands().size() / 2) {
    if (count_ == 1) combiner_ = recognize_combiner(*node.called.at(0));
    apply_ = spmd.local_computation(*node.called.at(0));
    if (!combiner_) apply_ = with_flag(*apply_);
    for (size_t i = 0; i < inputs(); ++i) {
      const DType type = node.operands()[i]->shape.dtype;
      starts_.push_back(spmd.reshard(node.operands()[inputs() + i], Sharding::replicated()));
      neutral_.push_back(
          combiner_ ? hlo::scalar(spmd.local(), type, neutral_contribution(*combiner_, type))
                    : starts_.back());
    }
    if (combiner_) return;
    // What a combiner without a name leaves as it is is not known: a flag says what counts.
    ++count_;
    starts_.push_back(hlo::scalar(spmd.local(), DType::pred, 1));
    neutral_.push_back(hlo::scalar(spmd.local(), DType::pred, 0));
  }

  Partitioned run(const std::vector<SplitDim>& dims) {
    std::vector<Node*> parts;
    Attributes attrs = node_.attrs;
    for (size_t i = 0; i < inputs(); ++i) {
      Node* x = spmd_.reshard(node_.operands()[i], layout_);
      for (const SplitDim& dim : dims) x = aligned(x, node_.operands()[i]->shape, dim, neutral_[i]);
      parts.push_back(x);
    }
    if (!combiner_) parts.push_back(inside(parts[0]->dims(), dims.at(0)));
    for (const SplitDim& dim : dims) {
      WindowDim& w = attrs.window.edit()[static_cast<size_t>(dim.from.dim)];
      w = WindowDim{};
      w.size = dim.part;
      (dim.form.reverse ? w.pad_high : w.pad_low) = dim.part - 1;
    }
    std::vector<Shape> shapes = leaf_shapes(node_.shape);
    for (Shape& shape : shapes) shape = local_shape(shape, layout_);
    if (!combiner_) shapes.emplace_back(DType::pred, shapes[0].dims);
    parts.insert(parts.end(), neutral_.begin(), neutral_.end());
    std::vector<Node*> values = elements_of(
        spmd_.emit(Opcode::reduce_window, combiner_ ? shapes.at(0) : Shape::tuple(shapes), parts,
                   attrs, {apply_}));
    for (size_t d = 0; d < dims.size(); ++d)
      values = joined(values, dims[d], d + 1 == dims.size() ? starts_ : neutral_);
    if (!node_.shape.is_tuple) return {values.at(0), layout_};
    values.resize(inputs());
    return {hlo::tuple(spmd_.local(), values),
            Sharding::tuple(std::vector<Sharding>(inputs(), layout_))};
  }

 private:
  size_t inputs() const { return node_.operands().size() / 2; }

  // Which positions of this device's part there is an element for.
  Node* inside(const Dims& dims, const SplitDim& dim) {
    Computation& c = spmd_.local();
    const IndexNode tile(spmd_.digits_index(dim.from.order, dim.from.digits));
    const IndexNode at = positions(dims, dim.from.dim, tile * dim.part + dim.form.shift);
    return within(at, IndexNode(c, 0), IndexNode(c, dim.from.held.size));
  }

  // The same of whole parts, for each of them along the dim: every device knows it.
  Node* parts_inside(Dims dims, const SplitDim& dim) {
    const HeldDim& held = dim.from.held;
    std::vector<uint8_t> flags;
    for (int64_t t = 0; t < held.tiles; ++t) {
      const int64_t first = t * dim.part + dim.form.shift;
      flags.push_back(std::max<int64_t>(first, 0) < std::min(first + dim.part, held.size));
    }
    dims[static_cast<size_t>(dim.from.dim)] = held.tiles;
    Array literal(DType::pred, {held.tiles});
    for (int64_t t = 0; t < held.tiles; ++t) literal.set(t, flags[static_cast<size_t>(t)]);
    return hlo::broadcast(hlo::constant(spmd_.local(), literal), dims, {dim.from.dim});
  }

  // y of the device's positions, neutral behind the end.
  Node* aligned(Node* x, const Shape& global, const SplitDim& dim, Node* neutral) {
    const HeldDim& held = dim.from.held;
    if (dim.form.shift == 0 && dim.part == held.shard)
      return spmd_.mask_tail(x, global, layout_, {dim.from.dim}, neutral);
    return exchange(spmd_, x, dim.from, {dim.part, dim.form.shift, 1, dim.part}, neutral);
  }

  // `values` and what the parts before each of them along the dim come to, on top of `starts`.
  std::vector<Node*> joined(const std::vector<Node*>& values, const SplitDim& dim,
                            const std::vector<Node*>& starts) {
    const int64_t d = dim.from.dim;
    Computation& c = spmd_.local();
    const IndexNode mine(spmd_.digits_index(dim.from.order, dim.from.digits));
    std::vector<Node*> before;
    for (size_t i = 0; i < count_; ++i) {
      Node* total = cut(values[i], d, dim.form.reverse ? 0 : dim.part - 1, 1);
      total = i < inputs() ? gather_along(spmd_, total, d, dim.from.order, dim.from.digits)
                           : parts_inside(total->dims(), dim);
      const IndexNode tile(hlo::iota(c, Shape(DType::s32, total->dims()), d));
      Node* earlier = compare(tile, mine, dim.form.reverse ? Direction::gt : Direction::lt);
      before.push_back(hlo::select(earlier, total, hlo::broadcast(neutral_[i], total->dims(), {})));
    }
    before.insert(before.end(), starts.begin(), starts.end());
    const std::vector<Node*> carried = reduced(before, d);
    const Dims kept = dims_except(node_.operand(0)->rank(), d);
    std::vector<Node*> spread;
    for (size_t i = 0; i < count_; ++i)
      spread.push_back(hlo::broadcast(carried[i], values[i]->dims(), kept));
    return both(spread, values);
  }

  // Reduces `operands` (inputs, then starts) along one dim.
  std::vector<Node*> reduced(const std::vector<Node*>& operands, int64_t dim) {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < count_; ++i) {
      Dims dims = operands[i]->dims();
      dims.erase(dims.begin() + dim);
      shapes.emplace_back(operands[i]->shape.dtype, dims);
    }
    Attributes attrs;
    attrs.dimensions = {dim};
    return elements_of(spmd_.emit(Opcode::reduce, count_ == 1 ? shapes[0] : Shape::tuple(shapes),
                                  operands, attrs, {apply_}));
  }

  // What comes first, combined with what comes after it, element by element.
  std::vector<Node*> both(const std::vector<Node*>& earlier, const std::vector<Node*>& later) {
    if (combiner_) return {hlo::binary(combiner_opcode(*combiner_), earlier[0], later[0])};
    std::vector<Node*> operands;
    for (size_t i = 0; i < count_; ++i) {
      Dims one = earlier[i]->dims();
      one.insert(one.begin(), 1);
      operands.push_back(
          hlo::concatenate({hlo::reshape(earlier[i], one), hlo::reshape(later[i], one)}, 0));
    }
    operands.insert(operands.end(), neutral_.begin(), neutral_.end());
    return reduced(operands, 0);
  }

  PartitionContext& spmd_;
  Node& node_;
  const Sharding layout_;
  size_t count_;  // of values that are combined: the inputs, and a flag
  std::optional<Combiner> combiner_;
  Computation* apply_ = nullptr;
  std::vector<Node*> starts_, neutral_;  // scalars, by input
};

// Whether a combiner without a name may be run on parts: elements are grouped anew, and the order
// changes where other dims are combined as well, or the end comes first.
bool may_be_cut(const Node& node, const std::vector<SplitDim>& dims) {
  constexpr int64_t kListed = 4096;  // tiles
  const auto windows = std::count_if(node.attrs.window.begin(), node.attrs.window.end(),
                                     [](const WindowDim& w) { return w.size > 1; });
  if (dims.size() != 1 || dims[0].from.held.tiles > kListed) return false;
  const CombinerLaws laws = laws_of(*node.called.at(0));
  return laws.associative && (laws.commutative || (windows == 1 && !dims[0].form.reverse));
}

}  // namespace

std::optional<CumulativeDim> cumulative_dim(const WindowDim& w, int64_t size, int64_t positions) {
  constexpr int64_t kMost = int64_t(1) << 40;
  const auto small = [](int64_t x) { return x > -kMost && x < kMost; };
  if (w.stride != 1 || w.base_dilation != 1 || w.window_dilation != 1 || w.size < 2 || size < 1 ||
      positions < 1 || !small(w.size) || !small(w.pad_low) || !small(size) || !small(positions))
    return std::nullopt;
  const int64_t last = w.size - 1 - w.pad_low;  // what the window of position 0 ends with
  if (w.pad_low >= positions - 1 && last <= 0) return CumulativeDim{false, last};
  if (last >= size - 1 && w.pad_low <= 0 && positions - 1 - w.pad_low >= size - 1)
    return CumulativeDim{true, -w.pad_low};
  return std::nullopt;
}

std::optional<Partitioned> partition_cumulative(PartitionContext& spmd, Node& node) {
  const Sharding completed = spmd.sharding(node);
  if (completed.is_tuple() && completed.elements().empty()) return std::nullopt;
  const Sharding want = completed.is_tuple() ? completed.elements()[0] : completed;
  if (!want.is_tiled() || !want.order()) return std::nullopt;
  const Dims positions = leaf_shapes(node.shape).at(0).dims;
  std::vector<Digits> layout;
  std::vector<SplitDim> dims;
  for (int64_t d = 0; d < std::ssize(positions); ++d) {
    const WindowDim& w = node.attrs.window[static_cast<size_t>(d)];
    layout.push_back(want.dim(d));
    if (want.dim(d).empty() || w == WindowDim{}) continue;
    const int64_t size = node.operand(0)->dim(d), count = positions[static_cast<size_t>(d)];
    const auto form = cumulative_dim(w, size, count);
    if (!form) {
      layout.back().clear();
      continue;
    }
    const int64_t tiles = want.tiles(d);
    SplitDim dim{{d, want.order(), want.dim(d), {size, tiles, ceil_div(size, tiles)}},
                 *form,
                 ceil_div(count, tiles)};
    // A window that reaches no further than the totals of all parts is fetched with less.
    if (std::min(w.size - 1, (tiles - 1) * dim.part) <= tiles - 1 ||
        !is_addressable(dim.from.held, Access{dim.part, form->shift, 1, dim.part}))
      return std::nullopt;
    dims.push_back(dim);
  }
  const bool known = node.operands().size() == 2 && recognize_combiner(*node.called.at(0));
  if (dims.empty() || (!known && !may_be_cut(node, dims))) return std::nullopt;
  return Cumulate(spmd, node, Sharding::tiled(want.order(), layout, want.manual_digits()))
      .run(dims);
}

}  // namespace gspmd
