#pragma once

// Where completed shardings came from.

#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"
#include "gspmd/passes/complete/propagate.h"

namespace gspmd {

// Where completed shardings came from (docs/spec/completion.md 10). The module must be completed.

// The nodes that a digit of `node` came through, from its neighbour to the annotated node; long
// ways are cut after `most` nodes. Empty on the annotated node itself.
GSPMD_API std::vector<const Node*> origin_path(const Node& node, const Origin& origin,
                                               size_t most = 64);

// "dim 2 over model: from w at transformer.cpp:24, through dot %q, transpose %t". An axis is named
// where the sharding knows its mesh, else the digit is written (size,stride).
GSPMD_API std::string describe_origin(const Node& node, const Origin& origin);
// All digits of a value, one per line; "" where completion found none.
GSPMD_API std::string describe_sharding(const Node& node);

// An annotation that a reader carries to a value which another one laid out differently.
struct LostAnnotation {
  const Node* annotation = nullptr;  // lost ...
  const Node* winner = nullptr;      // ... to this one; nullptr: to what could not be split
  const Node* at = nullptr;          // on this value
  const Node* reader = nullptr;      // which wanted it otherwise
  int64_t dim = 0;                   // of `at`
};
// Annotations that do not do what their author may think.
struct ShardingLint {
  std::vector<LostAnnotation> lost;    // each pair of annotations once, where it first happens
  std::vector<const Node*> unused;     // annotations whose digits reached no other value
  std::vector<const Node*> redundant;  // as redundant_annotations finds them, where it was asked
  std::vector<const Node*> alone;      // as lone_group_members finds them, where it was asked
};
// Looks at every annotation of a completed module; leaves `redundant` and `alone` empty.
GSPMD_API ShardingLint lint_shardings(const Module& completed);
// Annotations of the user that change nothing: without any one of them, the others left, completion
// gives every value the same sharding. `given` is the module before completion. At most `most` are
// tried, the first ones.
GSPMD_API std::vector<const Node*> redundant_annotations(const Module& given,
                                                         const PropagateOptions& options = {},
                                                         int64_t most = 64);
// Annotations of shard_as and shard_like whose group has no other member, since the other result of
// the two is not used: they say nothing. `given` is the module before completion.
GSPMD_API std::vector<const Node*> lone_group_members(const Module& given);
// One line per finding.
GSPMD_API std::string to_string(const ShardingLint& lint);

}  // namespace gspmd
