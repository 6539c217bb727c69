// Sorts along a split dim of which only the first elements are read: each device sorts its part,
// and what comes first in the parts is sorted again.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "moves/some_devices.h"
#include "ops/common/in_dim.h"
#include "ops/emission/collectives.h"
#include "ops/emission/emit_reshard.h"
#include "ops/emission/exchange.h"
#include "ops/emission/index.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

// How many elements from the first on the readers of a sort take; nullopt: one reads others.
std::optional<int64_t> taken_by(const Node& value, int64_t dim) {
  int64_t most = 0;
  const auto d = static_cast<size_t>(dim);
  if (value.is_root() || value.users().empty()) return std::nullopt;
  for (const Node* user : value.users()) {
    const bool begins = user->is(Opcode::slice) && user->attrs.starts[d] == 0 &&
                        (user->attrs.strides[d] == 1 || user->attrs.limits[d] == 1);
    if (!begins) return std::nullopt;
    most = std::max(most, user->attrs.limits[d]);
  }
  return most;
}

std::optional<int64_t> first_taken(const Node& sort) {
  const int64_t dim = sort.attrs.dimensions.at(0);
  if (!sort.shape.is_tuple) return taken_by(sort, dim);
  int64_t most = 0;
  if (sort.is_root() || sort.users().empty()) return std::nullopt;
  for (const Node* element : sort.users()) {
    if (!element->is(Opcode::get_tuple_element)) return std::nullopt;
    const auto taken = taken_by(*element, dim);
    if (!taken) return std::nullopt;
    most = std::max(most, *taken);
  }
  return most;
}

// The sort in two levels: `k` elements of each of `tiles` parts.
struct Choice {
  Sharding have;   // of the operands
  Sharding whole;  // of the results: the sorted dim is whole
  int64_t dim = 0, size = 0, tiles = 1, shard = 0, k = 0;
};

std::optional<Choice> choice_of(PartitionContext& spmd, const Node& sort) {
  Choice c;
  c.dim = sort.attrs.dimensions.at(0);
  c.have = spmd.sharding(*sort.operand(0));
  // That of several operands sees them on all devices, its readers may not.
  if (sort.shape.is_tuple) c.have = on_all_devices(c.have, spmd.num_devices());
  if (!c.have.is_tiled() || !c.have.order() || c.have.dim(c.dim).empty()) return std::nullopt;
  const auto k = first_taken(sort);
  c.size = sort.operand(0)->dim(c.dim);
  c.tiles = c.have.tiles(c.dim);
  c.shard = ceil_div(c.size, c.tiles);
  constexpr int64_t kMost = int64_t(1) << 28;
  if (!k || *k == 0 || *k >= c.shard || c.size >= kMost || c.tiles >= kMost) return std::nullopt;
  c.k = *k;
  std::vector<Digits> dims;
  bool room = false;  // another dim takes the tiles, which costs two exchanges
  for (int64_t d = 0; d < sort.operand(0)->rank(); ++d) {
    dims.push_back(d == c.dim ? Digits{} : c.have.dim(d));
    room = room || (d != c.dim && sort.operand(0)->dim(d) >= c.tiles * c.have.tiles(d));
  }
  if (room && c.k * c.tiles > 2 * c.shard) return std::nullopt;
  c.whole = Sharding::tiled(c.have.order(), dims, c.have.manual_digits());
  if (c.whole.is_replicated() && is_partial(c.have, spmd.num_devices()))
    c.whole = Sharding::maximal(c.have.order()->device(0));  // whole, on some devices only
  return c;
}

class TwoLevelSort {
 public:
  TwoLevelSort(PartitionContext& spmd, Node& node, Choice choice)
      : spmd_(spmd), node_(node), c_(std::move(choice)), uneven_(c_.size % c_.tiles != 0) {}

  Partitioned run() {
    std::vector<Node*> values;
    for (Node* operand : node_.operands()) values.push_back(spmd_.reshard(operand, c_.have));
    values = sorted(values, uneven_ ? behind_end(values[0]->dims(), nullptr) : nullptr);
    for (Node*& value : values)
      value = gather_along(spmd_, first(value, c_.k), c_.dim, c_.have.order(), c_.have.dim(c_.dim));
    values = sorted(values, uneven_ ? behind_end(values[0]->dims(), &c_.k) : nullptr);
    // Nobody reads what lies behind.
    spmd_.leaves_elements_out(node_);
    for (Node*& value : values) value = pad(first(value, c_.k), c_.dim, 0, c_.size - c_.k);
    if (!node_.shape.is_tuple) return {values[0], c_.whole};
    return {hlo::tuple(spmd_.local(), values),
            Sharding::tuple(std::vector<Sharding>(values.size(), c_.whole))};
  }

