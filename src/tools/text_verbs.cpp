#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "gspmd/ir/print.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/explain/explain_sharding.h"
#include "gspmd/passes/explain/sharding_sources.h"
#include "tools/command.h"
#include "tools/copies.h"
#include "tools/report.h"
#include "tools/streams.h"

namespace gspmd::tools {
namespace {

Json path_names(const Node& node, const Origin& origin) {
  Json names = Json::array();
  for (const Node* step : origin_path(node, origin)) names.push_back(step->name());
  return names;
}

// A key that is not there yet: looking it up would take as long as the object is.
void append(Json& object, const std::string& key, Json value) {
  if (object.is_null()) object = Json::object();
  object.get_ref<Json::object_t&>().emplace_back(key, std::move(value));
}

// Lists of names that many origins share, each once; numbered as they come.
class NameSets {
 public:
  size_t number(std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    return numbers_.emplace(std::move(names), numbers_.size()).first->second;
  }
  Json json() const {
    std::vector<const std::vector<std::string>*> sets(numbers_.size());
    for (const auto& [names, number] : numbers_) sets[number] = &names;
    Json list = Json::array();
    for (const auto* names : sets) list.push_back(*names);
    return list;
  }

 private:
  std::map<std::vector<std::string>, size_t> numbers_;
};

Json origins_of(const Node& node, const ShardingSources& sources, NameSets& sets) {
  constexpr size_t kMost = 32;  // of the others that say the same
  Json list = Json::array();
  for (size_t i = 0; i < node.origins.size(); ++i) {
    const Origin& origin = node.origins[i];
    std::vector<std::string> also = sources.annotations(node, i);
    const size_t set = sets.number(also);
    std::erase(also, origin.annotation);
    Json others = Json::array();
    for (std::vector<std::string>& names : sources.others(node, i))
      others.push_back(sets.number(std::move(names)));
    const size_t count = also.size();
    if (count > kMost) also.resize(kMost);
    list.push_back({{"leaf", origin.leaf},
                    {"dim", origin.dim},
                    {"size", origin.digit.size},
                    {"stride", origin.digit.stride},
                    {"annotation", origin.annotation},
                    {"also", also},
                    {"also_count", count},
                    {"annotation_set", set},
                    {"other_sets", others},
                    {"seen", sources.seen(node, i)},
                    {"via", origin.via},
                    {"path", path_names(node, origin)}});
  }
  return list;
}

Json lint_json(const Module& module) {
  const ShardingLint lint = lint_shardings(module);
  Json lost = Json::array(), unused = Json::array();
  for (const LostAnnotation& l : lint.lost)
    lost.push_back({{"annotation", l.annotation->name()},
                    {"winner", l.winner ? l.winner->name() : ""},
                    {"at", l.at->name()},
                    {"reader", l.reader->name()},
                    {"dim", l.dim}});
  for (const Node* node : lint.unused) unused.push_back(node->name());
  return {{"lost", lost}, {"unused", unused}, {"text", to_string(lint)}};
}

// `sources`: nullptr where origins are not asked for.
Json shardings_json(const Module& module, bool changed, const ShardingSources* sources) {
  Json shardings = Json::object(), roots = Json::object(), origins = Json::object();
  NameSets sets;
  for (const auto& computation : module.computations()) {
    Json& here = shardings[computation->name()] = Json::object();
    roots[computation->name()] = computation->root()->name();
    for (const auto& node : computation->nodes()) {
      if (node->sharding) append(here, node->name(), to_string(*node->sharding));
      if (sources != nullptr && !node->origins.empty())
        append(origins[computation->name()], node->name(), origins_of(*node, *sources, sets));
    }
  }
  Json result = {{"shardings", shardings}, {"root", roots}, {"changed", changed}};
  if (sources == nullptr) return result;
  result["origins"] = origins;
  result["annotation_sets"] = sets.json();
  result["lint"] = lint_json(module);
  return result;
}

// For people: where each completed sharding came from, then what was lost.
std::string origins_text(const Module& module, const ShardingSources& sources) {
  std::string text;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      for (size_t i = 0; i < node->origins.size(); ++i) {
        if (node->origins[i].via.empty()) continue;
        const std::vector<std::string> behind = sources.annotations(*node, i);
        text += fmt::format("%{}: {}", node->name(), describe_origin(*node, node->origins[i]));
        if (behind.size() > 1) text += fmt::format("; also from %{}", behind[1]);
        if (behind.size() > 2) text += fmt::format(" and {} more", behind.size() - 2);
        text += "\n";
      }
  return text + to_string(lint_shardings(module));
}

}  // namespace

namespace {

void write_emitted(const Command& command, const Module& module, Language input) {
  emit_module(command, module, input, write_output);
}

// Partitioned, and no further than it is printed, unless more is asked for.
struct PartitionedModule {
  CompiledModule compiled;
  const Module* local = nullptr;
};

PartitionedModule partitioned(const Command& command, std::unique_ptr<Module> module) {
  PipelineOptions options = pipeline_options(command, *module);
  const bool runs_on = command.memory_limit != INT64_MAX || !command.dump_after.empty() ||
                       std::getenv("GSPMD_DUMP") != nullptr;
  if (!runs_on)
    for (const char* pass : {"keep-local", "fuse", "normalize", "plan-memory"})
      options.disabled.emplace_back(pass);
  PartitionedModule result{run_pipeline(std::move(module), options)};
  const CompiledModule& compiled = result.compiled;
  result.local = compiled.local ? compiled.local.get() : compiled.program.get();
  check_memory_limit(compiled.plan, command.memory_limit, command.file);
  return result;
}

// The end of the process frees a module faster than its destructor, which looks at every node.
void keep_to_the_end(std::unique_ptr<Module> module) {
  static auto* const kept = new std::vector<std::unique_ptr<Module>>;
  kept->push_back(std::move(module));
}

}  // namespace

int print_verb(const Command& command) {
  const InputText input = load_text(command);
  const Language language = language_of(input);
  std::vector<std::unique_ptr<Module>> modules = load_modules(command, input);
  if (modules.size() == 1 && !command.json) {
    write_emitted(command, *modules[0], language);
    keep_to_the_end(std::move(modules[0]));
    return 0;
  }
  std::string text;
  for (const auto& module : modules) {
    if (!text.empty()) text += text.ends_with('\n') ? "// -----\n" : "\n// -----\n";
    text += emitted_text(command, *module, language);
  }
  if (command.json)
    print_json({{"module", text}});
  else
    write_output(text);
  return 0;
}

int propagate_verb(const Command& command) {
  const InputText input = load_text(command);
  std::unique_ptr<Module> module = load_module(command, input, true);
  const std::unique_ptr<Module> given = command.origins ? module->clone() : nullptr;
  PropagateOptions options = propagate_options(command, *module);
  options.shardy.origins = command.origins;
  const bool changed = propagate(*module, options);
  std::optional<ShardingSources> sources;
  if (given) sources.emplace(*given, *module, SourcesOptions{.propagate = options});
  if (command.json)
    print_json(shardings_json(*module, changed, sources ? &*sources : nullptr));
  else
    write_emitted(command, *module, language_of(input));
  if (!command.json && sources) write_message(origins_text(*module, *sources));
  keep_to_the_end(std::move(module));
  return 0;
}

namespace {

// A per-device program is what partitioning it gives.
int partition_copies(const Module& module, const Command& command, Language input) {
  if (!command.json) {
    write_emitted(command, module, input);
    return 0;
  }
  print_json({{"module", emitted_text(command, module, input)},
              {"collectives", tools::to_json(collective_stats(*prepare_copies(module).module))},
              {"full_rematerializations", Json::array()},
              {"instructions", instruction_count(module)},
              {"seconds", 0.0}});
  return 0;
}

}  // namespace

int partition_verb(const Command& command) {
  const InputText input = load_text(command);
  std::unique_ptr<Module> module = load_for_devices(command, input);
  if (runs_as_copies(*module)) return partition_copies(*module, command, language_of(input));
  const auto [compiled, local] = partitioned(command, std::move(module));
  if (!command.json) {
    write_emitted(command, *local, language_of(input));
    write_message(to_table(compiled.full_rematerializations));
    return 0;
  }
  print_json(
      {{"module", emitted_text(command, *local, language_of(input))},
       {"collectives", to_json(collective_stats(*local, mesh_of(*compiled.completed).get()))},
       {"full_rematerializations", to_json(compiled.full_rematerializations)},
       {"instructions", instruction_count(*local)},
       {"seconds", total_seconds(compiled.seconds)}});
  return 0;
}

}  // namespace gspmd::tools
