#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "gspmd/passes/pipeline.h"

namespace gspmd {

// Another annotation on a node; nullopt: none.
struct Candidate {
  std::string node;
  std::optional<Sharding> sharding;
};

using Nodes = std::map<std::string, Node*>;
// The entry's nodes win over those of computations with the same names.
Nodes nodes_by_name(const Module& module);
Node* find(const Nodes& nodes, const std::string& name);  // nullptr: none

// A program compiled with other annotations than it has, to see what becomes of its collectives.
class Trials {
 public:
  // `module` has to outlive it. At most `limit` programs are compiled.
  Trials(const Module& module, const PipelineOptions& pipeline, int64_t limit)
      : module_(module), pipeline_(pipeline), left_(limit) {}
  void name_axes_by(std::shared_ptr<const Mesh> mesh) { mesh_ = std::move(mesh); }
  // What is compiled for suggestions counts apart.
  void allow_more(int64_t limit) { left_ = limit; }

  // The collectives; nullptr where the program cannot be compiled so, or no trials are left. Each
  // set of candidates is compiled once.
  const std::vector<CollectiveStats>* collectives(const std::vector<Candidate>& candidates);
  // The same for many, several at a time.
  void run(std::span<const std::vector<Candidate>> all);

 private:
  using Result = std::optional<std::vector<CollectiveStats>>;
  Result compiled(const std::vector<Candidate>& candidates) const;

  const Module& module_;
  const PipelineOptions& pipeline_;
  std::shared_ptr<const Mesh> mesh_;
  int64_t left_ = 0;
  std::map<std::string, Result> known_;
};

}  // namespace gspmd
