#include <cmath>
#include <numbers>

#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/completion.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/numeric.h"
#include "ops/random/bits.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

// Two scalars of the result's type: the bounds of rng_uniform, mean and deviation of rng_normal.
Shape infer_rng(const Node& node) {
  check_operand_count(node, 2);
  const Shape declared = checked_size(node, declared_array(node));
  check_same_dtype(node, 0, 1);
  const Shape& first = scalar_operand(node, 0);
  scalar_operand(node, 1);
  const std::string& distribution = node.attrs.scalar->distribution;
  if (distribution != "rng_uniform" && distribution != "rng_normal")
    user_error("rng: distribution={} is neither rng_uniform nor rng_normal", distribution);
  if (first.dtype != declared.dtype)
    user_error("rng: operands of {} for a result of {}; they have one element type",
               dtype_name(first.dtype), to_string(declared));
  const bool floats = is_floating(first.dtype) && !is_narrow(first.dtype);
  const bool integers = is_integer(first.dtype) && !is_narrow(first.dtype);
  if (!floats && (distribution == "rng_normal" || !(integers || first.dtype == DType::pred)))
    user_error("rng: {} makes no numbers of {}", distribution, to_string(declared));
  return declared;
}

Shape infer_rng_bit_generator(const Node& node) {
  check_operand_count(node, 1);
  const Shape& state = array_operand(node, 0);
  const std::string& algorithm = node.attrs.scalar->algorithm;
  if (algorithm != "rng_three_fry" && algorithm != "rng_philox" && algorithm != "rng_default")
    user_error("rng-bit-generator: algorithm={} is none of rng_default, rng_three_fry, rng_philox",
               algorithm);
  if (!is_integer(state.dtype) || is_narrow(state.dtype))
    user_error("rng-bit-generator: the state is {}; it is an array of integers", to_string(state));
  const Shape& shape = node.shape;
  const bool with_state = shape.is_tuple && shape.elements.size() == 2 &&
                          shape.elements[0] == state && !shape.elements[1].is_tuple;
  if (shape.is_tuple && !with_state)
    user_error("rng-bit-generator: the result {} has to be ({}, bits) or the bits alone",
               to_string(shape), to_string(state));
  const Shape& bits = with_state ? shape.elements[1] : shape;
  if (!is_integer(bits.dtype) || is_narrow(bits.dtype))
    user_error("rng-bit-generator: bits of {}; they are integers of 8 to 64 bits", to_string(bits));
  const Shape checked = checked_size(node, bits);
  return with_state ? Shape::tuple({state, checked}) : checked;
}

Shape infer_rng_state(const Node& node) {
  check_operand_count(node, 0);
  const Shape wanted(DType::u64, {2});
  if (!(node.shape == wanted))
    user_error("rng-get-and-update-state: declared as {}, the state is {}", to_string(node.shape),
               to_string(wanted));
  return wanted;
}

// Numbers of the counters from 0 on under a fixed key: 53 bits between 0 and 1.
double unit(uint64_t counter) {
  const auto x = threefry_2x32({0x243F6A88u, 0x85A308D3u}, {static_cast<uint32_t>(counter),
                                                            static_cast<uint32_t>(counter >> 32)});
  return std::ldexp(static_cast<double>((uint64_t(x[1]) << 32 | x[0]) >> 11), -53);
}

double normal(uint64_t counter) {
  const double radius = std::sqrt(-2 * std::log1p(-unit(2 * counter)));
  return radius * std::cos(2 * std::numbers::pi * unit(2 * counter + 1));
}

Value evaluate_rng(const EvalContext& context) {
  const Array result(context.node.shape);
  const double a = context.operands[0].array.at(0);
  const double b = context.operands[1].array.at(0);
  const bool uniform = context.node.attrs.scalar->distribution == "rng_uniform";
  visit_dtype(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < out.size(); ++i) {
      double value = uniform ? a + (b - a) * unit(i) : a + b * normal(i);
      if constexpr (std::is_integral_v<T>) value = std::floor(value);
      out[i] = convert_element<T>(value);
      if constexpr (is_float_v<T>)  // rounding may reach the upper bound, which is not included
        if (uniform && a < b && static_cast<double>(out[i]) >= b) out[i] = convert_element<T>(a);
    }
  });
  return {result, {}, false};
}

Value evaluate_rng_bit_generator(const EvalContext& context) {
  const Shape& kept = context.node.operand(0)->shape;
  const std::string& algorithm = context.node.attrs.scalar->algorithm;
  const bool threefry = algorithm == "rng_three_fry";
  if (!is_random_state(kept, algorithm))
    user_error("rng-bit-generator: the state is {}; to run, {} takes u64[2]{}", to_string(kept),
               algorithm, threefry ? "" : " or u64[3]");
  const std::span<const uint64_t> words = context.operands[0].array.data<uint64_t>();
  const std::vector<uint64_t> state(words.begin(), words.end());
  const bool with_state = context.node.shape.is_tuple;
  const Shape& shape = with_state ? context.node.shape.elements[1] : context.node.shape;
  const auto bits = static_cast<int>(8 * dtype_size(shape.dtype));
  const RandomBits made =
      threefry ? threefry_bits(state, shape.dims, bits) : philox_bits(state, shape.dims, bits);
  const Array values(shape);
  visit_dtype(shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> out = values.data<T>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(made.values[i]);
  });
  if (!with_state) return {values, {}, false};
  return Value::tuple(
      {{Array::of<uint64_t>({static_cast<int64_t>(made.state.size())}, made.state), {}, false},
       {values, {}, false}});
}

// A run has one state, which starts anew with each run.
Value evaluate_rng_state(const EvalContext&) {
  return {Array::of<uint64_t>({2}, {0x9E3779B97F4A7C15u, 0}), {}, false};
}

// A number that is drawn is a constant: flat in the bounds or moments of its distribution.
std::vector<Node*> drawn_gradient(Node& node, Node*) {
  return std::vector<Node*>(node.operands().size(), nullptr);
}

const OpInfo kRandomRows[] = {
    {.opcode = Opcode::rng,
     .traits = kIntegerPreserving | kPointwise | kPlacedAnywhere,
     .operands = {2, 2},
     .infer = infer_rng,
     .factors = whole_factors,
     .evaluate = evaluate_rng,
     .gradient = drawn_gradient,
     .completion = {.suggestions = same_dims_suggestions,
                    .may_be_tiled = in_spmd_only,
                    .speakers = Speakers::all},
     .partition = partition_rng,
     .lower = lower_rng,
     .batch = refuse_batch},
    {.opcode = Opcode::rng_bit_generator,
     .traits = kIntegerPreserving | kPlacedAnywhere,
     .operands = {1, 1},
     .infer = infer_rng_bit_generator,
     .factors = whole_factors,
     .evaluate = evaluate_rng_bit_generator,
     .completion = kNoCompletion,
     .partition = partition_rng_bit_generator,
     .lower = lower_rng_bit_generator,
     .batch = batch_in_loop},
    {.opcode = Opcode::rng_get_and_update_state,
     .traits = kIntegerPreserving,
     .infer = infer_rng_state,
     .factors = whole_factors,
     .evaluate = evaluate_rng_state,
     .completion = kPointwiseCompletion},
};

}  // namespace

std::span<const OpInfo> random_rows() { return kRandomRows; }

}  // namespace gspmd
