// The custom-calls "ApproxTopK" and "PartialReduce": n arrays and n initial values, a comparator,
// and how many elements along one dim of the arrays are to be in the result. They may miss some of
// the first; here they miss none.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/ops/custom_ops.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/control/batch.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

// What is declared: how many elements an approximation keeps is up to who wrote it.
Shape infer_approximate(const Node& node) {
  for (const Shape& leaf : leaf_shapes(node.shape)) checked_size(node, leaf);
  return node.shape;
}

// The number behind reduction_dim in a configuration, as attributes or JSON: reduction_dim = 1,
// "reduction_dim": 1; else the dim in which results differ from operands, or the last.
int64_t reduced_dim(const Node& node) {
  constexpr std::string_view kName = "reduction_dim";
  const std::string config = custom_config(node);
  int64_t dim = -1;
  if (const size_t at = config.find(kName); at != std::string::npos) {
    const size_t value = config.find_first_not_of("\\\"' \t\n:=", at + kName.size());
    if (value != std::string::npos)
      std::from_chars(config.data() + value, config.data() + config.size(), dim);
  }
  const Dims& x = node.operand(0)->dims();
  const Dims result = leaf_shapes(node.shape).at(0).dims;
  const int64_t rank = std::ssize(x);
  for (int64_t d = 0; dim < 0 && d < rank && d < std::ssize(result); ++d)
    if (x[static_cast<size_t>(d)] != result[static_cast<size_t>(d)]) dim = d;
  return dim < 0 ? rank - 1 : dim;
}

// What does not fit; empty: nothing.
std::string misfit(const Node& node) {
  const std::vector<Shape> results = leaf_shapes(node.shape);
  const size_t arrays = node.operands().size() / 2;
  if (arrays == 0 || node.operands().size() % 2 != 0 || results.size() != arrays)
    return fmt::format("{} operands and {} results; n arrays, n initial values and n results are",
                       node.operands().size(), results.size());
  if (node.called.size() != 1) return "it calls no comparator";
  const Shape& x = node.operand(0)->shape;
  if (x.is_tuple || x.rank() == 0) return fmt::format("operand 0 is {}", to_string(x));
  const int64_t dim = reduced_dim(node);
  if (dim >= x.rank())
    return fmt::format("reduction_dim {} of {}, which has {} dims", dim, to_string(x), x.rank());
  for (size_t i = 0; i < arrays; ++i) {
    const Shape& operand = node.operands()[i]->shape;
    Dims wanted = x.dims;
    const auto at = static_cast<size_t>(dim);
    if (results[i].rank() == x.rank()) wanted[at] = results[i].dims[at];
    if (operand.is_tuple || operand.dims != x.dims || results[i].dims != wanted ||
        wanted[at] > x.dims[at] || results[i].dtype != operand.dtype)
      return fmt::format(
          "operand {} is {} and result {} is {}; they differ in dim {} only, where "
          "the result is no larger",
          i, to_string(operand), i, to_string(results[i]), dim);
  }
  return "";
}

FactorRule approximate_factors(const Node& node) {
  if (!misfit(node).empty()) return whole_factors(node);
  FactorRule rule = no_factors(node);
  const Dims& x = node.operand(0)->dims();
  const int64_t reduced = reduced_dim(node);
  const size_t arrays = node.operands().size() / 2;
  for (int64_t d = 0; d < std::ssize(x); ++d) {
    const auto at = static_cast<size_t>(d);
    if (d == reduced) {
      for (size_t i = 0; i < arrays; ++i) block_operand(rule, node, static_cast<int64_t>(i), d);
      const int64_t out =
          add_factor(rule, leaf_shapes(node.shape)[0].dims[at], FactorKind::blocked);
      for (std::vector<int64_t>& dims : rule.results) dims[at] = out;
      continue;
    }
    const int64_t factor = add_factor(rule, x[at]);
    for (size_t i = 0; i < arrays; ++i) rule.operands[i][at] = factor;
    for (std::vector<int64_t>& dims : rule.results) dims[at] = factor;
  }
  return rule;
}

// The first elements of each line along `dim`.
Array first_along(const Array& x, const Shape& shape, size_t dim) {
  Array result(shape);
  int64_t outer = 1, inner = dtype_size(shape.dtype);
  for (size_t d = 0; d < shape.dims.size(); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : shape.dims[d];
  const int64_t from = x.dim(static_cast<int64_t>(dim)) * inner, to = shape.dims[dim] * inner;
  for (int64_t i = 0; i < outer && to > 0; ++i)
    std::memcpy(result.bytes().data() + i * to, x.bytes().data() + i * from,
                static_cast<size_t>(to));
  return result;
}

Value evaluate_approximate(const EvalContext& context) {
  const Node& node = context.node;
  if (const std::string wrong = misfit(node); !wrong.empty())
    user_error("custom-call: \"{}\" of target \"{}\" cannot run: {}", node.name(),
               *node.attrs.custom_call_target, wrong);
  const size_t arrays = node.operands().size() / 2;
  Module scratch("topk");
  Computation* const body = scratch.add_computation("topk");
  std::vector<Node*> parameters;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < arrays; ++i) {
    Attributes attrs;
    attrs.index = static_cast<int64_t>(i);
    shapes.push_back(node.operands()[i]->shape);
    parameters.push_back(body->append(Opcode::parameter, shapes.back(), {}, attrs));
  }
  Attributes attrs;
  attrs.dimensions = {reduced_dim(node)};
  attrs.scalar.edit().is_stable = true;
  Node* const sort = body->append(Opcode::sort, arrays == 1 ? shapes[0] : Shape::tuple(shapes),
                                  parameters, std::move(attrs), node.name());
  sort->called = node.called;
  const Value sorted = evaluate_sort({*sort, context.operands.first(arrays), context.call});
  const auto dim = static_cast<size_t>(reduced_dim(node));
  const std::vector<Shape> results = leaf_shapes(node.shape);
  std::vector<Array> firsts;
  for (size_t i = 0; i < arrays; ++i)
    firsts.push_back(
        first_along(arrays == 1 ? sorted.array : sorted.elements.at(i).array, results[i], dim));
  return pack(node.shape, firsts);
}

PreparedKernel lower_approximate(const Node& node) {
  if (!misfit(node).empty()) return {};  // the reference kernel says what is wrong
  return lower_first_of_sort(node, node.operands().size() / 2, reduced_dim(node));
}

int64_t approximate_flops(const Node& node) {
  const Shape& shape = node.operand(0)->shape;
  return shape.is_tuple || shape.rank() == 0 ? 0 : topk_flops(node);
}

constexpr std::array<std::string_view, 2> kApproximateTopKTargets{"ApproxTopK", "PartialReduce"};

const OpInfo kApproximateTopKRow{.opcode = Opcode::custom_call,
                                 .traits = kIntegerPreserving | kMadeAsOne,
                                 .operands = {1, -1},
                                 .infer = infer_approximate,
                                 .factors = approximate_factors,
                                 .evaluate = evaluate_approximate,
                                 .lower = lower_approximate,
                                 .flops = approximate_flops,
                                 .batch = batch_custom_call};

}  // namespace

const OpInfo* approximate_top_k_info(const Node& custom_call) {
  const std::string& target = custom_call.attrs.custom_call_target;
  const bool is_it = std::find(kApproximateTopKTargets.begin(), kApproximateTopKTargets.end(),
                               target) != kApproximateTopKTargets.end();
  return is_it && !custom_call.operands().empty() ? &kApproximateTopKRow : nullptr;
}

}  // namespace gspmd
