// Dynamic slices and updates of dims that stay split: the start is clamped on the whole dim, each
// device reads or writes what is its own.

#include <algorithm>

#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"
#include "moves/some_devices.h"
#include "ops/common/in_dim.h"
#include "ops/emission/collectives.h"
#include "ops/emission/exchange.h"
#include "ops/emission/index.h"
#include "ops/gather_scatter/partition.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

class Dynamic {
 public:
  Dynamic(PartitionContext& spmd, Node& node)
      : spmd_(spmd), node_(node), operand_(*node.operand(0)) {
    window_ = node.is(Opcode::dynamic_update_slice) ? node.operand(1)->dims() : node.dims();
    first_index_ = node.is(Opcode::dynamic_slice) ? 1 : 2;
  }

  bool is_sliced(int64_t d) const { return window_[static_cast<size_t>(d)] != operand_.dim(d); }
  int64_t size(int64_t d) const { return window_[static_cast<size_t>(d)]; }

  IndexNode number(int64_t v) { return {spmd_.local(), v}; }
  IndexNode offset(const Sharding& layout, const Shape& global, int64_t d) {
    return IndexNode(spmd_.offset(layout, global, d));
  }

  // The start along dim d, clamped, s32[]. Wide indices are clamped before they are narrowed.
  IndexNode start(int64_t d) {
    if (node_.is(Opcode::slice)) return number(node_.attrs.starts[static_cast<size_t>(d)]);
    IndexNode index(spmd_.reshard(node_.operand(first_index_ + d), Sharding::replicated()));
    const int64_t most = operand_.dim(d) - size(d);
    const DType type = index->shape.dtype;
    const int64_t bits = 8 * dtype_size(type);
    const int64_t largest = bits > 32 ? most : (int64_t(1) << (bits - 1)) - 1;
    if (most <= largest || is_signed_integer(type)) {
      if (is_signed_integer(type)) index = maximum(index, 0);
      index = minimum(index, std::min(most, largest));
    }
    return minimum(maximum(IndexNode(hlo::convert(index, DType::s32)), 0), most);
  }

  // `size` elements of dim d of x from `at` on, which may lie up to `size` before or behind it:
  // what is not of x is any number.
  static Node* read_loosely(Node* x, int64_t d, IndexNode at, int64_t size) {
    if (size == 1 && x->dim(d) > 0) return cut(x, d, at, 1);
    x = pad(x, d, size, size);
    return cut(x, d, at + size, size);
  }

  IndexNode end_of_shard(const Sharding& layout, int64_t d, IndexNode begin) const {
    return minimum(begin + ceil_div(operand_.dim(d), layout.tiles(d)), operand_.dim(d));
  }

  // The layout of the result (the update) where the operand has this one: sliced dims are whole.
  Sharding whole_window(const Sharding& layout) const {
    std::vector<Digits> dims;
    for (int64_t d = 0; d < operand_.rank(); ++d)
      dims.push_back(is_sliced(d) ? Digits{} : layout.dim(d));
    return Sharding::tiled(layout.order(), std::move(dims), layout.manual_digits());
  }

