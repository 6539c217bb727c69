// Manual regions, which are manual on all axes of the mesh or on some, with the user's collectives
// inside; and values whose shardings are to be alike.

#include <cmath>

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

constexpr int kRegionDepth = 1;  // loops, branches and calls inside, but none in these

using Axes = std::vector<size_t>;

class Region {
 public:
  explicit Region(Builder& b) : b_(b), regions_(*b.regions), mesh_(regions_.mesh) {
    const int64_t rank = std::ssize(mesh_);
    order_ = iota_order(devices());
    partial_ = rank > 1 && b.draws.chance(50);
    const int64_t manual = partial_ ? b.draws.between(1, rank - 1) : rank;
    for (const int64_t a : b.shuffled(rank))
      (std::ssize(manual_) < manual ? manual_ : automatic_).push_back(static_cast<size_t>(a));
    annotated_ = b.draws.chance(50);
  }

  Node* run(Node* x) {
    const size_t begin = b_.c.nodes().size();
    const size_t called = b_.c.module().computations().size();
    Builder inner(b_.c, b_.draws, kRegionDepth);
    const double bound_of_x = b_.bound(x);
    inner.add(entered(x), bound_of_x);
    if (b_.draws.chance(50)) {
      Node* other = b_.pick();
      const double bound = b_.bound(other);
      inner.add(entered(other), bound);
    }
    for (int64_t n = b_.draws.between(1, 4); n > 0; --n) inner.step();
    if (b_.draws.chance(30)) inner.add(shifted(inner.pick()));
    for (int64_t n = b_.draws.between(0, 2); n > 0; --n) inner.step();
    double bound = 0;
    Node* result = left(inner, bound);
    for (size_t i = begin; i < b_.c.nodes().size(); ++i) annotate(*b_.c.nodes()[i]);
    const auto& computations = b_.c.module().computations();
    for (size_t i = called; i < computations.size(); ++i)
      for (const auto& node : computations[i]->nodes())
        if (is_program(*computations[i])) annotate(*node);
    return b_.add(result, bound);
  }

 private:
  int64_t devices() const {
    int64_t count = 1;
    for (const int64_t size : mesh_) count *= size;
    return count;
  }
  Digit digit(size_t axis) const {
    int64_t stride = 1;
    for (size_t a = axis + 1; a < mesh_.size(); ++a) stride *= mesh_[a];
    return {mesh_[axis], stride};
  }
  Digits digits(const Axes& axes) const {
    Digits list;
    for (const size_t a : axes) list.push_back(digit(a));
    return list;
  }
  static int64_t tiles(const Digits& list) { return tile_count(list); }

  Node* custom(const char* target, Node* x, Shape shape, Sharding sharding) {
    Attributes attrs;
    attrs.custom_call_target = target;
    Node* made = emit(b_.c, Opcode::custom_call, {x}, attrs, std::move(shape));
    made->sharding = std::move(sharding);
    return made;
  }

  // Each axis on a dim that `free` allows, or on none.
  std::vector<Digits> dealt(const Axes& axes, int64_t rank, int64_t percent,
                            const std::vector<Digits>& taken) {
    std::vector<Digits> dims(static_cast<size_t>(rank));
    for (const size_t a : axes) {
      if (rank == 0 || !b_.draws.chance(percent)) continue;
      const auto d = static_cast<size_t>(b_.draws.below(rank));
      if (d < taken.size() && !taken[d].empty()) continue;
      dims[d].push_back(digit(a));
    }
    return dims;
  }
  static std::vector<Digits> both(std::vector<Digits> a, const std::vector<Digits>& b) {
    for (size_t d = 0; d < a.size(); ++d) a[d].insert(a[d].end(), b[d].begin(), b[d].end());
    return a;
  }

  // Of a value inside: manual, or split over the automatic axes.
  Sharding inside(int64_t rank) {
    if (!partial_) return Sharding::manual();
    return Sharding::tiled(order_, dealt(automatic_, rank, 60, {}), digits(manual_));
  }

  Node* entered(Node* x) {
    const std::vector<Digits> split = dealt(manual_, x->rank(), 80, {});
    const std::vector<Digits> others = dealt(automatic_, x->rank(), 60, split);
    Node* outside = custom("Sharding", x, x->shape, Sharding::tiled(order_, both(split, others)));
    Shape local = x->shape;
    for (size_t d = 0; d < split.size(); ++d)
      local.dims[d] = ceil_div(local.dims[d], tiles(split[d]));
    const Sharding s =
        partial_ ? Sharding::tiled(order_, others, digits(manual_)) : Sharding::manual();
    return custom("SPMDFullToShardShape", outside, local, s);
  }

