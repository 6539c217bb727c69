#include "ops/common/gradient.h"

#include <cmath>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/counted_loop.h"
#include "ops/common/call_elementwise.h"
#include "ops/common/check.h"
#include "ops/gather_scatter/form.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace gspmd {
namespace {

// The largest start that each component of an index vector may have, at the indices' shape.
Node* largest_starts(Node* indices, const SliceDims& slices, const Dims& operand,
                     const Dims& window) {
  Computation& c = indices->parent();
  const DType dtype = indices->shape.dtype;
  const bool is_signed = is_signed_integer(dtype);
  const double most =
      std::ldexp(1.0, static_cast<int>(8 * dtype_size(dtype)) - (is_signed ? 1 : 0)) - 1;
  Array limits(dtype, {static_cast<int64_t>(slices.index_to_operand.size())});
  bool equal = true;
  for (int64_t i = 0; i < limits.size(); ++i) {
    const auto d = static_cast<size_t>(slices.index_to_operand[static_cast<size_t>(i)]);
    limits.set(i, std::min(static_cast<double>(operand[d] - window[d]), most));
    equal = equal && limits.at(i) == limits.at(0);
  }
  if (limits.size() == 0) return zeros_like(*indices);
  if (equal) return hlo::splat(c, indices->shape, limits.at(0));
  return hlo::broadcast(hlo::constant(c, limits), indices->dims(), {slices.index_vector_dim});
}

// Sizes of a slice in the operand's dims, from those of the sliced array.
Dims window_sizes(const SliceDims& slices, int64_t operand_rank, const Dims& sliced) {
  Dims sizes(static_cast<size_t>(operand_rank), 1);
  for (size_t i = 0; i < slices.window_operand.size(); ++i)
    sizes[static_cast<size_t>(slices.window_operand[i])] =
        sliced[static_cast<size_t>(slices.window_result[i])];
  return sizes;
}

// A gather moves starts inside, a scatter would drop them: the starts are moved first.
std::vector<Node*> gather(Node& y, Node* c) {
  Node* const operand = y.operand(0);
  Node* const indices = y.operand(1);
  const SliceDims slices = gather_slice_dims(y);
  const GatherDims& from = y.attrs.gather;
  Node* const limits = largest_starts(indices, slices, operand->dims(), y.attrs.slice_sizes);
  Node* const inside = emit(y.parent(), Opcode::clamp, {zeros_like(*indices), indices, limits});
  ScatterDims dims;
  dims.update_window_dims = from.offset_dims;
  dims.inserted_window_dims = from.collapsed_slice_dims;
  dims.scatter_dims_to_operand_dims = from.start_index_map;
  dims.input_batching_dims = from.operand_batching_dims;
  dims.scatter_indices_batching_dims = from.start_indices_batching_dims;
  dims.index_vector_dim = from.index_vector_dim;
  Computation* const add = binary_computation(y.parent().module(), Opcode::add, y.shape.dtype);
  return {hlo::scatter(zeros_like(*operand), inside, c, dims, add), nullptr};
}

// Whether each element of the updates was added: its slice lies inside the operand.
Node* kept_updates(Node& y, const SliceDims& slices, const Dims& window) {
  Node* const indices = y.operand(1);
  Node* const updates = y.operand(2);
  Node* const limits = largest_starts(indices, slices, y.dims(), window);
  Node* inside =
      hlo::binary(Opcode::and_, hlo::compare(indices, zeros_like(*indices), Direction::ge),
                  hlo::compare(indices, limits, Direction::le));
  if (slices.index_vector_dim < indices->rank()) {
    Computation* const both = binary_computation(y.parent().module(), Opcode::and_, DType::pred);
    inside = hlo::reduce(inside, hlo::scalar(y.parent(), DType::pred, 1), {slices.index_vector_dim},
                         both);
  }
  return hlo::broadcast(inside, updates->dims(), slices.batch_result);
}

// What a scatter's updates meet.
struct Targets {
  explicit Targets(Node& scatter) : y(scatter), slices(scatter_slice_dims(scatter)) {
    const ScatterDims& from = y.attrs.scatter;
    dims.offset_dims = from.update_window_dims;
    dims.collapsed_slice_dims = from.inserted_window_dims;
    dims.start_index_map = from.scatter_dims_to_operand_dims;
    dims.operand_batching_dims = from.input_batching_dims;
    dims.start_indices_batching_dims = from.scatter_indices_batching_dims;
    dims.index_vector_dim = from.index_vector_dim;
    window = window_sizes(slices, y.rank(), y.operand(2)->dims());
    kept = kept_updates(y, slices, window);
  }
  // The elements of an array like the operand that each update meets.
  Node* read(Node* array) const { return hlo::gather(array, y.operand(1), dims, window); }
  // An array like the operand with these updates.
  Node* write(Node* array, Node* updates, Computation* combiner) const {
    Attributes attrs;
    attrs.scatter = y.attrs.scatter;
    attrs.indices_are_sorted = y.attrs.indices_are_sorted;
    attrs.unique_indices = y.attrs.unique_indices;
    return emit(y.parent(), Opcode::scatter, {array, y.operand(1), updates}, std::move(attrs), {},
                {combiner});
  }
  Node* where_kept(Node* x) const { return hlo::select(kept, x, zeros_like(*x)); }

