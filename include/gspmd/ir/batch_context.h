#pragma once

// What an op may ask and emit when it is run for a whole batch at once.

#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/op.h"

namespace gspmd {

// An array that stands for an array of the function that is batched.
struct BatchLeaf {
  Node* node = nullptr;  // the array
  bool batched = false;  // dim 0 counts the batch; else it is one value for all of it
};

// What an op's `batch` may ask; implemented by passes.
class GSPMD_API BatchContext {
 public:
  virtual ~BatchContext() = default;
  virtual Computation& computation() = 0;  // where nodes are emitted
  virtual int64_t size() const = 0;        // of the batch
  // The mesh axis over which annotations split the batch; empty: they leave it open.
  virtual const std::string& mesh_axis() const = 0;
  // What stands for the leaves of a node of the function.
  virtual const std::vector<BatchLeaf>& leaves(const Node& node) const = 0;
  // Emits what a called computation does into `into`, given the leaves of its parameters, nodes of
  // `into`; the leaves of its result.
  virtual std::vector<BatchLeaf> run(const Computation& called, Computation& into,
                                     const std::vector<BatchLeaf>& arguments) = 0;
};

}  // namespace gspmd
