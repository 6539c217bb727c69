// Select-and-scatter over split dims: each device chooses in all windows that touch its part, from
// the elements and sources that these windows have.
//
// Padding is never chosen, and no value loses to all others: not to NaN, nor an infinity to itself.
// So what a device holds outside of the whole repeats the element at the edge, and what is
// scattered there is the edge's: a window that reaches over the edge holds that element, and a
// comparison chooses from repeated elements what it chooses from those alone.

#include <algorithm>

#include "ops/common/in_dim.h"
#include "ops/emission/exchange.h"
#include "ops/emission/index.h"
#include "ops/window/window.h"

namespace gspmd {
namespace {

// Whether `select` is an ordering of its two operands: repeating an element where a window is
// clamped does not change which one is chosen.
bool is_ordering(const Computation& select) {
  const Node* root = select.root();
  if (!root->is(Opcode::compare)) return false;
  const Node* a = root->operand(0);
  const Node* b = root->operand(1);
  if (!a->is(Opcode::parameter) || !b->is(Opcode::parameter) || a == b) return false;
  const Direction direction = root->attrs.direction;
  return direction == Direction::ge || direction == Direction::gt || direction == Direction::le ||
         direction == Direction::lt;
}

// One split dim. The windows that touch tile t are those from first = floor((part * t + offset) /
// stride) on; they begin at first * stride - pad_low, which is a slack behind part * t - reach, and
// exactly there where strides fit into parts.
struct PooledDim {
  int64_t dim = 0;
  int64_t part = 0, tiles = 1, stride = 1, pad_low = 0;
  int64_t reach = 0;   // before the tile's first element
  int64_t length = 0;  // elements that the windows are over
  int64_t windows = 0;
  int64_t offset = 0;
  std::optional<int64_t> until;             // as `offset`, behind the tile's last window
  int64_t least_slack = 0, most_slack = 0;  // over all tiles
  Interval read;  // what windows read of the whole dim, by position behind part * t, of all tiles
  bool aligned = false;
  int64_t size = 0;                          // of the whole dim
  int64_t first_window = 0, end_window = 0;  // those that hold any element
  bool over_edge = false;                    // some of them hold padding too
  bool has_empty_windows = false;
};

int64_t floor_to(int64_t x, int64_t step) { return (x >= 0 ? x : x - step + 1) / step * step; }

// What the windows of any tile come to, and what they read of the whole dim.
void measure_tiles(PooledDim& p, int64_t window) {
  int64_t windows = 0, least = p.stride;
  p.read = {p.part, 0};
  for (int64_t t = 0; t < p.tiles; ++t) {
    const int64_t begin = p.part * t, first = floor_to(begin + p.offset, p.stride) - p.pad_low;
    const int64_t last = floor_to(begin + p.part - 1 + p.pad_low, p.stride) - p.pad_low;
    const int64_t slack = first - (begin - p.reach);
    windows = std::max(windows, (last - first) / p.stride + 1);
    least = std::min(least, slack);
    p.most_slack = std::max(p.most_slack, slack);
    // Where windows leave some out, the first of them may end before the tile.
    const int64_t touching = first + window <= begin ? first + p.stride : first;
    const Interval read = intersect({touching, last + window}, {0, p.size});
    if (begin >= p.size || read.size() == 0) continue;
    p.read = {std::min(p.read.begin, read.begin - begin), std::max(p.read.end, read.end - begin)};
  }
  p.least_slack = least;
  // Over the tile's own elements as well, where windows leave some out.
  p.length = std::max((windows - 1) * p.stride + window, p.reach - least + p.part);
  p.windows = (p.length - window) / p.stride + 1;
  p.until = p.part - 1 + p.pad_low + p.stride;
}

PooledDim pooled(const Node& node, int64_t d, int64_t tiles) {
  const WindowDim& w = node.attrs.window[static_cast<size_t>(d)];
  PooledDim p;
  p.dim = d;
  p.tiles = tiles;
  p.size = node.dim(d);
  p.part = ceil_div(p.size, tiles);
  p.stride = w.stride;
  p.pad_low = w.pad_low;
  const int64_t all = node.operand(1)->dim(d);
  p.first_window = w.pad_low < w.size ? 0 : (w.pad_low - w.size) / w.stride + 1;
  p.end_window = std::min(all, ceil_div(p.size + w.pad_low, w.stride));
  p.over_edge = p.first_window * w.stride < w.pad_low ||
                (p.end_window - 1) * w.stride - w.pad_low + w.size > p.size;
  p.has_empty_windows = p.first_window > 0 || p.end_window < all;
  p.aligned = p.part % w.stride == 0 && w.size >= w.stride;
  if (p.aligned) {
    p.offset = w.pad_low - w.size + w.stride;
    const int64_t first = floor_to(p.offset, w.stride);
    p.reach = w.pad_low - first;
    p.windows = (floor_to(p.part - 1 + w.pad_low, w.stride) - first) / w.stride + 1;
    p.length = (p.windows - 1) * w.stride + w.size;
    p.read = {-p.reach, p.length - p.reach};
    return p;
  }
  const int64_t wide = std::max(w.size, w.stride);
  p.reach = wide - 1;
  p.offset = w.pad_low - wide + w.stride;
  measure_tiles(p, w.size);
  return p;
}

class Pool {
 public:
  Pool(PartitionContext& spmd, Node& node, const Sharding& layout, Combiner added)
      : spmd_(spmd),
        node_(node),
        layout_(layout),
        combine_(combiner_opcode(added)),
        nothing_(hlo::scalar(spmd.local(), node.shape.dtype,
                             neutral_contribution(added, node.shape.dtype))) {}

