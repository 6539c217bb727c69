// Reshapes of split dims whose shards do not become shards of the result: each device has a run of
// elements in row-major order and needs another one.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"
#include "ops/emission/exchange.h"
#include "ops/shape/reshape_sharding.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

// Dims [first, last) of one side.
struct Span {
  int64_t first = 0, last = 0;
};

// A part of both sides with equally many elements.
struct Group {
  Span from, to;
  int64_t size = 1;
  Digits digits;
};

std::vector<Group> groups_of(const Dims& from, const Dims& to) {
  std::vector<Group> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    Group g;
    g.from.first = static_cast<int64_t>(i);
    g.to.first = static_cast<int64_t>(j);
    int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
    while (a != b) {
      if (a < b)
        a *= from[i++];
      else
        b *= to[j++];
    }
    g.size = a;
    g.from.last = static_cast<int64_t>(i);
    g.to.last = static_cast<int64_t>(j);
    groups.push_back(g);
  }
  return groups;
}

// The dim of a span that runs slowest, the only one whose shards are runs; -1: all are of size one.
int64_t major(const Dims& dims, Span span) {
  for (int64_t d = span.first; d < span.last; ++d)
    if (dims[static_cast<size_t>(d)] != 1) return d;
  return -1;
}

bool split_elsewhere(const Sharding& s, Span span, int64_t at) {
  for (int64_t d = span.first; d < span.last; ++d)
    if (d != at && !s.dim(d).empty()) return true;
  return false;
}

// Elements of the shard of a span whose major dim is cut into `tiles`.
int64_t run_length(const Dims& dims, Span span, int64_t at, int64_t tiles) {
  int64_t length = 1;
  for (int64_t d = span.first; d < span.last; ++d) {
    const int64_t size = dims[static_cast<size_t>(d)];
    length *= d == at ? ceil_div(size, tiles) : size;
  }
  return length;
}

}  // namespace

std::optional<Partitioned> partition_uneven_reshape(PartitionContext& spmd, Node& node) {
  Node* operand = node.operand(0);
  const Dims& from = operand->dims();
  const Dims& to = node.dims();
  const Sharding have = spmd.sharding(*operand), want = spmd.sharding(node);
  if (!have.is_tiled() || !want.is_tiled() || node.shape.elements_count() == 0 ||
      spmd.keeps_unreduced(node, 0) || (have.is_replicated() && want.is_replicated()))
    return std::nullopt;
  if (carries_all(from, to, have) || (!want.is_replicated() && carries_all(to, from, want)))
    return std::nullopt;
  const DeviceOrder order = have.order() ? have.order() : want.order();
  const Digits& manual = want.manual_digits();
  std::vector<Digits> in(from.size()), out(to.size());
  std::vector<Group> groups = groups_of(from, to);
  Dims flat;
  Digits used = manual;
  for (Group& g : groups) {
    const int64_t a = major(from, g.from), b = major(to, g.to);
    if (split_elsewhere(have, g.from, a)) return std::nullopt;
    if (a >= 0) {
      g.digits = have.dim(a);
      if (g.digits.empty() && want.order() == order && disjoint(want.dim(b), used))
        g.digits = want.dim(b);
      if (!disjoint(g.digits, used)) return std::nullopt;
      used = concat(used, g.digits);
      in[static_cast<size_t>(a)] = out[static_cast<size_t>(b)] = g.digits;
    }
    flat.push_back(run_length(from, g.from, a, tile_count(g.digits)));
  }
  for (const Group& g : groups) {
    const int64_t tiles = tile_count(g.digits);
    const int64_t need = run_length(to, g.to, major(to, g.to), tiles);
    if (!is_addressable({g.size, tiles, run_length(from, g.from, major(from, g.from), tiles)},
                        Access{need, 0, 1, need}))
      return std::nullopt;
  }
  const Sharding layout = Sharding::tiled(order, in, manual);
  const Sharding result = Sharding::tiled(order, out, manual);
  Node* x = hlo::reshape(spmd.reshard(operand, layout), flat);
  for (size_t i = 0; i < groups.size(); ++i) {
    const Group& g = groups[i];
    const int64_t tiles = tile_count(g.digits);
    const int64_t need = run_length(to, g.to, major(to, g.to), tiles);
    if (tiles == 1 || need == flat[i]) continue;
    x = exchange(spmd, x, {static_cast<int64_t>(i), order, g.digits, {g.size, tiles, flat[i]}},
                 {need, 0, 1, need}, nullptr);
  }
  return Partitioned{hlo::reshape(x, local_shape(node.shape, result).dims), result};
}

}  // namespace gspmd
