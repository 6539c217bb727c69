// Ops whose sizes are operands: those that are known while the text is read.
#include <algorithm>

#include "stablehlo/lowering.h"
#include "stablehlo/ops/check.h"
#include "stablehlo/ops/indexing.h"
#include "stablehlo/ops/shape_ops.h"
#include "stablehlo/ops/targets.h"
#include "stablehlo/ops/windows.h"

namespace gspmd::stablehlo {
namespace {

// The result's sizes are operand `i`, one a dim.
Dims sizes_of_result(OpLowering& op, size_t i) {
  const int64_t rank = op.result().rank();
  if (!(op.operand(i)->dims() == Dims{rank}))
    op.fail("operand {} is {}; it has to be the {} sizes of the result", i,
            to_string(op.operand(i)->shape), rank);
  Dims sizes = op.known_integers(i);
  const Dims& declared = op.result().dims;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] < 0 || (declared[d] != kUnknown && declared[d] != sizes[d]))
      op.fail(
          "operand {} gives dim {} of the result the size {}, it is declared as {}: export with "
          "static shapes, those that the operand says",
          i, d, sizes[d], type_text(op.result()));
  return sizes;
}

Node* lower_dynamic_reshape(OpLowering& op) {
  op.need_operands(2, 2);
  return hlo::reshape(op.operand(0), sizes_of_result(op, 1));
}

Node* lower_dynamic_iota(OpLowering& op) {
  op.need_operands(1, 1);
  return hlo::iota(op.computation(), Shape(op.result().dtype, sizes_of_result(op, 0)),
                   op.integer("iota_dimension"));
}

Node* lower_dynamic_broadcast_in_dim(OpLowering& op) {
  op.need_operands(2, 2);
  op.maybe_integers("known_expanding_dimensions");
  op.maybe_integers("known_nonexpanding_dimensions");
  return broadcast_in_dim(op, op.operand(0), sizes_of_result(op, 1),
                          op.integers("broadcast_dimensions"));
}

Node* lower_dynamic_pad(OpLowering& op) {
  op.need_operands(5, 5);
  const Dims low = op.known_integers(2), high = op.known_integers(3),
             interior = op.known_integers(4);
  const auto rank = static_cast<size_t>(op.operand(0)->rank());
  if (low.size() != rank || high.size() != rank || interior.size() != rank)
    op.fail("{}, {} and {} amounts of padding for {}", low.size(), high.size(), interior.size(),
            to_string(op.operand(0)->shape));
  std::vector<PaddingDim> padding;
  for (size_t d = 0; d < rank; ++d) padding.push_back({low[d], high[d], interior[d]});
  return hlo::pad(op.operand(0), op.operand(1), std::move(padding));
}

// Starts that change while the program runs, of sizes that do not: the run checks that the limits
// are these starts and the sizes that the result declares.
Node* slice_at(OpLowering& op, const Dims& strides) {
  Node* const x = op.operand(0);
  if (!op.is_static() || strides != Dims(strides.size(), 1))
    op.fail("operand {} of {} is not constant: export with static shapes",
            op.known_value(1) ? 2 : 1, op.op().name);
  const Dims& sizes = op.result().dims;
  const auto like = [&](const Dims& values) {
    Array array(op.operand(1)->shape);
    for (size_t d = 0; d < values.size(); ++d)
      array.set(static_cast<int64_t>(d), static_cast<double>(values[d]));
    return hlo::constant(op.computation(), std::move(array));
  };
  Dims last = x->dims();
  for (size_t d = 0; d < last.size(); ++d) last[d] -= sizes[d];
  Node* const start = op.operand(1);
  Node* holds = hlo::compare(hlo::subtract(op.operand(2), start), like(sizes), Direction::eq);
  const auto also = [&](Node* more) { holds = hlo::binary(Opcode::and_, holds, more); };
  also(hlo::compare(start, like(Dims(sizes.size(), 0)), Direction::ge));
  also(hlo::compare(start, like(last), Direction::le));
  emit_check(
      op, holds,
      fmt::format("the limits of the slice are not its starts and the sizes [{}], or outside",
                  fmt::join(sizes, ", ")));
  std::vector<Node*> starts;
  for (int64_t d = 0; d < x->rank(); ++d)
    starts.push_back(
        op.implicit(hlo::reshape(op.implicit(hlo::slice(start, {d}, {d + 1}, {1})), {})));
  return hlo::dynamic_slice(x, std::move(starts), sizes);
}

Node* lower_real_dynamic_slice(OpLowering& op) {
  op.need_operands(4, 4);
  Node* const x = op.operand(0);
  for (size_t i = 1; i < 4; ++i)
    if (!(op.operand(i)->dims() == Dims{x->rank()}) || !is_integer(op.operand(i)->shape.dtype))
      op.fail("operand {} is {}; it has to be {} integers, one for each dim of {}", i,
              to_string(op.operand(i)->shape), x->rank(), to_string(x->shape));
  const Dims strides = op.known_integers(3);
  if (!op.known_value(1) || !op.known_value(2)) return slice_at(op, strides);
  Dims limits = op.known_integers(2);
  return hlo::slice(x, op.known_integers(1), std::move(limits), strides);
}

Node* lower_dynamic_gather(OpLowering& op) {
  op.need_operands(3, 3);
  return emit_gather(op, op.known_integers(2));
}

Node* lower_dynamic_conv(OpLowering& op) {
  op.need_operands(3, 3);
  const Dims flat = op.known_integers(2);
  std::vector<std::pair<int64_t, int64_t>> padding;
  for (size_t i = 0; i + 1 < flat.size(); i += 2) padding.emplace_back(flat[i], flat[i + 1]);
  op.find("padding");
  Attributes attrs = convolution_attributes(op, padding);
  return op.emit(Opcode::convolution, {op.operand(0), op.operand(1)}, std::move(attrs),
                 Shape(op.result().dtype, {}));
}

