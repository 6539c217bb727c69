// Reductions by computations without a name, and of several values at once: what each device comes
// to, then what all devices come to.

#include <algorithm>

#include "moves/some_devices.h"
#include "ops/common/in_dim.h"
#include "ops/emission/collectives.h"
#include "ops/emission/emit_reshard.h"
#include "ops/emission/exchange.h"
#include "ops/reduce/combiner_structure.h"
#include "ops/reduce/reduce.h"

namespace gspmd {
namespace {

class TwoLevelReduce {
 public:
  // `have` is the layout of the operands; `reduced` its dims that are split and reduced.
  TwoLevelReduce(PartitionContext& spmd, Node& node, Sharding have, Dims reduced)
      : spmd_(spmd),
        node_(node),
        have_(std::move(have)),
        reduced_(std::move(reduced)),
        count_(node.operands().size() / 2),
        plain_(spmd.local_computation(*node.called.at(0))),
        ops_(separate_ops(*plain_)),
        flagged_(ops_.empty() ? with_flag(*plain_) : nullptr) {
    for (int64_t d = 0; d < node.operand(0)->rank(); ++d) {
      if (std::count(reduced_.begin(), reduced_.end(), d))
        split_ = concat(split_, have_.dim(d));
      else if (!std::count(node.attrs.dimensions.begin(), node.attrs.dimensions.end(), d))
        kept_.push_back(have_.dim(d));
    }
  }

  Partitioned run() {
    Sharding result = Sharding::tiled(have_.order(), kept_, have_.manual_digits());
    if (result.is_replicated() && is_partial(have_, spmd_.num_devices()))
      result = Sharding::maximal(have_.order()->device(0));  // whole, on some devices only
    std::vector<Shape> shapes = leaf_shapes(node_.shape);
    for (Shape& shape : shapes) shape = local_shape(shape, result);
    std::vector<Node*> starts;
    for (size_t i = 0; i < count_; ++i)
      starts.push_back(spmd_.reshard(node_.operands()[count_ + i], Sharding::replicated()));
    std::vector<Node*> parts =
        flagged_ != nullptr ? results_of_flagged_parts(starts) : results_of_neutral_parts();
    std::vector<Node*> all;
    for (Node* part : parts) {
      Dims one = part->dims();
      one.insert(one.begin(), 1);
      all.push_back(gather_along(spmd_, hlo::reshape(part, one), 0, have_.order(), split_));
    }
    const Array filled = filled_parts();
    const bool flags =
        flagged_ != nullptr && std::any_of(filled.bytes().begin(), filled.bytes().end(),
                                           [](std::byte flag) { return flag == std::byte{0}; });
    if (flags)
      all.push_back(hlo::broadcast(hlo::constant(spmd_.local(), filled), all[0]->dims(), {0}));
    std::vector<Node*> values = reduced(all, flags ? with(starts, true) : starts, {0});
    values.resize(count_);
    if (!node_.shape.is_tuple) return {values[0], result};
    return {hlo::tuple(spmd_.local(), values),
            Sharding::tuple(std::vector<Sharding>(count_, result))};
  }

 private:
  Node* flag(bool value) { return hlo::scalar(spmd_.local(), DType::pred, value ? 1 : 0); }
  std::vector<Node*> with(std::vector<Node*> values, bool value) {
    values.push_back(flag(value));
    return values;
  }

  // The device's parts, and which of their elements are inside of the dims.
  std::vector<Node*> flagged_parts() {
    std::vector<Node*> parts;
    for (size_t i = 0; i < count_; ++i) parts.push_back(spmd_.reshard(node_.operands()[i], have_));
    const Shape local(DType::pred, parts[0]->dims()), global(DType::pred, node_.operand(0)->dims());
    parts.push_back(
        spmd_.mask_tail(hlo::splat(spmd_.local(), local, 1), global, have_, reduced_, flag(false)));
    return parts;
  }

