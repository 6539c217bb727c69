#include "ops/common/run_forms.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "gspmd/ops/builders.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/batch_norm/form.h"
#include "ops/convolution/convolution.h"
#include "ops/dot/dot.h"
#include "ops/elementwise/map.h"
#include "ops/reduce/form.h"
#include "ops/window/window.h"

namespace gspmd {
namespace {

// Of operands of one type.
bool has_float_kernel(const Node& product) {
  const DType dtype = product.operand(0)->shape.dtype;
  if (dtype == DType::f64 || dtype == DType::f32) return true;
  if (product.is(Opcode::dot)) return dtype == DType::bf16 || dtype == DType::f16;
  return (dtype == DType::bf16 || dtype == DType::f16) && has_convolution_kernel(product);
}

bool is_narrow_integer(DType dtype) { return is_integer(dtype) && dtype_size(dtype) <= 2; }

// The greatest size that a number of the type has.
double greatest_size(DType dtype) {
  return std::ldexp(1.0,
                    static_cast<int>(8 * dtype_size(dtype)) - (is_signed_integer(dtype) ? 1 : 0));
}

double summands_of(const Node& product) {
  double summands = 1;
  if (product.is(Opcode::dot)) {
    for (const DotLoop& loop : dot_loops(product))
      if (loop.out < 0) summands *= static_cast<double>(size_of(product, loop));
    return summands;
  }
  const ConvDims& conv = *product.attrs.conv;
  const Node& kernel = *product.operand(1);
  summands = static_cast<double>(kernel.dim(conv.kernel_input_feature));
  for (const int64_t d : conv.kernel_spatial) summands *= static_cast<double>(kernel.dim(d));
  return summands;
}

// The type to compute in; nullopt: as it is.
std::optional<DType> wider_type(const Node& product) {
  const DType a = product.operand(0)->shape.dtype, b = product.operand(1)->shape.dtype;
  const DType result = product.shape.dtype;
  if (is_floating(a) && is_floating(b) && is_floating(result)) {
    const bool stores = result == a || (dtype_size(a) == 2 && result == DType::f32);
    if (a == b && stores && has_float_kernel(product)) return std::nullopt;
    const bool doubles = a == DType::f64 || b == DType::f64 || result == DType::f64;
    return doubles ? DType::f64 : DType::f32;
  }
  if (!is_narrow_integer(a) || !is_narrow_integer(b) || !is_integer(result)) return std::nullopt;
  const double most = summands_of(product) * greatest_size(a) * greatest_size(b);
  if (most <= std::ldexp(1.0, 24)) return DType::f32;
  if (most <= std::ldexp(1.0, 53)) return DType::f64;
  return std::nullopt;
}

Node* converted(Node* x, DType dtype) {
  return x->shape.dtype == dtype ? x : hlo::convert(x, dtype);
}

// Of complex numbers by four products of their parts.
Node* product_of_parts(Node& product) {
  Node* parts[2][2];  // of an operand, real and imaginary
  for (const int64_t side : {0, 1}) {
    parts[side][0] = hlo::unary(Opcode::real, product.operand(side));
    parts[side][1] = hlo::unary(Opcode::imag, product.operand(side));
  }
  const auto made = [&](int a, int b) {
    return emit(product.parent(), product.opcode(), {parts[0][a], parts[1][b]}, product.attrs,
                Shape(parts[0][0]->shape.dtype, product.dims()));
  };
  Node* real = hlo::subtract(made(0, 0), made(1, 1));
  return hlo::binary(Opcode::complex, real, hlo::add(made(0, 1), made(1, 0)));
}

bool has_operands_of(const Node& product, DType dtype) {
  return product.operand(0)->shape.dtype == dtype && product.operand(1)->shape.dtype == dtype;
}

// The "or" of "and"s is whether any of the products of zeros and ones is a one: no sum of these is
// rounded to zero.
Node* product_of_preds(Node& product) {
  std::vector<Node*> operands;
  for (const int64_t side : {0, 1})
    operands.push_back(converted(product.operand(side), DType::f32));
  return converted(emit(product.parent(), product.opcode(), std::move(operands), product.attrs,
                        Shape(DType::f32, product.dims())),
                   DType::pred);
}

// The loops of `product` that a side has, in the order of its dims there.
std::vector<DotLoop> loops_of_side(const Node& product, int64_t DotLoop::*side) {
  std::vector<DotLoop> loops;
  for (const DotLoop& loop : dot_loops(product))
    if (loop.*side >= 0) loops.push_back(loop);
  std::sort(loops.begin(), loops.end(),
            [&](const DotLoop& a, const DotLoop& b) { return a.*side < b.*side; });
  return loops;
}

// A product of narrow integers with one row as one reduction of what is stored: as floats it would
// be four or eight times as many bytes. Sums wrap around as those of the result do. nullptr: it is
// none, or its dims are in another order.
Node* product_with_row(Node& product, int64_t row_side) {
  const auto row = row_side == 0 ? &DotLoop::lhs : &DotLoop::rhs;
  const auto matrix = row_side == 0 ? &DotLoop::rhs : &DotLoop::lhs;
  Dims order, kept, at, along;  // of the row; of the matrix
  int64_t last_out = -1;
  for (const DotLoop& loop : loops_of_side(product, matrix)) {
    const int64_t d = loop.*matrix;
    if (loop.*row >= 0) {
      order.push_back(loop.*row);
      kept.push_back(size_of(product, loop));
      at.push_back(d);
    }
    if (loop.out < 0) along.push_back(d);
    if (loop.out >= 0 && std::exchange(last_out, loop.out) > loop.out) return nullptr;
  }
  for (const DotLoop& loop : loops_of_side(product, row)) {
    if (loop.*matrix >= 0) continue;
    if (size_of(product, loop) != 1) return nullptr;
    order.push_back(loop.*row);
  }
  const DType sums = dtype_size(product.shape.dtype) > 4 ? DType::s64 : DType::s32;
  Node* x = product.operand(row_side);
  if (!std::is_sorted(order.begin(), order.end())) x = hlo::transpose(x, order);
  if (x->dims() != kept) x = hlo::reshape(x, kept);
  Node* const y = product.operand(1 - row_side);
  Node* const spread = hlo::broadcast(converted(x, sums), y->dims(), at);
  Node* made = hlo::reduce_sum(hlo::multiply(spread, converted(y, sums)), along);
  if (made->dims() != product.dims()) made = hlo::reshape(made, product.dims());
  return converted(made, product.shape.dtype);
}

// A side with its contracted dim in `pieces` of their own, in f32; `batch` and `contracting` become
// the dims there.
Node* in_pieces(Node* x, int64_t pieces, Dims& batch, Dims& contracting) {
  const int64_t d = contracting[0];
  Dims dims = x->dims();
  dims[static_cast<size_t>(d)] /= pieces;
  dims.insert(dims.begin() + d, pieces);
  for (int64_t& b : batch) b += b > d;
  batch.insert(batch.begin(), d);
  contracting[0] = d + 1;
  return hlo::reshape(converted(x, DType::f32), dims);
}

// A product of narrow integers as a few of f32, each of which holds every sum, that are added as
// integers: f64 has half the lanes. nullptr: its contracted dim has no such pieces.
Node* product_in_pieces(Node& product) {
  constexpr int64_t kMostPieces = 32, kLeastPiece = 256;
  DotDims dims = product.attrs.dot;
  if (dims.lhs_contracting.size() != 1) return nullptr;
  const int64_t k = product.operand(0)->dim(dims.lhs_contracting[0]);
  const double most = summands_of(product) * greatest_size(product.operand(0)->shape.dtype) *
                      greatest_size(product.operand(1)->shape.dtype);
  int64_t pieces = 2;
  while (k % pieces != 0 || most / static_cast<double>(pieces) > std::ldexp(1.0, 24))
    if (++pieces > kMostPieces) return nullptr;
  if (k / pieces < kLeastPiece) return nullptr;
  Node* a = in_pieces(product.operand(0), pieces, dims.lhs_batch, dims.lhs_contracting);
  Node* b = in_pieces(product.operand(1), pieces, dims.rhs_batch, dims.rhs_contracting);
  Node* const made = converted(hlo::dot(a, b, dims), DType::s32);  // which holds their sums too
  return converted(hlo::reduce_sum(made, {0}), product.shape.dtype);
}

Node* product_of_integers(Node& product) {
  const auto is_short = [&](int64_t side) {
    return is_narrow_integer(product.operand(side)->shape.dtype);
  };
  if (!product.is(Opcode::dot) || !is_short(0) || !is_short(1) ||
      !is_integer(product.shape.dtype) || product.shape.elements_count() == 0)
    return nullptr;
  for (const int64_t side : {0, 1})
    if (Node* const made = product_with_row(product, side)) return made;
  return wider_type(product) == DType::f64 ? product_in_pieces(product) : nullptr;
}

Node* widened_product(Node& product) {
  const DType result = product.shape.dtype;
  if (result == DType::pred && has_operands_of(product, DType::pred))
    return product_of_preds(product);
  if (Node* const made = product_of_integers(product)) return made;
  if (is_complex(result) && has_operands_of(product, result) && product.shape.elements_count() > 0)
    return product_of_parts(product);
  const std::optional<DType> wide = wider_type(product);
  if (!wide) return nullptr;
  std::vector<Node*> operands;
  for (const int64_t side : {0, 1}) operands.push_back(converted(product.operand(side), *wide));
  Node* made = emit(product.parent(), product.opcode(), std::move(operands), product.attrs,
                    Shape(*wide, product.dims()));
  // Sums wrap around in the integer that they are stored as: all of them fit into 64 bits.
  if (is_integer(result)) made = converted(made, *wide == DType::f32 ? DType::s32 : DType::s64);
  return converted(made, result);
}

// Sums of complex numbers are those of their parts.
Node* sum_of_parts(Node& reduce) {
  const DType dtype = reduce.shape.is_tuple ? DType::pred : reduce.shape.dtype;
  if (!is_complex(dtype) || recognize_combiner(*reduce.called[0]) != Combiner::sum) return nullptr;
  const auto part = [&](Opcode opcode) {
    Node* x = hlo::unary(opcode, reduce.operand(0));
    Node* initial = hlo::unary(opcode, reduce.operand(1));
    Computation* sum = binary_computation(reduce.parent().module(), Opcode::add, x->shape.dtype);
    return hlo::reduce(x, initial, reduce.attrs.dimensions, sum);
  };
  Node* real = part(Opcode::real);
  return hlo::binary(Opcode::complex, real, part(Opcode::imag));
}

// A reduction of several arrays as the ones that it is, or of complex numbers as that of their
// parts.
Node* reduction_form(Node& reduce) {
  Node* const separate = separate_reductions(reduce);
  if (separate == nullptr) return sum_of_parts(reduce);
  std::vector<Node*> results;
  for (Node* result : separate->operands()) {
    Node* const parts = sum_of_parts(*result);
    results.push_back(parts != nullptr ? parts : result);
  }
  return hlo::tuple(reduce.parent(), results);
}

// One window that takes in all of some dims, and nothing of others: a reduction along them, whose
// loops fuse with what is around them and may be of any length.
Node* reduction_of_window(Node& node) {
  const Dims& dims = node.operand(0)->dims();
  const std::optional<Combiner> combiner = recognize_combiner(*node.called[0]);
  if (node.operands().size() != 2 || !combiner || node.shape.elements_count() == 0) return nullptr;
  if (is_complex(node.shape.dtype) && combiner != Combiner::sum) return nullptr;
  Dims along;
  for (size_t d = 0; d < dims.size(); ++d) {
    const WindowDim& window = node.attrs.window[d];
    if (is_trivial(window)) continue;
    if (window.size != dims[d] || window.pad_low != 0 || window.pad_high != 0 ||
        window.base_dilation != 1 || window.window_dilation != 1)
      return nullptr;
    along.push_back(static_cast<int64_t>(d));
  }
  if (along.empty()) return nullptr;
  Computation* const combined =
      binary_computation(node.parent().module(), combiner_opcode(*combiner), node.shape.dtype);
  Node* made = hlo::reduce(node.operand(0), node.operand(1), along, combined);
  if (Node* const parts = sum_of_parts(*made)) made = parts;
  return hlo::reshape(made, node.dims());
}

Node* widened_window(Node& node) {
  const DType dtype = node.shape.dtype;
  if (node.shape.is_tuple || (dtype != DType::bf16 && dtype != DType::f16)) return nullptr;
  const std::optional<Combiner> combiner = recognize_combiner(*node.called.back());
  // Cumulative windows of f16 have one, element by element.
  if (!combiner || (dtype != DType::f16 && node.op().lower(node).run)) return nullptr;
  Module& module = node.parent().module();
  std::vector<Computation*> called;
  if (node.is(Opcode::select_and_scatter)) {
    // As it compares: a number of 16 bits compares in f32 as it does by itself.
    const Node& select = *node.called[0]->root();
    if (!select.is(Opcode::compare) || select.attrs.compare_type == "TOTALORDER" ||
        select.operand(0) != node.called[0]->parameters()[0] ||
        select.operand(1) != node.called[0]->parameters()[1])
      return nullptr;
    Computation* wide = module.add_computation(node.called[0]->name());
    Node* a = hlo::parameter(*wide, 0, Shape(DType::f32, {}));
    Node* b = hlo::parameter(*wide, 1, Shape(DType::f32, {}));
    wide->set_root(hlo::compare(a, b, select.attrs.direction));
    called.push_back(wide);
  }
  called.push_back(binary_computation(module, combiner_opcode(*combiner), DType::f32));
  std::vector<Node*> operands;
  for (Node* operand : node.operands()) operands.push_back(converted(operand, DType::f32));
  Node* made = emit(node.parent(), node.opcode(), std::move(operands), node.attrs,
                    Shape(DType::f32, node.dims()), std::move(called));
  return hlo::convert(made, dtype);
}

Node* window_form(Node& node) {
  Node* const reduction = reduction_of_window(node);
  return reduction != nullptr ? reduction : widened_window(node);
}

struct RunForm {
  Opcode opcode;
  Node* (*form)(Node& node);  // emitted into node.parent(); nullptr: the node is as it should be
};
constexpr RunForm kRunForms[] = {
    {Opcode::dot, widened_product},
    {Opcode::convolution, widened_product},
    {Opcode::reduce, reduction_form},
    {Opcode::reduce_window, window_form},
    {Opcode::select_and_scatter, widened_window},
    {Opcode::batch_norm_training, expand_batch_norm},
    {Opcode::batch_norm_grad, expand_batch_norm},
    {Opcode::batch_norm_inference, batch_norm_inference_form},
    {Opcode::map, map_form},
};

// Who reads an element of a tuple reads what that was made of.
void replace(Computation& c, Node* node, Node* form) {
  if (form->is(Opcode::tuple)) {
    const std::vector<Node*> users(node->users().begin(), node->users().end());
    for (Node* user : users)
      if (user->is(Opcode::get_tuple_element))
        c.replace_uses(user, form->operand(user->attrs.index));
  }
  c.replace_uses(node, form);
}

// Fusions that the module came with, and that are none of ours: what they are made of, until none
// is left.
bool inline_fusions(Computation& c) {
  bool changed = false;
  for (bool again = true; again;) {
    std::vector<Node*> found;
    for (const auto& node : c.nodes())
      if (node->is(Opcode::fusion) && !node->op().lower(*node).run) found.push_back(node.get());
    for (Node* node : found) {
      const std::vector<Node*> arguments(node->operands().begin(), node->operands().end());
      replace(c, node, inline_computation(*node->called.at(0), c, arguments));
    }
    again = !found.empty();
    if (again) c.remove_dead();
    changed |= again;
  }
  return changed;
}

}  // namespace

bool use_run_forms(Computation& c) {
  bool changed = inline_fusions(c);
  std::vector<std::pair<Node*, const RunForm*>> found;
  for (const auto& node : c.nodes())
    for (const RunForm& row : kRunForms)
      if (node->is(row.opcode)) found.emplace_back(node.get(), &row);
  for (const auto& [node, row] : found) {
    const EmissionScope scope(node->metadata, node->backward);
    Node* const form = row->form(*node);
    if (form == nullptr) continue;
    replace(c, node, form);
    changed = true;
  }
  if (!changed) return false;
  c.remove_dead();
  c.sort();
  return true;
}

}  // namespace gspmd
