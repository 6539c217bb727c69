// Threefry as JAX calls it: two arrays of keys, two of counters, two of random words.

#include <array>
#include <string_view>

#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/factors.h"
#include "ops/library/library.h"
#include "ops/random/bits.h"

namespace gspmd::library {
namespace {

constexpr std::string_view kThreefryTargets[] = {"threefry2x32",     "threefry2x32_ffi",
                                                 "cu_threefry2x32",  "cu_threefry2x32_ffi",
                                                 "hip_threefry2x32", "hip_threefry2x32_ffi"};
constexpr size_t kWords = 4;  // operands that are words; lengths may stand behind them

// What is wrong with the call, or "".
std::string threefry_problem(const Node& node) {
  const std::vector<Shape> leaves = leaf_shapes(node.shape);
  if (node.operands().size() < kWords || leaves.size() != 2)
    return fmt::format("{} operands and {} results; it has two keys, two counters and two results",
                       node.operands().size(), leaves.size());
  const Shape& x = node.operand(2)->shape;
  for (size_t i = 0; i < kWords + 2; ++i) {
    const Shape& shape =
        i < kWords ? node.operand(static_cast<int64_t>(i))->shape : leaves[i - kWords];
    const bool key = i < 2 && !shape.is_tuple && shape.elements_count() == 1;
    if (shape.is_tuple || shape.dtype != DType::u32 || (shape.dims != x.dims && !key))
      return fmt::format("{} beside counters of {}; all are u32 of the same dims", to_string(shape),
                         to_string(x));
  }
  return "";
}

FactorRule threefry_factors(const Node& node) {
  if (!threefry_problem(node).empty()) return whole_factors(node);
  const Dims& dims = node.operand(2)->shape.dims;
  std::vector<bool> operands(node.operands().size(), false);
  for (size_t i = 0; i < kWords; ++i)
    operands[i] = node.operand(static_cast<int64_t>(i))->shape.dims == dims;
  return batch_factors(node, std::ssize(dims), operands, {true, true});
}

Value evaluate_threefry(const EvalContext& context) {
  const std::string problem = threefry_problem(context.node);
  if (!problem.empty())
    user_error("custom-call: \"{}\" of target \"{}\" cannot run: {}", context.node.name(),
               *context.node.attrs.custom_call_target, problem);
  const std::vector<Shape> leaves = leaf_shapes(context.node.shape);
  const std::vector<Array> results = {Array(Shape(DType::u32, leaves[0].dims)),
                                      Array(Shape(DType::u32, leaves[1].dims))};
  const auto word = [&](size_t operand, size_t i) {
    const std::span<const uint32_t> words = context.operands[operand].array.data<uint32_t>();
    return words[words.size() == 1 ? 0 : i];
  };
  const auto count = static_cast<size_t>(results[0].size());
  for (size_t i = 0; i < count; ++i) {
    const auto bits = threefry_2x32({word(0, i), word(1, i)}, {word(2, i), word(3, i)});
    for (size_t r = 0; r < results.size(); ++r) results[r].data<uint32_t>()[i] = bits[r];
  }
  return pack(context.node.shape, results);
}

const OpInfo kThreefryRow{.opcode = Opcode::custom_call,
                          .traits = kIntegerPreserving | kMadeAsOne,
                          .operands = {1, -1},
                          .infer =
                              [](const Node& node) {
                                for (const Shape& leaf : leaf_shapes(node.shape))
                                  checked_size(node, leaf);
                                return node.shape;
                              },
                          .factors = threefry_factors,
                          .evaluate = evaluate_threefry,
                          .completion = kBatchCompletion,
                          .on_part = constraints_on_part,
                          .batch = batch_in_loop};

}  // namespace

const OpInfo* random_row(const Node& custom_call) {
  const std::string& target = custom_call.attrs.custom_call_target;
  return std::find(std::begin(kThreefryTargets), std::end(kThreefryTargets), target) !=
                 std::end(kThreefryTargets)
             ? &kThreefryRow
             : nullptr;
}

}  // namespace gspmd::library
