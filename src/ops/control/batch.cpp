#include "ops/control/batch.h"

#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

using Flags = std::vector<bool>;

std::vector<BatchLeaf> leaves_with(const std::vector<Node*>& nodes, const Flags& flags) {
  std::vector<BatchLeaf> leaves;
  for (size_t i = 0; i < nodes.size(); ++i) leaves.push_back({nodes[i], flags[i]});
  return leaves;
}

// The leaves as `flags` say: what is one for all is repeated where it has to be batched.
std::vector<Node*> nodes_as(const std::vector<BatchLeaf>& leaves, const Flags& flags,
                            int64_t size) {
  std::vector<Node*> nodes;
  for (size_t i = 0; i < leaves.size(); ++i)
    nodes.push_back(flags[i] ? with_batch(leaves[i], size) : leaves[i].node);
  return nodes;
}

Shape tuple_as(const std::vector<Shape>& leaves, const Flags& flags, int64_t size) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < leaves.size(); ++i)
    shapes.push_back(flags[i] ? batched_shape(leaves[i], size) : leaves[i]);
  return Shape::tuple(std::move(shapes));
}

// Runs `called` on a state of these leaves in `into`, whose only parameter that state is.
struct RunOnState {
  std::vector<BatchLeaf> state, results;

  RunOnState(BatchContext& context, const Computation& called, Computation& into,
             const Shape& shape, const Flags& flags)
      : state(leaves_with(hlo::leaves(hlo::parameter(into, 0, shape, "state")), flags)),
        results(context.run(called, into, state)) {}
};

// One pass over the loop to see what depends on the batch.
struct Trial {
  bool condition = false;
  Flags results;
  Flags changed;  // leaves that are not simply passed on

  Trial(BatchContext& context, const Node& loop, const Shape& shape, const Flags& flags) {
    Module module;
    const RunOnState test(context, *loop.called[0], *module.add_computation("condition"), shape,
                          flags);
    condition = test.results.at(0).batched;
    const RunOnState body(context, *loop.called[1], *module.add_computation("body"), shape, flags);
    for (size_t i = 0; i < flags.size(); ++i) {
      results.push_back(body.results[i].batched);
      changed.push_back(body.results[i].node != body.state[i].node);
    }
  }
};

// What of the state depends on the batch, as far as the body carries it.
Flags state_in_batch(BatchContext& context, const Node& loop, Flags flags) {
  const std::vector<Shape> shapes = leaf_shapes(loop.shape);
  for (bool grew = true; grew;) {
    grew = false;
    const Trial trial(context, loop, tuple_as(shapes, flags, context.size()), flags);
    for (size_t i = 0; i < flags.size(); ++i) {
      if (flags[i] || !(trial.results[i] || (trial.condition && trial.changed[i]))) continue;
      flags[i] = true;
      grew = true;
    }
  }
  return flags;
}

}  // namespace

Node* select_in_batch(Node* pred, Node* on_true, Node* on_false) {
  if (on_true->shape.dtype == DType::token) return on_true;
  if (on_true->rank() > 1) pred = hlo::broadcast(pred, on_true->dims(), {0});
  return hlo::select(pred, on_true, on_false);
}

// A condition that depends on the batch: the loop runs while it holds for any element, and those
// for which it does not hold keep their state.
std::vector<BatchLeaf> batch_while(BatchContext& context, const Node& node) {
  Computation& c = context.computation();
  Module& module = c.module();
  const int64_t size = context.size();
  const std::vector<BatchLeaf>& given = context.leaves(*node.operand(0));
  Flags flags;
  for (const BatchLeaf& leaf : given) flags.push_back(leaf.batched);
  flags = state_in_batch(context, node, std::move(flags));
  Node* const initial = hlo::tuple(c, nodes_as(given, flags, size));

  Computation* const condition = module.add_computation(node.called[0]->name());
  const BatchLeaf holds =
      RunOnState(context, *node.called[0], *condition, initial->shape, flags).results.at(0);
  condition->set_root(!holds.batched
                          ? holds.node
                          : hlo::reduce(holds.node, hlo::scalar(*condition, DType::pred, 0), {0},
                                        binary_computation(module, Opcode::or_, DType::pred)));

  Computation* const body = module.add_computation(node.called[1]->name());
  const RunOnState step(context, *node.called[1], *body, initial->shape, flags);
  std::vector<Node*> next = nodes_as(step.results, flags, size);
  if (holds.batched) {
    Node* const runs = context.run(*node.called[0], *body, step.state).at(0).node;
    for (size_t i = 0; i < next.size(); ++i)
      if (flags[i] && next[i] != step.state[i].node)
        next[i] = select_in_batch(runs, next[i], step.state[i].node);
  }
  body->set_root(hlo::tuple(*body, std::move(next)));
  Node* const loop =
      emit(c, node.opcode(), {initial}, node.attrs, initial->shape, {condition, body});
  loop->frontend_attributes = node.frontend_attributes;
  return leaves_with(hlo::leaves(loop), flags);
}

