// Dynamic slices and updates of dims that stay split: the start is clamped on the whole dim, each
// device reads or writes what is its own.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "passes/manual.h"
#include "passes/partition_special.h"

namespace gspmd {
namespace {

class Dynamic {
 public:
  Dynamic(SpmdPartitioner& spmd, Node& node)
      : spmd_(spmd), node_(node), operand_(*node.operand(0)) {
    window_ = node.is(Opcode::dynamic_slice) ? node.dims() : node.operand(1)->dims();
    first_index_ = node.is(Opcode::dynamic_slice) ? 1 : 2;
  }

  bool is_sliced(int64_t d) const { return window_[static_cast<size_t>(d)] != operand_.dim(d); }
  int64_t size(int64_t d) const { return window_[static_cast<size_t>(d)]; }

  Node* number(int64_t v) { return hlo::scalar(spmd_.local(), DType::s32, static_cast<double>(v)); }
  Node* combine(Opcode opcode, Node* a, int64_t b) { return hlo::binary(opcode, a, number(b)); }

  // The start along dim d, clamped, s32[]. Wide indices are clamped before they are narrowed.
  Node* start(int64_t d) {
    Node* index = spmd_.reshard(node_.operand(first_index_ + d), Sharding::replicated());
    const int64_t most = operand_.dim(d) - size(d);
    Computation& c = spmd_.local();
    const DType type = index->shape.dtype;
    const int64_t bits = 8 * dtype_size(type);
    const int64_t largest = bits > 32 ? most : (int64_t(1) << (bits - 1)) - 1;
    if (most <= largest || is_signed_integer(type)) {
      if (is_signed_integer(type))
        index = hlo::binary(Opcode::maximum, index, hlo::scalar(c, type, 0));
      index = hlo::binary(Opcode::minimum, index,
                          hlo::scalar(c, type, static_cast<double>(std::min(most, largest))));
    }
    index = hlo::convert(index, DType::s32);
    index = combine(Opcode::maximum, index, 0);
    return combine(Opcode::minimum, index, most);
  }

  // Positions along dim d of a value of these dims, counted from `first`.
  Node* positions(const Dims& dims, int64_t d, Node* first) {
    return hlo::binary(Opcode::add, hlo::iota(spmd_.local(), Shape(DType::s32, dims), d),
                       hlo::broadcast(first, dims, {}));
  }

  Node* within(Node* positions, Node* begin, Node* end) {
    const Dims& dims = positions->dims();
    return hlo::binary(Opcode::and_,
                       hlo::compare(positions, hlo::broadcast(begin, dims, {}), Direction::ge),
                       hlo::compare(positions, hlo::broadcast(end, dims, {}), Direction::lt));
  }

  // `size` elements of dim d of x from `at` on, which may lie up to `size` before or behind it.
  Node* read_loosely(Node* x, int64_t d, Node* at, int64_t size) {
    std::vector<PaddingDim> padding(x->dims().size());
    padding[static_cast<size_t>(d)] = {size, size, 0};
    x = hlo::pad(x, hlo::scalar(spmd_.local(), x->shape.dtype, 0), std::move(padding));
    std::vector<Node*> starts(x->dims().size(), number(0));
    starts[static_cast<size_t>(d)] = combine(Opcode::add, at, size);
    Dims sizes = x->dims();
    sizes[static_cast<size_t>(d)] = size;
    return hlo::dynamic_slice(x, std::move(starts), sizes);
  }

  Node* end_of_shard(const Sharding& layout, int64_t d, Node* begin) {
    const int64_t shard = ceil_div(operand_.dim(d), layout.tiles(d));
    return combine(Opcode::minimum, combine(Opcode::add, begin, shard), operand_.dim(d));
  }

  // Layout of the operand with all its splits, and of the result (the update) without those of
  // sliced dims.
  Sharding whole_window(const Sharding& layout) const {
    std::vector<Digits> dims;
    for (int64_t d = 0; d < operand_.rank(); ++d)
      dims.push_back(is_sliced(d) ? Digits{} : layout.dim(d));
    return Sharding::tiled(layout.order(), std::move(dims), layout.manual_digits());
  }