  // The result where each device gives its part of split sliced dims: a sum of the slice.
  Sharding summed_window(const Sharding& layout) const {
    std::vector<Unreduced> sums(1);
    sums[0].combiner = combiner();
    std::vector<Digits> dims;
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      dims.push_back(is_sliced(d) ? Digits{} : layout.dim(d));
      if (is_sliced(d)) sums[0].digits = concat(sums[0].digits, layout.dim(d));
    }
    return Sharding::tiled(layout.order(), std::move(dims), layout.manual_digits(),
                           std::move(sums));
  }
  Combiner combiner() const { return combiner_of_one(node_.shape.dtype); }

  Partitioned slice(const Sharding& layout) {
    Node* x = spmd_.reshard(&operand_, layout);
    Node* inside = nullptr;
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d)) continue;
      const IndexNode at = start(d);
      if (layout.dim(d).empty()) {
        x = cut(x, d, at, size(d));
        continue;
      }
      const IndexNode begin = offset(layout, operand_.shape, d);
      x = read_loosely(x, d, clamped(at - begin, d, layout), size(d));
    }
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d) || layout.dim(d).empty()) continue;
      const IndexNode begin = offset(layout, operand_.shape, d);
      const IndexNode end = end_of_shard(layout, d, begin);
      Node* own = within(positions(x->dims(), d, start(d)), begin, end);
      inside = inside ? hlo::binary(Opcode::and_, inside, own) : own;
    }
    Node* neutral = neutral_scalar(spmd_, combiner(), x->shape.dtype);
    x = hlo::select(inside, x, hlo::broadcast(neutral, x->dims(), {}));
    const Partitioned parts{x, summed_window(layout)};
    // Summed at once: what a linear reader makes of the -0.0 of the others is no longer neutral.
    const Sharding& wanted = spmd_.sharding(node_);
    const Sharding target = wanted.is_tiled() ? wanted : whole_window(layout);
    return {spmd_.reshard(parts, node_.shape, target), target};
  }

  // Each device's part of the slice, in the layout that is wanted, from an operand that is whole
  // where it is sliced.
  Partitioned part(const Sharding& wanted) {
    Node* x = spmd_.reshard(&operand_, whole_window(wanted));
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d)) continue;
      const IndexNode at = start(d);
      if (wanted.dim(d).empty()) {
        x = cut(x, d, at, size(d));
        continue;
      }
      const int64_t shard = ceil_div(size(d), wanted.tiles(d));
      x = pad(x, d, 0, shard * wanted.tiles(d) - size(d));  // so that the last tail lies in it
      x = cut(x, d, at + offset(wanted, node_.shape, d), shard);
    }
    return {x, wanted};
  }

  // A relative start in the range that read_loosely takes: shards far away read nothing of theirs.
  IndexNode clamped(IndexNode relative, int64_t d, const Sharding& layout) const {
    return minimum(maximum(relative, -size(d)), ceil_div(operand_.dim(d), layout.tiles(d)));
  }

  // An update of single elements of every split dim: the device that has them writes in place.
  Partitioned update_in_place(const Sharding& layout) {
    Node* x = spmd_.reshard(&operand_, layout);
    Node* u = spmd_.reshard(node_.operand(1), whole_window(layout));
    std::vector<Node*> starts(x->dims().size(), number(0));
    Node* inside = nullptr;
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d)) continue;
      const IndexNode at = start(d);
      starts[static_cast<size_t>(d)] = at;
      if (layout.dim(d).empty()) continue;
      const IndexNode begin = offset(layout, operand_.shape, d);
      Node* mine = within(at, begin, begin + x->dim(d));
      inside = inside ? hlo::binary(Opcode::and_, inside, mine) : mine;
      starts[static_cast<size_t>(d)] = at - begin;
    }
    Node* old = hlo::dynamic_slice(x, starts, u->dims());
    std::vector<Node*> operands{x, hlo::select(hlo::broadcast(inside, u->dims(), {}), u, old)};
    operands.insert(operands.end(), starts.begin(), starts.end());
    return {spmd_.emit(Opcode::dynamic_update_slice, x->shape, operands), layout};
  }

  bool updates_single_elements(const Sharding& layout) const {
    for (int64_t d = 0; d < operand_.rank(); ++d)
      if (is_sliced(d) && !layout.dim(d).empty() && size(d) != 1) return false;
    return true;
  }

  Partitioned update(const Sharding& layout) {
    if (updates_single_elements(layout)) return update_in_place(layout);
    Node* x = spmd_.reshard(&operand_, layout);
    Node* u = spmd_.reshard(node_.operand(1), whole_window(layout));
    Node* inside = nullptr;
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d)) continue;
      const IndexNode at = start(d);
      const IndexNode begin = offset(layout, operand_.shape, d);
      const int64_t shard = x->dim(d);
      u = read_loosely(u, d, minimum(maximum(begin - at, -shard), size(d)), shard);
    }
    for (int64_t d = 0; d < operand_.rank(); ++d) {
      if (!is_sliced(d)) continue;
      const IndexNode at = start(d);
      const IndexNode end = at + size(d);
      const IndexNode begin = offset(layout, operand_.shape, d);
      Node* written = within(positions(x->dims(), d, begin), at, end);
      inside = inside ? hlo::binary(Opcode::and_, inside, written) : written;
    }
    return {hlo::select(inside, u, x), layout};
  }

 private:
  PartitionContext& spmd_;
  Node& node_;
  Node& operand_;
  Dims window_;
  int64_t first_index_ = 1;
};

bool fits(const Node& operand) {
  return std::all_of(operand.dims().begin(), operand.dims().end(),
                     [](int64_t d) { return d > 0 && d < (int64_t(1) << 28); });
}

Sharding without_region(const Sharding& s) {
  return s.is_tiled() ? without_manual(s) : Sharding::replicated();
}

int64_t bytes(const Shape& shape, const Sharding& from, const Sharding& to) {
  return plan_reshard(shape, without_region(from), without_region(to)).cost.bytes;
}