  Partitioned run(const std::vector<PooledDim>& dims) {
    Node* x = spmd_.reshard(node_.operand(0), layout_);
    Node* source = spmd_.reshard(node_.operand(1), layout_);
    Node* const init = spmd_.reshard(node_.operand(2), Sharding::replicated());
    Attributes attrs = node_.attrs;
    bool folds = false;
    for (const PooledDim& p : dims) {
      x = read(x, p);
      if (p.over_edge) x = repeat_edges(x, p);
      if (p.has_empty_windows) source = keep_windows(source, p);
      source =
          exchange(spmd_, source, held(p, node_.operand(1)),
                   {p.part, p.offset, p.stride, p.windows, WindowAccess{}.end, p.until}, nothing_);
      WindowDim& w = attrs.window.edit()[static_cast<size_t>(p.dim)];
      w.pad_low = w.pad_high = 0;
      folds = folds || p.over_edge;
    }
    std::vector<Computation*> called;
    for (const Computation* computation : node_.called)
      called.push_back(spmd_.local_computation(*computation));
    // What is folded would count init more than once.
    Node* all = spmd_.emit(Opcode::select_and_scatter, x->shape,
                           {x, source, folds ? nothing_ : init}, attrs, called);
    for (const PooledDim& p : dims) {
      const IndexNode reach = p.aligned ? number(p.reach) : p.reach - slack(p);
      Node* const own = cut(all, p.dim, reach, p.part);
      all = p.over_edge ? fold_edges(all, own, p) : own;
    }
    if (folds) all = hlo::binary(combine_, all, hlo::broadcast(init, all->dims(), {}));
    return {all, layout_};
  }

 private:
  IndexNode number(int64_t v) { return {spmd_.local(), v}; }

  ExchangedDim held(const PooledDim& p, const Node* value) const {
    const int64_t size = value->dim(p.dim);
    return {p.dim, layout_.order(), layout_.dim(p.dim), {size, p.tiles, ceil_div(size, p.tiles)}};
  }

  // The elements that the tile's windows are over. What no window that touches the tile reads is
  // any number.
  Node* read(Node* x, const PooledDim& p) {
    if (p.read.size() == 0) return cut(pad(x, p.dim, 0, p.length), p.dim, 0, p.length);
    const int64_t first = p.least_slack - p.reach, end = p.most_slack - p.reach + p.length;
    x = exchange(spmd_, x, held(p, node_.operand(0)), {p.part, p.read.begin, 1, p.read.size()},
                 nullptr);
    x = pad(x, p.dim, std::max<int64_t>(0, p.read.begin - first),
            std::max<int64_t>(0, end - p.read.end));
    const int64_t begin = std::min(first, p.read.begin);
    if (p.most_slack == p.least_slack) return cut(x, p.dim, first - begin, p.length);
    return cut(x, p.dim, slack(p) + (-p.reach - begin), p.length);
  }

  // How far behind part * t - reach the first window begins.
  IndexNode slack(const PooledDim& p) {
    const int64_t raise = p.offset < 0 ? ceil_div(-p.offset, p.stride) * p.stride : 0;
    return p.stride - 1 - (own_begin(p) + (p.offset + raise)) % p.stride;
  }

  // Of the tile's own elements, and of those that its windows are over, the first in the whole dim.
  IndexNode own_begin(const PooledDim& p) {
    return IndexNode(spmd_.tile_index(layout_, p.dim)) * p.part;
  }
  IndexNode begin(const PooledDim& p) {
    const IndexNode at = own_begin(p) + -p.reach;
    return p.aligned ? at : at + slack(p);
  }

  Node* where(IndexNode positions, Direction direction, int64_t bound) {
    return compare(positions, number(bound), direction);
  }
  Node* nothing_like(const Node* x) { return hlo::broadcast(nothing_, x->dims(), {}); }

