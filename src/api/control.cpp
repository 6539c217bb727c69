#include "gspmd/api/control.h"

#include "api/body.h"
#include "api/emit.h"
#include "gspmd/ops/counted_loop.h"

namespace gspmd::detail {
namespace {

std::vector<Node*> nodes_of_leaves(const PathLeaves& leaves) {
  std::vector<Node*> nodes;
  for (const auto& [path, tensor] : leaves) {
    if (!TensorAccess::trace(tensor))
      call_error("leaf \"{}\" has no value; assign it before the call", path);
    nodes.push_back(node_of(tensor));
  }
  return nodes;
}

std::vector<Tensor> tensors_of_leaves(const PathLeaves& leaves) {
  std::vector<Tensor> tensors;
  for (const auto& [path, tensor] : leaves) {
    if (!TensorAccess::trace(tensor))
      call_error("the body returns leaf \"{}\" without a value; assign it in the body", path);
    tensors.push_back(tensor);
  }
  return tensors;
}

std::vector<Tensor> tensors_of_nodes(const std::vector<Node*>& nodes) {
  std::vector<Tensor> tensors;
  for (Node* node : nodes) tensors.push_back(tensor_of(node));
  return tensors;
}

std::string leaf_name(const std::string& path) { return path.empty() ? "" : " \"" + path + "\""; }

// That leaves have the paths and shapes that `wanted` have.
void check_same_leaves(const char* got, const PathLeaves& leaves, const char* want,
                       const PathLeaves& wanted) {
  for (size_t i = 0; i < std::min(leaves.size(), wanted.size()); ++i) {
    const auto& [path, tensor] = leaves[i];
    const auto& [wanted_path, wanted_tensor] = wanted[i];
    if (path != wanted_path)
      call_error("{} has leaf \"{}\" where {} has \"{}\"; both must be trees of one structure", got,
                 path, want, wanted_path);
    const Shape& shape = TensorAccess::node(tensor)->shape;
    const Shape& expected = TensorAccess::node(wanted_tensor)->shape;
    if (shape.dims != expected.dims)
      call_error(
          "{}{} is {}, {}{} is {}; shapes must be equal, reshape or broadcast_to one of them", got,
          leaf_name(path), to_string(shape), want, leaf_name(path), to_string(expected));
    if (shape.dtype != expected.dtype)
      call_error("{}{} is {}, {}{} is {}; convert(x, DType::{}) what the body returns", got,
                 leaf_name(path), to_string(shape), want, leaf_name(path), to_string(expected),
                 dtype_name(expected.dtype));
  }
  if (leaves.size() != wanted.size())
    call_error("{} has {} leaves, {} has {}; both must be trees of one structure", got,
               leaves.size(), want, wanted.size());
}

}  // namespace

// --- Loops with a known number of steps

struct LoopTrace::Impl {
  const char* op;
  Site site;
  PathLeaves init;
  std::vector<Node*> carries, inputs;
  ScanOptions options;
  int64_t length = 0;
  std::optional<OpenBody> body;
  Tensor step;
  std::vector<Tensor> inside_carries, slices;

  void check_inputs(const PathLeaves& xs) {
    if (options.unroll < 1) call_error("unroll is {}; give 1 or more", options.unroll);
    length = options.length;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Node* x = inputs[i];
      if (x->rank() == 0)
        call_error("input{} {} has no dim 0 to be cut along; close over it instead",
                   leaf_name(xs[i].first), describe(x));
      if (length < 0) length = x->dim(0);
      if (x->dim(0) != length)
        call_error("input{} {} has {} slices, {} {}; dim 0 of all inputs must be equal",
                   leaf_name(xs[i].first), describe(x), x->dim(0),
                   options.length >= 0 ? "the option length says" : "the first input has", length);
    }
    if (length < 0) call_error("there are no inputs to count the steps by; give {{.length = n}}");
    if (length > std::numeric_limits<int32_t>::max())
      call_error("{} steps are more than an s32 counts", length);
  }

