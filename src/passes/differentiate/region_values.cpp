#include "passes/differentiate/region_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

#include "gspmd/ops/builders.h"
#include "ops/control/control.h"
#include "passes/differentiate/markers.h"

namespace gspmd {
namespace {

// The start of the region that a value is in; nullptr outside of regions, and where the whole
// computation is in one.
class ValueSearch {
 public:
  const Node* start(const Node* value) {
    std::vector<const Node*> stack{value};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (!seen_.insert(node).second || is_custom_call(*node, "SPMDShardToFullShape")) continue;
      if (is_custom_call(*node, "SPMDFullToShardShape")) return node;
      const bool marker = marker_of(*node) != Marker::none;
      if (node->is(Opcode::get_tuple_element) && follow_leaf(*node, stack)) continue;
      if (node->is(Opcode::call) || marker) stack.push_back(node->called.at(0)->root());
      // What calls read may be whole: the computations that they call say so.
      if (!node->is(Opcode::call) && !marker)
        stack.insert(stack.end(), node->operands().begin(), node->operands().end());
    }
    return nullptr;
  }

 private:
  // An element of a tuple is one of its leaves, and no other.
  static bool follow_leaf(const Node& element, std::vector<const Node*>& stack) {
    const Node* tuple = element.operand(0);
    const auto index = element.attrs.index;
    if (tuple->is(Opcode::while_)) tuple = tuple->operand(0);
    if (tuple->is(Opcode::tuple)) {
      stack.push_back(tuple->operand(index));
      return true;
    }
    const bool calls = tuple->is(Opcode::call) || marker_of(*tuple) != Marker::none;
    const Node* root = calls ? tuple->called.at(0)->root() : nullptr;
    if (root == nullptr || !root->is(Opcode::tuple)) return false;
    stack.push_back(root->operand(index));
    // Arguments of a region's own: what is made of them is in it as well.
    stack.insert(stack.end(), tuple->operands().begin(), tuple->operands().end());
    return true;
  }

  std::unordered_set<const Node*> seen_;
};

DeviceOrder order_at(const Node& start) {
  const auto& outside = start.operand(0)->sharding;
  for (const auto* s : {&outside, &start.sharding}) {
    if (!*s) continue;
    if ((*s)->order() != nullptr) return (*s)->order();
    if ((*s)->mesh() != nullptr) return (*s)->mesh()->order();
  }
  return nullptr;
}

// One of the two nodes at a border; both say which dims are open, the annotation in its layout too.
Node* border(Node* x, const char* target, const Sharding& sharding, const Shape& shape) {
  Attributes attrs;
  attrs.custom_call_target = target;
  std::vector<size_t> open;
  for (size_t d = 0; d < sharding.open().size(); ++d)
    if (sharding.open()[d]) open.push_back(d);
  if (!open.empty())
    attrs.other["backend_config"] = fmt::format("\"unspecified_dims=[{}]\"", fmt::join(open, ","));
  Node* const node = emit(x->parent(), Opcode::custom_call, {x}, std::move(attrs), shape);
  node->sharding = is_custom_call(*node, "Sharding") ? sharding : sharding.with_open({});
  return node;
}

Shape with_front(Shape shape, int64_t size) {
  shape.dims.insert(shape.dims.begin(), size);
  return shape;
}

}  // namespace

HandedValue::HandedValue(const Node& value) : value_(value.shape), shape_(value.shape) {
  const Node* const start = value.shape.is_tuple ? nullptr : ValueSearch().start(&value);
  if (start == nullptr || !start->sharding) return;
  const DeviceOrder order = order_at(*start);
  if (order == nullptr) return;
  const bool everything = start->sharding->is_manual();
  const Digits manual = everything ? Digits{{order->count, 1}} : start->sharding->manual_digits();
  if (tile_count(manual) < 2) return;
  shape_ = with_front(value_, tile_count(manual));
  std::vector<Digits> dims(shape_.dims.size());
  Region region;
  region.inside = everything ? Sharding::manual() : Sharding::tiled(order, dims, manual);
  dims[0] = manual;
  region.outside = Sharding::tiled(order, std::move(dims));
  if (!everything) {  // completion says how the other axes split it
    std::vector<bool> open(shape_.dims.size(), true);
    open[0] = false;
    region.inside = region.inside.with_open(open);
    region.outside = region.outside.with_open(std::move(open));
  }
  region_ = std::move(region);
}

Node* HandedValue::hand(Node* value) const {
  if (!region_) return value;
  Node* const part = hlo::reshape(value, with_front(value_, 1).dims);
  return border(border(part, "Sharding", region_->inside, part->shape), "SPMDShardToFullShape",
                region_->outside, shape_);
}

Node* HandedValue::take(Node* handed) const {
  if (!region_) return handed;
  Node* const part = border(border(handed, "Sharding", region_->outside, shape_),
                            "SPMDFullToShardShape", region_->inside, with_front(value_, 1));
  return hlo::reshape(part, value_.dims);
}

}  // namespace gspmd
