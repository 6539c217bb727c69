#include "gspmd/api/hlo.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "api/copy_module.h"
#include "api/emit.h"
#include "api/trace_state.h"
#include "gspmd/api/annotate.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/complete/propagate.h"

namespace gspmd {

using namespace detail;

namespace {

// Each leaf under the sharding that a node of the module has for it.
void annotate_leaves(const Node& node, std::vector<Node*>::iterator leaf) {
  if (!node.sharding) return;
  const int64_t count = leaf_count(node.shape);
  for (int64_t i = 0; i < count; ++i, ++leaf) {
    const Sharding& sharding = node.sharding->is_tuple()
                                   ? node.sharding->elements().at(static_cast<size_t>(i))
                                   : *node.sharding;
    *leaf = node_of(annotate(tensor_of(*leaf), sharding));
  }
}

std::vector<Shape> argument_shapes(const Module& module) {
  std::vector<Shape> shapes;
  for (const Node* parameter : module.entry()->parameters())
    for (Shape& leaf : leaf_shapes(parameter->shape)) shapes.push_back(std::move(leaf));
  return shapes;
}

void check_callable(const Module& module, const char* what, Site site) {
  if (module.entry() == nullptr)
    user_error(site, "{}: module {} has no entry computation", what, module.name);
  if (module.num_replicas > 1)
    user_error(site,
               "{}: module {} has replica_count={}; one replica can be run, use num_partitions",
               what, module.name, module.num_replicas);
}

// The module with the shardings of Shardy's dialect as HLO's, completed by Shardy's rules where
// these are the ones to use; nullptr: it has none to translate.
std::unique_ptr<Module> without_sdy(const Module& module, const PropagateOptions& options) {
  const bool completes = uses_shardy(module, options);
  const int64_t devices = sdy_devices(module);
  if (!completes && !says_sdy(module)) return nullptr;
  std::unique_ptr<Module> copy = module.clone();
  if (copy->num_partitions == 1) copy->num_partitions = std::max<int64_t>(1, devices);
  if (completes && copy->num_partitions > 1) propagate_shardy(*copy, options.shardy);
  lower_sdy(*copy);
  return copy;
}

void check_arguments(const Module& module, const std::vector<Tensor>& arguments) {
  const std::vector<Shape> wanted = argument_shapes(module);
  if (wanted.size() != arguments.size())
    call_error("{} arguments for module {}, whose parameters have {} leaves", arguments.size(),
               module.name, wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!(node_of(arguments[i])->shape == wanted[i]))
      call_error("argument {} is {}, module {} takes {}; convert or reshape it", i,
                 describe(node_of(arguments[i])), module.name, to_string(wanted[i]));
}

}  // namespace

std::shared_ptr<const Module> read_hlo(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file) user_error("{}: cannot be opened: {}", path, std::strerror(errno));
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad() || text.bad()) user_error("{}: cannot be read", path);
  return read_module(text.str(), path);
}

void write_hlo(const Module& module, const std::string& path, Language form) {
  std::ofstream file(path, std::ios::binary);
  if (!file) user_error("{}: cannot be opened: {}", path, std::strerror(errno));
  file << (form == Language::hlo ? to_text(module) : to_stablehlo(module));
  file.close();
  if (!file) user_error("{}: cannot be written", path);
}

std::vector<Tensor> call_hlo(const Module& given, const std::vector<Tensor>& arguments, Site site) {
  return call("call_hlo", site, [&] {
    check_callable(given, "call_hlo", called_site());
    const std::unique_ptr<Module> in_hlo = without_sdy(given, {});
    const Module& module = in_hlo ? *in_hlo : given;
    check_arguments(module, arguments);
    Computation& entry = trace_of_call().here();
    std::vector<Node*> leaves;
    for (const Tensor& argument : arguments) leaves.push_back(node_of(argument));
    std::vector<Node*> parameters;
    auto next = leaves.begin();
    for (const Node* parameter : module.entry()->parameters()) {
      annotate_leaves(*parameter, next);
      const auto end = next + static_cast<std::ptrdiff_t>(leaf_count(parameter->shape));
      parameters.push_back(hlo::from_leaves(entry, parameter->shape, {next, end}));
      next = end;
    }
    Node* const root = copy_entry(*module.entry(), entry, parameters);
    std::vector<Node*> results = hlo::leaves(root);
    annotate_leaves(*module.entry()->root(), results.begin());
    std::vector<Tensor> tensors;
    for (Node* result : results) tensors.push_back(tensor_of(result));
    return tensors;
  });
}

HloExecutable compile(const Module& given, CompileOptions options) {
  options.site = users_line(options.site);
  check_callable(given, "compile", options.site);
  PropagateOptions completion;
  completion.strategy = options.strategy;
  completion.shardy = options.shardy;
  const std::unique_ptr<Module> in_hlo = without_sdy(given, completion);
  const Module& module = in_hlo ? *in_hlo : given;
  if (in_hlo) options.strategy = Strategy::gspmd;  // what is Shardy's is done
  if (options.mesh.rank() == 0 && module.num_partitions > 1)
    options.mesh = Mesh({{"devices", module.num_partitions}});
  if (options.name == CompileOptions().name) options.name = module.name;
  const auto body = [&](const std::vector<Tensor>& arguments) {
    return call_hlo(module, arguments, options.site);
  };
  return compile(body, options, argument_shapes(module));
}

}  // namespace gspmd