// `s` with the digits of sliced dims only where `kept` has the dim's bit, and with those of `other`
// on the rest as far as they are free.
Sharding arranged(const Dynamic& dynamic, const Sharding& s, uint64_t kept, const Sharding* other,
                  int64_t rank) {
  std::vector<Digits> dims(static_cast<size_t>(rank));
  Digits used = s.manual_digits();
  for (int64_t d = 0; d < rank; ++d) {
    const bool keeps = dynamic.is_sliced(d) ? (kept >> d & 1) != 0 : other == nullptr;
    if (keeps) used = concat(used, dims[static_cast<size_t>(d)] = s.dim(d));
  }
  if (other && other->order() == s.order())
    for (int64_t d = 0; d < rank; ++d)
      if (!dynamic.is_sliced(d) && disjoint(other->dim(d), used))
        used = concat(used, dims[static_cast<size_t>(d)] = other->dim(d));
  return Sharding::tiled(s.order(), std::move(dims), s.manual_digits());
}

// Where the result is wanted split along a sliced dim: each device takes its part from an operand
// that is whole there, where that sends no more than the best that takes whole slices (`least`).
bool takes_parts(const Dynamic& dynamic, const Shape& operand, const Sharding& have,
                 const Sharding& want, std::optional<int64_t> least) {
  bool any = false;
  for (int64_t d = 0; d < operand.rank(); ++d)
    any = any || (dynamic.is_sliced(d) && !want.dim(d).empty());
  if (!any || !want.order() || want.manual_digits() != have.manual_digits()) return false;
  return !least || bytes(operand, have, dynamic.whole_window(want)) <= *least;
}

// A dynamic slice of a value twice, one behind the other, as long as the value: it is turned round
// by a number that is known when the program runs. nullopt: no such slice, or its dim is whole.
struct Roll {
  Node* x = nullptr;
  int64_t dim = 0;
};
std::optional<Roll> roll_of(PartitionContext& spmd, const Node& node) {
  Node& twice = *node.operand(0);
  if (!twice.is(Opcode::concatenate) || twice.operands().size() != 2 ||
      twice.operand(0) != twice.operand(1))
    return std::nullopt;
  const Roll roll{twice.operand(0), twice.attrs.dimensions.at(0)};
  const Sharding have = spmd.sharding(*roll.x), want = spmd.sharding(node);
  const auto plain = [](const Sharding& s) {
    return s.is_tiled() && s.manual_digits().empty() && s.unreduced().empty();
  };
  if (node.dims() != roll.x->dims() || !plain(have) || !plain(want) || have.dim(roll.dim).empty())
    return std::nullopt;
  return roll;
}

// Each device reads its part where the value is whole, or shards go round by powers of two, as the
// digits of the number say: whichever sends less.
Partitioned partition_roll(PartitionContext& spmd, Node& node, const Roll& roll) {
  Dynamic dynamic(spmd, node);
  const Shape& shape = roll.x->shape;
  const int64_t d = roll.dim, size = shape.dims[static_cast<size_t>(d)];
  const Sharding have = spmd.sharding(*roll.x), want = spmd.sharding(node);
  const int64_t tiles = have.tiles(d), shard = ceil_div(size, tiles);
  const Sharding layout = want.order() ? want : Sharding::replicated();
  std::vector<Digits> dims;
  for (int64_t e = 0; e < node.rank(); ++e) dims.push_back(e == d ? Digits{} : layout.dim(e));
  const Sharding whole =
      layout.order() ? Sharding::tiled(layout.order(), std::move(dims)) : Sharding::replicated();
  const ExchangedDim from{d, have.order(), have.dim(d), {size, tiles, shard}};
  const int64_t turned = saturating_add(bytes_to_turn(local_shape(shape, have), from),
                                        bytes(node.shape, have, layout));
  if (size % tiles == 0 && turned < bytes(shape, have, whole)) {
    Node* const local = spmd.reshard(roll.x, have);
    return {rotate(spmd, local, from, dynamic.start(d)), have};
  }
  Node* x = spmd.reshard(roll.x, whole);
  const int64_t part = ceil_div(size, layout.tiles(d));
  x = pad(hlo::concatenate({x, x}, d), d, 0, part * layout.tiles(d) - size);
  IndexNode at = dynamic.start(d);
  if (!layout.dim(d).empty()) at = at + dynamic.offset(layout, node.shape, d);
  return {cut(x, d, at, part), layout};
}

}  // namespace

