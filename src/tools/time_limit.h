#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "gspmd/ops/loop_guard.h"

namespace gspmd::tools {

// While one lives, the verb gives up when the time is over: as LoopDeadline says, between
// iterations, ops and parts of kernels; and where one part is still at work a second later, or a
// tenth of the time, by the end of the process: exit code 1, and a message that names the op.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit();

 private:
  void watch(double seconds);

  const LoopDeadline deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watcher_;
};

}  // namespace gspmd::tools
