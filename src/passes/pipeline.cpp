#include "gspmd/passes/pipeline.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <unordered_set>

#include "base/guard_bytes.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/collectives/all_reduce.h"
#include "gspmd/passes/collectives/collective_motion.h"
#include "gspmd/passes/collectives/combine_collectives.h"
#include "gspmd/passes/fuse/fuse.h"
#include "gspmd/passes/prepare/inline_calls.h"
#include "gspmd/passes/prepare/join_async.h"
#include "gspmd/passes/simplify/simplify.h"
#include "ir/call_nesting.h"
#include "passes/collectives/merge_reduce_scatters.h"
#include "passes/complete/agree_aliases.h"
#include "passes/partition/agree_layouts.h"
#include "passes/prepare/expand_ops.h"
#include "passes/prepare/merge_pads.h"
#include "passes/prepare/normalize.h"
#include "passes/prepare/static_starts.h"

namespace gspmd {
namespace {

// The module between passes, and where each pass finds its options.
struct State {
  const PipelineOptions& options;
  std::unique_ptr<Module> module;
  CompiledModule result;
  PropagateOptions propagate = options.propagate;
  std::unordered_set<int64_t> open = {};  // nodes that only completion lays out
  bool keeps_partitioned = false;         // what is partitioned is the completed module
};

std::unordered_set<int64_t> without_sharding(const Module& module) {
  std::unordered_set<int64_t> found;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (!node->sharding) found.insert(node->id());
  return found;
}

// What takes over a parameter's storage is laid out as the parameter, where it may be.
void pair_donated(State& state) {
  PropagateOptions options = state.propagate;
  if (!state.options.run_propagation) options.allow_output = options.allow_parameters = {false};
  for (const std::string& note : agree_aliases(*state.module, options))
    if (state.options.on_note) state.options.on_note(note);
}

void simplify(Module& module, bool across_phases) {
  bool may_have_dead = true;  // nodes
  for (int round = 0; round < 8; ++round) {
    bool changed = simplify_algebra(module);
    changed |= eliminate_common_subexpressions(module, across_phases);
    if (!changed && !may_have_dead) return;
    may_have_dead = eliminate_dead_code(module);
    if (!changed && !may_have_dead) return;
  }
}

bool names(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// A copy only where something is changed before the module is partitioned, which leaves it as it
// is.
void keep_completed(State& state) {
  const Module& module = *state.module;
  state.keeps_partitioned = !may_use_static_starts(module) && !may_merge_pads(module) &&
                            !names(state.options.disabled, "partition");
  if (!state.keeps_partitioned) state.result.completed = module.clone();
}

void partition_completed(State& state) {
  PartitionResult made =
      partition(*state.module, {state.options.num_devices, state.options.poison_absent},
                std::move(state.open));
  state.module.swap(made.module);
  if (state.keeps_partitioned) state.result.completed = std::move(made.module);
  state.result.full_rematerializations = std::move(made.full_rematerializations);
}

// The bytes of each whole value by name; empty where the completed module was not kept.
FlatMap<std::string_view, int64_t> global_bytes(const State& state) {
  FlatMap<std::string_view, int64_t> bytes;
  if (!state.result.completed) return bytes;
  if (state.result.completed->entry() != nullptr)
    bytes.reserve(state.result.completed->entry()->nodes().size());
  for (const auto& computation : state.result.completed->computations())
    for (const auto& node : computation->nodes()) {
      int64_t& most = bytes[node->name()];
      most = std::max(most, node->shape.bytes());
    }
  return bytes;
}

// Joins by the global bytes of the values that are moved, so that it does not depend on how many
// devices they are split over.
void combine(State& state) {
  const auto bytes = global_bytes(state);
  CombineOptions options;
  options.bytes = [&](const Node& collective) {
    const int64_t* const found = bytes.find(*collective.metadata.moved);
    const int64_t local = collective.operand(0)->shape.bytes();
    return found == nullptr ? local : std::max(local, *found);
  };
  combine_collectives(*state.module, options);
}

MemoryPlan plan_to_run(const Module& program) {
  return plan_memory(program, {.guard_bytes = kGuardBytes, .scratch = {}});
}

// Of what is planned: without a plan nothing runs.
void recompute(State& state) {
  if (state.options.memory_limit == INT64_MAX) return;
  RecomputeResult result =
      recompute(*state.module, state.options.memory_limit, {.guard_bytes = kGuardBytes});
  if (result.program) state.module = std::move(result.program);
  state.result.recomputations = std::move(result.recomputations);
}

struct Pass {
  const char* name;
  void (*run)(State& state);
};

// What the module says in `sdy` is completed by Shardy's rules, where they are asked for, and said
// in HLO's form. Completion after it finds these given, and fills in nodes that later passes make.
void complete_by_shardy(State& state) {
  PropagateOptions& options = state.propagate;
  if (state.options.run_propagation && uses_shardy(*state.module, options))
    propagate_shardy(*state.module, options.shardy);
  if (lower_sdy(*state.module)) verify_module(*state.module);
  options.strategy = Strategy::gspmd;
}

// The compiler. Disabling a pass that is not optional leaves out its work and is for debugging.
const Pass kPasses[] = {
    {"shardy", complete_by_shardy},
    {"join-async", [](State& s) { join_async(*s.module); }},
    {"inline-calls", [](State& s) { inline_calls(*s.module); }},
    {"expand-ops",
     [](State& s) {
       if (s.options.num_devices > 1) expand_ops(*s.module);
     }},
    {"propagate",
     [](State& s) {
       if (!s.options.run_propagation) return;
       s.open = without_sharding(*s.module);
       propagate(*s.module, s.propagate);
     }},
    {"shard-updates",
     [](State& s) {
       s.result.sharded_updates = shard_updates(*s.module, s.options.shard_updates);
     }},
    {"pair-donated", pair_donated},
    {"keep-completed", keep_completed},
    {"static-starts", [](State& s) { use_static_starts(*s.module); }},
    {"merge-pads", [](State& s) { merge_pads(*s.module); }},
    {"partition", partition_completed},
    {"simplify", [](State& s) { simplify(*s.module, s.options.cse_across_phases); }},
    {"reassociate-collectives", [](State& s) { reassociate_collectives(*s.module); }},
    {"sink-all-reduces", [](State& s) { sink_all_reduces(*s.module); }},
    {"reduce-scatter", [](State& s) { rewrite_reduce_scatter(*s.module); }},
    {"hoist-collectives", [](State& s) { hoist_collectives(*s.module); }},
    {"windowed-einsum",
     [](State& s) { loop_windowed_einsums(*s.module, s.options.windowed_einsum); }},
    {"merge-reduce-scatters", [](State& s) { merge_reduce_scatters(*s.module); }},
    {"simplify-again", [](State& s) { simplify(*s.module, s.options.cse_across_phases); }},
    {"keep-uncombined",
     [](State& s) {
       if (s.options.keep_uncombined) s.result.uncombined = s.module->clone();
     }},
    {"combine-collectives",
     [](State& s) {
       if (s.options.combine) combine(s);
     }},
    {"decompose-all-reduces",
     [](State& s) { decompose_all_reduces(*s.module, s.options.all_reduce); }},
    {"keep-local", [](State& s) { s.result.local = s.module->clone(); }},
    {"fuse",
     [](State& s) {
       if (s.options.fuse) fuse(*s.module);
     }},
    {"normalize", [](State& s) { normalize(*s.module); }},
    {"schedule", [](State& s) { schedule_collectives(*s.module, s.options.schedule); }},
    {"recompute", recompute},
    {"plan-memory", [](State& s) { s.result.plan = plan_to_run(*s.module); }},
};

void dump(const State& state, size_t index) {
  const std::string name = kPasses[index].name;
  const bool wanted =
      names(state.options.dump_after, name) || names(state.options.dump_after, "all");
  const char* directory = std::getenv("GSPMD_DUMP");
  if (!wanted && !directory) return;
  const std::string text = to_text(*state.module);
  if (wanted && state.options.dump) state.options.dump(name, text);
  if (!directory) return;
  const std::string path =
      fmt::format("{}/{}.{:02}-{}.hlo", directory, state.module->name, index, name);
  std::ofstream file(path);
  file << text;
  file.close();  // what is still buffered may fail too
  if (!file) user_error("GSPMD_DUMP: {} cannot be written", path);
}

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> result;
  for (const Pass& pass : kPasses) result.emplace_back(pass.name);
  return result;
}

CompiledModule run_pipeline(const Module& module, const PipelineOptions& options) {
  return run_pipeline(module.clone(), options);
}

CompiledModule run_pipeline(std::unique_ptr<Module> module, const PipelineOptions& options) {
  const std::vector<std::string> known = pass_names();
  for (const std::string& name : options.disabled)
    if (!names(known, name))
      user_error("disable: there is no pass \"{}\"; passes are {}", name, fmt::join(known, ", "));
  check_nesting(*module);
  State state{options, std::move(module), {}, options.propagate};
  for (size_t i = 0; i < std::size(kPasses); ++i) {
    if (names(options.disabled, kPasses[i].name)) continue;
    const auto start = std::chrono::steady_clock::now();
    kPasses[i].run(state);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.result.seconds.push_back({kPasses[i].name, took.count()});
    if (options.on_pass) options.on_pass(state.result.seconds.back());
    if (options.verify_between) verify_module(*state.module);
    dump(state, i);
  }
  state.result.program = std::move(state.module);
  return std::move(state.result);
}

CompiledModule prepare_local(const Module& local, const ScheduleOptions& schedule) {
  if (local.entry() == nullptr)
    user_error("prepare_local: module {} has no entry computation", local.name);
  std::unique_ptr<Module> module = local.clone();
  join_async(*module);
  inline_calls(*module, Fusions::kernels);
  normalize(*module);
  schedule_collectives(*module, schedule);
  CompiledModule result;
  result.plan = plan_to_run(*module);
  result.program = std::move(module);
  return result;
}

}  // namespace gspmd