  // One element along the dim, everywhere along it.
  static Node* spread(Node* x, int64_t dim, int64_t size) {
    Dims flat = x->dims(), dims = x->dims();
    flat.erase(flat.begin() + dim);
    dims[static_cast<size_t>(dim)] = size;
    return hlo::broadcast(hlo::reshape(x, flat), dims, dims_except(x->rank(), dim));
  }

  Node* repeat_edges(Node* x, const PooledDim& p) {
    const IndexNode first = begin(p);
    const IndexNode at = positions(x->dims(), p.dim, first);
    Node* const low = cut(x, p.dim, IndexNode(hlo::unary(Opcode::negate, first)), 1);
    Node* const high = cut(x, p.dim, p.size - 1 - first, 1);
    x = hlo::select(where(at, Direction::lt, 0), spread(low, p.dim, p.length), x);
    return hlo::select(where(at, Direction::ge, p.size), spread(high, p.dim, p.length), x);
  }

  // Sources of windows without any element have nothing to be scattered to.
  Node* keep_windows(Node* source, const PooledDim& p) {
    const ExchangedDim dim = held(p, node_.operand(1));
    const IndexNode first = IndexNode(spmd_.tile_index(layout_, p.dim)) * dim.held.shard;
    const IndexNode at = positions(source->dims(), p.dim, first);
    Node* const kept = within(at, number(p.first_window), number(p.end_window));
    return hlo::select(kept, source, nothing_like(source));
  }

  // What was scattered outside of the whole, added to the edges' own.
  Node* fold_edges(Node* all, Node* own, const PooledDim& p) {
    const int64_t after = p.part * (p.tiles - 1) - p.reach + p.stride - 1 + p.length - p.size;
    own = fold(all, own, p, 0, std::min(p.reach, p.length), Direction::lt, 0, 0);
    return fold(all, own, p, std::max<int64_t>(p.length - after, 0), p.length, Direction::ge,
                p.size, p.size - 1);
  }
  // From the elements [from, to) of `all` those whose position is `direction` of `bound`.
  Node* fold(Node* all, Node* own, const PooledDim& p, int64_t from, int64_t to,
             Direction direction, int64_t bound, int64_t edge) {
    if (from >= to) return own;
    Node* outside = cut(all, p.dim, from, to - from);
    const IndexNode at = positions(outside->dims(), p.dim, begin(p) + from);
    outside = hlo::select(where(at, direction, bound), outside, nothing_like(outside));
    Computation* const combiner =
        binary_computation(spmd_.local().module(), combine_, node_.shape.dtype);
    Node* sum = hlo::reduce(outside, nothing_, {p.dim}, combiner);
    Dims kept;
    for (int64_t d = 0; d < std::ssize(own->dims()); ++d)
      if (d != p.dim) kept.push_back(d);
    sum = hlo::broadcast(sum, own->dims(), kept);
    Node* const is_edge = where(positions(own->dims(), p.dim, own_begin(p)), Direction::eq, edge);
    return hlo::binary(combine_, own, hlo::select(is_edge, sum, nothing_like(own)));
  }

  PartitionContext& spmd_;
  Node& node_;
  const Sharding& layout_;
  const Opcode combine_;
  Node* const nothing_;  // what changes no sum
};

bool is_default(const WindowDim& w) { return w == WindowDim{}; }

}  // namespace

std::optional<Partitioned> partition_select_and_scatter(PartitionContext& spmd, Node& node) {
  const Sharding layout = spmd.sharding(node);
  const auto added = recognize_combiner(*node.called.at(1));
  if (!layout.is_tiled() || !added || node.shape.elements_count() == 0 ||
      node.operand(1)->shape.elements_count() == 0)
    return std::nullopt;
  std::vector<PooledDim> dims;
  constexpr int64_t kMost = int64_t(1) << 20;
  for (int64_t d = 0; d < node.rank(); ++d) {
    const WindowDim& w = node.attrs.window[static_cast<size_t>(d)];
    if (layout.dim(d).empty() || is_default(w)) continue;
    if (w.size >= kMost || w.stride >= kMost || w.pad_low >= kMost || w.pad_low <= -kMost ||
        node.dim(d) >= kMost || layout.tiles(d) >= kMost)
      return std::nullopt;
    dims.push_back(pooled(node, d, layout.tiles(d)));
    const PooledDim& p = dims.back();
    if (p.over_edge && !is_ordering(*node.called.at(0))) return std::nullopt;
    const int64_t size = node.operand(1)->dim(d);
    if (!is_addressable({size, p.tiles, ceil_div(size, p.tiles)},
                        Access{p.part, p.offset, p.stride, p.windows}))
      return std::nullopt;
  }
  if (dims.empty()) return std::nullopt;
  return Pool(spmd, node, layout, *added).run(dims);
}

}  // namespace gspmd
