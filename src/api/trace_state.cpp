#include "api/trace_state.h"

#include <cmath>
#include <limits>

#include "gspmd/base/error.h"

namespace gspmd::detail {
namespace {

struct CallFrame {
  const char* op = "gspmd";
  Site site;
  int depth = 0;
};

CallFrame& frame() {
  thread_local CallFrame frame;
  return frame;
}

bool fits(double value, bool integral, DType dtype) {
  if (is_floating(dtype) || is_complex(dtype)) return true;
  if (dtype == DType::pred) return value == 0 || value == 1;
  if (!integral && value != std::trunc(value)) return false;
  return visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>)
      return value >= static_cast<double>(std::numeric_limits<T>::min()) &&
             value <= static_cast<double>(std::numeric_limits<T>::max());
    else
      return true;
  });
}

Node* captured_node(const Array& array) {
  TraceState& trace = trace_of_call();
  if (array.empty()) call_error("an empty Array has no value; give it a shape first");
  for (size_t i = 0; i < trace.captured.size(); ++i)
    if (trace.captured[i].storage() == array.storage())
      return node_here(trace, trace.captured_nodes[i]);
  Computation& entry = *trace.entry;
  Node* node = hlo::parameter(entry, static_cast<int64_t>(entry.parameters().size()), array.shape(),
                              "captured");
  trace.captured.push_back(array);
  trace.captured_nodes.push_back(node);
  return node_here(trace, node);
}

Node* capture(Body& body, Node* outer) {
  const auto [at, fresh] = body.captured.emplace(outer, nullptr);
  if (!fresh) return at->second;
  Computation& c = *body.computation;
  if (outer->is(Opcode::constant) && outer->rank() == 0)  // one of its own folds into what reads it
    return at->second = hlo::constant(c, outer->attrs.literal);
  const auto number = static_cast<int64_t>(c.parameters().size());
  body.outer.push_back(outer);
  return at->second = hlo::parameter(c, number, outer->shape, outer->name());
}

}  // namespace

std::shared_ptr<TraceState>& current_trace() {
  thread_local std::shared_ptr<TraceState> trace;
  return trace;
}

std::string& name_scope() {
  thread_local std::string scope;
  return scope;
}

CallScope::CallScope(const char* op, Site site) : outermost_(frame().depth == 0) {
  ++frame().depth;
  if (!outermost_) return;
  frame().op = op;
  frame().site = site;
  Metadata metadata;
  metadata.op_name = name_scope() + op;
  metadata.source_file = site.file;
  metadata.source_line = site.line;
  emission_.emplace(std::move(metadata));
}

CallScope::~CallScope() { --frame().depth; }

const char* called_op() { return frame().op; }
Site called_site() { return frame().site; }

TraceState& trace_of_call() {
  const std::shared_ptr<TraceState>& trace = current_trace();
  if (!trace)
    call_error("called outside a trace; call it in a function given to trace() or compile()");
  return *trace;
}

void check_tensor(const Tensor& tensor) {
  const std::shared_ptr<const TraceState>& trace = TensorAccess::trace(tensor);
  if (!trace)
    call_error("a tensor has no value yet; assign the result of an operation or use a parameter");
  if (!trace->active())
    call_error(
        "a tensor of trace \"{}\" is used after that trace ended; return it from the traced "
        "function and read the array it becomes",
        trace->name);
  if (trace != current_trace())
    call_error(
        "tensors of two traces meet, \"{}\" and \"{}\"; pass the value as an argument of the "
        "inner function",
        trace->name, trace_of_call().name);
}

Node* node_here(TraceState& trace, Node* node) {
  const Computation* const home = &node->parent();
  if (home == &trace.here()) return node;
  size_t inside = 0;
  while (inside <= trace.bodies.size() &&
         home != (inside == 0 ? trace.entry : trace.bodies[inside - 1]->computation))
    ++inside;
  if (inside > trace.bodies.size())
    call_error(
        "{} was made in the body of a loop or branch, or in a function given to shard_map or vmap, "
        "that has ended; return it from the body",
        describe(node));
  for (; inside < trace.bodies.size(); ++inside) node = capture(*trace.bodies[inside], node);
  return node;
}

Node* node_of(const Tensor& tensor) {
  check_tensor(tensor);
  return node_here(trace_of_call(), TensorAccess::node(tensor));
}

Node* scalar_node(double value, bool integral, DType dtype) {
  if (!fits(value, integral, dtype))
    call_error("the number {} is not a {}; convert the tensor or round the number", value,
               dtype_name(dtype));
  return hlo::scalar(trace_of_call().here(), dtype, value);
}

Node* node_of(const Operand& operand, std::optional<DType> dtype) {
  switch (operand.kind()) {
    case Operand::Kind::tensor:
      return node_of(operand.tensor());
    case Operand::Kind::array:
      return captured_node(operand.array());
    default:
      break;
  }
  trace_of_call();
  if (!dtype)
    call_error(
        "the number {} has no dtype of its own; use full({{dtype, {{}}}}, {}) or give a tensor",
        operand.number(), operand.number());
  return scalar_node(operand.number(), operand.is_integral(), *dtype);
}

std::pair<Node*, Node*> nodes_of(const Operand& a, const Operand& b) {
  if (a.is_scalar() && b.is_scalar())
    call_error(
        "both operands are C++ numbers ({} and {}); one must be a tensor, as full({{dtype, {{}}}}, "
        "{})",
        a.number(), b.number(), b.number());
  Node* left = a.is_scalar() ? nullptr : node_of(a);
  Node* right = b.is_scalar() ? nullptr : node_of(b);
  if (!left) left = node_of(a, right->shape.dtype);
  if (!right) right = node_of(b, left->shape.dtype);
  if (left->shape.dtype != right->shape.dtype)
    call_error("dtypes {} and {} of {} and {} differ; convert(x, DType::{}) one of them",
               dtype_name(left->shape.dtype), dtype_name(right->shape.dtype), describe(left),
               describe(right), dtype_name(left->shape.dtype));
  return {left, right};
}

Tensor tensor_of(Node* node) { return TensorAccess::make(node, current_trace()); }

std::string describe(const Node* node) { return node->name() + " " + to_string(node->shape); }

}  // namespace gspmd::detail
