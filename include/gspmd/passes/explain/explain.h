#pragma once

// Why each collective of a program is there.

#include <optional>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "gspmd/passes/pipeline.h"

namespace gspmd {

// An annotation in the module: the node that carries it, or would.
struct NamedSharding {
  std::string node;      // its name in the module
  std::string sharding;  // HLO text, "{devices=[2,1]<=[2]}"
  std::string source;    // file:line of the node, may be empty
};

// An annotation with which the program, compiled again, is without the collective.
struct Suggestion {
  NamedSharding annotation;                   // what to write
  bool replaces = false;                      // the node is annotated already: this instead
  int64_t bytes_before = 0, bytes_after = 0;  // what one device sends in the whole program
};

// How it was seen that annotations are behind a collective: the program was compiled again, and the
// collective was another one or gone.
enum class Evidence {
  each,      // without each of them alone
  together,  // without all of them at once: one alone leaves it as it is
  none,      // they only stand nearest to it: it stays without them, or was not tried
             // (`max_candidates`)
};

// Why one collective is there.
struct Explanation {
  CollectiveStats collective;   // what it does
  std::string tensor_sharding;  // of the value that it moves, as completed
  std::string op_sharding;      // of the op that needed it
  // The annotations behind it, as `evidence` says; nearest first.
  std::vector<NamedSharding> annotations;
  Evidence evidence = Evidence::none;    // how that was seen
  std::optional<Suggestion> suggestion;  // the one that leaves the fewest bytes to send
};

// How far the search goes.
struct ExplainOptions {
  int64_t max_candidates = 50;       // programs compiled in search of suggestions; 0: no search
  int64_t max_instructions = 40000;  // in all of them together: fewer candidates for large modules
  // In all programs compiled to see what collectives hang on.
  int64_t max_checked_instructions = 400'000;
};

// Every collective of the module's per-device program (before combining), largest first, and what
// would remove it. UserError as the pipeline says.
GSPMD_API std::vector<Explanation> explain(const Module& module, const PipelineOptions& pipeline,
                                           const ExplainOptions& options = {});

}  // namespace gspmd
