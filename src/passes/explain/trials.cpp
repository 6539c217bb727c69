#include "passes/explain/trials.h"

#include <fmt/format.h>

#include "gspmd/base/error.h"
#include "passes/explain/concurrently.h"
#include "passes/shardy/annotation.h"

namespace gspmd {
namespace {

std::string key_of(const std::vector<Candidate>& candidates) {
  std::string key;
  for (const Candidate& c : candidates)
    key += fmt::format("{} {};", c.node, c.sharding ? to_string(*c.sharding) : "");
  return key;
}

}  // namespace

Nodes nodes_by_name(const Module& module) {
  Nodes nodes;
  for (const std::unique_ptr<Computation>& computation : module.computations())
    for (const std::unique_ptr<Node>& node : computation->nodes())
      if (computation.get() == module.entry())
        nodes.insert_or_assign(node->name(), node.get());
      else
        nodes.emplace(node->name(), node.get());
  return nodes;
}

Node* find(const Nodes& nodes, const std::string& name) {
  const auto found = nodes.find(name);
  return found == nodes.end() ? nullptr : found->second;
}

const std::vector<CollectiveStats>* Trials::collectives(const std::vector<Candidate>& candidates) {
  run({&candidates, 1});
  const auto found = known_.find(key_of(candidates));
  return found != known_.end() && found->second ? &*found->second : nullptr;
}

void Trials::run(std::span<const std::vector<Candidate>> all) {
  std::vector<std::pair<const std::vector<Candidate>*, Result*>> wanted;
  for (const std::vector<Candidate>& candidates : all) {
    if (left_ <= 0) break;
    const auto [at, is_new] = known_.try_emplace(key_of(candidates));
    if (!is_new) continue;
    --left_;
    wanted.emplace_back(&candidates, &at->second);
  }
  run_concurrently(wanted.size(),
                   [&](size_t i) { *wanted[i].second = compiled(*wanted[i].first); });
}

Trials::Result Trials::compiled(const std::vector<Candidate>& candidates) const {
  std::unique_ptr<Module> changed = module_.clone();
  const Nodes nodes = nodes_by_name(*changed);
  for (const Candidate& c : candidates) annotate_instead(*find(nodes, c.node), c.sharding);
  try {
    const CompiledModule compiled = run_pipeline(std::move(changed), pipeline_);
    return collective_stats(*compiled.uncombined, mesh_.get());
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace gspmd