namespace {

// All branches on the whole batch, and of each element the result of its branch.
std::vector<BatchLeaf> batch_by_select(BatchContext& context, const Node& node, Node* selector) {
  Computation& c = context.computation();
  const int64_t size = context.size();
  std::vector<std::vector<BatchLeaf>> branches;
  for (size_t k = 0; k < node.called.size(); ++k)
    branches.push_back(context.run(*node.called[k], c, context.leaves(*node.operands()[k + 1])));
  std::vector<BatchLeaf> results = branches.back();
  for (size_t k = node.called.size() - 1; k-- > 0;) {
    Node* takes = selector;
    if (selector->shape.dtype != DType::pred)
      takes = hlo::compare(selector, hlo::splat(c, selector->shape, static_cast<double>(k)),
                           Direction::eq);
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].node->shape.dtype != DType::token)
        results[i] = {
            select_in_batch(takes, with_batch(branches[k][i], size), with_batch(results[i], size)),
            true};
  }
  return results;
}

}  // namespace

std::vector<BatchLeaf> batch_conditional(BatchContext& context, const Node& node) {
  Computation& c = context.computation();
  const BatchLeaf selector = operand_leaf(context, node, 0);
  if (selector.batched) return batch_by_select(context, node, selector.node);
  std::vector<Node*> operands{selector.node};
  std::vector<Computation*> called;
  std::vector<std::vector<BatchLeaf>> results;
  Flags batched(static_cast<size_t>(leaf_count(node.shape)), false);
  for (size_t k = 0; k < node.called.size(); ++k) {
    const std::vector<BatchLeaf>& given = context.leaves(*node.operands()[k + 1]);
    Flags flags;
    for (const BatchLeaf& leaf : given) flags.push_back(leaf.batched);
    operands.push_back(hlo::tuple(c, nodes_of(given)));
    called.push_back(c.module().add_computation(node.called[k]->name()));
    results.push_back(
        RunOnState(context, *node.called[k], *called[k], operands.back()->shape, flags).results);
    for (size_t i = 0; i < batched.size(); ++i) batched[i] = batched[i] || results[k][i].batched;
  }
  for (size_t k = 0; k < called.size(); ++k)
    called[k]->set_root(hlo::tuple(*called[k], nodes_as(results[k], batched, context.size())));
  const Shape shape = called[0]->root()->shape;
  Node* const chosen = emit(c, node.opcode(), std::move(operands), node.attrs, shape, called);
  chosen->frontend_attributes = node.frontend_attributes;
  return leaves_with(hlo::leaves(chosen), batched);
}

std::vector<BatchLeaf> batch_call(BatchContext& context, const Node& node) {
  std::vector<BatchLeaf> arguments;
  for (const Node* operand : node.operands()) {
    const std::vector<BatchLeaf>& leaves = context.leaves(*operand);
    arguments.insert(arguments.end(), leaves.begin(), leaves.end());
  }
  return context.run(*node.called.at(0), context.computation(), arguments);
}

std::vector<BatchLeaf> batch_opt_barrier(BatchContext& context, const Node& node) {
  std::vector<BatchLeaf> leaves = context.leaves(*node.operand(0));
  const std::vector<Node*> behind = hlo::optimization_barrier(nodes_of(leaves));
  for (size_t i = 0; i < leaves.size(); ++i) leaves[i].node = behind[i];
  return leaves;
}

}  // namespace gspmd
