// Modules and functions: attributes of arguments and results, calls.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "gspmd/ir/place.h"
#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/ops/targets.h"

namespace gspmd::stablehlo {
namespace {

constexpr int kMaxCallDepth = 64;       // calls of functions with open sizes inside one another
constexpr int64_t kMostCopies = 10000;  // of functions with open sizes
constexpr int64_t kMostCounted = int64_t{1} << 31;

bool is_open(const Type* type) { return !type->known && type->refusal.empty(); }

bool has_open_types(const Region& region) {
  return std::any_of(region.arguments.begin(), region.arguments.end(),
                     [](const Argument& argument) { return is_open(argument.type); }) ||
         std::any_of(region.ops.begin(), region.ops.end(), [](const Op& op) {
           return std::any_of(op.result_types.begin(), op.result_types.end(), is_open) ||
                  std::any_of(op.regions.begin(), op.regions.end(), has_open_types);
         });
}

bool stands_in(const OpRow* row, std::span<const OpRow> rows) {
  return row >= rows.data() && row < rows.data() + rows.size();
}

// Whether the op has operands that are sizes.
bool reads_sizes(const Op& op) {
  if (stands_in(op.row, dynamic_rows())) return true;
  for (const NamedAttribute& named : op.attributes)
    if (named.name == "call_target_name")
      return stands_in(find_target(named.value.text), dynamic_targets());
  return false;
}

// Devices of "#sdy.mesh<["x"=2, "y"=4]>".
int64_t mesh_devices(const std::string& text) {
  int64_t count = 1;
  for (size_t at = text.find("\"="); at != std::string::npos; at = text.find("\"=", at + 1)) {
    int64_t size = 0;
    for (size_t i = at + 2; i < text.size() && is_digit(text[i]) && size < kMostCounted; ++i)
      size = 10 * size + (text[i] - '0');
    count = saturating_multiply(count, size);
  }
  return count;
}

}  // namespace

std::string hlo_name(std::string_view name) {
  std::string result;
  for (const char c : name)
    result.push_back(is_letter(c) || is_digit(c) || c == '.' || c == '-' ? c : '_');
  return result.empty() || is_digit(result[0]) || result[0] == '-' || result[0] == '.'
             ? "_" + result
             : result;
}

void ModuleLowering::run() {
  read_module_attributes();
  entry_ = find_entry();
  std::vector<const Function*> functions;
  for (const auto& function : syntax_.functions) functions.push_back(function.get());
  lower_functions(callees_first(functions));
  module_.set_entry(lowered_.at(entry_));
  module_.sort_computations();
}

std::unique_ptr<Module> ModuleLowering::program_of(const Function& function,
                                                   const Processes& processes) const {
  auto module = std::make_unique<Module>();
  module->name = hlo_name(function.name);
  module->num_partitions = processes.replicas * processes.partitions;
  ModuleLowering lowering(syntax_, *module, options_);
  lowering.entry_ = &function;
  lowering.processes_ = processes;
  const Function* const one[] = {&function};
  lowering.lower_functions(callees_first(one));
  module->set_entry(lowering.lowered_.at(&function));
  module->sort_computations();
  return module;
}

void ModuleLowering::read_module_attributes() {
  module_.name = syntax_.name.empty() ? "module" : hlo_name(syntax_.name);
  bool counted = false;
  for (const NamedAttribute& named : syntax_.attributes) {
    const Attribute& value = named.value;
    if (named.name == "mhlo.num_partitions" || named.name == "mhlo.num_replicas") {
      if (value.kind != AttributeKind::integer || value.integer < 1 || value.integer > kMostCounted)
        cursor().fail(named.position, "{} is no number from 1 to {}", named.name, kMostCounted);
      const bool is_partitions = named.name == "mhlo.num_partitions";
      (is_partitions ? module_.num_partitions : module_.num_replicas) = value.integer;
      counted = counted || is_partitions;
    } else if (named.name == "mhlo.frontend_attributes") {
      add_frontend_attributes(*this, value, module_.frontend_attributes);
    } else {
      module_.frontend_attributes[fmt::format("{}{}", kKept, named.name)] = text_of(value);
    }
  }
  if (syntax_.meshes.empty()) return;
  std::string meshes;
  int64_t devices = 1;
  for (const Mesh& mesh : syntax_.meshes) {
    meshes += fmt::format("{}{} = {}", meshes.empty() ? "" : ", ", mesh.name, mesh.text);
    devices = std::max(devices, mesh_devices(mesh.text));
  }
  module_.frontend_attributes[kSdyMeshes] = "{" + meshes + "}";
  if (counted) return;
  // A text without a count is for the devices of its meshes.
  module_.frontend_attributes[kUncounted] = "true";
  if (devices <= kMostCounted) module_.num_partitions = devices;
}

const Function* ModuleLowering::find_entry() const {
  const auto& functions = syntax_.functions;
  const auto main = syntax_.by_name.find("main");
  if (main != syntax_.by_name.end()) return main->second;
  std::vector<const Function*> open;
  for (const auto& function : functions)
    if (function->visibility != "private" && function->has_body) open.push_back(function.get());
  if (open.size() == 1) return open[0];
  if (functions.size() == 1) return functions[0].get();
  if (options_.any_entry && !open.empty()) return open[0];
  std::string names;
  for (const Function* function : open) names += (names.empty() ? "@" : ", @") + function->name;
  cursor().fail(
      functions[0]->position,
      "the module has no @main and {} public functions{}{}; name one of them @main, or make "
      "the others private",
      open.size(), open.empty() ? "" : ": ", names);
}

void ModuleLowering::add_callee(std::string_view name, Callees& callees) const {
  const auto found = syntax_.by_name.find(std::string(name));
  if (found != syntax_.by_name.end() && callees.known.insert(found->second))
    callees.in_order.push_back(found->second);
}

void ModuleLowering::add_callees(const Op& op, Callees& callees) const {
  for (const NamedAttribute& named : op.attributes) {
    if (named.name == "call_target_name") continue;  // no function of the module
    const auto add = [&](const auto& self, const Attribute& attribute) -> void {
      if (attribute.kind == AttributeKind::symbol) add_callee(attribute.text, callees);
      for (const Attribute& element : attribute.list) self(self, element);
    };
    add(add, named.value);
  }
  for (const Region& region : op.regions)
    for (const Op& inner : region.ops) add_callees(inner, callees);
}

std::vector<const Function*> ModuleLowering::callees_of(const Function& function) const {
  Callees callees;
  for (const Op& op : function.body.ops) add_callees(op, callees);
  if (function.unread)
    for (const std::string_view name : function.unread->mentions) add_callee(name, callees);
  return std::move(callees.in_order);
}

// What a function calls stands before it; nothing calls itself.
std::vector<const Function*> ModuleLowering::callees_first(
    std::span<const Function* const> functions) const {
  enum class Mark : uint8_t { unseen, open, done };
  std::unordered_map<const Function*, Mark> marks;
  std::vector<const Function*> order;
  struct Step {
    const Function* function;
    std::vector<const Function*> callees;
    size_t next = 0;
  };
  std::vector<Step> stack;
  const auto enter = [&](const Function* function) {
    marks[function] = Mark::open;
    stack.push_back({function, callees_of(*function)});
  };
  for (const Function* function : functions) {
    if (marks[function] == Mark::unseen) enter(function);
    while (!stack.empty()) {
      Step& step = stack.back();
      if (step.next == step.callees.size()) {
        marks[step.function] = Mark::done;
        order.push_back(step.function);
        stack.pop_back();
        continue;
      }
      const Function* const callee = step.callees[step.next++];
      if (marks[callee] == Mark::open)
        cursor().fail(callee->position, "@{} calls itself through @{}; recursion is not supported",
                      callee->name, step.function->name);
      if (marks[callee] == Mark::unseen) enter(callee);
    }
  }
  return order;
}

// Whether sizes in the function may follow from what it is given: it is made for each call then.
bool ModuleLowering::is_dynamic(const Function& function) {
  const auto [found, is_new] = dynamic_.try_emplace(&function, false);
  if (!is_new) return found->second;
  const List<Argument>& arguments = function.body.arguments;
  const bool is_given_integers =
      std::any_of(arguments.begin(), arguments.end(), [](const Argument& argument) {
        return !argument.type->shape.is_tuple && is_integer(argument.type->shape.dtype);
      });
  const bool result =
      has_open_types(function.body) || (is_given_integers && passes_sizes(function.body));
  return dynamic_[&function] = result;
}

// Whether ops of the region read sizes, or call functions in which sizes are open.
bool ModuleLowering::passes_sizes(const Region& region) {
  const auto calls_open = [&](const Op& op) {
    if (op.row->opcode != Opcode::call) return false;
    const Attribute* callee = op.find("callee");
    if (callee == nullptr) callee = op.find("decomposition");
    const auto found = callee ? syntax_.by_name.find(callee->text) : syntax_.by_name.end();
    return found != syntax_.by_name.end() && is_dynamic(*found->second);
  };
  return std::any_of(region.ops.begin(), region.ops.end(), [&](const Op& op) {
    return reads_sizes(op) || calls_open(op) ||
           std::any_of(op.regions.begin(), op.regions.end(),
                       [&](const Region& inner) { return passes_sizes(inner); });
  });
}

void ModuleLowering::lower_functions(const std::vector<const Function*>& order) {
  for (const auto& function : syntax_.functions) function_names_.insert(hlo_name(function->name));
  for (const Function* function : order) {
    if (!function->has_body) {
      if (function == entry_) cursor().fail(function->position, "@{} has no body", function->name);
      continue;
    }
    if (function == entry_ || !is_dynamic(*function))
      lowered_[function] = lower_function(*function, {});
  }
  // What nothing calls is kept where it says its sizes itself.
  for (const Function* function : order)
    if (function->has_body && !lowered(*function) && !made_for_calls_.contains(function) &&
        !has_open_types(function->body))
      lowered_[function] = lower_function(*function, {});
}

Computation* ModuleLowering::lowered(const Function& function) const {
  const auto found = lowered_.find(&function);
  return found == lowered_.end() ? nullptr : found->second;
}

Computation* ModuleLowering::callee(const std::string& name, std::span<Node* const> operands,
                                    size_t position) {
  const auto found = syntax_.by_name.find(name);
  if (found == syntax_.by_name.end()) cursor().fail(position, "there is no function @{}", name);
  const Function& function = *found->second;
  if (!function.has_body)
    cursor().fail(position, "@{} is declared without a body, so it cannot be called", name);
  if (operands.size() != function.body.arguments.size())
    cursor().fail(position, "@{} has {} arguments, {} are given", name,
                  function.body.arguments.size(), operands.size());
  const auto known = lowered_.find(&function);
  if (known != lowered_.end()) return known->second;
  if (++depth_ > kMaxCallDepth || ++copies_ > kMostCopies)
    cursor().fail(position, "@{} has open sizes and is called too often or too deep", name);
  made_for_calls_.insert(&function);
  Computation* const made = lower_function(function, operands);
  --depth_;
  return made;
}

// `operands`: of a call for which a function with open sizes is made; else none.
Computation* ModuleLowering::lower_function(const Function& function,
                                            std::span<Node* const> operands) {
  const bool is_entry = &function == entry_;
  Computation* const computation = module_.add_computation(hlo_name(function.name));
  if (!is_entry)
    computation->attributes.emplace_back(kVisibility,
                                         function.visibility == "private" ? "private" : "public");
  Frame frame(computation);
  Frame* const outer = frame_;
  bind_parameters(function, frame, operands, is_entry);
  frame_ = &frame;
  if (function.unread)
    lower_unread(*function.unread);
  else
    lower_ops(function.body.ops);
  if (!frame.has_returned)
    cursor().fail(function.body.position, "@{} does not end with a return", function.name);
  computation->set_root(finish_function(function, frame, is_entry));
  frame_ = outer;
  return computation;
}

void ModuleLowering::bind_parameters(const Function& function, Frame& frame,
                                     std::span<Node* const> operands, bool is_entry) {
  int64_t number = 0;
  for (const Argument& argument : function.body.arguments) {
    const Type& type = *argument.type;
    const auto i = static_cast<size_t>(number);
    if (!type.refusal.empty())
      cursor().fail(argument.position, "argument {} is {}: {}", number, type.text, type.refusal);
    if (operands.empty() && !type.known)
      cursor().fail(argument.position,
                    "argument {} of @{} is {}, whose size is open: export with static shapes",
                    number, function.name, type.text);
    const EmissionScope scope(locations_.metadata(argument.location));
    Node* parameter = nullptr;
    try {
      parameter = hlo::parameter(frame.computation(), number,
                                 operands.empty() ? type.shape : operands[i]->shape,
                                 argument.name.empty() ? "arg" : hlo_name(argument.name));
    } catch (const UserError& error) {
      cursor().fail(argument.position, "argument {}: {}", number, error.what());
    }
    if (!operands.empty() && !fits(operands[i]->shape, type))
      cursor().fail(argument.position, "argument {} of @{} is {}, {} is given", number,
                    function.name, type_text(type.shape), type_text(operands[i]->shape));
    parameter->metadata.text = site_of(argument.position);
    add_parameter_attributes(argument, parameter, is_entry);
    Node* value = parameter;
    // What may be a size is a constant in there.
    const bool may_be_size =
        !operands.empty() && !parameter->shape.is_tuple &&
        (is_integer(parameter->shape.dtype) || parameter->shape.dtype == DType::pred);
    if (may_be_size)
      if (const std::optional<Array> known = known_value(operands[i]); known && !known->empty())
        value = hlo::constant(frame.computation(), *known);
    if (!argument.name.empty() && !frame.bind(argument.name, value))
      cursor().fail(argument.position, "%{} is defined twice", argument.name);
    ++number;
  }
}

void ModuleLowering::add_parameter_attributes(const Argument& argument, Node* parameter,
                                              bool is_entry) {
  for (const NamedAttribute& named : argument.attributes) {
    const Attribute& value = named.value;
    if (named.name == "sdy.sharding") {
      parameter->frontend_attributes[kXlaSdySharding] = text_of(value);
    } else if (named.name == "mhlo.sharding") {
      parameter->sharding = sharding_of_text(*this, value, parameter->shape);
    } else if (named.name == "mhlo.frontend_attributes") {
      add_frontend_attributes(*this, value, parameter->frontend_attributes.edit());
    } else if (named.name == "tf.aliasing_output" && is_entry) {
      Alias alias;
      const auto results = static_cast<int64_t>(entry_->result_types.size());
      if (value.kind != AttributeKind::integer || value.integer < 0 || value.integer >= results)
        cursor().fail(named.position, "tf.aliasing_output is no number of the {} results", results);
      if (results != 1) alias.output = {value.integer};
      alias.parameter = parameter->attrs.index;
      module_.aliases.push_back(alias);
    } else if (named.name == "jax.buffer_donor" && is_entry) {
      donors_ += fmt::format("{} ({}, {{}})", donors_.empty() ? "" : ",", parameter->attrs.index);
    } else {
      parameter->frontend_attributes[fmt::format("{}{}", kKept, named.name)] = text_of(value);
    }
  }
}

Node* ModuleLowering::finish_function(const Function& function, Frame& frame, bool is_entry) {
  std::vector<Node*> results = frame.returned;
  if (results.size() != function.result_types.size())
    cursor().fail(function.position, "@{} returns {} values, {} are declared", function.name,
                  results.size(), function.result_types.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!fits(results[i]->shape, *function.result_types[i]))
      cursor().fail(function.position, "@{}: result {} is declared as {}, but {} is returned",
                    function.name, i, type_text(function.result_types[i]->shape),
                    type_text(results[i]->shape));
    results[i] = add_result_attributes(function, i, results[i]);
  }
  if (is_entry && !donors_.empty())
    module_.header.emplace_back("buffer_donor", "{" + donors_ + " }");
  if (results.size() == 1) return results[0];
  Node* const root = hlo::tuple(frame.computation(), std::move(results));
  // What all results have is the sharding of the root.
  std::vector<Sharding> shardings;
  for (size_t i = 0; i < function.result_attributes.size(); ++i)
    for (const NamedAttribute& named : function.result_attributes[i])
      if (named.name == "mhlo.sharding")
        shardings.push_back(sharding_of_text(*this, named.value, root->shape.elements[i]));
  const auto& elements = root->shape.elements;
  if (shardings.size() == elements.size() && !elements.empty())
    root->sharding = Sharding::tuple(std::move(shardings));
  return root;
}

