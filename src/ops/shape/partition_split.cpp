// Slices of one value along a split dim: all of them in one exchange.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/emission/exchange.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

// Along which dim a node takes a run of elements of its operand; -1: along none, or along several.
int64_t cut_dim(const Node& node) {
  int64_t cut = -1;
  if (!node.is(Opcode::slice)) return -1;
  for (int64_t d = 0; d < node.rank(); ++d) {
    if (node.dim(d) == node.operand(0)->dim(d)) continue;
    if (cut >= 0 || node.attrs.strides[static_cast<size_t>(d)] != 1) return -1;
    cut = d;
  }
  return node.shape.elements_count() > 0 ? cut : -1;
}

// The slices of the value that are laid out as this one, in order; itself among them.
std::vector<const Node*> slices_beside(PartitionContext& spmd, const Node& node, int64_t d) {
  std::vector<const Node*> slices;
  const Sharding want = spmd.sharding(node);
  for (const Node* user : node.operand(0)->users())
    if (cut_dim(*user) == d && user->backward == node.backward && spmd.sharding(*user) == want)
      slices.push_back(user);
  std::sort(slices.begin(), slices.end(), [d](const Node* a, const Node* b) {
    const auto at = [d](const Node* n) { return n->attrs.starts[static_cast<size_t>(d)]; };
    return at(a) != at(b) ? at(a) < at(b) : a->id() < b->id();
  });
  return slices;
}

}  // namespace

// Each of the slices emits all of the exchange and takes its own part: equal collectives are one.
std::optional<Partitioned> partition_split(PartitionContext& spmd, Node& node) {
  constexpr size_t kMostSlices = 16;
  const int64_t d = cut_dim(node);
  if (d < 0 || spmd.keeps_unreduced(node, 0)) return std::nullopt;
  Node& operand = *node.operand(0);
  const Sharding have = spmd.sharding(operand), want = spmd.sharding(node);
  const bool alike = have.is_tiled() && want.is_tiled() && have.order() == want.order() &&
                     have.manual_digits() == want.manual_digits() && !want.dim(d).empty() &&
                     have.dim(d) == want.dim(d);
  if (!alike) return std::nullopt;
  const std::vector<const Node*> slices = slices_beside(spmd, node, d);
  if (slices.size() < 2 || slices.size() > kMostSlices) return std::nullopt;
  const int64_t tiles = want.tiles(d), size = operand.dim(d);
  const ExchangedDim from{d, want.order(), want.dim(d), {size, tiles, ceil_div(size, tiles)}};
  std::vector<Interval> parts;
  int64_t before = 0, own = 0;
  for (const Node* slice : slices) {
    const int64_t start = slice->attrs.starts[static_cast<size_t>(d)];
    if (slice == &node) own = before;
    parts.push_back({start, start + slice->dim(d)});
    before += ceil_div(slice->dim(d), tiles);
  }
  const auto plan = choose_split(from.held, parts, want.order()->count);
  if (!plan) return std::nullopt;
  Node* const row = exchange_split(spmd, spmd.reshard(&operand, want), from, parts, *plan);
  return Partitioned{cut(row, d, own, ceil_div(node.dim(d), tiles)), want};
}

}  // namespace gspmd