  // One step behind the nodes of c: `state` is carries, inputs, outputs, captured values.
  std::vector<Node*> emit_step(Computation& c, std::vector<Node*> state, Node* number) const {
    Node* at = number;
    if (options.reverse)
      at = subtract(hlo::scalar(c, DType::s32, static_cast<double>(length - 1)), number);
    std::vector<Node*> arguments{number};
    arguments.insert(arguments.end(), state.begin(), state.begin() + offset(carries.size()));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Dims dims = inputs[i]->dims();
      dims.erase(dims.begin());
      arguments.push_back(
          read_step(state[carries.size() + i], Shape(inputs[i]->shape.dtype, dims), at));
    }
    const size_t captured = state.size() - body->outer().size();
    arguments.insert(arguments.end(), state.begin() + offset(captured), state.end());
    const std::vector<Node*> results = body->inline_into(c, arguments);
    std::copy(results.begin(), results.begin() + offset(carries.size()), state.begin());
    const size_t first_output = carries.size() + inputs.size();
    for (size_t i = carries.size(); i < results.size(); ++i) {
      Node*& all = state[first_output + i - carries.size()];
      all = write_step(all, results[i], at);
    }
    return state;
  }

  static std::ptrdiff_t offset(size_t i) { return static_cast<std::ptrdiff_t>(i); }

  std::vector<Node*> emit_loop_of_steps() const {
    Computation& c = trace_of_call().here();
    std::vector<Node*> state = carries;
    state.insert(state.end(), inputs.begin(), inputs.end());
    for (size_t i = carries.size(); i < body->results().size(); ++i) {
      Shape all = body->results()[i]->shape;
      all.dims.insert(all.dims.begin(), length);
      state.push_back(hlo::splat(c, all, 0));
    }
    state.insert(state.end(), body->outer().begin(), body->outer().end());
    const int64_t trips = length / options.unroll;
    state = state_after_loop(
        c, op, trips, std::move(state),
        [&](Computation& inside, const std::vector<Node*>& now, Node* number) {
          std::vector<Node*> next = now;
          Node* first = number;
          if (options.unroll > 1)
            first =
                hlo::binary(Opcode::multiply, number,
                            hlo::scalar(inside, DType::s32, static_cast<double>(options.unroll)));
          for (int64_t k = 0; k < options.unroll; ++k)
            next = emit_step(
                inside, std::move(next),
                k == 0 ? first
                       : add(first, hlo::scalar(inside, DType::s32, static_cast<double>(k))));
          return next;
        });
    for (int64_t done = trips * options.unroll; done < length; ++done)
      state = emit_step(c, std::move(state), hlo::scalar(c, DType::s32, static_cast<double>(done)));
    std::vector<Node*> results(state.begin(), state.begin() + offset(carries.size()));
    const size_t outputs = body->results().size() - carries.size();
    const auto first = state.begin() + offset(carries.size() + inputs.size());
    results.insert(results.end(), first, first + offset(outputs));
    return results;
  }
};

LoopTrace::LoopTrace(const char* op, const PathLeaves& init, const PathLeaves& xs,
                     const ScanOptions& options, Site site)
    : impl_(make_owned<Impl>()) {
  call(op, site, [&] {
    impl_->op = op;
    impl_->site = site;
    impl_->init = init;
    impl_->options = options;
    impl_->carries = nodes_of_leaves(init);
    impl_->inputs = nodes_of_leaves(xs);
    impl_->check_inputs(xs);
    OpenBody& body = impl_->body.emplace(op, site);
    impl_->step = body.parameter(Shape(DType::s32, {}), "step");
    for (size_t i = 0; i < init.size(); ++i)
      impl_->inside_carries.push_back(
          body.parameter(impl_->carries[i]->shape, join_path("carry", init[i].first)));
    for (size_t i = 0; i < xs.size(); ++i) {
      Shape slice = impl_->inputs[i]->shape;
      slice.dims.erase(slice.dims.begin());
      impl_->slices.push_back(body.parameter(slice, join_path("x", xs[i].first)));
    }
  });
}

LoopTrace::~LoopTrace() = default;

