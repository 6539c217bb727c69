#pragma once

// All annotations behind a layout.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// All annotations behind the digits of a completed module. An Origin names the one that a digit
// came from first; others may say the same by another way, and any of them alone would bring it:
// only without all of them the value is laid out otherwise. Followed along the rules of completion
// as they stand at the end, O(edges); annotations are names of nodes, as in Origin.
class GSPMD_API ShardingSources {
 public:
  explicit ShardingSources(const Module& completed);  // Looks at every edge once.
  ~ShardingSources();
  // Of `node.origins[origin]`: its own annotation first.
  std::vector<std::string> annotations(const Node& node, size_t origin) const;

 private:
  class Graph;
  std::unique_ptr<Graph> graph_;
  std::vector<int32_t> component_of_;  // by entry of the graph
  std::vector<int32_t> set_of_;        // by component
  std::vector<std::vector<int32_t>> sets_;
  std::vector<std::string> names_;
};

}  // namespace gspmd
