#include "gspmd/passes/shardy/propagate_shardy.h"

#include <algorithm>

#include "gspmd/ir/text.h"
#include "ir/sdy_names.h"
#include "passes/shardy/import_shardings.h"
#include "passes/shardy/prepare.h"
#include "passes/shardy/program_builder.h"
#include "passes/shardy/propagation.h"

namespace gspmd {
namespace {

bool is_sdy_attribute(const std::pair<const std::string, std::string>& attribute) {
  return attribute.first.starts_with("xla.sdy.") || attribute.first.starts_with("sdy.");
}

SdyPropagation propagation_of(const ShardyOptions& options) {
  const ShardyPass pass = options.pass;
  const bool pipeline = pass == ShardyPass::pipeline;
  SdyPropagation how;
  how.aggressive = pass != ShardyPass::basic;
  how.user_priorities = pass == ShardyPass::user_priority || (pipeline && options.user_priorities);
  how.op_priorities = pass == ShardyPass::op_priority || pass == ShardyPass::user_priority ||
                      (pipeline && options.op_priorities);
  how.conservative = options.conservative;
  how.origins = options.origins;
  return how;
}

// Constraints say from now on where a value moves.
void constraints_to_reshards(Module& module) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      if (is_call_of(*node, kSdyGroupTarget)) node->frontend_attributes[kRemoved] = "true";
      if (!is_call_of(*node, "Sharding") || node->frontend_attributes.contains(kSdyCollective))
        continue;
      node->frontend_attributes[kSdyReshard] = "true";
      // One that HLO's form says stands with its value so far.
      auto& attributes = node->frontend_attributes.edit();
      if (const auto own = attributes.find(kSdySharding);
          own != attributes.end() && !attributes.contains(kXlaSdySharding)) {
        attributes[kXlaSdySharding] = own->second;
        attributes.erase(kSdySharding);
      }
    }
}

bool run_single_pass(Module& module, const ShardyOptions& options) {
  give_each_call_its_own(module, false);
  SdyProgram program = build_sdy_program(module, {false, options.conservative});
  const bool changed = propagate_program(program, propagation_of(options));
  write_back(module, program, false);
  write_shardings(module, program, true);
  if (options.origins) write_origins(module, program);
  return changed;
}

SdyProgram constrained_program(Module& module, const ShardyOptions& options) {
  SdyProgram program = build_sdy_program(module, {true, options.conservative});
  normalize_axes(program);
  apply_constraints(program);
  return program;
}

bool run_pipeline_of_passes(Module& module, const ShardyOptions& options) {
  remove_unused_functions(module);
  const auto copies = give_each_call_its_own(module, true);
  // Of a completed module each constant has the readers that agree on its sharding, and loops read
  // what they agree with.
  const auto completed = module.frontend_attributes.find(kSdyCompleted);
  std::vector<std::vector<Node*>> constants;
  std::vector<Node*> captures;
  if (completed == module.frontend_attributes.end() || completed->second != "true") {
    constants = split_constants(module);
    captures = read_captures_through_constraints(module);
  }
  read_edges_through_constraints(module);
  apply_constraint_chains(module);
  SdyProgram program = constrained_program(module, options);
  if (route_differing_groups(module, program)) program = constrained_program(module, options);
  unite_groups(program);
  const std::vector<SdyDonated> donated = share_donated(module, program);
  const bool changed = propagate_program(program, propagation_of(options));
  finish_program(program);
  agree_donated(program, donated);
  write_back(module, program, true);
  write_shardings(module, program, true);
  if (options.origins) write_origins(module, program);
  merge_constants(constants);
  remove_idle_constraints(captures);
  constraints_to_reshards(module);
  merge_copies(module, copies);
  return changed;
}

}  // namespace

bool says_sdy(const Module& module) {
  if (std::any_of(module.frontend_attributes.begin(), module.frontend_attributes.end(),
                  is_sdy_attribute))
    return true;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (is_silent_border(*node) || std::any_of(node->frontend_attributes.begin(),
                                                 node->frontend_attributes.end(), is_sdy_attribute))
        return true;
  return false;
}

bool is_completed_in_sdy(const Module& module) {
  return module.frontend_attributes.contains(kSdyCompleted);
}

void keep_sdy_only(Module& module) {
  module.frontend_attributes.erase(kSdyCompleted);
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) node->sharding.reset();
}

int64_t sdy_devices(const Module& module) {
  const auto text = module.frontend_attributes.find(kSdyMeshes);
  if (text == module.frontend_attributes.end()) return 0;
  const SdyMeshes meshes = parse_sdy_meshes(text->second);
  int64_t devices = 0;
  for (int64_t i = 0; i < meshes.size(); ++i) devices = std::max(devices, meshes[i].num_devices());
  return devices;
}

bool propagate_shardy(Module& module, const ShardyOptions& options) {
  if (module.entry() == nullptr) return false;
  read_tuple_shardings(module);
  // What is completed has every sharding in both forms.
  if (!module.frontend_attributes.contains(kSdyCompleted)) import_shardings(module);
  if (options.pass == ShardyPass::rules) {
    const SdyProgram program = build_sdy_program(module, {false, options.conservative});
    write_rules(module, program, options.conservative);
    return true;
  }
  const bool changed = options.pass == ShardyPass::pipeline
                           ? run_pipeline_of_passes(module, options)
                           : run_single_pass(module, options);
  module.frontend_attributes[kSdyCompleted] =
      options.pass == ShardyPass::pipeline ? "true" : "in part";
  return changed;
}

}  // namespace gspmd
