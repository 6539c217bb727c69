#include "ops/evaluate/run_plan.h"

#include <algorithm>
#include <new>
#include <unordered_set>

#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/loop_guard.h"
#include "ir/call_nesting.h"
#include "ops/collective/collective.h"

namespace gspmd {
namespace {

void check_node(const Node& node, bool collectives) {
  const OpInfo& info = node.op();
  const auto count = static_cast<int>(node.operands().size());
  if (count < info.operands.least || (info.operands.most >= 0 && count > info.operands.most))
    user_error("{}: \"{}\" has {} operands", opcode_name(node.opcode()), node.name(), count);
  const Shape inferred = info.infer(node);
  if (!(inferred == node.shape))
    user_error("{}: \"{}\" is declared as {}, its operands and attributes give {}",
               opcode_name(node.opcode()), node.name(), to_string(node.shape), to_string(inferred));
  if (info.evaluate == nullptr)
    user_error("{}: \"{}\" cannot run here: the op has no kernel", opcode_name(node.opcode()),
               node.name());
  for (const Shape& leaf : leaf_shapes(node.shape))
    if (leaf.dtype == DType::opaque)
      user_error("{}: \"{}\" is {}; opaque values cannot be computed", opcode_name(node.opcode()),
                 node.name(), to_string(node.shape));
  const bool alone = info.has(kCollective) && !is_over_one_replica(node);
  if (!collectives && (alone || node.is(Opcode::partition_id)))
    user_error("{}: \"{}\" has no meaning on one device; run the module on several devices",
               opcode_name(node.opcode()), node.name());
}

void check_body(const Computation& computation, bool collectives) {
  if (computation.root() == nullptr)
    user_error("{}: the computation has no root", computation.name());
  for (const Node* parameter : computation.parameters())
    if (parameter == nullptr)
      user_error("{}: a parameter number is missing; number them 0, 1, 2, ...", computation.name());
  for (const std::unique_ptr<Node>& node : computation.nodes())
    at_node(*node, [&] { check_node(*node, collectives); });
}

bool has_shape(const Value& value, const Shape& shape) {
  if (value.is_tuple != shape.is_tuple) return false;
  if (!shape.is_tuple) return !value.array.empty() && value.array.shape() == shape;
  if (value.elements.size() != shape.elements.size()) return false;
  for (size_t i = 0; i < shape.elements.size(); ++i)
    if (!has_shape(value.elements[i], shape.elements[i])) return false;
  return true;
}

Shape shape_of(const Value& value) {
  if (!value.is_tuple) return value.array.shape();
  std::vector<Shape> elements;
  for (const Value& element : value.elements) elements.push_back(shape_of(element));
  return Shape::tuple(std::move(elements));
}

}  // namespace

RunPlan make_plan(const Computation& computation) {
  const FlatSet<const Node*> live = running_nodes(computation);
  FlatMap<const Node*, size_t> position;
  RunPlan plan;
  for (const std::unique_ptr<Node>& node : computation.nodes()) {
    if (!live.contains(node.get())) continue;
    RunPlan::Step& step = plan.steps.emplace_back();
    step.node = node.get();
    for (const Node* operand : node->operands()) step.operands.push_back(position.at(operand));
    position.emplace(node.get(), plan.steps.size() - 1);
  }
  plan.root = position.at(computation.root());
  // Later steps see a value first when walking back: that one is its last reader.
  std::vector<bool> read(plan.steps.size(), false);
  read[plan.root] = true;  // by who asked for it
  for (size_t i = plan.steps.size(); i-- > 0;)
    for (const size_t operand : plan.steps[i].operands)
      if (!read[operand]) {
        read[operand] = true;
        plan.steps[i].dead.push_back(operand);
      }
  return plan;
}

const RunPlan& PlanCache::operator[](const Computation& computation) {
  std::unique_ptr<RunPlan>& plan = plans_[&computation];
  if (!plan) plan = std::make_unique<RunPlan>(make_plan(computation));
  return *plan;
}

void check_runnable(const Computation& entry, bool collectives) {
  for (const Computation* computation : check_call_depth(entry))
    check_body(*computation, collectives);
}

void check_arguments(const Computation& entry, std::span<const Value> arguments) {
  if (arguments.size() != entry.parameters().size())
    user_error("evaluate: {} arguments are given, {} takes {}", arguments.size(), entry.name(),
               entry.parameters().size());
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!has_shape(arguments[i], entry.parameters()[i]->shape))
      user_error(place_of(*entry.parameters()[i]),
                 "evaluate: argument {} is {}, parameter \"{}\" of {} is {}", i,
                 to_string(shape_of(arguments[i])), entry.parameters()[i]->name(), entry.name(),
                 to_string(entry.parameters()[i]->shape));
}

Value evaluate_node(const Node& node, std::span<const Value> operands,
                    const CallComputation& call) {
  if (node.op().evaluate == nullptr)
    user_error("{}: \"{}\" cannot run here: the op has no kernel", opcode_name(node.opcode()),
               node.name());
  try {
    const TimedWork work(node);
    return node.op().evaluate({node, operands, call});
  } catch (const std::bad_alloc&) {
    execution_error("{}: \"{}\" needs {} bytes, which cannot be allocated",
                    opcode_name(node.opcode()), node.name(), node.shape.bytes());
  }
}

}  // namespace gspmd
