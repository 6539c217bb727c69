#pragma once

// Where completed shardings came from.

#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Where completed shardings came from (docs/spec/completion.md 9). The module must be completed.

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
  std::vector<LostAnnotation> lost;  // each pair of annotations once, where it first happens
  std::vector<const Node*> unused;   // annotations whose digits reached no other value
};
// Looks at every annotation of a completed module.
GSPMD_API ShardingLint lint_shardings(const Module& completed);
// One line per finding.
GSPMD_API std::string to_string(const ShardingLint& lint);

}  // namespace gspmd