  Node* collective(Opcode opcode, Node* x, Attributes attrs, std::vector<Computation*> called) {
    attrs.channel_id = ++regions_.channels;
    Node* made = emit(b_.c, opcode, {x}, std::move(attrs), x->shape, std::move(called));
    if (annotated_) made->sharding = inside(x->rank());
    return made;
  }

  // To the next device along an axis.
  Node* shifted(Node* x) {
    if (x->shape.is_tuple) return x;
    const Digit along = digit(b_.draws.one_of(manual_));
    Attributes attrs;
    attrs.permutation = Permutation{};
    for (int64_t device = 0; device < devices(); ++device) {
      const int64_t at = device / along.stride % along.size;
      attrs.permutation.edit().pairs.edit().emplace_back(
          device, device + ((at + 1) % along.size - at) * along.stride);
    }
    return collective(Opcode::collective_permute, x, attrs, {});
  }

  // Equal on all devices along an axis; nullptr: this type has no order and no sum that is exact.
  Node* combined(Builder& inner, Node* x, size_t axis, double& bound) {
    const DType type = x->shape.dtype;
    Opcode opcode = type == DType::pred ? Opcode::or_ : Opcode::add;
    if (is_number(type) && b_.draws.chance(30)) opcode = Opcode::maximum;
    if (opcode == Opcode::add) {
      const auto count = static_cast<double>(mesh_[axis]);
      if (!is_integer(type)) {
        x = inner.fitting(x, std::floor(largest(type) / count / 2));
        bound = inner.bound(x) * count;
      }
    }
    Attributes attrs;
    attrs.replica_groups = groups_over(order_, {digit(axis)});
    attrs.use_global_device_ids = true;
    return collective(Opcode::all_reduce, x, attrs, {b_.combiner(opcode, type)});
  }

  // A value that is the same whichever device it is read from: along each manual axis it is put
  // together, or summed.
  Node* left(Builder& inner, double& bound) {
    Node* y = inner.pick();
    bound = inner.bound(y);
    std::vector<Digits> split(static_cast<size_t>(y->rank()));
    for (const size_t a : manual_) {
      if (y->rank() > 0 && b_.draws.chance(60))
        split[static_cast<size_t>(b_.draws.below(y->rank()))].push_back(digit(a));
      else
        y = combined(inner, y, a, bound);
    }
    Shape whole = y->shape;
    for (size_t d = 0; d < split.size(); ++d) {
      const int64_t count = tiles(split[d]);
      whole.dims[d] *= count;
      if (b_.draws.chance(20)) whole.dims[d] -= b_.draws.below(count);
    }
    y = custom("Sharding", y, y->shape, inside(y->rank()));
    const std::vector<Digits> others = dealt(automatic_, y->rank(), 60, split);
    return custom("SPMDShardToFullShape", y, whole, Sharding::tiled(order_, both(split, others)));
  }

  void annotate(Node& node) {
    regions_.inside.insert(&node);
    if (node.sharding) return;
    const bool is_sharding =
        node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
    if (node.shape.is_tuple) {
      const std::vector<Sharding> leaves(leaf_shapes(node.shape).size(), Sharding::manual());
      if (annotated_ && !partial_) node.sharding = Sharding::tuple(leaves);
    } else if (is_sharding || (annotated_ && (!partial_ || b_.draws.chance(40)))) {
      node.sharding = inside(node.rank());
    }
  }

  Builder& b_;
  Regions& regions_;
  const Dims& mesh_;
  DeviceOrder order_ = nullptr;
  bool partial_ = false;  // automatic on some axes
  bool annotated_ = false;
  Axes manual_, automatic_;
};

Node* in_region(Builder& b, Node* x) {
  if (b.regions == nullptr || b.regions->mesh.empty()) return nullptr;
  return Region(b).run(x);
}

// Two values that are to be laid out alike.
Node* alike(Builder& b, Node* x) {
  if (b.regions == nullptr || b.depth > 0) return nullptr;
  Node* y = b.like(x);
  const int64_t group = ++b.regions->groups;
  const bool is_as = b.draws.chance(60);
  Attributes attrs;
  attrs.custom_call_target = "Sharding";
  Node* last = nullptr;
  for (Node* value : {x, y}) {
    const double bound = b.bound(value);
    last = emit(b.c, Opcode::custom_call, {value}, attrs, value->shape);
    last->sharding = Sharding::unknown().with_shard_group(group, is_as);
    b.regions->inside.insert(last);
    b.add(last, bound);
  }
  return last;
}

}  // namespace

std::vector<Family> region_families() { return {{3, in_region}, {1, alike}}; }

}  // namespace gspmd::testing