Tensor LoopTrace::step(int64_t first) const {
  if (first == 0) return impl_->step;
  return call(impl_->op, impl_->site, [&] {
    return tensor_of(add(node_of(impl_->step), node_of(Operand(first), DType::s32)));
  });
}
const std::vector<Tensor>& LoopTrace::carries() const { return impl_->inside_carries; }
const std::vector<Tensor>& LoopTrace::slices() const { return impl_->slices; }

std::vector<Tensor> LoopTrace::finish(const PathLeaves& carries, const PathLeaves& ys) {
  return call(impl_->op, impl_->site, [&] {
    std::vector<Tensor> results = tensors_of_leaves(carries);
    for (const Tensor& carry : results) check_tensor(carry);
    check_same_leaves("the carry that the body returns", carries, "the first carry", impl_->init);
    for (const Tensor& y : tensors_of_leaves(ys)) results.push_back(y);
    impl_->body->close(results);
    return tensors_of_nodes(impl_->emit_loop_of_steps());
  });
}

// --- Loops with a condition

struct WhileTrace::Impl {
  Site site;
  PathLeaves init;
  std::vector<Node*> carries;
  std::optional<OpenBody> condition, body;
  std::vector<Tensor> inside;

  void open(std::optional<OpenBody>& part, const char* name) {
    inside.clear();
    part.emplace(name, site);
    for (size_t i = 0; i < init.size(); ++i)
      inside.push_back(part->parameter(carries[i]->shape, join_path("carry", init[i].first)));
  }

  // A computation of one tuple: the carries, then what both parts read from around them.
  Computation* on_state(const OpenBody& part, const Shape& state, size_t first_captured,
                        bool is_body) const {
    Module& module = *trace_of_call().module;
    Computation* c = module.add_computation(part.computation().name());
    const std::vector<Node*> values = hlo::leaves(hlo::parameter(*c, 0, state, "state"));
    std::vector<Node*> arguments(values.begin(),
                                 values.begin() + static_cast<std::ptrdiff_t>(carries.size()));
    for (size_t i = 0; i < part.outer().size(); ++i)
      arguments.push_back(values[first_captured + i]);
    std::vector<Node*> results = part.inline_into(*c, arguments);
    if (!is_body) {
      c->set_root(results[0]);
      return c;
    }
    results.insert(results.end(), values.begin() + static_cast<std::ptrdiff_t>(carries.size()),
                   values.end());
    c->set_root(hlo::tuple(*c, std::move(results)));
    return c;
  }
};

WhileTrace::WhileTrace(const PathLeaves& init, Site site) : impl_(make_owned<Impl>()) {
  call("while_loop", site, [&] {
    impl_->site = site;
    impl_->init = init;
    impl_->carries = nodes_of_leaves(init);
    impl_->open(impl_->condition, "while_loop_condition");
  });
}

WhileTrace::~WhileTrace() = default;

const std::vector<Tensor>& WhileTrace::carries() const { return impl_->inside; }

void WhileTrace::begin_body(const Tensor& condition) {
  call("while_loop", impl_->site, [&] {
    const Node* node = node_of(condition);
    if (node->rank() != 0 || node->shape.dtype != DType::pred)
      call_error("the condition returns {}; it has to be a pred scalar, as a < b gives",
                 describe(node));
    impl_->condition->close({condition});
    impl_->open(impl_->body, "while_loop");
  });
}

std::vector<Tensor> WhileTrace::finish(const PathLeaves& carries) {
  return call("while_loop", impl_->site, [&] {
    const std::vector<Tensor> results = tensors_of_leaves(carries);
    for (const Tensor& carry : results) check_tensor(carry);
    check_same_leaves("the carry that the body returns", carries, "the first carry", impl_->init);
    impl_->body->close(results);
    std::vector<Node*> state = impl_->carries;
    const size_t first_condition = state.size();
    const std::vector<Node*>& of_condition = impl_->condition->outer();
    state.insert(state.end(), of_condition.begin(), of_condition.end());
    const size_t first_body = state.size();
    state.insert(state.end(), impl_->body->outer().begin(), impl_->body->outer().end());
    Computation& c = trace_of_call().here();
    Node* initial = hlo::tuple(c, state);
    Computation* condition =
        impl_->on_state(*impl_->condition, initial->shape, first_condition, false);
    Computation* body = impl_->on_state(*impl_->body, initial->shape, first_body, true);
    Node* loop = emit(c, Opcode::while_, {initial}, {}, initial->shape, {condition, body});
    std::vector<Tensor> last;
    for (size_t i = 0; i < impl_->carries.size(); ++i)
      last.push_back(tensor_of(hlo::get_tuple_element(loop, static_cast<int64_t>(i))));
    return last;
  });
}

