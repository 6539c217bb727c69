#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "examples/front.h"
#include "models/step_memory.h"

namespace gspmd::examples {

// One training step, as measured.
struct StepReport {
  int64_t step = 0;  // 1, 2, ...
  double loss = 0;
  double seconds = 0;
  models::Leaves<double> metrics;             // what the model says of the batch
  models::Leaves<double> evaluation;          // on held-out data, where that was due
  std::optional<double> reference_loss = {};  // of the single-device program
};

// What a run came to.
struct RunReport {
  int64_t parameters = 0;
  double seconds_per_step = 0;  // median, without the first
  double units_per_second = 0;
  double gflops = 0;
  double peak_gflops = 0;
  std::vector<Result> results;
  std::optional<double> max_check_difference = {};  // relative
  bool check_passed = true;
  ExecutableStats stats;
  models::StepMemory theory;
};

// Prints while a run goes on: JSON lines, or one progress line that overwrites itself on a
// terminal.
class Reporter {
 public:
  // `unit`: what is counted per second, "tokens"; so many in a step.
  Reporter(const RunOptions& options, std::string unit, int64_t units_per_step);
  // Before the first step: what is going to run, for people.
  void start(const std::string& description) const;
  // Before the first step of a run that goes on after `step`.
  void resumed(int64_t step) const;
  void step(const StepReport& report);
  void finish(const RunReport& report) const;

 private:
  void print_progress(const StepReport& report);
  std::string json(const RunReport& report) const;
  std::string table(const RunReport& report) const;

  RunOptions options_;
  std::string unit_;
  int64_t units_per_step_;
  bool terminal_ = false;
  int64_t steps_ = 0;  // reported
  double elapsed_ = 0;
};

// The same text with everything that a terminal could take for a command replaced by '?'.
std::string printable(const std::string& text);

}  // namespace gspmd::examples