  Node& y;
  SliceDims slices;
  GatherDims dims;
  Dims window;
  Node* kept = nullptr;  // whether each element of the updates is written
};

bool overwrites(const Computation& combiner) {
  return combiner.parameters().size() == 2 && combiner.root() == combiner.parameters()[1];
}

Computation* overwriting(Module& module, DType dtype) {
  const EmissionScope scope(Metadata{}, false);
  Computation* const made = module.add_computation("update");
  hlo::parameter(*made, 0, Shape(dtype, {}), "old");
  made->set_root(hlo::parameter(*made, 1, Shape(dtype, {}), "new"));
  return made;
}

// The last update of an element is what it holds; the others, and the operand, are lost.
std::vector<Node*> overwrite(const Targets& at, Node* c) {
  Node& y = at.y;
  Module& module = y.parent().module();
  Node* const updates = y.operand(2);
  Node* const to_x = at.write(c, zeros_like(*updates), overwriting(module, c->shape.dtype));
  Node* to_updates = at.where_kept(at.read(c));
  if (!y.attrs.unique_indices) {
    const int64_t count = updates->shape.elements_count();
    const DType number = count < (int64_t{1} << 31) ? DType::s32 : DType::s64;
    Node* const numbers =
        hlo::reshape(hlo::iota(y.parent(), Shape(number, {count}), 0), updates->dims());
    Node* const none = hlo::splat(y.parent(), Shape(number, y.dims()), -1);
    Node* const last = at.read(at.write(none, numbers, overwriting(module, number)));
    to_updates =
        hlo::select(hlo::compare(last, numbers, Direction::eq), to_updates, zeros_like(*updates));
  }
  return {to_x, nullptr, to_updates};
}

// The operand and updates that equal the extremum share its cotangent.
std::vector<Node*> extremum(const Targets& at, Node* c) {
  Node& y = at.y;
  Node* const updates = y.operand(2);
  const DType dtype = y.shape.dtype;
  Computation* const add = binary_computation(y.parent().module(), Opcode::add, dtype);
  Node* const chosen = hlo::convert(hlo::compare(y.operand(0), &y, Direction::eq), dtype);
  Node* const equal = hlo::compare(updates, at.read(&y), Direction::eq);
  Node* const written = at.where_kept(hlo::convert(equal, dtype));
  Node* const count = hlo::binary(Opcode::maximum, at.write(chosen, written, add),
                                  hlo::splat(y.parent(), y.shape, 1));
  Node* const share = hlo::divide(c, count);
  return {hlo::multiply(chosen, share), nullptr, hlo::multiply(written, at.read(share))};
}

std::vector<Node*> scatter(Node& y, Node* c) {
  const Targets at(y);
  if (overwrites(*y.called[0])) return overwrite(at, c);
  const std::optional<Combiner> combiner = recognize_combiner(*y.called[0]);
  if (combiner == Combiner::sum) return {c, nullptr, at.where_kept(at.read(c))};
  if (combiner != Combiner::product) return extremum(at, c);
  Node* const scaled = hlo::multiply(c, y.operand(0));
  return {at.write(c, y.operand(2), y.called[0]), nullptr, at.where_kept(at.read(scaled))};
}

}  // namespace

std::vector<Node*> gather_gradient(Node& node, Node* cotangent) {
  return inexact_only<gather>(node, cotangent);
}

std::vector<Node*> scatter_gradient(Node& node, Node* cotangent) {
  const std::optional<Combiner> combiner = recognize_combiner(*node.called[0]);
  const bool compares = combiner == Combiner::max || combiner == Combiner::min;
  return compares ? floats_only<scatter>(node, cotangent) : inexact_only<scatter>(node, cotangent);
}

