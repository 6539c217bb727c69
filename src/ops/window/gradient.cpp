#include "ops/window/gradient.h"

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/call_elementwise.h"
#include "ops/common/gradient.h"

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

int64_t dilated_size(int64_t size, int64_t by) { return size == 0 ? 0 : (size - 1) * by + 1; }

// Of sums: every element gets the cotangents of the windows that read it, which lie at the places
// of a window too; holes between windows become holes between elements and the other way round.
Node* summed_back(Node& y, Node* c) {
  Attributes attrs;
  for (size_t d = 0; d < y.attrs.window.size(); ++d) {
    const WindowDim& from = y.attrs.window[d];
    const int64_t reach = (from.size - 1) * from.window_dilation;
    WindowDim w{
        .size = from.size, .stride = from.base_dilation, .window_dilation = from.window_dilation};
    w.base_dilation = from.stride;
    w.pad_low = reach - from.pad_low;
    w.pad_high = dilated_size(y.operand(0)->dims()[d], from.base_dilation) -
                 dilated_size(y.dims()[d], from.stride) + from.pad_low;
    attrs.window.push_back(w);
  }
  Computation* const add = binary_computation(y.parent().module(), Opcode::add, y.shape.dtype);
  return emit(y.parent(), Opcode::reduce_window, {c, hlo::scalar(y.parent(), y.shape.dtype, 0)},
              std::move(attrs), y.operand(0)->shape, {add});
}

Computation* comparison(Module& module, Direction direction, DType dtype) {
  const EmissionScope scope(Metadata{}, false);
  Computation* const made = module.add_computation("chosen");
  Node* const a = hlo::parameter(*made, 0, Shape(dtype, {}), "a");
  Node* const b = hlo::parameter(*made, 1, Shape(dtype, {}), "b");
  made->set_root(hlo::compare(a, b, direction));
  return made;
}

// Of extrema: the first one of each window gets its cotangent.
Node* scattered_back(Node& y, Node* c, Combiner combiner) {
  Module& module = y.parent().module();
  const DType dtype = y.shape.dtype;
  Attributes attrs;
  attrs.window = y.attrs.window;
  const Direction wins = combiner == Combiner::max ? Direction::ge : Direction::le;
  return emit(y.parent(), Opcode::select_and_scatter,
              {y.operand(0), c, hlo::scalar(y.parent(), dtype, 0)}, std::move(attrs), {},
              {comparison(module, wins, dtype), binary_computation(module, Opcode::add, dtype)});
}

Node* sum_of(Node* c) { return c->rank() == 0 ? c : hlo::reduce_sum(c, all_dims(c->rank())); }

Nodes reduce_window(Node& y, Node* c) {
  const Combiner combiner = recognize_combiner(*y.called[0]).value();
  if (combiner == Combiner::sum) return {summed_back(y, c), sum_of(c)};
  return {scattered_back(y, c, combiner), nullptr};
}

// Elements first .. first + count - 1 of a dim, or every `stride`th.
Node* part(Node* x, size_t dim, int64_t first, int64_t limit, int64_t stride = 1) {
  Dims starts(x->dims().size(), 0), strides(starts.size(), 1);
  Dims limits = x->dims();
  starts[dim] = first;
  limits[dim] = limit;
  strides[dim] = stride;
  return hlo::slice(x, starts, limits, strides);
}

// As combine_elementwise; with a mask behind the arrays, of values that may be none: then the other
// one is what both come to.
Nodes combine(const Computation& combiner, const Nodes& a, const Nodes& b) {
  const size_t arrays = combiner.parameters().size() / 2;
  if (a.size() == arrays) return combine_elementwise(combiner, a, b);
  const auto first = static_cast<std::ptrdiff_t>(arrays);
  Nodes both =
      combine_elementwise(combiner, {a.begin(), a.begin() + first}, {b.begin(), b.begin() + first});
  for (size_t i = 0; i < arrays; ++i)
    both[i] = hlo::select(a.back(), hlo::select(b.back(), both[i], a[i]), b[i]);
  both.push_back(hlo::binary(Opcode::or_, a.back(), b.back()));
  return both;
}