// --- Branches

struct BranchTrace::Impl {
  const char* op;
  Site site;
  Node* selector = nullptr;
  std::vector<std::unique_ptr<OpenBody>> bodies;
  PathLeaves first;  // what the first branch returns

  void check_selector(size_t branches) const {
    if (branches == 0) call_error("there are no branches; give one or more");
    if (selector->rank() != 0)
      call_error("{} is no scalar; use where() to choose element by element", describe(selector));
    const bool two = std::string_view(op) == "cond";
    if (two && selector->shape.dtype != DType::pred)
      call_error("the condition {} is no pred; compare it, as x > 0 does", describe(selector));
    if (!two) need_integer(selector, "indices of branches");
  }
};

BranchTrace::BranchTrace(const char* op, Operand selector, size_t branches, Site site)
    : impl_(make_owned<Impl>()) {
  call(op, site, [&] {
    impl_->op = op;
    impl_->site = site;
    impl_->selector = node_of(selector, std::string_view(op) == "cond" ? DType::pred : DType::s32);
    impl_->check_selector(branches);
  });
}

BranchTrace::~BranchTrace() = default;

void BranchTrace::begin() {
  call(impl_->op, impl_->site,
       [&] { impl_->bodies.push_back(std::make_unique<OpenBody>(impl_->op, impl_->site)); });
}

void BranchTrace::end(const PathLeaves& results) {
  call(impl_->op, impl_->site, [&] {
    const std::vector<Tensor> tensors = tensors_of_leaves(results);
    for (const Tensor& tensor : tensors) check_tensor(tensor);
    if (impl_->bodies.size() == 1)
      impl_->first = results;
    else
      check_same_leaves(fmt::format("branch {}", impl_->bodies.size() - 1).c_str(), results,
                        "branch 0", impl_->first);
    impl_->bodies.back()->close(tensors);
  });
}

std::vector<Tensor> BranchTrace::finish() {
  return call(impl_->op, impl_->site, [&] {
    Computation& c = trace_of_call().here();
    std::vector<Node*> operands;
    if (impl_->selector->shape.dtype == DType::pred) {
      operands.push_back(impl_->selector);
    } else {
      // HLO takes the last branch for any index outside; here the nearest.
      Node* index = impl_->selector;
      const double last = static_cast<double>(impl_->bodies.size()) - 1;
      index = hlo::binary(Opcode::maximum, index, splat_like(index, 0));
      index = hlo::binary(Opcode::minimum, index, splat_like(index, last));
      operands.push_back(hlo::convert(index, DType::s32));
    }
    std::vector<Computation*> called;
    for (const std::unique_ptr<OpenBody>& body : impl_->bodies) {
      operands.push_back(hlo::tuple(c, body->outer()));
      Computation* branch = trace_of_call().module->add_computation(body->computation().name());
      const std::vector<Node*> arguments =
          hlo::leaves(hlo::parameter(*branch, 0, operands.back()->shape, "captured"));
      branch->set_root(hlo::tuple(*branch, body->inline_into(*branch, arguments)));
      called.push_back(branch);
    }
    const Shape shape = called[0]->root()->shape;
    Node* chosen = emit(c, Opcode::conditional, std::move(operands), {}, shape, std::move(called));
    std::vector<Tensor> results;
    for (size_t i = 0; i < shape.elements.size(); ++i)
      results.push_back(tensor_of(hlo::get_tuple_element(chosen, static_cast<int64_t>(i))));
    return results;
  });
}

std::vector<Tensor> behind_barrier(const PathLeaves& leaves, Site site) {
  return call("optimization_barrier", site,
              [&] { return tensors_of_nodes(hlo::optimization_barrier(nodes_of_leaves(leaves))); });
}

}  // namespace gspmd::detail