namespace {

// The first element of each slice: [slices, dims of the operand].
Node* slice_starts(Node& node, const SliceDims& slices, int64_t count) {
  Node* indices = hlo::convert(node.operands()[(node.operands().size() - 1) / 2], DType::s64);
  const Dims batch_sizes = [&] {
    Dims sizes;
    for (const int64_t d : slices.batch_indices) sizes.push_back(indices->dim(d));
    return sizes;
  }();
  if (slices.index_vector_dim < indices->rank()) {
    Dims order = slices.batch_indices;
    order.push_back(slices.index_vector_dim);
    indices = transposed(indices, order);
  }
  const auto components = std::ssize(slices.index_to_operand);
  indices = hlo::reshape(indices, {count, components});
  std::vector<Node*> columns(static_cast<size_t>(node.operand(0)->rank()),
                             hlo::splat(node.parent(), Shape(DType::s64, {count, 1}), 0));
  for (int64_t i = 0; i < components; ++i)
    columns[static_cast<size_t>(slices.index_to_operand[static_cast<size_t>(i)])] =
        hlo::slice(indices, {0, i}, {count, i + 1}, {1, 1});
  for (size_t i = 0; i < slices.operand_batching.size(); ++i)
    for (size_t b = 0; b < batch_sizes.size(); ++b)
      if (slices.batch_indices[b] == slices.indices_batching[i])
        columns[static_cast<size_t>(slices.operand_batching[i])] = hlo::reshape(
            hlo::iota(node.parent(), Shape(DType::s64, batch_sizes), static_cast<int64_t>(b)),
            {count, 1});
  return hlo::concatenate(std::move(columns), 1);
}

// Whether each slice lies inside.
Node* slices_inside(Node* starts, const Dims& operand, const Dims& window) {
  Computation& c = starts->parent();
  Array limits(DType::s64, {std::ssize(operand)});
  for (size_t d = 0; d < operand.size(); ++d)
    limits.set(static_cast<int64_t>(d), static_cast<double>(operand[d] - window[d]));
  Node* const most = hlo::broadcast(hlo::constant(c, limits), starts->dims(), {1});
  Node* const inside =
      hlo::binary(Opcode::and_, hlo::compare(starts, zeros_like(*starts), Direction::ge),
                  hlo::compare(starts, most, Direction::le));
  return hlo::reduce(inside, hlo::scalar(c, DType::pred, 1), {1},
                     binary_computation(c.module(), Opcode::and_, DType::pred));
}

bool has_own_rule(const Node& node) {
  if (node.shape.is_tuple || node.operands().size() != 3) return false;
  if (overwrites(*node.called[0])) return true;
  const std::optional<Combiner> combiner = recognize_combiner(*node.called[0]);
  if (combiner == Combiner::product) return node.attrs.unique_indices;
  return combiner == Combiner::sum || combiner == Combiner::max || combiner == Combiner::min;
}

}  // namespace

// A loop that takes one slice after the other.
Node* scatter_form(Node& node) {
  if (has_own_rule(node)) return nullptr;
  const SliceDims slices = scatter_slice_dims(node);
  const auto inputs = static_cast<size_t>((std::ssize(node.operands()) - 1) / 2);
  Node* const first = node.operand(0);
  const Dims& sizes = node.operands()[inputs + 1]->dims();
  const Dims window = window_sizes(slices, first->rank(), sizes);
  Dims order = slices.batch_result;
  order.insert(order.end(), slices.window_result.begin(), slices.window_result.end());
  int64_t count = 1;
  for (const int64_t d : slices.batch_result) count *= sizes[static_cast<size_t>(d)];
  Dims rows = window;
  rows.insert(rows.begin(), count);

  std::vector<Node*> state(node.operands().begin(),
                           node.operands().begin() + static_cast<std::ptrdiff_t>(inputs));
  for (size_t i = 0; i < inputs; ++i)
    state.push_back(hlo::reshape(transposed(node.operands()[inputs + 1 + i], order), rows));
  // The indices are operand `inputs`.
  Node* const starts = slice_starts(node, slices, count);
  state.push_back(starts);
  state.push_back(slices_inside(starts, first->dims(), window));
  const auto step = [&](Computation&, const std::vector<Node*>& now, Node* iteration) {
    std::vector<Node*> at, old, fresh;
    Node* const row = read_step(now[2 * inputs], Shape(DType::s64, {first->rank()}), iteration);
    for (int64_t d = 0; d < first->rank(); ++d)
      at.push_back(hlo::reshape(hlo::slice(row, {d}, {d + 1}, {1}), {}));
    for (size_t i = 0; i < inputs; ++i) {
      old.push_back(hlo::dynamic_slice(now[i], at, window));
      fresh.push_back(read_step(now[inputs + i], Shape(now[i]->shape.dtype, window), iteration));
    }
    Node* const kept = read_step(now[2 * inputs + 1], Shape(DType::pred, {}), iteration);
    Node* const mask = window.empty() ? kept : hlo::broadcast(kept, window, {});
    fresh = combine_elementwise(*node.called[0], old, fresh);
    std::vector<Node*> next = now;
    for (size_t i = 0; i < inputs; ++i)
      next[i] = hlo::dynamic_update_slice(now[i], hlo::select(mask, fresh[i], old[i]), at);
    return next;
  };
  std::vector<Node*> last =
      state_after_loop(node.parent(), "scatter", count, std::move(state), step);
  last.resize(inputs);
  return node.shape.is_tuple ? hlo::tuple(node.parent(), std::move(last)) : last.at(0);
}

}  // namespace gspmd
