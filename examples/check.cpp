#include "examples/check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gspmd/testing.h"

namespace gspmd::examples {
namespace {

// How far losses of 20 steps may be apart: some roundings of the type they are computed in.
double tolerance_of(const RunOptions& options, const Task& task) {
  if (task.dtype() == DType::f64) return 1e-10;
  return options.compute.empty() || options.compute == "f32" ? task.comparison().tolerance : 2e-2;
}

bool equal_leaves(const models::Leaves<Array>& a, const models::Leaves<Array>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!bitwise_equal(a[i].second, b.at(i).second)) return false;
  return a.size() == b.size();
}

}  // namespace

Check::Check(const RunOptions& options, const Task& task)
    : exact_(task.exact()),
      tolerance_(tolerance_of(options, task)),
      steps_(task.comparison().steps),
      trainer_(std::make_unique<models::Trainer>(trainer_options(options, task, Mesh()))) {}

double Check::compare(const models::Leaves<Array>& batch, double lr, int64_t step, double loss,
                      const models::Trainer& mesh) {
  const double reference = trainer_->step(batch, lr).loss;
  if (step > steps_) return reference;
  const bool same_bits = loss == reference || (std::isnan(loss) && std::isnan(reference));
  const double difference =
      same_bits ? 0 : std::abs(loss - reference) / std::max(std::abs(reference), 1e-30);
  worst_ = std::max(worst_, difference);
  // Two float trajectories drift apart in time; the bound is that of 20 steps.
  const double allowed = tolerance_ * std::max(1.0, double(step) / 20);
  if (!(difference <= allowed)) passed_ = false;
  // Other bits are a fault where all numbers are integers that their dtype holds exactly.
  const bool same = same_bits && equal_leaves(mesh.gradients(), trainer_->gradients());
  if (exact_ && !same && is_exact_step(batch)) passed_ = false;
  return reference;
}

bool Check::is_exact_step(const models::Leaves<Array>& batch) const {
  std::vector<Array> arguments;
  for (const auto& [path, leaf] : trainer_->params()) arguments.push_back(leaf);
  for (const auto& [path, leaf] : batch) arguments.push_back(leaf);
  return is_exact(trainer_->executable().traced(), arguments);
}

}  // namespace gspmd::examples
