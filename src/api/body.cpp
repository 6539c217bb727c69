#include "api/body.h"

#include <algorithm>

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

std::vector<Node*> OpenBody::inline_into(Computation& into,
                                         std::span<Node* const> arguments) const {
  return inline_computation(*body_.computation, into, arguments)->operands();
}

}  // namespace gspmd::detail
