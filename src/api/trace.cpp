#include "gspmd/api/trace.h"

#include "api/trace_state.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "gspmd/passes/differentiate/differentiate.h"

namespace gspmd {

using namespace detail;

struct Traced::Parts {
  std::shared_ptr<const Module> module = nullptr;
  std::vector<TracedLeaf> arguments = {}, results = {};
  std::vector<Array> captured = {};
  std::vector<TypeAddress> argument_types = {}, result_types = {};
};

Traced::Traced() = default;
Traced::Traced(const Traced& other) noexcept = default;
Traced::Traced(Traced&& other) noexcept = default;
Traced& Traced::operator=(const Traced& other) noexcept = default;
Traced& Traced::operator=(Traced&& other) noexcept = default;
Traced::~Traced() = default;

const Module& Traced::module() const { return *parts_->module; }
std::string Traced::text() const { return to_text(module()); }
const std::vector<TracedLeaf>& Traced::arguments() const { return parts_->arguments; }
const std::vector<TracedLeaf>& Traced::results() const { return parts_->results; }
const std::vector<Array>& Traced::captured() const { return parts_->captured; }
const std::vector<TypeAddress>& Traced::argument_types() const { return parts_->argument_types; }
const std::vector<TypeAddress>& Traced::result_types() const { return parts_->result_types; }

struct TraceSession::Impl {
  TraceOptions options;
  std::shared_ptr<Module> module;
  std::shared_ptr<TraceState> state;
  std::string outer_scope;
  Traced traced;
  std::vector<Node*> results;

  std::string argument_path(const std::string& inner) const {
    const size_t i = traced.argument_types().size() - 1;
    const std::string name =
        i < options.argument_names.size() ? options.argument_names[i] : fmt::format("arg{}", i);
    return join_path(name, inner);
  }
};

TraceSession::TraceSession(const TraceOptions& options) : impl_(make_owned<Impl>()) {
  impl_->options = options;
  impl_->options.site = users_line(options.site);
  impl_->module = std::make_shared<Module>(identifier(options.name));
  impl_->state = std::make_shared<TraceState>();
  TraceState& state = *impl_->state;
  state.name = options.name;
  state.module = impl_->module.get();
  state.entry = impl_->module->add_computation("main");
  impl_->module->set_entry(state.entry);
  state.outer = current_trace();
  current_trace() = impl_->state;
  impl_->outer_scope.swap(name_scope());
}

TraceSession::~TraceSession() {
  TraceState& state = *impl_->state;
  current_trace() = state.outer;
  state.outer.reset();
  state.module = nullptr;
  state.entry = nullptr;
  name_scope() = impl_->outer_scope;
}

void TraceSession::begin_argument(TypeAddress type) {
  impl_->traced.parts_.edit().argument_types.push_back(type);
}

Tensor TraceSession::parameter(const std::string& inner_path, const Shape& shape) {
  const std::string path = impl_->argument_path(inner_path);
  if (shape.is_tuple || (!is_computable(shape.dtype) && !is_complex(shape.dtype)))
    user_error(impl_->options.site,
               "{}: argument {} is {}; give arrays of integer, floating or complex types",
               impl_->options.name, path, to_string(shape));
  for (const int64_t d : shape.dims)
    if (d < 0)
      user_error(impl_->options.site, "{}: argument {} is {}; sizes must be 0 or more",
                 impl_->options.name, path, to_string(shape));
  Traced::Parts& traced = impl_->traced.parts_.edit();
  Computation& entry = *impl_->state->entry;
  const auto number = static_cast<int64_t>(entry.parameters().size());
  Metadata metadata;
  metadata.op_name = path;
  const EmissionScope scope(std::move(metadata));
  Node* node = hlo::parameter(entry, number, shape, path);
  traced.arguments.push_back(
      {path, shape, static_cast<int64_t>(traced.argument_types.size()) - 1, inner_path});
  return TensorAccess::make(node, impl_->state);
}

Tensor TraceSession::parameter(const std::string& inner_path, const Array& array) {
  if (array.empty())
    user_error(impl_->options.site,
               "{}: argument {} is an empty Array; give it its shape, or a Shape alone",
               impl_->options.name, impl_->argument_path(inner_path));
  return parameter(inner_path, array.shape());
}

void TraceSession::begin_result(TypeAddress type) {
  impl_->traced.parts_.edit().result_types.push_back(type);
}

void TraceSession::result(const std::string& inner_path, const Tensor& tensor) {
  Traced::Parts& traced = impl_->traced.parts_.edit();
  const auto element = static_cast<int64_t>(traced.result_types.size()) - 1;
  const std::string path = join_path(fmt::format("result{}", element), inner_path);
  call(impl_->options.name.c_str(), impl_->options.site, [&] {
    if (!TensorAccess::trace(tensor))
      call_error("{} has no value; the function must assign every leaf that it returns", path);
    Node* node = node_of(tensor);
    impl_->results.push_back(node);
    traced.results.push_back({path, node->shape, element, inner_path});
  });
}

namespace {

// Takes out what has only marked values for transforms.
void remove_marks(Computation& computation) {
  open_markers(computation);
  for (const std::unique_ptr<Node>& node : computation.nodes())
    if (node->frontend_attributes.count(kDifferentiableInput) != 0)
      computation.replace_uses(node.get(), node->operand(0));
  computation.remove_dead();
}

}  // namespace

Traced TraceSession::finish() {
  Computation& entry = *impl_->state->entry;
  entry.set_root(hlo::tuple(entry, impl_->results));
  remove_marks(entry);
  Module& module = *impl_->module;
  module.remove_unreachable();
  for (const std::unique_ptr<Computation>& computation : module.computations())
    if (computation.get() != &entry) remove_marks(*computation);
  module.remove_unreachable();  // what was called by marks in bodies
  module.sort_computations();
  if (impl_->state->num_devices > 0) module.num_partitions = impl_->state->num_devices;
  module.frontend_attributes["gspmd.open_parameters"] = "true";
  module.frontend_attributes["gspmd.open_outputs"] = "true";
  impl_->traced.parts_.edit().captured = impl_->state->captured;
  impl_->traced.parts_.edit().module = impl_->module;
  return std::move(impl_->traced);
}

}  // namespace gspmd
