#pragma once

#include <chrono>
#include <vector>

#include "gspmd/runtime/run_trace.h"
#include "runtime/program.h"
#include "runtime/transport.h"

namespace gspmd {

// Where the workers of one run write down what they do, each into a list of its own.
class TraceLog {
 public:
  // `verbose`: each event is a line on the standard error as well, as soon as it has ended.
  TraceLog(const Program& program, int workers, int64_t max_events, bool verbose);

  // The run begins now.
  void begin() { start_ = Clock::now(); }
  // Nanoseconds from the beginning.
  int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }
  // Numbers of sites.
  static int64_t step(int64_t index) { return index; }
  int64_t collective(int64_t index) const { return steps_ + index; }
  int64_t loop(int64_t index) const { return steps_ + collectives_ + index; }
  int64_t branch(int64_t index) const { return steps_ + collectives_ + loops_ + index; }
  // `inner`: inside a loop; dropped when there are very many.
  void add(int worker, const TraceEvent& event, bool inner);
  void finish(RunTrace& trace) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct List {
    std::vector<TraceEvent> events;
    int64_t dropped = 0;
  };

  std::string line_of(const TraceEvent& event) const;

  const Program& program_;
  bool verbose_;
  int64_t steps_, collectives_, loops_;
  size_t limit_;  // events per worker
  std::vector<List> lists_;
  Clock::time_point start_;
};

// The events of all processes in each one's trace. Their clocks are those of their runs, which
// began together.
void merge_events(RunTrace& trace, Transport& transport);

}  // namespace gspmd