// --- Custom calls of shape polymorphism; the last operands are sizes

Node* lower_dynamic_rng_bit_generator(OpLowering& op) {
  op.need_operands(2, 2);
  const Attribute* const algorithm = op.find("rng_algorithm");
  const std::string name = algorithm == nullptr ? "DEFAULT" : algorithm->text;
  Attributes attrs;
  attrs.scalar.edit().algorithm = name == "THREE_FRY" ? "rng_three_fry"
                                  : name == "PHILOX"  ? "rng_philox"
                                                      : "rng_default";
  return op.emit(
      Opcode::rng_bit_generator, {op.operand(0)}, std::move(attrs),
      Shape::tuple({op.operand(0)->shape, Shape(op.result(1).dtype, op.known_integers(1))}));
}

Node* lower_dynamic_top_k(OpLowering& op) {
  op.need_operands(2, 2);
  const Dims k = op.known_integers(1);
  if (k.size() != 1) op.fail("operand 1 is to be one number");
  Attributes attrs;
  attrs.scalar.edit().k = k[0];
  return op.emit(Opcode::topk, {op.operand(0)}, std::move(attrs));
}

// x, init, window_dimensions, strides, base and window dilations, padding.
Node* lower_dynamic_reduce_window(OpLowering& op) {
  if (op.count() < 7 || (op.count() - 5) % 2 != 0) op.fail("{} operands given", op.count());
  const size_t arrays = op.count() - 5;
  const Dims sizes = op.known_integers(arrays), strides = op.known_integers(arrays + 1),
             base = op.known_integers(arrays + 2), dilations = op.known_integers(arrays + 3),
             padding = op.known_integers(arrays + 4);
  if (strides.size() != sizes.size() || base.size() != sizes.size() ||
      dilations.size() != sizes.size() || padding.size() != 2 * sizes.size())
    op.fail("the operands that describe the window differ in size");
  Attributes attrs;
  for (size_t d = 0; d < sizes.size(); ++d)
    attrs.window.push_back(
        {sizes[d], strides[d], padding[2 * d], padding[2 * d + 1], base[d], dilations[d], false});
  const Attribute& functions = op.attribute("called_computations");
  if (functions.list.size() != 1)
    op.fail("called_computations has {} functions", functions.list.size());
  const auto& by_name = op.lowering().syntax().by_name;
  const auto found = by_name.find(functions.list[0].text);
  Computation* const body =
      found == by_name.end() ? nullptr : op.lowering().lowered(*found->second);
  if (body == nullptr) op.fail("there is no function @{}", functions.list[0].text);
  std::vector<Node*> operands(op.operands().begin(),
                              op.operands().begin() + static_cast<std::ptrdiff_t>(arrays));
  return op.emit(Opcode::reduce_window, std::move(operands), std::move(attrs), {}, {body});
}

// A condition on sizes: all are known here, so it holds or not.
Node* lower_shape_assertion(OpLowering& op) {
  const std::optional<Array> holds = op.known_value(0);
  if (!holds) op.fail("operand 0 of shape_assertion is not constant: export with static shapes");
  if (holds->at(0) == 0) {
    std::string message = op.string("error_message", "a shape assertion does not hold");
    for (size_t i = 1; i < op.count(); ++i) {  // "{0}" is the operand behind the condition
      const std::string field = fmt::format("{{{}}}", i - 1);
      const size_t at = message.find(field);
      if (at != std::string::npos)
        message.replace(at, field.size(), fmt::format("{}", fmt::join(op.known_integers(i), ",")));
    }
    op.fail_with(message);
  }
  for (const char* const name : {"error_message", "has_side_effect", "api_version"}) op.find(name);
  op.set_results({});
  return nullptr;
}

constexpr KeyName kIota[] = {{"dim", "iota_dimension"}};
constexpr KeyName kInDim[] = {{"dims", "broadcast_dimensions"}};

// clang-format off
const OpRow kDynamicRows[] = {
    {"stablehlo.dynamic_reshape", lower_dynamic_reshape, Opcode::reshape},
    {"stablehlo.dynamic_iota", lower_dynamic_iota, Opcode::iota, nullptr, kIota},
    {"stablehlo.dynamic_broadcast_in_dim", lower_dynamic_broadcast_in_dim, Opcode::broadcast, nullptr, kInDim},
    {"stablehlo.dynamic_pad", lower_dynamic_pad, Opcode::pad},
    {"stablehlo.real_dynamic_slice", lower_real_dynamic_slice, Opcode::slice},
    {"stablehlo.dynamic_gather", lower_dynamic_gather, Opcode::gather},
    {"stablehlo.dynamic_conv", lower_dynamic_conv, Opcode::convolution},
};
const OpRow kDynamicTargets[] = {
    {"stablehlo.dynamic_rng_bit_generator", lower_dynamic_rng_bit_generator, Opcode::rng_bit_generator},
    {"stablehlo.dynamic_top_k", lower_dynamic_top_k, Opcode::topk},
    {"stablehlo.dynamic_reduce_window", lower_dynamic_reduce_window, Opcode::reduce_window},
    {"shape_assertion", lower_shape_assertion, Opcode::custom_call},
};
// clang-format on

}  // namespace

std::span<const OpRow> dynamic_rows() { return kDynamicRows; }
std::span<const OpRow> dynamic_targets() { return kDynamicTargets; }

}  // namespace gspmd::stablehlo
