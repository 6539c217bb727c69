#include "gspmd/api/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "api/executable_impl.h"
#include "api/trace_state.h"
#include "gspmd/api/annotate.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/place.h"
#include "gspmd/passes/prepare/check_numbers.h"
#include "passes/disabled.h"

namespace gspmd::detail {
namespace {

using Clock = std::chrono::steady_clock;

void check_mesh(const Traced& traced, const CompileOptions& options, bool annotated) {
  const int64_t devices = options.mesh.num_devices();
  if (annotated && traced.module().num_partitions != devices)
    user_error(
        options.site,
        "compile: {} is annotated for {} devices, but compiled for {} with {} devices; use one "
        "mesh for both",
        options.name, traced.module().num_partitions, to_string(options.mesh), devices);
}

bool has_annotation(const Module& module) {
  for (const std::unique_ptr<Node>& node : module.entry()->nodes())
    if (node->sharding && node->sharding->is_tiled() && node->sharding->order()) return true;
  return false;
}

void check_compile_options(const Traced& traced, const CompileOptions& options) {
  if (options.threads < 0 || options.threads > 1024)
    user_error(options.site, "compile: {} threads; give 1 to 1024, or 0 for the machine's cores",
               options.threads);
  const std::vector<std::string>& names = options.argument_names;
  if (names.size() > traced.argument_types().size())
    user_error(options.site, "compile: {} argument names for the {} arguments of {}; give one each",
               names.size(), traced.argument_types().size(), options.name);
  for (size_t i = 0; i < names.size(); ++i)
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      user_error(options.site, "compile: two arguments of {} are named \"{}\"; names must differ",
                 options.name, names[i]);
  const std::vector<std::string> passes = pass_names();
  for (const std::string& pass : options.dump_after)
    if (pass != "all" && std::find(passes.begin(), passes.end(), pass) == passes.end())
      user_error(options.site, "compile: dump_after names \"{}\"; passes are {}, or all", pass,
                 fmt::join(passes, ", "));
}

// What manual code computes is one part of a value, whose whole nobody has said.
void check_regions_end(const Traced& traced, const CompileOptions& options) {
  const Computation& entry = *traced.module().entry();
  const auto border = [](const Node& node, const char* target) {
    return node.is(Opcode::custom_call) && node.attrs.custom_call_target == target;
  };
  std::unordered_set<const Node*> inside;
  for (const std::unique_ptr<Node>& node : entry.nodes()) {
    if (border(*node, "SPMDShardToFullShape") || node.get() == entry.root()) continue;
    const bool reads = std::any_of(node->operands().begin(), node->operands().end(),
                                   [&](const Node* x) { return inside.count(x) != 0; });
    if (reads || border(*node, "SPMDFullToShardShape")) inside.insert(node.get());
  }
  for (size_t i = 0; i < traced.results().size(); ++i) {
    const Node& result = *entry.root()->operands().at(i);
    if (inside.count(&result) == 0) continue;
    at_node(result, [&] {
      user_error(
          "compile: result {} of {} is a part, {}, of a manual region; return "
          "manual_to_auto() of it",
          traced.results()[i].path, options.name, to_string(result.shape));
    });
  }
}

// What the option says, for the pass.
ShardUpdatesOptions shard_updates_options(const Traced& traced, const CompileOptions& options) {
  ShardUpdatesOptions result;
  const WeightUpdate& update = options.weight_update;
  if (update.axes.empty()) return result;
  if (update.min_elements < 0)
    user_error(options.site,
               "compile: weight_update.min_elements is {}; give 0 or more, 0 to shard all tensors",
               update.min_elements);
  if (update.gather_dtype && !is_floating(*update.gather_dtype))
    user_error(options.site,
               "compile: weight_update.gather_dtype is {}; give a floating type, as bf16",
               dtype_name(*update.gather_dtype));
  result.split = sharding_of(options.mesh, {DimSplit(update.axes)}, options.site);
  result.state = pair_state_leaves(traced, options);
  result.gather_dtype = update.gather_dtype;
  result.min_elements = update.min_elements;
  return result;
}

void check_updates(const CompiledModule& stages, const CompileOptions& options) {
  if (options.weight_update.axes.empty() || stages.sharded_updates > 0 ||
      options.mesh.num_devices() == 1)
    return;
  user_error(options.site,
             "compile: weight_update: {} has no update that {} could share: no argument of {} or "
             "more elements comes back with its next value, computed element by element, and is "
             "whole on them; return the new parameters under the paths of the old ones, or leave "
             "weight_update out",
             options.name, fmt::join(options.weight_update.axes, ", "),
             std::max<int64_t>(options.weight_update.min_elements, 2));
}

PipelineOptions pipeline_options(const CompileOptions& options) {
  PipelineOptions pipeline;
  pipeline.num_devices = options.mesh.num_devices();
  if (options.prepare) pipeline.schedule.process_of = process_of_devices(pipeline.num_devices);
  pipeline.propagate.replicate_indivisible_boundary = false;
  pipeline.propagate.strategy = options.strategy;
  pipeline.propagate.shardy = options.shardy;
  pipeline.combine = options.combine_collectives;
  pipeline.cse_across_phases = options.cse_across_phases;
  pipeline.windowed_einsum.all_gather = options.windowed_einsum;
  pipeline.windowed_einsum.reduce_scatter = options.windowed_einsum;
  pipeline.all_reduce = options.all_reduce;
  pipeline.memory_limit = options.memory_limit;
  check_disabled(options.disabled_passes);
  pipeline.disabled = options.disabled_passes;
  pipeline.dump_after = options.dump_after;
  pipeline.dump = options.dump;
  if (options.progress)
    pipeline.on_pass = [&options](const PassTime& time) {
      options.progress(time.pass, time.seconds);
    };
  return pipeline;
}

void read_shardings(ExecutableBase::Impl& impl) {
  const Computation& entry = *impl.stages.completed->entry();
  for (const Node* parameter : entry.parameters())
    impl.parameter_shapes.push_back(parameter->shape);
  impl.result_shapes = entry.root()->shape.elements;
  for (const Node* parameter : entry.parameters())
    impl.parameter_shardings.push_back(parameter->sharding.value_or(Sharding::replicated()));
  const Node& root = *entry.root();
  for (size_t i = 0; i < root.shape.elements.size(); ++i) {
    const bool given =
        root.sharding && root.sharding->is_tuple() && i < root.sharding->elements().size();
    const std::optional<Sharding>& leaf = root.operands().at(i)->sharding;
    impl.result_shardings.push_back(given ? root.sharding->elements()[i]
                                          : leaf.value_or(Sharding::replicated()));
  }
}

void share_layouts(ExecutableBase::Impl& impl) {
  std::vector<std::shared_ptr<const DeviceLayout>> known;
  const auto layout = [&](const Shape& shape, const Sharding& sharding) {
    auto wanted = std::make_shared<const DeviceLayout>(shape, sharding, impl.num_devices());
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const auto& other) { return *other == *wanted; });
    if (same != known.end()) return *same;
    return known.emplace_back(std::move(wanted));
  };
  for (size_t i = 0; i < impl.parameter_shapes.size(); ++i)
    impl.parameter_layouts.push_back(layout(impl.parameter_shapes[i], impl.parameter_shardings[i]));
  for (size_t i = 0; i < impl.result_shapes.size(); ++i)
    impl.result_layouts.push_back(layout(impl.result_shapes[i], impl.result_shardings[i]));
}

