#include "ops/emission/emit_reshard.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "mesh/device_terms.h"
#include "ops/emission/collectives.h"
#include "ops/emission/emit_from_subset.h"
#include "ops/emission/emit_pieces.h"
#include "ops/emission/exchange.h"
#include "ops/emission/index.h"

namespace gspmd {
namespace {

// Emits one step; holds what all steps share.
class StepEmitter {
 public:
  StepEmitter(PartitionContext& spmd, const Shape& global) : spmd_(spmd), global_(global) {}

  Node* emit(Node* x, const ReshardStep& step) {
    const Shape after = local_shape(global_, step.after);
    switch (step.kind) {
      case ReshardKind::all_gather:
        return all_gather(x, step, after);
      case ReshardKind::dynamic_slice:
        return dynamic_slice(x, step, after);
      case ReshardKind::all_to_all:
        return step.also.empty() ? all_to_all(x, step, after) : all_to_all_of_dims(x, step, after);
      case ReshardKind::collective_permute:
        return collective_permute(x, step);
      case ReshardKind::all_reduce:
        return all_reduce(x, step);
      case ReshardKind::reduce_scatter:
        return reduce_scatter(x, step, after);
      case ReshardKind::piecewise_permutes:
        return emit_pieces(spmd_, x, after, *step.pieces);
      case ReshardKind::collective_broadcast:
        if (step.pieces) return emit_broadcast(spmd_, x, *step.pieces);
        if (step.dim >= 0) return broadcast_along(spmd_, x, order(step), step.digits, 0);
        return emit_from_subset(spmd_, x, global_, step);
    }
    internal_error("reshard: unknown step");
  }

 private:
  DeviceOrder order(const ReshardStep& step) const {
    return step.before.order() ? step.before.order() : step.after.order();
  }

  Attributes group_attributes(const ReshardStep& step) const {
    return gspmd::group_attributes(spmd_, order(step), step.digits);
  }

  // Pads (with zeros) or cuts dim `d` at its end to `size`.
  static Node* resize(Node* x, int64_t d, int64_t size) {
    const int64_t have = x->dim(d);
    return have > size ? cut(x, d, 0, size) : pad(x, d, 0, size - have);
  }

  // Dim d, held in shards of `have` elements over the digits of `s`, in shards of `want`. Where
  // they are one shard, or the step is not one that realigns, by padding or cutting at its end.
  Node* realign(Node* x, const ReshardStep& step, int64_t d, const Sharding& s, int64_t want) {
    const int64_t have = x->dim(d);
    if (!step.realigned || have == want || s.tiles(d) == 1) return resize(x, d, want);
    return exchange(
        spmd_, x,
        {d, order(step), s.dim(d), {global_.dims[static_cast<size_t>(d)], s.tiles(d), have}},
        {want, 0, 1, want}, nullptr);
  }

  Node* all_gather(Node* x, const ReshardStep& step, const Shape& after) {
    Node* gathered = gather_along(spmd_, x, step.dim, order(step), step.digits);
    return realign(gathered, step, step.dim, step.after, after.dims[static_cast<size_t>(step.dim)]);
  }

  Node* dynamic_slice(Node* x, const ReshardStep& step, const Shape& after) {
    const int64_t size = after.dims[static_cast<size_t>(step.dim)];
    const int64_t wanted = size * tile_count(step.digits);
    x = realign(x, step, step.dim, step.before,
                step.realigned ? wanted : std::max(x->dim(step.dim), wanted));
    std::vector<Node*> starts(x->dims().size(), IndexNode(spmd_.local(), 0));
    const IndexNode part(spmd_.digits_index(order(step), step.digits));
    starts[static_cast<size_t>(step.dim)] = part * size;
    return hlo::dynamic_slice(x, std::move(starts), after.dims);
  }

