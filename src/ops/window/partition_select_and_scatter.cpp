// Select-and-scatter over split dims: each device chooses in all windows that touch its part, from
// the elements and sources that these windows have.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/emission/exchange.h"
#include "ops/window/window.h"

namespace gspmd {
namespace {

// Whether `select` keeps the larger (smaller) of two: what never wins beside a number.
std::optional<Combiner> choice(const Computation& select) {
  const Node* root = select.root();
  if (!root->is(Opcode::compare)) return std::nullopt;
  const Node* a = root->operand(0);
  const Node* b = root->operand(1);
  if (!a->is(Opcode::parameter) || !b->is(Opcode::parameter) || a == b) return std::nullopt;
  const bool swapped = a->attrs.index == 1;
  switch (root->attrs.direction) {
    case Direction::ge:
    case Direction::gt:
      return swapped ? Combiner::min : Combiner::max;
    case Direction::le:
    case Direction::lt:
      return swapped ? Combiner::max : Combiner::min;
    default:
      return std::nullopt;
  }
}

// One split dim. The windows that touch tile t are those from first = floor((part * t + offset) /
// stride) on; they begin at first * stride - pad_low, which is `slack` or less behind
// part * t - reach, and exactly there where strides fit into parts.
struct PooledDim {
  int64_t dim = 0;
  int64_t part = 0, tiles = 1, stride = 1;
  int64_t reach = 0;   // before the tile's first element
  int64_t length = 0;  // elements that the windows are over
  int64_t windows = 0;
  int64_t offset = 0;
  bool aligned = false;
};

int64_t floor_to(int64_t x, int64_t step) { return (x >= 0 ? x : x - step + 1) / step * step; }

PooledDim pooled(const Node& node, int64_t d, int64_t tiles) {
  const WindowDim& w = node.attrs.window[static_cast<size_t>(d)];
  PooledDim p;
  p.dim = d;
  p.tiles = tiles;
  p.part = ceil_div(node.dim(d), tiles);
  p.stride = w.stride;
  p.aligned = p.part % w.stride == 0 && w.size >= w.stride;
  if (p.aligned) {
    p.offset = w.pad_low - w.size + w.stride;
    const int64_t first = floor_to(p.offset, w.stride);
    p.reach = w.pad_low - first;
    p.windows = (floor_to(p.part - 1 + w.pad_low, w.stride) - first) / w.stride + 1;
    p.length = (p.windows - 1) * w.stride + w.size;
    return p;
  }
  const int64_t wide = std::max(w.size, w.stride);
  p.reach = wide - 1;
  p.length = wide + w.size + p.part - 2;
  p.windows = (p.length - w.size) / w.stride + 1;
  p.offset = w.pad_low - wide + w.stride;
  return p;
}

class Pool {
 public:
  Pool(PartitionContext& spmd, Node& node, const Sharding& layout, Combiner kept, Combiner added)
      : spmd_(spmd), node_(node), layout_(layout), kept_(kept), added_(added) {}

  Partitioned run(const std::vector<PooledDim>& dims) {
    Node* x = spmd_.reshard(node_.operand(0), layout_);
    Node* source = spmd_.reshard(node_.operand(1), layout_);
    Node* init = spmd_.reshard(node_.operand(2), Sharding::replicated());
    const DType type = node_.shape.dtype;
    Node* loser = hlo::scalar(spmd_.local(), type, combiner_identity(kept_, type));
    Node* nothing = hlo::scalar(spmd_.local(), type, neutral_contribution(added_, type));
    Attributes attrs = node_.attrs;
    for (const PooledDim& p : dims) {
      const int64_t more = p.aligned ? 0 : p.stride - 1;
      x = exchange(spmd_, x, held(p, node_.operand(0)), {p.part, -p.reach, 1, p.length + more},
                   loser);
      if (!p.aligned) x = cut(x, p, slack(p), p.length);
      source = exchange(spmd_, source, held(p, node_.operand(1)),
                        {p.part, p.offset, p.stride, p.windows}, nothing);
      WindowDim& w = attrs.window[static_cast<size_t>(p.dim)];
      w.pad_low = w.pad_high = 0;
    }
    std::vector<Computation*> called;
    for (const Computation* computation : node_.called)
      called.push_back(spmd_.local_computation(*computation));
    Node* all = spmd_.emit(Opcode::select_and_scatter, x->shape, {x, source, init}, attrs, called);
    for (const PooledDim& p : dims)
      all = cut(
          all, p,
          p.aligned ? number(p.reach) : hlo::binary(Opcode::subtract, number(p.reach), slack(p)),
          p.part);
    return {all, layout_};
  }

 private:
  Node* number(int64_t v) { return hlo::scalar(spmd_.local(), DType::s32, static_cast<double>(v)); }

  ExchangedDim held(const PooledDim& p, const Node* value) const {
    const int64_t size = value->dim(p.dim);
    return {p.dim, layout_.order(), layout_.dim(p.dim), {size, p.tiles, ceil_div(size, p.tiles)}};
  }

  // How far behind part * t - reach the first window begins.
  Node* slack(const PooledDim& p) {
    const int64_t raise = p.offset < 0 ? ceil_div(-p.offset, p.stride) * p.stride : 0;
    Node* at = hlo::binary(Opcode::multiply, spmd_.tile_index(layout_, p.dim), number(p.part));
    at = hlo::binary(Opcode::add, at, number(p.offset + raise));
    at = hlo::binary(Opcode::remainder, at, number(p.stride));
    return hlo::binary(Opcode::subtract, number(p.stride - 1), at);
  }

  Node* cut(Node* x, const PooledDim& p, Node* start, int64_t size) {
    std::vector<Node*> starts(x->dims().size(), number(0));
    starts[static_cast<size_t>(p.dim)] = start;
    Dims sizes = x->dims();
    sizes[static_cast<size_t>(p.dim)] = size;
    return hlo::dynamic_slice(x, std::move(starts), sizes);
  }

  PartitionContext& spmd_;
  Node& node_;
  const Sharding& layout_;
  Combiner kept_, added_;
};

bool is_plain(const WindowDim& w) { return w == WindowDim{}; }

}  // namespace

std::optional<Partitioned> partition_select_and_scatter(PartitionContext& spmd, Node& node) {
  const Sharding layout = spmd.sharding(node);
  const auto kept = choice(*node.called.at(0));
  const auto added = recognize_combiner(*node.called.at(1));
  if (!layout.is_tiled() || !kept || !added || node.shape.elements_count() == 0 ||
      node.operand(1)->shape.elements_count() == 0)
    return std::nullopt;
  std::vector<PooledDim> dims;
  constexpr int64_t kMost = int64_t(1) << 20;
  for (int64_t d = 0; d < node.rank(); ++d) {
    const WindowDim& w = node.attrs.window[static_cast<size_t>(d)];
    if (layout.dim(d).empty() || is_plain(w)) continue;
    if (w.size >= kMost || w.stride >= kMost || w.pad_low >= kMost || w.pad_low <= -kMost ||
        node.dim(d) >= kMost || layout.tiles(d) >= kMost)
      return std::nullopt;
    dims.push_back(pooled(node, d, layout.tiles(d)));
    const PooledDim& p = dims.back();
    const int64_t size = node.operand(1)->dim(d);
    if (!is_addressable({size, p.tiles, ceil_div(size, p.tiles)},
                        Access{p.part, p.offset, p.stride, p.windows}))
      return std::nullopt;
  }
  if (dims.empty()) return std::nullopt;
  return Pool(spmd, node, layout, *kept, *added).run(dims);
}

}  // namespace gspmd