  // No initial value here: what it does to a value is not known. It joins once, at the end.
  std::vector<Node*> results_of_flagged_parts(const std::vector<Node*>& starts) {
    std::vector<Node*> parts =
        reduced(flagged_parts(), with(starts, false), node_.attrs.dimensions);
    parts.pop_back();  // which parts are empty every device knows
    return parts;
  }

  // Where each value is joined by itself, by an op that has a neutral value, no flag is needed.
  std::vector<Node*> results_of_neutral_parts() {
    std::vector<Node*> parts, starts;
    for (size_t i = 0; i < count_; ++i) {
      const Shape& global = node_.operands()[i]->shape;
      const Combiner combiner = *combiner_of(ops_[i], global.dtype);
      starts.push_back(
          hlo::scalar(spmd_.local(), global.dtype, neutral_contribution(combiner, global.dtype)));
      parts.push_back(spmd_.mask_tail(spmd_.reshard(node_.operands()[i], have_), global, have_,
                                      reduced_, starts.back()));
    }
    return reduced(parts, starts, node_.attrs.dimensions);
  }

  // Per part, in the order in which they are gathered, whether it has an element.
  Array filled_parts() const {
    Array filled(DType::pred, {tile_count(split_)});
    for (int64_t part = 0; part < filled.size(); ++part) {
      bool has_some = true;
      int64_t rest = part;
      for (size_t i = reduced_.size(); i-- > 0;) {
        const int64_t size = node_.operand(0)->dim(reduced_[i]), tiles = have_.tiles(reduced_[i]);
        has_some = has_some && rest % tiles * ceil_div(size, tiles) < size;
        rest /= tiles;
      }
      filled.set(part, has_some);
    }
    return filled;
  }

  // With the flag where `values` have one more than the node reduces.
  std::vector<Node*> reduced(std::vector<Node*> values, const std::vector<Node*>& starts,
                             const Dims& dims) {
    Attributes attrs;
    attrs.dimensions = dims;
    std::vector<Shape> shapes;
    for (const Node* value : values) {
      Dims left;
      for (int64_t d = 0; d < value->rank(); ++d)
        if (!std::count(dims.begin(), dims.end(), d)) left.push_back(value->dim(d));
      shapes.emplace_back(value->shape.dtype, left);
    }
    Computation* apply = values.size() > count_ ? flagged_ : plain_;
    values.insert(values.end(), starts.begin(), starts.end());
    return elements_of(spmd_.emit(Opcode::reduce,
                                  apply->root()->shape.is_tuple ? Shape::tuple(shapes) : shapes[0],
                                  values, attrs, {apply}));
  }

  PartitionContext& spmd_;
  Node& node_;
  const Sharding have_;
  const Dims reduced_;
  const size_t count_;
  Computation* plain_;
  const std::vector<Opcode> ops_;  // of a combiner that joins each value by itself
  Computation* flagged_;           // of any other
  Digits split_;
  std::vector<Digits> kept_;
};

}  // namespace

std::optional<Partitioned> partition_variadic_reduce(PartitionContext& spmd, Node& node) {
  if (node.attrs.dimensions.empty() || node.operand(0)->shape.elements_count() == 0 ||
      (node.operands().size() == 2 && recognize_combiner(*node.called.at(0))))
    return std::nullopt;
  const Sharding have = spmd.sharding(*node.operand(0));
  if (!have.is_tiled() || !have.order()) return std::nullopt;
  Dims reduced;
  bool in_order = true;  // parts are runs of the order in which elements are combined
  for (int64_t d = 0, before = 1; d < node.operand(0)->rank(); ++d) {
    const Dims& dims = node.attrs.dimensions;
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) continue;
    if (!have.dim(d).empty()) {
      reduced.push_back(d);
      in_order = in_order && before == 1;
    }
    before *= node.operand(0)->dim(d);
  }
  constexpr int64_t kListed = 65'536;  // parts
  if (reduced.empty() || have.num_tiles() > kListed) return std::nullopt;
  const CombinerLaws laws = laws_of(*node.called.at(0));
  if (!laws.associative || !(in_order || laws.commutative)) return std::nullopt;
  return TwoLevelReduce(spmd, node, have, reduced).run();
}

}  // namespace gspmd