  // x is [.., to, .., from, ..]: to is cut into g pieces, one for each member; what arrives is put
  // together along from, in member order.
  Node* all_to_all(Node* x, const ReshardStep& step, const Shape& after) {
    const int64_t g = tile_count(step.digits);
    const int64_t piece = after.dims[static_cast<size_t>(step.dim_to)];
    x = realign(x, step, step.dim_to, step.before, piece * g);
    Dims split;
    for (int64_t d = 0; d < x->rank(); ++d) {
      if (d == step.dim_to) split.push_back(g);
      split.push_back(d == step.dim_to ? piece : x->dim(d));
    }
    Attributes attrs = group_attributes(step);
    attrs.dimensions = {step.dim_to};
    Node* exchanged = spmd_.emit(Opcode::all_to_all, Shape(x->shape.dtype, split),
                                 {hlo::reshape(x, split)}, attrs);
    Dims permutation;
    for (int64_t d = 0; d < x->rank(); ++d) {
      if (d == step.dim) permutation.push_back(step.dim_to);
      permutation.push_back(d + (d >= step.dim_to ? 1 : 0));
    }
    Node* moved = hlo::transpose(exchanged, permutation);
    Dims joined = x->dims();
    joined[static_cast<size_t>(step.dim_to)] = piece;
    joined[static_cast<size_t>(step.dim)] *= g;
    Node* y = hlo::reshape(moved, joined);
    return realign(y, step, step.dim, step.after, after.dims[static_cast<size_t>(step.dim)]);
  }

  // Several dims lose digits to others at once. Dims that gain are cut, [g of each run.., piece],
  // and what arrives is put together along dims that lose, the runs that came last in front.
  Node* all_to_all_of_dims(Node* x, const ReshardStep& step, const Shape& after) {
    std::vector<MovedDigits> runs{{step.dim, step.dim_to, step.digits}};
    runs.insert(runs.end(), step.also.begin(), step.also.end());
    const auto rank = static_cast<size_t>(x->rank());
    ReshardStep all = step;
    Dims members, pieces(rank), cuts(rank, 1);
    all.digits.clear();
    for (const MovedDigits& run : runs) {
      members.push_back(tile_count(run.digits));
      cuts[static_cast<size_t>(run.dim_to)] *= members.back();
      all.digits.insert(all.digits.end(), run.digits.begin(), run.digits.end());
    }
    for (size_t d = 0; d < rank; ++d) {
      pieces[d] = cuts[d] == 1 ? x->dims()[d] : after.dims[d];
      x = resize(x, static_cast<int64_t>(d), pieces[d] * cuts[d]);
    }
    // Positions of the runs and of the pieces, as they are cut and as they are joined.
    Dims cut_dims, cut_at(runs.size()), piece_at(rank), front, back, joined;
    for (size_t d = 0; d < rank; ++d) {
      for (size_t r = 0; r < runs.size(); ++r)
        if (runs[r].dim_to == static_cast<int64_t>(d)) {
          cut_at[r] = std::ssize(cut_dims);
          cut_dims.push_back(members[r]);
        }
      piece_at[d] = std::ssize(cut_dims);
      cut_dims.push_back(pieces[d]);
    }
    front = cut_at;
    front.insert(front.end(), piece_at.begin(), piece_at.end());
    Dims split = members;
    split.insert(split.end(), pieces.begin(), pieces.end());
    Dims sent = pieces;
    sent.insert(sent.begin(), tile_count(all.digits));
    for (size_t d = 0; d < rank; ++d) {
      int64_t size = pieces[d];
      for (size_t r = runs.size(); r-- > 0;)
        if (runs[r].dim == static_cast<int64_t>(d)) {
          back.push_back(static_cast<int64_t>(r));
          size *= members[r];
        }
      back.push_back(static_cast<int64_t>(runs.size() + d));
      joined.push_back(size);
    }
    Attributes attrs = group_attributes(all);
    attrs.dimensions = {0};
    Node* y = hlo::reshape(hlo::transpose(hlo::reshape(x, cut_dims), front), sent);
    y = spmd_.emit(Opcode::all_to_all, Shape(x->shape.dtype, sent), {y}, attrs);
    y = hlo::reshape(hlo::transpose(hlo::reshape(y, split), back), joined);
    for (size_t d = 0; d < rank; ++d) y = resize(y, static_cast<int64_t>(d), after.dims[d]);
    return y;
  }

  Digits all_digits(const Sharding& s) const {
    Digits digits;
    for (int64_t d = 0; d < s.rank(); ++d)
      for (const Digit& digit : s.dim(d)) digits.push_back(digit);
    for (const Digit& digit : s.replicated_digits()) digits.push_back(digit);
    return digits;
  }

