#pragma once

// All annotations behind a layout.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"
#include "gspmd/passes/complete/propagate.h"

namespace gspmd {

// How far annotations are taken away to see what hangs on them.
struct SourcesOptions {
  PropagateOptions propagate = {};     // as the module was completed
  int64_t max_instructions = 600'000;  // completed again, in all runs together
};

// The annotations that the digits of a completed module hang on. An Origin names the one that a
// digit came from first; others may say the same by another way, and only without all of them it is
// gone. Seen by completing the module again without annotations, until the digit is gone and no
// smaller set does it; beyond `max_instructions` followed along the rules of completion.
// Annotations are names of nodes, as in Origin: one is taken away with its node's sharding.
class GSPMD_API ShardingSources {
 public:
  // `given` is the module before completion, `completed` the same one after.
  ShardingSources(const Module& given, const Module& completed, const SourcesOptions& options = {});
  ~ShardingSources();
  // Of `node.origins[origin]`, a node of `completed`: without all of them the digit is gone, with
  // any one of them it is not. Its own annotation first.
  std::vector<std::string> annotations(const Node& node, size_t origin) const;
  // Other sets, none a part of another, without which the digit is gone as well: it takes an
  // annotation of each. Sorted names.
  std::vector<std::vector<std::string>> others(const Node& node, size_t origin) const;
  // Whether that was seen, not followed along rules.
  bool seen(const Node& node, size_t origin) const;
  // Whether every value is laid out without these annotations as it is with them; false where that
  // cannot be said.
  bool same_without(const std::vector<std::string>& annotations) const;

 private:
  class Removals;
  std::unique_ptr<Removals> removals_;
};

}  // namespace gspmd
