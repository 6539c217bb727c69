#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// Which annotations may stand behind the digits of a completed module: each annotation carried
// along the rules of completion as they stand at the end, O(edges). Near to what is so: order and
// conflicts are not seen (ShardingSources).
class AnnotationGraph {
 public:
  explicit AnnotationGraph(const Module& completed);  // Looks at every edge once.
  ~AnnotationGraph();
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
