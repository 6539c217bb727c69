#include "tools/time_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "io/atomic_file.h"

namespace gspmd::tools {
namespace {

constexpr double kWatched = 1e7;  // seconds beyond which nobody waits

}  // namespace

TimeLimit::TimeLimit(double seconds) : deadline_(seconds) {
  if (seconds < kWatched) watcher_ = std::thread([this, seconds] { watch(seconds); });
}

TimeLimit::~TimeLimit() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  watcher_.join();
}

void TimeLimit::watch(double seconds) {
  const std::chrono::duration<double> wait(seconds + std::max(1.0, seconds / 10));
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, wait, [&] { return over_; })) return;
  const std::vector<std::string> work = timed_work();
  std::fprintf(stderr,
               "gspmd: not done within %s seconds%s%s; use smaller shapes, or a longer "
               "--time-limit\n",
               fmt::format("{}", seconds).c_str(), work.empty() ? "" : ", at ",
               fmt::format("{}", fmt::join(work, ", ")).c_str());
  io::AtomicFile::remove_unfinished();
  std::_Exit(1);
}

}  // namespace gspmd::tools
