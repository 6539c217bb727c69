#include "gspmd/base/error.h"
#include "ir/called_table.h"
#include "ir/verify_node.h"

namespace gspmd {
namespace {

// A node's op and the computation it calls, for messages: reduce: to_apply "add".
std::string called_text(const Node& node, size_t slot) {
  return fmt::format("{}: {} \"{}\"", opcode_name(node.opcode()), called_name(node, slot),
                     node.called[slot]->name());
}

// Equal but for the precision of floats: the field sums bf16 values with f32 computations.
bool same_kind(const Shape& a, const Shape& b) {
  if (a.is_tuple != b.is_tuple || a.elements.size() != b.elements.size()) return false;
  for (size_t i = 0; i < a.elements.size(); ++i)
    if (!same_kind(a.elements[i], b.elements[i])) return false;
  if (a.is_tuple) return true;
  return a.dims == b.dims && (a.dtype == b.dtype || (is_floating(a.dtype) && is_floating(b.dtype)));
}

void check_parameters(const Node& node, size_t slot, const std::vector<Shape>& wanted) {
  const std::vector<Node*>& parameters = node.called[slot]->parameters();
  if (parameters.size() != wanted.size())
    user_error("{} has {} parameters, {} are needed", called_text(node, slot), parameters.size(),
               wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!(parameters[i]->shape == wanted[i]))
      user_error("{}: parameter {} is {}, {} is needed", called_text(node, slot), i,
                 to_string(parameters[i]->shape), to_string(wanted[i]));
}

void check_result(const Node& node, size_t slot, const Shape& wanted) {
  const Shape& result = node.called[slot]->root()->shape;
  if (!same_kind(result, wanted))
    user_error("{} returns {}, {} is needed", called_text(node, slot), to_string(result),
               to_string(wanted));
}

std::vector<Shape> operand_shapes(const Node& node) {
  std::vector<Shape> shapes;
  for (const Node* operand : node.operands()) shapes.push_back(operand->shape);
  return shapes;
}

// call, fusion: the computation stands for the node.
void check_whole(const Node& node) {
  check_parameters(node, 0, operand_shapes(node));
  check_result(node, 0, node.shape);
}

// The computation stands for what is started: (operands, result, contexts ...).
void check_async_start(const Node& node) {
  // Updates may bind the last operands.
  std::vector<Shape> wanted = operand_shapes(node);
  const std::vector<Node*>& parameters = node.called[0]->parameters();
  for (size_t i = wanted.size(); i < parameters.size(); ++i) wanted.push_back(parameters[i]->shape);
  check_parameters(node, 0, wanted);
  if (!node.shape.is_tuple || node.shape.elements.size() < 2)
    user_error("async-start: the result is {}, a tuple of operands and result is needed",
               to_string(node.shape));
  check_result(node, 0, node.shape.elements[1]);
}

void check_while(const Node& node) {
  const Shape& state = node.operand(0)->shape;
  check_parameters(node, 0, {state});
  check_result(node, 0, Shape(DType::pred, {}));
  check_parameters(node, 1, {state});
  check_result(node, 1, state);
}

void check_conditional(const Node& node) {
  if (node.operands().size() != node.called.size() + 1)
    user_error(
        "conditional: {} operands given for {} branches; one selects, and each branch has one",
        node.operands().size(), node.called.size());
  for (size_t i = 0; i < node.called.size(); ++i) {
    check_parameters(node, i, {node.operand(static_cast<int64_t>(i) + 1)->shape});
    check_result(node, i, node.shape);
  }
}

void check_scalars(const Node& node, size_t slot, size_t count) {
  const std::vector<Node*>& parameters = node.called[slot]->parameters();
  if (parameters.size() != count)
    user_error("{} has {} parameters, {} scalars are needed", called_text(node, slot),
               parameters.size(), count);
  for (size_t i = 0; i < count; ++i)
    if (parameters[i]->shape.is_tuple || parameters[i]->rank() != 0)
      user_error("{}: parameter {} is {}, a scalar is needed", called_text(node, slot), i,
                 to_string(parameters[i]->shape));
}

// Combines `count` pairs of scalars; the accumulators come first.
void check_combiner(const Node& node, size_t count) {
  check_scalars(node, 0, 2 * count);
  const std::vector<Node*>& parameters = node.called[0]->parameters();
  const Shape& result = node.called[0]->root()->shape;
  std::vector<Shape> accumulators;
  for (size_t i = 0; i < count; ++i) accumulators.push_back(parameters[i]->shape);
  const Shape wanted =
      count == 1 && !result.is_tuple ? accumulators[0] : Shape::tuple(std::move(accumulators));
  check_result(node, 0, wanted);
}

void check_halves(const Node& node) { check_combiner(node, node.operands().size() / 2); }
void check_pair(const Node& node) { check_combiner(node, 1); }
void check_map(const Node& node) { check_scalars(node, 0, node.operands().size()); }

void check_order(const Node& node, size_t slot, size_t count) {
  check_scalars(node, slot, count);
  check_result(node, slot, Shape(DType::pred, {}));
}

void check_sort(const Node& node) { check_order(node, 0, 2 * node.operands().size()); }

void check_select_and_scatter(const Node& node) {
  check_order(node, 0, 2);
  check_scalars(node, 1, 2);
}

struct CallRule {
  Opcode opcode;
  void (*check)(const Node& node);
};
constexpr CallRule kCallRules[] = {
    {Opcode::map, check_map},
    {Opcode::reduce, check_halves},
    {Opcode::reduce_window, check_halves},
    {Opcode::select_and_scatter, check_select_and_scatter},
    {Opcode::scatter, check_halves},
    {Opcode::sort, check_sort},
    {Opcode::all_reduce, check_pair},
    {Opcode::all_reduce_start, check_pair},
    {Opcode::reduce_scatter, check_pair},
    {Opcode::call, check_whole},
    {Opcode::fusion, check_whole},
    {Opcode::async_start, check_async_start},
    {Opcode::while_, check_while},
    {Opcode::conditional, check_conditional},
};

}  // namespace

void check_called(const Node& node) {
  const CalledRow& row = called_row(node.opcode());
  const size_t count = node.called.size();
  if (count < row.least || count > row.most)
    user_error("{}: {} called computations, {}{} are needed", opcode_name(node.opcode()), count,
               count < row.least && row.least != row.most ? "at least " : "",
               count < row.least ? row.least : row.most);
  if (count == 0) return;
  for (const Computation* called : node.called)
    if (called == nullptr || called->root() == nullptr ||
        &called->module() != &node.parent().module())
      user_error("{}: a called computation is missing, empty, or of another module",
                 opcode_name(node.opcode()));
  for (const CallRule& rule : kCallRules)
    if (node.is(rule.opcode)) rule.check(node);
}

}  // namespace gspmd