Node* ModuleLowering::add_result_attributes(const Function& function, size_t index, Node* result) {
  const Dictionary& attributes = function.result_attributes[index];
  Computation& computation = result->parent();
  std::map<std::string, std::string> kept;
  const auto call = [&](const char* target) {
    Attributes attrs;
    attrs.custom_call_target = target;
    Node* const node =
        emit(computation, Opcode::custom_call, {result}, std::move(attrs), result->shape);
    return node;
  };
  Node* named_result = nullptr;
  std::optional<Sharding> sharding;
  for (const NamedAttribute& named : attributes) {
    if (named.name == "sdy.sharding")
      kept[kXlaSdySharding] = per_value(text_of(named.value));
    else if (named.name == "mhlo.sharding")
      sharding = sharding_of_text(*this, named.value, result->shape);
    else if (named.name == "mhlo.frontend_attributes")
      add_frontend_attributes(*this, named.value, kept);
    else
      module_.frontend_attributes[fmt::format("{}result.{}.{}.{}", kKept, computation.name(), index,
                                              named.name)] = text_of(named.value);
  }
  if (!kept.empty()) {
    named_result = result = call(kSdyResultTarget);
    result->attrs.other["custom_call_has_side_effect"] = "true";
    result->frontend_attributes = std::move(kept);
  }
  const auto has_sharding = [](const Dictionary& of) {
    return std::any_of(of.begin(), of.end(),
                       [](const NamedAttribute& named) { return named.name == "mhlo.sharding"; });
  };
  const auto& all = function.result_attributes;
  const bool is_roots = all.size() > 1 && std::all_of(all.begin(), all.end(), has_sharding);
  if (sharding && !is_roots && !(result->sharding && *result->sharding == *sharding)) {
    if (named_result == nullptr) result = call("Sharding");
    result->sharding = std::move(sharding);
  }
  return result;
}

}  // namespace gspmd::stablehlo
