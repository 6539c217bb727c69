#include "api/body.h"

#include <algorithm>
#include <optional>

namespace gspmd::detail {

OpenBody::OpenBody(const char* op, Site site) {
  TraceState& trace = trace_of_call();
  trace_ = current_trace();
  body_.op = op;
  body_.site = site;
  body_.computation = trace.module->add_computation(op);
  trace.bodies.push_back(&body_);
}

OpenBody::~OpenBody() { leave(); }

void OpenBody::leave() {
  if (open_) std::erase(trace_->bodies, &body_);
  open_ = false;
}

Tensor OpenBody::parameter(const Shape& shape, const std::string& name) {
  Computation& c = *body_.computation;
  return tensor_of(
      hlo::parameter(c, static_cast<int64_t>(c.parameters().size()), shape, identifier(name)));
}

void OpenBody::close(const std::vector<Tensor>& results) {
  for (const Tensor& result : results) results_.push_back(node_of(result));
  body_.computation->set_root(hlo::tuple(*body_.computation, results_));
  leave();
}

void OpenBody::close_scalar(const Tensor& result) {
  results_ = {node_of(result)};
  body_.computation->set_root(results_[0]);
  leave();
}

std::vector<Node*> OpenBody::inline_into(Computation& into,
                                         std::span<Node* const> arguments) const {
  return inline_computation(*body_.computation, into, arguments)->operands();
}

Computation* scalar_computation(const char* op, Site site, DType dtype,
                                const std::function<Tensor(Tensor, Tensor)>& f) {
  std::optional<OpenBody> body;
  std::vector<Tensor> scalars;
  call(op, site, [&] {
    body.emplace(op, site);
    for (const char* name : {"a", "b"}) scalars.push_back(body->parameter(Shape(dtype, {}), name));
  });
  const Tensor result = f(scalars[0], scalars[1]);  // its errors are its own
  call(op, site, [&] {
    body->close_scalar(result);
    const Node* root = body->results()[0];
    if (!(root->shape == Shape(dtype, {})))
      call_error("the function gives {} of two {} scalars; it has to give one {}", describe(root),
                 dtype_name(dtype), dtype_name(dtype));
    if (!body->outer().empty())
      call_error(
          "the function reads {}, which is outside of it; it may read its two arguments and "
          "C++ numbers",
          describe(body->outer()[0]));
  });
  return &body->computation();
}

Node* initial_value(const Operand& init, const Node* x) {
  Node* node = node_of(init, x->shape.dtype);
  if (!(node->shape == Shape(x->shape.dtype, {})))
    call_error("the initial value {} does not fit {}; give one {} without dims", describe(node),
               describe(x), dtype_name(x->shape.dtype));
  return node;
}

}  // namespace gspmd::detail