void log_rematerializations(const ExecutableBase::Impl& impl) {
  for (const FullRematerialization& full : impl.stages.full_rematerializations)
    impl.log(fmt::format("full rematerialization of {} {} from {} to {} for {} {}{}{}", full.tensor,
                         full.shape, full.from, full.to, full.op, full.source,
                         full.avoid.empty() ? "" : "; ", full.avoid));
}

// Errors of the passes get the line of the compile() call where they know no better one.
template <class F>
auto located(Site site, F&& body) {
  try {
    return body();
  } catch (const UserError& error) {
    if (error.site().known() || !site.known()) throw;
    throw UserError(error.what(), site);
  }
}

}  // namespace

Site users_line(Site site) {
  static const CompileOptions compile_options;
  static const TraceOptions trace_options;
  const auto is = [&](Site other) {
    return site.line == other.line && std::string_view(site.file) == other.file;
  };
  return is(compile_options.site) || is(trace_options.site) ? Site{} : site;
}

TraceOptions trace_options_of(const CompileOptions& options) {
  return {options.name, options.argument_names, options.site};
}

std::shared_ptr<ExecutableBase::Impl> compile_traced(Traced traced,
                                                     const CompileOptions& given_options) {
  CompileOptions options = given_options;
  options.site = users_line(options.site);
  check_compile_options(traced, options);
  auto impl = std::make_shared<ExecutableBase::Impl>();
  impl->traced = std::move(traced);
  impl->options = options;
  for (size_t i = options.argument_names.size(); i < impl->traced.argument_types().size(); ++i)
    impl->options.argument_names.push_back(fmt::format("arg{}", i));
  std::unique_ptr<Module> module = impl->traced.module().clone();
  check_mesh(impl->traced, options, has_annotation(*module));
  check_regions_end(impl->traced, options);
  module->num_partitions = options.mesh.num_devices();
  module->aliases = pair_donated_leaves(impl->traced, options);
  impl->donated.assign(impl->traced.arguments().size(), false);
  for (const Alias& alias : module->aliases)
    impl->donated[static_cast<size_t>(alias.parameter)] = impl->donates = true;

  if (options.check_numbers) insert_number_checks(*module);
  PipelineOptions pipeline = located(options.site, [&] { return pipeline_options(options); });
  pipeline.shard_updates = shard_updates_options(impl->traced, options);
  impl->stages = located(options.site, [&] { return run_pipeline(std::move(module), pipeline); });
  check_updates(impl->stages, options);
  std::vector<PassTime>& seconds = impl->stages.seconds;
  read_shardings(*impl);
  share_layouts(*impl);
  log_rematerializations(*impl);
  if (options.prepare) {
    const auto start = Clock::now();
    ProgramOptions program;
    program.num_devices = options.mesh.num_devices();
    program.reference_kernels = options.reference_kernels;
    program.poison = options.poison;
    program.alone_below = 2e4;  // another thread wakes in 15 us
    for (const auto& layout : impl->parameter_layouts)
      program.parameters.push_back({layout->global(), layout->sharding()});
    impl->program = located(options.site, [&] { return build_program(impl->stages, program); });
    seconds.push_back({"prepare", std::chrono::duration<double>(Clock::now() - start).count()});
    if (options.progress) options.progress(seconds.back().pass, seconds.back().seconds);
  }
  check_memory_limit(impl->stages.plan, options.memory_limit, "compile: " + options.name,
                     options.site);
  impl->stats = program_stats(*impl);
  return impl;
}

}  // namespace gspmd::detail
