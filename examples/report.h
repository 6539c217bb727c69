#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "examples/options.h"

namespace gspmd::examples {

// One training step, as measured.
struct StepReport {
  int64_t step = 0;  // 1, 2, ...
  double loss = 0;
  double seconds = 0;
  std::optional<double> reference_loss;  // of the single-device program
};

// What a run came to.
struct RunReport {
  std::string text_name;
  int64_t parameters = 0;
  double seconds_per_step = 0;  // median, without the first
  double tokens_per_second = 0;
  double gflops = 0;
  double peak_gflops = 0;
  std::optional<double> heldout_loss, order2_loss, order4_loss;  // nats per byte
  std::optional<double> max_check_difference;                    // relative
  bool check_passed = true;
  std::optional<std::string> sample;
  ExecutableStats stats;
};

// Prints while a run goes on: JSON lines, or one progress line that overwrites itself on a
// terminal.
class Reporter {
 public:
  explicit Reporter(const TrainOptions& options);
  // Before the first step: what is going to run, for people.
  void start(const std::string& description) const;
  // Before the first step of a run that goes on after `step`.
  void resumed(int64_t step) const;
  void step(const StepReport& report);
  void finish(const RunReport& report) const;

 private:
  void print_progress(const StepReport& report);

  TrainOptions options_;
  bool terminal_ = false;
  int64_t steps_ = 0;  // reported
  double elapsed_ = 0;
};

std::string step_json(const StepReport& report);
std::string run_json(const TrainOptions& options, const RunReport& report);
std::string run_table(const TrainOptions& options, const RunReport& report);

}  // namespace gspmd::examples