  // Both lists cut so that their sizes agree one by one; false where they do not nest.
  static bool align(Digits& a, Digits& b) {
    Digits x, y;
    std::reverse(a.begin(), a.end());
    std::reverse(b.begin(), b.end());
    while (!a.empty() && !b.empty()) {
      Digit& p = a.back();
      Digit& q = b.back();
      const int64_t size = std::min(p.size, q.size);
      if (p.size % size != 0 || q.size % size != 0) return false;
      x.push_back({size, p.stride * (p.size / size)});
      y.push_back({size, q.stride * (q.size / size)});
      if ((p.size /= size) == 1) a.pop_back();
      if ((q.size /= size) == 1) b.pop_back();
    }
    const bool all = a.empty() && b.empty();
    a = std::move(x);
    b = std::move(y);
    return all;
  }

  Node* collective_permute(Node* x, const ReshardStep& step) {
    if (!step.before.order() || !step.after.order())
      internal_error("reshard: a collective-permute from {} to {}", to_string(step.before),
                     to_string(step.after));
    Permutation permutation;
    const DeviceOrder a = step.before.order(), b = step.after.order();
    const Digits from = all_digits(step.before), to = all_digits(step.after);
    Digits cut_from = from, cut_to = to;
    if (a == b && step.before.unreduced().empty() && align(cut_from, cut_to)) {
      permutation = Permutation{{}, a, std::move(cut_from), std::move(cut_to)};
    } else if (a->count == b->count && tile_count(from) == a->count && tile_count(to) == a->count) {
      // Who holds the same tile, by rank among the replicas.
      permutation.order = order_along(a, from);
      permutation.targets = order_along(b, to);
    } else {
      permutation.pairs = explicit_pairs(step);
    }
    return permute(spmd_, x, std::move(permutation));
  }

  // Sets of different sizes: each target takes its tile from the holder of the
  // same rank among the replicas, O(devices), as the orders themselves are.
  Pairs explicit_pairs(const ReshardStep& step) const {
    const auto key = [&](const Sharding& s, int64_t rank) {
      Dims tile;
      for (int64_t d = 0; d < global_.rank(); ++d) tile.push_back(tile_index(s.dim(d), rank));
      return tile;
    };
    std::map<Dims, std::vector<int64_t>> holders;
    for (int64_t r = 0; r < step.before.order()->count; ++r)
      holders[key(step.before, r)].push_back(step.before.order()->device(r));
    std::map<Dims, size_t> next;
    Pairs::List pairs;
    for (int64_t r = 0; r < step.after.order()->count; ++r) {
      const Dims tile = key(step.after, r);
      const auto& sources = holders.at(tile);
      pairs.emplace_back(sources[next[tile]++ % sources.size()], step.after.order()->device(r));
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  }

  Combiner combiner(const ReshardStep& step) const {
    for (const Unreduced& u : step.before.unreduced())
      if (!disjoint(u.digits, step.digits)) return u.combiner;
    internal_error("reshard: no unreduced digits of {} are reduced", to_string(step.before));
  }

  Node* all_reduce(Node* x, const ReshardStep& step) {
    Computation* apply =
        binary_computation(spmd_.local().module(), combiner_opcode(combiner(step)), x->shape.dtype);
    return spmd_.emit(Opcode::all_reduce, x->shape, {x}, group_attributes(step), {apply});
  }

  Node* reduce_scatter(Node* x, const ReshardStep& step, const Shape& after) {
    x = resize(x, step.dim, after.dims[static_cast<size_t>(step.dim)] * tile_count(step.digits));
    Attributes attrs = group_attributes(step);
    attrs.dimensions = {step.dim};
    Computation* apply =
        binary_computation(spmd_.local().module(), combiner_opcode(combiner(step)), x->shape.dtype);
    return spmd_.emit(Opcode::reduce_scatter, after, {x}, attrs, {apply});
  }

  PartitionContext& spmd_;
  const Shape& global_;
};

}  // namespace

Node* emit_reshard(PartitionContext& spmd, Node* local, const Shape& global,
                   const ReshardPlan& plan) {
  StepEmitter emitter(spmd, global);
  for (const ReshardStep& step : plan.steps) local = emitter.emit(local, step);
  return local;
}

}  // namespace gspmd