 private:
  Node* first(Node* x, int64_t count) const { return cut(x, c_.dim, 0, count); }

  // Which elements are none of the whole dim: of this device's part, or (`each` of every part) of
  // what all parts have sent.
  Node* behind_end(const Dims& dims, const int64_t* each) {
    const IndexNode end(spmd_.local(), c_.size);
    if (!each) {
      const IndexNode begin(spmd_.offset(c_.have, node_.operand(0)->shape, c_.dim));
      return compare(positions(dims, c_.dim, begin), end, Direction::ge);
    }
    const IndexNode at(hlo::iota(spmd_.local(), Shape(DType::s32, dims), c_.dim));
    const IndexNode begin = at / *each * c_.shard;
    return compare(at % *each + begin, end, Direction::ge);
  }

  // Stable, so that equal elements come as in one sort. What is `behind` comes last.
  std::vector<Node*> sorted(std::vector<Node*> values, Node* behind) {
    Attributes attrs = node_.attrs;
    attrs.scalar.edit().is_stable = true;
    if (behind) values.insert(values.begin(), behind);
    std::vector<Shape> shapes;
    for (Node* value : values) shapes.emplace_back(value->shape.dtype, value->dims());
    Computation* less = behind ? less_with_end() : spmd_.local_computation(*node_.called.at(0));
    Node* sort = spmd_.emit(Opcode::sort, shapes.size() == 1 ? shapes[0] : Shape::tuple(shapes),
                            values, attrs, {less});
    if (shapes.size() == 1) return {sort};
    std::vector<Node*> results;
    for (size_t i = behind ? 1 : 0; i < values.size(); ++i)
      results.push_back(hlo::get_tuple_element(sort, static_cast<int64_t>(i)));
    return results;
  }

  // The comparator with two flags before its parameters: one that is behind the end is greater.
  Computation* less_with_end() {
    if (less_) return less_;
    Computation* plain = spmd_.local_computation(*node_.called.at(0));
    less_ = plain->module().add_computation(plain->name());
    Node* a = hlo::parameter(*less_, 0, Shape(DType::pred, {}));
    Node* b = hlo::parameter(*less_, 1, Shape(DType::pred, {}));
    std::vector<Node*> arguments;
    for (const Node* parameter : plain->parameters())
      arguments.push_back(
          hlo::parameter(*less_, parameter->attrs.index + 2, parameter->shape, parameter->name()));
    Node* less = inline_computation(*plain, *less_, arguments);
    less_->set_root(hlo::select(hlo::compare(a, b, Direction::ne), b, less));
    return less_;
  }

  PartitionContext& spmd_;
  Node& node_;
  const Choice c_;
  const bool uneven_;
  Computation* less_ = nullptr;
};

}  // namespace

std::optional<Partitioned> partition_sort(PartitionContext& spmd, Node& node) {
  auto choice = choice_of(spmd, node);
  if (!choice) return std::nullopt;
  return TwoLevelSort(spmd, node, std::move(*choice)).run();
}

std::optional<Partitioned> partition_slice_of_sort(PartitionContext& spmd, Node& node) {
  Node* operand = node.operand(0);
  const Node* sort = operand->is(Opcode::get_tuple_element) ? operand->operand(0) : operand;
  if (!sort->is(Opcode::sort)) return std::nullopt;
  const auto choice = choice_of(spmd, *sort);
  if (!choice) return std::nullopt;
  Attributes attrs = node.attrs;
  for (int64_t d = 0; d < node.rank(); ++d) {
    const auto at = static_cast<size_t>(d);
    if (choice->whole.dim(d).empty()) continue;
    if (node.dim(d) != operand->dim(d)) return std::nullopt;  // what is cut there is another's
    attrs.limits.edit()[at] = ceil_div(operand->dim(d), choice->whole.tiles(d));
  }
  Node* x = spmd.reshard(operand, choice->whole);
  return Partitioned{spmd.emit(Opcode::slice, local_shape(node.shape, choice->whole), {x}, attrs),
                     choice->whole};
}

}  // namespace gspmd
