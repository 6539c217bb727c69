#pragma once

#include <unordered_map>

#include "gspmd/passes/batch/batch.h"

namespace gspmd {

// One computation, emitted into another for the whole batch.
class Batcher final : public BatchContext {
 public:
  Batcher(Computation& into, const BatchOptions& options);
  std::vector<BatchLeaf> run_here(const Computation& source,
                                  const std::vector<BatchLeaf>& arguments);

  Computation& computation() override { return c_; }
  int64_t size() const override { return options_.size; }
  const std::string& mesh_axis() const override { return options_.mesh_axis; }
  const std::vector<BatchLeaf>& leaves(const Node& node) const override;
  std::vector<BatchLeaf> run(const Computation& called, Computation& into,
                             const std::vector<BatchLeaf>& arguments) override;

 private:
  std::vector<BatchLeaf> visited(const Node& node);
  std::vector<BatchLeaf> copied(const Node& node);

  // markers.cpp
  std::vector<BatchLeaf> batch_marker(const Node& marker);
  Computation* batched_body(const Computation& body, const std::vector<bool>& batched);

  Computation& c_;
  const BatchOptions& options_;
  std::unordered_map<const Node*, std::vector<BatchLeaf>> leaves_;
};

}  // namespace gspmd