// Sliced dims stay split where a sum of the slice over their holders sends fewer bytes than to make
// them whole; other dims are split as they are, or as the result wants.
std::optional<Partitioned> partition_dynamic_slice(PartitionContext& spmd, Node& node) {
  Node& operand = *node.operand(0);
  const Sharding have = spmd.sharding(operand), want = spmd.sharding(node);
  const int64_t rank = operand.rank();
  if (!fits(operand) || node.shape.elements_count() == 0 || spmd.keeps_unreduced(node, 0) ||
      !have.is_tiled() || !want.is_tiled() || rank > 60)
    return std::nullopt;
  if (const auto roll = roll_of(spmd, node)) return partition_roll(spmd, node, *roll);
  Dynamic dynamic(spmd, node);
  uint64_t split = 0;
  for (int64_t d = 0; d < rank; ++d)
    if (dynamic.is_sliced(d) && !have.dim(d).empty()) split |= uint64_t(1) << d;
  std::optional<Sharding> best;
  std::optional<int64_t> least;
  // All choices of the split sliced dims, none first.
  uint64_t kept = 0;
  do {
    for (const Sharding* other : {static_cast<const Sharding*>(nullptr), &want}) {
      const Sharding layout = arranged(dynamic, have, kept, other, rank);
      const int64_t moved =
          bytes(operand.shape, have, layout) +
          bytes(node.shape, kept ? dynamic.summed_window(layout) : dynamic.whole_window(layout),
                want);
      if (least && moved >= *least) continue;
      least = moved;
      best = kept ? std::optional(layout) : std::nullopt;
    }
    kept = (kept - split) & split;
  } while (kept != 0);
  if (!best && takes_parts(dynamic, operand.shape, have, want, least)) return dynamic.part(want);
  if (!best) return std::nullopt;
  return dynamic.slice(*best);
}

std::optional<Partitioned> partition_dynamic_update_slice(PartitionContext& spmd, Node& node) {
  const Sharding want = spmd.sharding(node);
  if (!fits(*node.operand(0)) || node.operand(1)->shape.elements_count() == 0 || !want.is_tiled())
    return std::nullopt;
  Dynamic dynamic(spmd, node);
  for (int64_t d = 0; d < node.rank(); ++d)
    if (dynamic.is_sliced(d) && !want.dim(d).empty()) return dynamic.update(want);
  return std::nullopt;
}

// Where a value is wanted in the end: where its only reader puts it, if that is all that it does.
Sharding wanted_in_the_end(PartitionContext& spmd, const Node& node) {
  const bool moved = node.users().size() == 1 && node.users()[0]->is(Opcode::copy);
  return spmd.sharding(moved ? *node.users()[0] : node);
}

// A slice that one tile has all of, wanted whole: it goes out from there. nullopt: it is in
// several, or the tile cannot be said without a list of many devices.
std::optional<Partitioned> slice_of_one_tile(PartitionContext& spmd, Node& node,
                                             const Sharding& have, int64_t d) {
  constexpr int64_t kManyDevices = 4096;
  Node& operand = *node.operand(0);
  const int64_t shard = ceil_div(operand.dim(d), have.tiles(d));
  const int64_t start = node.attrs.starts[static_cast<size_t>(d)], tile = start / shard;
  std::vector<Digits> dims;
  for (int64_t e = 0; e < node.rank(); ++e) {
    if (e != d && node.dim(e) != operand.dim(e) && !have.dim(e).empty()) return std::nullopt;
    dims.push_back(e == d ? Digits{} : have.dim(e));
  }
  const Sharding result = Sharding::tiled(have.order(), std::move(dims), have.manual_digits());
  const Sharding want = wanted_in_the_end(spmd, node);
  if ((start + node.dim(d) - 1) / shard != tile || spmd.num_devices() > kManyDevices ||
      !(want.is_replicated() || equivalent(want, result)))
    return std::nullopt;
  Node* x = spmd.reshard(&operand, have);
  for (int64_t e = 0; e < node.rank(); ++e)
    if (node.dim(e) != operand.dim(e))
      x = cut(x, e, node.attrs.starts[static_cast<size_t>(e)] - (e == d ? tile * shard : 0),
              node.dim(e));
  return Partitioned{broadcast_along(spmd, x, have.order(), have.dim(d), tile), result};
}

// A slice of fewer elements than its dim has parts, wanted whole: summed, not gathered from parts
// of which most are empty.
std::optional<Partitioned> partition_short_slice(PartitionContext& spmd, Node& node) {
  Node& operand = *node.operand(0);
  const Sharding have = spmd.sharding(operand), want = spmd.sharding(node);
  if (!fits(operand) || node.shape.elements_count() == 0 || spmd.keeps_unreduced(node, 0) ||
      !have.is_tiled() || !want.is_tiled() || is_partial(have, spmd.num_devices()))
    return std::nullopt;
  std::optional<int64_t> split;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (node.attrs.strides[static_cast<size_t>(d)] != 1) return std::nullopt;
    if (have.dim(d).empty() || node.dim(d) == operand.dim(d)) continue;
    if (split) return std::nullopt;
    split = d;
  }
  if (!split) return std::nullopt;
  if (auto one = slice_of_one_tile(spmd, node, have, *split)) return one;
  // An all-reduce sends a value twice.
  if (!want.dim(*split).empty() || 2 * node.dim(*split) > have.tiles(*split)) return std::nullopt;
  return Dynamic(spmd, node).slice(have);
}

}  // namespace gspmd
