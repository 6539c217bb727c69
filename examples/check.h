#pragma once

#include <cstdint>
#include <memory>

#include "examples/front.h"

namespace gspmd::examples {

// --check: the single-device program beside the mesh, and how far they are apart.
class Check {
 public:
  Check(const RunOptions& options, const Task& task);

  models::Trainer& trainer() { return *trainer_; }
  // Takes the same step on one device; returns its loss.
  double compare(const models::Leaves<Array>& batch, double lr, int64_t step, double loss,
                 const models::Trainer& mesh);
  double worst() const { return worst_; }  // relative difference of the losses compared
  bool passed() const { return passed_; }

 private:
  bool is_exact_step(const models::Leaves<Array>& batch) const;

  bool exact_;
  double tolerance_;
  int64_t steps_;
  std::unique_ptr<models::Trainer> trainer_;
  double worst_ = 0;
  bool passed_ = true;
};

}  // namespace gspmd::examples
