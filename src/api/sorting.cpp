#include "gspmd/api/sorting.h"

#include <limits>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

void check_ordered(const Node* x) {
  if (is_complex(x->shape.dtype))
    call_error("complex numbers like {} have no order; sort by real(x) and imag(x) as keys",
               describe(x));
}

// A key whose total order is the order of its numbers: one zero, and one NaN, above all others.
Node* ordered(Node* x) {
  if (!is_floating(x->shape.dtype)) return x;
  Node* zero = splat_like(x, 0);
  x = hlo::select(hlo::compare(x, zero, Direction::eq), zero, x);
  return hlo::select(hlo::compare(x, x, Direction::ne),
                     splat_like(x, std::numeric_limits<double>::quiet_NaN()), x);
}

Node* compare_keys(Node* a, Node* b, Direction direction) {
  Attributes attrs;
  attrs.direction = direction;
  if (is_floating(a->shape.dtype)) attrs.compare_type = "TOTALORDER";
  return emit(a->parent(), Opcode::compare, {a, b}, std::move(attrs));
}

// Whether the first keys are in order, or are equal and the next ones are.
Computation* comparator(const std::vector<Node*>& operands, const SortOptions& options) {
  Module& module = operands[0]->parent().module();
  Computation* c = module.add_computation("compare");
  std::vector<Node*> parameters;
  for (const Node* x : operands)
    for (int side = 0; side < 2; ++side)
      parameters.push_back(
          hlo::parameter(*c, static_cast<int64_t>(parameters.size()), Shape(x->shape.dtype, {})));
  const Direction direction = options.descending ? Direction::gt : Direction::lt;
  Node* result = nullptr;
  for (auto key = static_cast<size_t>(options.num_keys); key-- > 0;) {
    Node* a = ordered(parameters[2 * key]);
    Node* b = ordered(parameters[2 * key + 1]);
    Node* before = compare_keys(a, b, direction);
    if (result) {
      Node* next = hlo::binary(Opcode::and_, compare_keys(a, b, Direction::eq), result);
      before = hlo::binary(Opcode::or_, before, next);
    }
    result = before;
  }
  c->set_root(result);
  return c;
}

std::vector<Node*> sorted(const std::vector<Node*>& operands, const SortOptions& options) {
  const Node* first = operands[0];
  const int64_t axis = checked_axis(options.axis, first);
  if (options.num_keys < 1 || options.num_keys > std::ssize(operands))
    call_error("num_keys {} of {} tensors is wrong; give 1 to {}", options.num_keys,
               operands.size(), operands.size());
  for (int64_t i = 0; i < options.num_keys; ++i) check_ordered(operands[static_cast<size_t>(i)]);
  for (const Node* x : operands)
    if (x->dims() != first->dims())
      call_error("{} and {} differ in dims; tensors that are sorted alike have equal dims",
                 describe(first), describe(x));
  Attributes attrs;
  attrs.dimensions = {axis};
  attrs.scalar.edit().is_stable = options.stable;
  Computation* compare = comparator(operands, options);
  return hlo::leaves(
      emit(first->parent(), Opcode::sort, operands, std::move(attrs), {}, {compare}));
}

Node* moved_to_end(Node* x, int64_t axis) {
  Dims order = axes_of({}, x);
  order.erase(order.begin() + axis);
  order.push_back(axis);
  return axis == x->rank() - 1 ? x : hlo::transpose(x, order);
}

Node* moved_from_end(Node* x, int64_t axis) {
  Dims order = axes_of({}, x);
  order.pop_back();
  order.insert(order.begin() + axis, x->rank() - 1);
  return axis == x->rank() - 1 ? x : hlo::transpose(x, order);
}

}  // namespace

Tensor sort(Operand x, const SortOptions& options) {
  return call("sort", x.site(), [&] { return tensor_of(sorted({node_of(x)}, options)[0]); });
}

std::vector<Tensor> sort(std::vector<Tensor> tensors, const SortOptions& options, Site site) {
  return call("sort", site, [&] {
    if (tensors.empty()) call_error("there are no tensors; give at least one");
    std::vector<Node*> nodes;
    for (const Tensor& tensor : tensors) nodes.push_back(node_of(tensor));
    std::vector<Tensor> results;
    for (Node* node : sorted(nodes, options)) results.push_back(tensor_of(node));
    return results;
  });
}

Tensor argsort(Operand x, const SortOptions& options) {
  return call("argsort", x.site(), [&] {
    Node* node = node_of(x);
    const int64_t axis = checked_axis(options.axis, node);
    Node* places = hlo::iota(node->parent(), Shape(DType::s32, node->dims()), axis);
    return tensor_of(sorted({node, places}, options)[1]);
  });
}

std::pair<Tensor, Tensor> top_k(Operand x, int64_t k, const TopKOptions& options) {
  return call("top_k", x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, Needs::real);
    const int64_t axis = checked_axis(options.axis, node);
    if (k < 0 || k > node->dim(axis))
      call_error("k {} of the {} elements along axis {} of {}; give 0 to {}", k, node->dim(axis),
                 axis, describe(node), node->dim(axis));
    Attributes attrs;
    attrs.scalar.edit().k = k;
    attrs.scalar.edit().largest = options.largest;
    Node* both = emit(node->parent(), Opcode::topk, {moved_to_end(node, axis)}, std::move(attrs));
    return std::pair{tensor_of(moved_from_end(hlo::get_tuple_element(both, 0), axis)),
                     tensor_of(moved_from_end(hlo::get_tuple_element(both, 1), axis))};
  });
}

}  // namespace gspmd