// Windows along one dim: those of twice the size are two combined.
Nodes windows_along(const Computation& combiner, Nodes power, size_t dim, const WindowDim& w,
                    int64_t positions) {
  const int64_t extent = power[0]->dims()[dim];
  const auto parts = [&](const Nodes& values, int64_t first, int64_t count) {
    Nodes result;
    for (Node* value : values) result.push_back(part(value, dim, first, first + count));
    return result;
  };
  Nodes sum;
  int64_t size = 0;  // of the windows in `sum`
  for (int64_t m = 1;; m *= 2) {
    if ((w.size & m) != 0) {
      const int64_t count = extent - (size + m - 1) * w.window_dilation;
      const Nodes ahead = parts(power, size * w.window_dilation, count);
      sum = size == 0 ? ahead : combine(combiner, parts(sum, 0, count), ahead);
      size += m;
    }
    if (size == w.size) break;
    const int64_t count = extent - (2 * m - 1) * w.window_dilation;
    power = combine(combiner, parts(power, 0, count), parts(power, m * w.window_dilation, count));
  }
  for (Node*& value : sum) value = part(value, dim, 0, (positions - 1) * w.stride + 1, w.stride);
  return sum;
}

bool is_number(const Node& node, double value) {
  return node.is(Opcode::constant) && node.rank() == 0 && node.attrs.literal.at(0) == value;
}

bool has_holes(const Node& node) {
  for (const WindowDim& w : node.attrs.window)
    if (w.base_dilation > 1 || w.window_dilation > 1) return true;
  return false;
}

}  // namespace

Nodes reduce_window_gradient(Node& node, Node* cotangent) {
  return recognize_combiner(*node.called[0]) == Combiner::sum
             ? inexact_only<reduce_window>(node, cotangent)
             : floats_only<reduce_window>(node, cotangent);
}

Node* reduce_window_form(Node& node) {
  const Dims dims = leaf_shapes(node.shape)[0].dims;
  const size_t inputs = node.operands().size() / 2;
  const std::optional<Combiner> combiner =
      inputs == 1 ? recognize_combiner(*node.called[0]) : std::nullopt;
  if (combiner && !node.shape.is_tuple) {
    if (combiner == Combiner::sum) return nullptr;
    const bool extremum = combiner == Combiner::max || combiner == Combiner::min;
    const double identity = combiner_identity(*combiner, node.shape.dtype);
    if (extremum && !has_holes(node) && is_number(*node.operand(1), identity)) return nullptr;
  }
  Nodes values, starts;
  std::vector<PaddingDim> padding;
  for (const WindowDim& w : node.attrs.window)
    padding.push_back({w.pad_low, w.pad_high, w.base_dilation - 1});
  for (size_t i = 0; i < inputs; ++i) {
    Node* const init = node.operands()[inputs + i];
    starts.push_back(dims.empty() ? init : hlo::broadcast(init, dims, {}));
    const DType dtype = init->shape.dtype;
    const double outside = combiner ? combiner_identity(*combiner, dtype) : 0;
    values.push_back(
        hlo::pad(node.operands()[i], hlo::scalar(node.parent(), dtype, outside), padding));
  }
  if (!combiner) {  // one without an identity: what is outside is no value
    Node* const inside = hlo::splat(node.parent(), Shape(DType::pred, node.operand(0)->dims()), 1);
    values.push_back(hlo::pad(inside, hlo::scalar(node.parent(), DType::pred, 0), padding));
    starts.push_back(hlo::splat(node.parent(), Shape(DType::pred, dims), 1));
  }
  if (leaf_shapes(node.shape)[0].elements_count() > 0) {
    for (size_t d = 0; d < dims.size(); ++d)
      values = windows_along(*node.called[0], std::move(values), d, node.attrs.window[d], dims[d]);
    values = combine(*node.called[0], starts, values);
  } else {
    values = starts;
  }
  values.resize(inputs);
  return node.shape.is_tuple ? hlo::tuple(node.parent(), values) : values[0];
}