  Partitioned slice(const Sharding& layout) {
    Node* x = spmd_.reshard(&operand_, layout);
    Node* inside = nullptr;
    Digits summed;
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d)) continue;
      Node* at = start(d);
      if (layout.dim(d).empty()) {
        std::vector<Node*> starts(x->dims().size(), number(0));
        starts[static_cast<size_t>(d)] = at;
        Dims sizes = x->dims();
        sizes[static_cast<size_t>(d)] = size(d);
        x = hlo::dynamic_slice(x, std::move(starts), sizes);
        continue;
      }
      Node* begin = spmd_.offset(layout, operand_.shape, d);
      x = read_loosely(x, d, clamped(hlo::binary(Opcode::subtract, at, begin), d, layout), size(d));
      summed = concat(summed, layout.dim(d));
    }
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d) || layout.dim(d).empty()) continue;
      Node* begin = spmd_.offset(layout, operand_.shape, d);
      Node* own = within(positions(x->dims(), d, start(d)), begin, end_of_shard(layout, d, begin));
      inside = inside ? hlo::binary(Opcode::and_, inside, own) : own;
    }
    const DType type = x->shape.dtype;
    const Combiner combiner = type == DType::pred ? Combiner::logical_or : Combiner::sum;
    x = hlo::select(inside, x,
                    hlo::splat(spmd_.local(), x->shape, neutral_contribution(combiner, type)));
    const Sharding result = whole_window(layout);
    std::vector<Unreduced> sums(1);
    sums[0].digits = summed;
    sums[0].combiner = combiner;
    std::vector<Digits> dims;
    for (int64_t d = 0; d < operand_.rank(); ++d) dims.push_back(result.dim(d));
    const Partitioned parts{
        x, Sharding::tiled(layout.order(), std::move(dims), layout.manual_digits(), sums)};
    // Summed at once: what a linear reader makes of the -0.0 of the others is no longer neutral.
    const Sharding target = spmd_.sharding(node_).is_tiled() ? spmd_.sharding(node_) : result;
    return {spmd_.reshard(parts, node_.shape, target), target};
  }

  // A relative start in the range that read_loosely takes: shards far away read nothing of theirs.
  Node* clamped(Node* relative, int64_t d, const Sharding& layout) {
    const int64_t shard = ceil_div(operand_.dim(d), layout.tiles(d));
    return combine(Opcode::minimum, combine(Opcode::maximum, relative, -size(d)), shard);
  }

  Partitioned update(const Sharding& layout) {
    Node* x = spmd_.reshard(&operand_, layout);
    Node* u = spmd_.reshard(node_.operand(1), whole_window(layout));
    Node* inside = nullptr;
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d)) continue;
      Node* at = start(d);
      Node* begin = spmd_.offset(layout, operand_.shape, d);
      const int64_t shard = x->dim(d);
      Node* relative = hlo::binary(Opcode::subtract, begin, at);
      relative = combine(Opcode::minimum, combine(Opcode::maximum, relative, -shard), size(d));
      u = read_loosely(u, d, relative, shard);
    }
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d)) continue;
      Node* at = start(d);
      Node* written = within(positions(x->dims(), d, spmd_.offset(layout, operand_.shape, d)), at,
                             combine(Opcode::add, at, size(d)));
      inside = inside ? hlo::binary(Opcode::and_, inside, written) : written;
    }
    return {hlo::select(inside, u, x), layout};
  }

 private:
  SpmdPartitioner& spmd_;
  Node& node_;
  Node& operand_;
  Dims window_;
  int64_t first_index_ = 1;
};

bool fits(const Node& operand) {
  return std::all_of(operand.dims().begin(), operand.dims().end(),
                     [](int64_t d) { return d > 0 && d < (int64_t(1) << 28); });
}

bool summable(DType type) {
  return type == DType::pred || is_integer(type) || is_floating(type) || is_complex(type);
}

}  // namespace

std::optional<Partitioned> partition_dynamic_slice(SpmdPartitioner& spmd, Node& node) {
  Node& operand = *node.operand(0);
  const Sharding have = spmd.sharding(operand);
  if (!fits(operand) || node.shape.elements_count() == 0 || !summable(node.shape.dtype) ||
      spmd.keeps_unreduced(node, 0) || !have.is_tiled())
    return std::nullopt;
  Dynamic dynamic(spmd, node);
  // A sum of the slice over its holders against gathering the dim.
  bool split = false;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (!dynamic.is_sliced(d) || have.dim(d).empty()) continue;
    split = true;
    const int64_t missing = operand.dim(d) - ceil_div(operand.dim(d), have.tiles(d));
    if (2 * dynamic.size(d) >= missing) return std::nullopt;
  }
  if (!split) return std::nullopt;
  return dynamic.slice(have);
}

std::optional<Partitioned> partition_dynamic_update_slice(SpmdPartitioner& spmd, Node& node) {
  const Sharding want = spmd.sharding(node);
  if (!fits(*node.operand(0)) || node.operand(1)->shape.elements_count() == 0 || !want.is_tiled())
    return std::nullopt;
  Dynamic dynamic(spmd, node);
  for (int64_t d = 0; d < node.rank(); ++d)
    if (dynamic.is_sliced(d) && !want.dim(d).empty()) return dynamic.update(want);
  return std::nullopt;
}

}  // namespace gspmd
