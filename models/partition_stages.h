#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gspmd/gspmd.h"

namespace gspmd::models {

// How a stack of unequal layers is cut into stages of consecutive ones.
enum class PartitionRule : uint8_t {
  // The slowest stage, which all others wait for, is as fast as can be; of such cuts the one of the
  // least variance.
  least_maximum,
  // The least variance of the stages' costs (arXiv:1811.06965, 2.1).
  least_variance,
  // As that paper's release: layer i goes to stage floor(K sum(c_0..c_i) / sum(c)), at most K - 1.
  // Stages may be empty.
  histogram,
};

// A cut of layers 0, 1, ... into stages, and what it costs.
struct StagePlan {
  std::vector<int64_t> first;   // the first layer of each stage, and the number of layers
  std::vector<double> seconds;  // of each stage, for one micro-batch: in the unit of the costs

  int64_t stages() const { return std::ssize(seconds); }
  double total() const;    // of all layers
  double longest() const;  // of an iteration: all stages wait for the slowest
  // Of a step of m micro-batches, m + stages - 1 iterations.
  double step_seconds(int64_t microbatches) const;
  // The share of the stages' time in which they compute nothing: for want of a micro-batch, and
  // waiting for the slowest. Equal stages: (K - 1) / (M + K - 1).
  double bubble(int64_t microbatches) const;
};

// `seconds`: of each layer for one micro-batch, in any unit. UserError: no layers, a cost that is
// negative or not finite, fewer layers than stages (but for `histogram`), stages below 1.
StagePlan partition_stages(const std::vector<double>& seconds, int64_t stages,
                           PartitionRule rule = PartitionRule::least_maximum,
                           Site site = Site::here());

// "stage 0: layers 0-3, 1.25" line by line, then the bubble and the time of a step.
std::string to_string(const StagePlan& plan, int64_t microbatches);

// How much faster K equal stages are than one, by the bubble alone: K M / (M + K - 1).
double pipeline_speedup(int64_t stages, int64_t microbatches);

}  // namespace gspmd::models