namespace {

// (value, place) pairs: the one that `select` chooses; a place of -1 is none.
Computation* chooser(Module& module, const Computation& select, DType dtype, DType place) {
  const EmissionScope scope(Metadata{}, false);
  Computation* const made = module.add_computation("place_of_chosen");
  Node* const a = hlo::parameter(*made, 0, Shape(dtype, {}), "a");
  Node* const a_at = hlo::parameter(*made, 1, Shape(place, {}), "a_at");
  Node* const b = hlo::parameter(*made, 2, Shape(dtype, {}), "b");
  Node* const b_at = hlo::parameter(*made, 3, Shape(place, {}), "b_at");
  Node* const zero = hlo::scalar(*made, place, 0);
  const std::vector<Node*> values{a, b};
  Node* const wins = hlo::binary(Opcode::or_, inline_computation(select, *made, values),
                                 hlo::compare(b_at, zero, Direction::lt));
  Node* const first = hlo::binary(Opcode::and_, wins, hlo::compare(a_at, zero, Direction::ge));
  made->set_root(hlo::tuple(*made, {hlo::select(first, a, b), hlo::select(first, a_at, b_at)}));
  return made;
}

// The row-major place in the operand that each window chooses; -1: it has no element.
Node* chosen_places(Node& y) {
  Computation& c = y.parent();
  Node* const x = y.operand(0);
  const int64_t count = x->shape.elements_count();
  const DType place = count < (int64_t{1} << 31) ? DType::s32 : DType::s64;
  Node* const places = hlo::reshape(hlo::iota(c, Shape(place, {count}), 0), x->dims());
  Attributes attrs;
  attrs.window = y.attrs.window;
  const Dims& dims = y.operand(1)->dims();
  Computation* const choose = chooser(c.module(), *y.called[0], x->shape.dtype, place);
  Node* const both = emit(
      c, Opcode::reduce_window,
      {x, places, hlo::scalar(c, x->shape.dtype, 0), hlo::scalar(c, place, -1)}, std::move(attrs),
      Shape::tuple({Shape(x->shape.dtype, dims), Shape(place, dims)}), {choose});
  return hlo::get_tuple_element(both, 1);
}

// The operand only says where: its own derivative is zero.
Nodes select_and_scatter(Node& y, Node* c) {
  if (recognize_combiner(*y.called[1]) != Combiner::sum)
    user_error("select-and-scatter: \"{}\" has no gradient: its scatter {} is not a sum", y.name(),
               y.called[1]->name());
  Node* const source = y.operand(1);
  const int64_t windows = source->shape.elements_count();
  if (windows == 0 || y.shape.elements_count() == 0)
    return {nullptr, zeros_like(*source), sum_of(c)};
  Node* const places = hlo::reshape(chosen_places(y), {windows, 1});
  GatherDims dims;
  dims.collapsed_slice_dims = dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  Node* const flat = hlo::reshape(c, {c->shape.elements_count()});
  Node* const taken = hlo::gather(flat, places, dims, {1});
  Node* const none =
      hlo::compare(hlo::reshape(places, {windows}),
                   hlo::splat(y.parent(), Shape(places->shape.dtype, {windows}), 0), Direction::lt);
  Node* const kept = hlo::select(none, zeros_like(*taken), taken);
  return {nullptr, hlo::reshape(kept, source->dims()), sum_of(c)};
}

}  // namespace

Nodes select_and_scatter_gradient(Node& node, Node* cotangent) {
  return floats_only<select_and_scatter>(node, cotangent);
}

}  // namespace gspmd
