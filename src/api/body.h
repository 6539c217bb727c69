#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "api/trace_state.h"

namespace gspmd::detail {

// A body that is traced: open from its construction until close(), or until it is left.
class OpenBody {
 public:
  OpenBody(const char* op, Site site);
  OpenBody(const OpenBody&) = delete;
  OpenBody& operator=(const OpenBody&) = delete;
  ~OpenBody();

  // A parameter of the body's own; all of them come before the first operation.
  Tensor parameter(const Shape& shape, const std::string& name);
  // Ends the body; its results are nodes of it.
  void close(const std::vector<Tensor>& results);
  // The same of one result, which is the root itself and no tuple of it.
  void close_scalar(const Tensor& result);

  const std::vector<Node*>& results() const { return results_; }
  // What the body reads of the computation around it, in the order of the parameters behind its
  // own.
  const std::vector<Node*>& outer() const { return body_.outer; }
  Computation& computation() const { return *body_.computation; }
  // Copies the body behind the nodes of `into`; `arguments`: of all its parameters.
  std::vector<Node*> inline_into(Computation& into, std::span<Node* const> arguments) const;

 private:
  void leave();

  std::shared_ptr<TraceState> trace_;
  Body body_;
  std::vector<Node*> results_;
  bool open_ = true;
};

// The computation of two scalars that the user's function is, for reductions. UserError: it reads
// what is outside of it, or gives no scalar of the dtype.
Computation* scalar_computation(const char* op, Site site, DType dtype,
                                const std::function<Tensor(Tensor, Tensor)>& f);
// The initial value of a reduction of x: a scalar of its dtype.
Node* initial_value(const Operand& init, const Node* x);

}  // namespace gspmd::detail
