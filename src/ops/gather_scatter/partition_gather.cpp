// Gather: loops that operand, indices and result share are split without a word; operand dims that
// are looked up are served by their holders, and the slices are summed.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"
#include "ops/emission/exchange.h"
#include "ops/gather_scatter/local_indices.h"

namespace gspmd {
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
Node* with_tails(PartitionContext& spmd, Node* operand, const IndexNest& nest,
                 const IndexSpread& spread) {
  std::vector<PaddingDim> padding(operand->dims().size());
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    if (nest.loops[l].method != IndexMethod::part || spread.loops[l].empty()) continue;
    const auto d = static_cast<size_t>(nest.loops[l].operand);
    const int64_t tiles = tile_count(spread.loops[l]);
    padding[d].high = ceil_div(nest.window[d], tiles) * tiles - nest.window[d];
  }
  if (std::all_of(padding.begin(), padding.end(), [](const auto& p) { return p.high == 0; }))
    return operand;
  return hlo::pad(operand, hlo::scalar(spmd.local(), operand->shape.dtype, 0), std::move(padding));
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
  const IndexSpread spread = choose_index_spread(problem);
  const Sharding result = spread.layout(nest, IndexArray::slices);
  Node* operand = spmd.reshard_table(node.operand(0), spread.layout(nest, IndexArray::operand));
  Node* indices = spmd.reshard(node.operand(1), spread.layout(nest, IndexArray::indices));
  const Dims shards = operand->dims();
  const LocalIndices local =
      local_indices(spmd, indices, nest, spread, node.operand(0)->shape, OutOfRange::clamp);
  Attributes attrs = node.attrs;
  attrs.gather->start_index_map = local.map;
  for (const IndexLoop& loop : nest.loops)
    if (loop.method == IndexMethod::window)
      attrs.slice_sizes[static_cast<size_t>(loop.operand)] = operand->dim(loop.operand);
  const Shape shape = local_shape(node.shape, result);
  for (const IndexLoop& loop : nest.loops)
    if (loop.method == IndexMethod::part)
      attrs.slice_sizes[static_cast<size_t>(loop.operand)] =
          shape.dims[static_cast<size_t>(loop.slices)];
  operand = with_tails(spmd, with_room(spmd, operand, rooms(nest, spread)), nest, spread);
  Node* slices = spmd.emit(Opcode::gather, shape, {operand, local.indices}, attrs);
  if (local.starts.empty()) return Partitioned{slices, result};
  Node* neutral = neutral_scalar(spmd, problem.combiner, shape.dtype);
  slices = hlo::select(served_here(local, nest, shards, shape.dims, c), slices,
                       hlo::broadcast(neutral, shape.dims, {}));
  return Partitioned{slices, with_partial(result, spread, spread.partial(nest), problem.combiner)};
}

}  // namespace gspmd
