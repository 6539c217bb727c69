#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "gspmd/passes/explain/explain.h"
#include "tools/command.h"
#include "tools/copies.h"
#include "tools/report.h"
#include "tools/streams.h"

namespace gspmd::tools {
namespace {

Json to_json(const NamedSharding& annotation) {
  return {{"instruction", annotation.node},
          {"sharding", annotation.sharding},
          {"source", annotation.source}};
}

const char* name_of(Evidence evidence) {
  switch (evidence) {
    case Evidence::each:
      return "each";
    case Evidence::together:
      return "together";
    default:
      return "none";
  }
}

// What is said of the annotations of an explanation.
const char* claim_of(Evidence evidence) {
  switch (evidence) {
    case Evidence::each:
      return "because of";
    case Evidence::together:
      return "together with others because of";
    default:
      return "near, but not seen to depend on";
  }
}

Json to_json(const Explanation& e, Json collective) {
  collective["tensor"] = e.collective.tensor;
  collective["tensor_sharding"] = e.tensor_sharding;
  collective["op_sharding"] = e.op_sharding;
  Json annotations = Json::array();
  for (const NamedSharding& annotation : e.annotations) annotations.push_back(to_json(annotation));
  collective["annotations"] = std::move(annotations);
  collective["evidence"] = name_of(e.evidence);
  collective["suggestion"] = nullptr;
  if (e.suggestion) {
    Json suggestion = to_json(e.suggestion->annotation);
    suggestion["replaces"] = e.suggestion->replaces;
    suggestion["bytes_before"] = e.suggestion->bytes_before;
    suggestion["bytes_after"] = e.suggestion->bytes_after;
    collective["suggestion"] = std::move(suggestion);
  }
  return collective;
}

std::string at(const std::string& source) { return source.empty() ? "" : " at " + source; }

// One collective in sentences.
std::string to_text(const Explanation& e) {
  const CollectiveStats& c = e.collective;
  std::string text = fmt::format("{}{}{}: {} bytes sent by each device\n", c.kind,
                                 c.count == 1 ? "" : fmt::format(", {} times", c.count),
                                 c.backward ? " (backward)" : "", c.bytes);
  text += fmt::format("  over {}\n", c.axes.empty() ? "groups " + c.groups.substr(0, 72) : c.axes);
  text += fmt::format("  needed by {}{} {}\n", c.instruction, at(c.source), e.op_sharding);
  if (c.tensor != c.instruction)
    text += fmt::format("  moves {} {}\n", c.tensor, e.tensor_sharding);
  for (const NamedSharding& a : e.annotations)
    text += fmt::format("  {} the annotation of {}{} {}\n", claim_of(e.evidence), a.node,
                        at(a.source), a.sharding);
  if (e.suggestion) {
    const Suggestion& s = *e.suggestion;
    text +=
        fmt::format("  gone with {} {}{} {}: the program then sends {} bytes instead of {}\n",
                    s.replaces ? "another annotation of" : "an annotation of", s.annotation.node,
                    at(s.annotation.source), s.annotation.sharding, s.bytes_after, s.bytes_before);
  }
  return text;
}

// `module` is `given` completed by Shardy's rules, where they are asked for; annotations are those
// of the text.
std::vector<Explanation> explained(const Command& command, const Module& given,
                                   const Module& module, const PipelineOptions& options) {
  PipelineOptions from_given = options;
  from_given.propagate.strategy = propagate_options(command, given).strategy;
  const bool by_shardy =
      command.propagate && given.num_partitions > 1 && uses_shardy(given, from_given.propagate);
  return by_shardy ? explain(given, from_given) : explain(module, options);
}

int write(const std::vector<Explanation>& all, const std::vector<FullRematerialization>& full,
          const Command& command) {
  if (command.json) {
    Json list = Json::array();
    for (const Explanation& e : all)
      list.push_back(to_json(e, tools::to_json(std::vector{e.collective})[0]));
    print_json({{"collectives", list}, {"full_rematerializations", tools::to_json(full)}});
    return 0;
  }
  if (all.empty()) write_output("no collectives\n");
  for (const Explanation& e : all) print_out("{}\n", to_text(e));
  write_output(to_table(full));
  return 0;
}

// Of a per-device program it is known what its collectives send and for which line, not what of
// the whole they hang on.
std::vector<Explanation> explain_copies(const Module& module) {
  std::vector<Explanation> all;
  for (CollectiveStats& collective : collective_stats(*prepare_copies(module).module)) {
    Explanation explanation;
    explanation.collective = std::move(collective);
    all.push_back(std::move(explanation));
  }
  std::stable_sort(all.begin(), all.end(), [](const Explanation& a, const Explanation& b) {
    return a.collective.bytes > b.collective.bytes;
  });
  return all;
}

}  // namespace

int explain_verb(const Command& command) {
  const std::unique_ptr<Module> given = load_as_given(command, load_text(command));
  const std::unique_ptr<Module> module = for_devices(command, given->clone());
  if (runs_as_copies(*module)) return write(explain_copies(*module), {}, command);
  const PipelineOptions options = pipeline_options(command, *module);
  const CompiledModule compiled = run_pipeline(*module, options);
  check_memory_limit(compiled.plan, command.memory_limit, command.file);
  return write(explained(command, *given, *module, options), compiled.full_rematerializations,
               command);
}

}  // namespace gspmd::tools
