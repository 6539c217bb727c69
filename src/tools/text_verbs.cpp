#include <fmt/format.h>

#include "gspmd/ir/text.h"
#include "gspmd/passes/propagate.h"
#include "tools/command.h"
#include "tools/report.h"

namespace gspmd::tools {
namespace {

void print_text(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Json origins_of(const Node& node) {
  Json list = Json::array();
  for (const Origin& origin : node.origins)
    list.push_back({{"leaf", origin.leaf},
                    {"dim", origin.dim},
                    {"size", origin.digit.size},
                    {"stride", origin.digit.stride},
                    {"annotation", origin.annotation},
                    {"via", origin.via}});
  return list;
}

Json shardings_json(const Module& module, bool changed, bool with_origins) {
  Json shardings = Json::object(), roots = Json::object(), origins = Json::object();
  for (const auto& computation : module.computations()) {
    Json& here = shardings[computation->name()] = Json::object();
    roots[computation->name()] = computation->root()->name();
    for (const auto& node : computation->nodes()) {
      if (node->sharding) here[node->name()] = to_string(*node->sharding);
      if (with_origins && !node->origins.empty())
        origins[computation->name()][node->name()] = origins_of(*node);
    }
  }
  Json result = {{"shardings", shardings}, {"root", roots}, {"changed", changed}};
  if (with_origins) result["origins"] = origins;
  return result;
}

}  // namespace

int print_verb(const Command& command) {
  const std::unique_ptr<Module> module = load_module(command);
  const std::string text = to_text(*module);
  if (command.json)
    print_json({{"module", text}});
  else
    print_text(text);
  return 0;
}

int propagate_verb(const Command& command) {
  const std::unique_ptr<Module> module = load_module(command);
  const bool changed = propagate(*module, propagate_options(command, *module));
  if (command.json)
    print_json(shardings_json(*module, changed, command.origins));
  else
    print_text(to_text(*module));
  return 0;
}

int partition_verb(const Command& command) {
  const std::unique_ptr<Module> module = load_for_devices(command);
  const CompiledModule compiled = run_pipeline(*module, pipeline_options(command, *module));
  const std::string text = to_text(*compiled.local);
  if (!command.json) {
    print_text(text);
    fmt::print(stderr, "{}", to_table(compiled.full_rematerializations));
    return 0;
  }
  print_json({{"module", text},
              {"collectives",
               to_json(collective_stats(*compiled.local, mesh_of(*compiled.completed).get()))},
              {"full_rematerializations", to_json(compiled.full_rematerializations)},
              {"instructions", instruction_count(*compiled.local)},
              {"seconds", total_seconds(compiled.seconds)}});
  return 0;
}

int explain_verb(const Command& command) {
  const std::unique_ptr<Module> module = load_for_devices(command);
  const CompiledModule compiled = run_pipeline(*module, pipeline_options(command, *module));
  // Before combining: each collective beside the op that needed it.
  const std::vector<CollectiveStats> collectives =
      collective_stats(*compiled.uncombined, mesh_of(*compiled.completed).get());
  if (command.json) {
    print_json({{"collectives", to_json(collectives)},
                {"full_rematerializations", to_json(compiled.full_rematerializations)}});
    return 0;
  }
  print_text(to_table(collectives));
  print_text(to_table(compiled.full_rematerializations));
  return 0;
}

}  // namespace gspmd::tools
