#pragma once

// Loops that would never end, and work that takes longer than anybody waits.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// While one lives, what this process runs gives up with an ExecutionError once the time is over:
// loops between iterations, evaluators between ops (those of called computations too), programs
// between the parts of kernels; of an Executor only where it was made while one lived. One part, as
// of a library's factorization, runs to its end. Without one they run as long as they like. The
// latest one made counts.
class GSPMD_API LoopDeadline {
 public:
  explicit LoopDeadline(double seconds);  // From now, in seconds.
  LoopDeadline(const LoopDeadline&) = delete;
  LoopDeadline& operator=(const LoopDeadline&) = delete;
  ~LoopDeadline();

 private:
  int64_t before_;
};

// In its scope the calling thread is at the node. ExecutionError where the deadline is past;
// `says_node`: with the node's name.
class GSPMD_API TimedWork {
 public:
  explicit TimedWork(const Node& node, bool says_node = true);  // begins
  TimedWork(const TimedWork&) = delete;
  TimedWork& operator=(const TimedWork&) = delete;
  ~TimedWork() {
    if (timed_) leave();
  }

 private:
  void leave() const;
  const Node* around_ = nullptr;
  bool timed_ = false;
};

// ExecutionError where the deadline is past, with the name of the node that the calling thread is
// at: for work on many elements, every few thousand of them.
GSPMD_API void give_up_when_late();

// Whether a deadline is set.
GSPMD_API bool has_deadline();
// What threads are at while a deadline is set, each once: `sort: "s", from model.py:12 (m.hlo:3)`.
GSPMD_API std::vector<std::string> timed_work();

// Watches one run of a loop and gives up with an ExecutionError that names it: when the deadline is
// past, and when the values that it carries from one iteration to the next are, byte for byte,
// those of an earlier iteration, since it then never ends.
class GSPMD_API LoopGuard {
 public:
  // `repeatable`: an iteration depends on the carried values only. `trips`: how often the body is
  // thought to run, where somebody knows.
  LoopGuard(const std::string& name, bool repeatable, std::optional<int64_t> trips = {})
      : name_(name), repeatable_(repeatable), trips_(trips.value_or(0)) {}

  // Once per iteration. Whether carried() wants to see the values: not in the first thousand, nor
  // in those that the loop is thought to have.
  bool begin_iteration();
  // The carried values' bytes; the same pieces in every iteration.
  void carried(std::span<const std::span<const std::byte>> values);
  // Forgets the values seen: other devices take part from now on.
  void restart() { saved_.clear(); }

 private:
  const std::string& name_;
  bool repeatable_;
  int64_t trips_;
  int64_t iteration_ = 0;
  int64_t saved_at_ = 0, save_next_ = 0;
  std::vector<std::byte> saved_;
};

// Whether what the loop computes depends on the carried values only: nothing inside keeps a state
// or talks to the outside.
GSPMD_API bool is_repeatable(const Node& loop);

}  // namespace gspmd
