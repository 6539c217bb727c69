// The custom-call "TopK", as frameworks write the opcode topk: how many is in its result, and
// whether the largest in a comparator that it calls, or in its configuration.

#include <algorithm>
#include <array>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/custom_ops.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/scalar_program.h"
#include "ops/control/batch.h"
#include "ops/sort/gradient.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

Shape infer_top_k_call(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  for (const Shape& leaf : leaf_shapes(node.shape)) checked_size(node, leaf);
  const std::vector<Shape>& elements = node.shape.elements;
  if (x.rank() == 0 || elements.size() != 2 || elements[0].is_tuple ||
      elements[0].rank() != x.rank())
    user_error("custom-call: TopK of {} is declared as {}; it gives values and indices",
               to_string(x), to_string(node.shape));
  const int64_t k = elements[0].dims.back();
  Dims dims = x.dims;
  dims.back() = k;
  if (k < 0 || k > x.dims.back() || !(elements[0] == Shape(x.dtype, dims)) ||
      !(elements[1] == Shape(DType::s32, dims)))
    user_error(
        "custom-call: TopK of {} is declared as {}; values and s32 indices of {} are its "
        "result",
        to_string(x), to_string(node.shape), to_string(Shape(x.dtype, dims)));
  if (is_complex(x.dtype) || x.dtype == DType::token)
    user_error("custom-call: TopK of {}; elements need an order", to_string(x));
  return node.shape;
}

// Whether the comparator puts greater elements first; nullopt: it is no order of its first two
// parameters. What it computes of them may be anything that grows, or falls, with them.
std::optional<bool> puts_greater_first(const Computation& comparator) {
  const auto keys = sort_keys(comparator);
  if (!keys || keys->empty() || keys->front().operands.front() != 0) return std::nullopt;
  const DType dtype = comparator.parameters().at(0)->shape.dtype;
  const CallComputation none = [](const Computation& called, std::span<const Value>) -> Value {
    user_error("custom-call: TopK by a comparator that calls {}", called.name());
  };
  ScalarProgram compare(comparator, none);
  if (!compare.compiled()) return std::nullopt;
  std::vector<Array> ascending;
  const bool is_signed = is_floating(dtype) || is_signed_integer(dtype);
  for (const double value : {-3.0, -1.0, 0.0, 1.0, 3.0}) {
    if ((value < 0 && !is_signed) || (value > 1 && dtype == DType::pred)) continue;
    ascending.emplace_back(dtype, Dims{});
    ascending.back().set(0, value);
  }
  std::vector<Array> others;  // of later keys: equal
  for (const Node* parameter : comparator.parameters()) {
    const Array zero(parameter->shape);
    others.push_back(zero);
    compare.set(static_cast<size_t>(parameter->attrs.index), others.back().bytes().data());
  }
  std::optional<bool> greater;
  for (size_t a = 0; a < ascending.size(); ++a)
    for (size_t b = 0; b < ascending.size(); ++b) {
      if (a == b) continue;
      compare.set(0, ascending[a].bytes().data());
      compare.set(1, ascending[b].bytes().data());
      compare.run();
      const bool first = compare.result(0)[0] != std::byte{0};
      if (greater.value_or(first == (a > b)) != (first == (a > b))) return std::nullopt;
      greater = first == (a > b);
    }
  return greater;
}

// The flag `largest` of a configuration, in any of the ways in which JSON, attributes and
// dictionaries are written: "largest": false, largest = false, \"largest\": 0.
std::optional<bool> largest_in(std::string_view text) {
  constexpr std::string_view kName = "largest";
  const size_t at = text.find(kName);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kName.size());
  const size_t value = text.find_first_not_of("\\\"' \t\n:=");
  if (value == std::string_view::npos) return std::nullopt;
  const char first = text[value];
  return first == 't' || first == 'T' || first == '1';
}

bool is_order_of(const Node& node, bool* largest) {
  if (!node.called.empty()) {
    const auto greater = puts_greater_first(*node.called[0]);
    if (greater) *largest = *greater;
    return greater.has_value();
  }
  *largest = largest_in(custom_config(node)).value_or(true);
  return true;
}

Value evaluate_top_k_call(const EvalContext& context) {
  const auto form = top_k_form(context.node);
  if (!form)
    user_error(
        "custom-call: TopK \"{}\" by {}, which is no order of its first two parameters; compare "
        "them with GT or LT",
        context.node.name(), context.node.called.at(0)->name());
  Module scratch("topk");
  Computation* const body = scratch.add_computation("topk");
  Node* const x = body->append(Opcode::parameter, context.node.operand(0)->shape, {});
  Attributes attrs;
  attrs.scalar.edit().k = form->k;
  attrs.scalar.edit().largest = form->largest;
  const Node* const node =
      body->append(Opcode::topk, context.node.shape, {x}, attrs, context.node.name());
  return evaluate_topk({*node, context.operands, context.call});
}

// As the nest says, but nothing of an operand whose only split dim is the one that has to be whole.
std::vector<ShardingProposal> top_k_call_forward(const Node& node, CompletionMode mode) {
  std::vector<ShardingProposal> proposals = nest_forward(node, mode);
  std::erase_if(proposals, [](const ShardingProposal& p) { return p.sharding.is_replicated(); });
  return proposals;
}

constexpr std::array<std::string_view, 2> kTopKTargets{"TopK", "mhlo.topk"};

const OpInfo kTopKRow{.opcode = Opcode::custom_call,
                      .traits = kIntegerPreserving | kPlacedOnAll | kMadeAsOne,
                      .operands = {1, 1},
                      .infer = infer_top_k_call,
                      .factors = topk_factors,
                      .evaluate = evaluate_top_k_call,
                      .leaf_gradient = topk_gradient,
                      .completion = {.forward = top_k_call_forward, .speakers = Speakers::first},
                      .partition = partition_topk,
                      .lower = lower_topk,
                      .flops = topk_flops,
                      .batch = batch_custom_call};

}  // namespace

const OpInfo* top_k_call_info(const Node& custom_call) {
  const std::string& target = custom_call.attrs.custom_call_target;
  const bool is_top_k =
      std::find(kTopKTargets.begin(), kTopKTargets.end(), target) != kTopKTargets.end();
  return is_top_k ? &kTopKRow : nullptr;
}

std::optional<TopKForm> top_k_form(const Node& node) {
  if (node.is(Opcode::topk)) return TopKForm{node.attrs.scalar->k, node.attrs.scalar->largest};
  TopKForm form{node.shape.elements.at(0).dims.back(), true};
  return is_order_of(node, &form.largest) ? std::optional(form) : std::nullopt;
}

}  // namespace gspmd
