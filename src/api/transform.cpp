#include "gspmd/api/transform.h"

#include <fmt/ranges.h>

#include "api/body.h"
#include "api/emit.h"
#include "gspmd/passes/differentiate/differentiate.h"

namespace gspmd {

CheckpointPolicy CheckpointPolicy::nothing() { return {}; }
CheckpointPolicy CheckpointPolicy::dots() { return {Saves::dots, {}}; }
CheckpointPolicy CheckpointPolicy::everything() { return {Saves::everything, {}}; }
CheckpointPolicy CheckpointPolicy::save_only(std::vector<std::string> names) {
  return {Saves::nothing, std::move(names)};
}

}  // namespace gspmd

namespace gspmd::detail {

void append_leaves(PathLeaves& all, const PathLeaves& more) {
  all.insert(all.end(), more.begin(), more.end());
}

struct MarkedTrace::Impl {
  const char* op;
  Site site;
  std::vector<Tensor> arguments;
  std::vector<Node*> operands;
  std::vector<std::unique_ptr<OpenBody>> bodies;

  // The call; called computations take what they read from around them behind their own operands.
  std::vector<Tensor> emit_call(const char* target, size_t residuals,
                                const CheckpointPolicy& policy) const {
    std::vector<Node*> all = operands;
    std::vector<Computation*> called;
    for (const std::unique_ptr<OpenBody>& body : bodies) {
      all.insert(all.end(), body->outer().begin(), body->outer().end());
      called.push_back(&body->computation());
    }
    Attributes attrs;
    attrs.custom_call_target = target;
    std::vector<Shape> shapes;
    for (const Node* result : bodies[0]->results()) shapes.push_back(result->shape);
    Node* node = emit(trace_of_call().here(), Opcode::custom_call, std::move(all), std::move(attrs),
                      Shape::tuple(std::move(shapes)), std::move(called));
    constexpr const char* kNames[] = {"nothing", "dots", "everything"};
    node->frontend_attributes = {{kArguments, std::to_string(operands.size())},
                                 {kResiduals, std::to_string(residuals)},
                                 {kSaves, kNames[static_cast<size_t>(policy.saves)]},
                                 {kSavedNames, fmt::format("{}", fmt::join(policy.names, ","))}};
    std::vector<Tensor> results;
    for (size_t i = 0; i < node->shape.elements.size(); ++i)
      results.push_back(tensor_of(hlo::get_tuple_element(node, static_cast<int64_t>(i))));
    return results;
  }
};

MarkedTrace::MarkedTrace(const char* op, const PathLeaves& arguments, Site site)
    : impl_(make_owned<Impl>()) {
  call(op, site, [&] {
    impl_->op = op;
    impl_->site = site;
    for (const auto& [path, tensor] : arguments) {
      if (!TensorAccess::trace(tensor))
        call_error("argument {} has no value; assign it before the call", path);
      impl_->operands.push_back(node_of(tensor));
      impl_->arguments.push_back(tensor);
    }
  });
}

MarkedTrace::~MarkedTrace() = default;

const std::vector<Tensor>& MarkedTrace::arguments() const { return impl_->arguments; }

std::vector<Tensor> MarkedTrace::begin(const std::vector<Tensor>& like) {
  return call(impl_->op, impl_->site, [&] {
    impl_->bodies.push_back(std::make_unique<OpenBody>(impl_->op, impl_->site));
    std::vector<Tensor> parameters;
    for (const Tensor& tensor : like)
      parameters.push_back(
          impl_->bodies.back()->parameter(TensorAccess::node(tensor)->shape, "argument"));
    return parameters;
  });
}

void MarkedTrace::end(const std::vector<Tensor>& results) {
  call(impl_->op, impl_->site, [&] {
    for (const Tensor& result : results) check_tensor(result);
    impl_->bodies.back()->close(results);
  });
}

void MarkedTrace::check(const std::vector<Tensor>& results, const std::vector<Tensor>& expected,
                        const char* what) const {
  call(impl_->op, impl_->site, [&] {
    if (results.size() != expected.size())
      call_error("{} returns {} tensors, it has to return {}", what, results.size(),
                 expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      check_tensor(results[i]);
      const Shape& shape = TensorAccess::node(results[i])->shape;
      const Shape& wanted = TensorAccess::node(expected[i])->shape;
      if (!(shape == wanted))
        call_error("{} returns {} as tensor {}, it has to be {}", what, to_string(shape), i,
                   to_string(wanted));
    }
  });
}

std::vector<Tensor> MarkedTrace::finish_checkpoint(const CheckpointPolicy& policy) {
  return call(impl_->op, impl_->site, [&] {
    for (const std::string& name : policy.names)
      if (name.find(',') != std::string::npos)
        call_error("the name \"{}\" to be saved has a comma; give several names", name);
    return impl_->emit_call(kCheckpointCall, 0, policy);
  });
}

std::vector<Tensor> MarkedTrace::finish_custom_vjp(size_t residuals) {
  return call(impl_->op, impl_->site,
              [&] { return impl_->emit_call(kCustomVjpCall, residuals, {}); });
}

std::vector<Tensor> MarkedTrace::finish_custom_jvp() {
  return call(impl_->op, impl_->site, [&] { return impl_->emit_call(kCustomJvpCall, 0, {}); });
}

}  // namespace gspmd::detail
