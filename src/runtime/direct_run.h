#pragma once

#include <optional>
#include <vector>

#include "runtime/worker.h"

namespace gspmd {

// A small program for the calling thread alone, as the kernels that it comes to, one behind the
// other: what a call reads besides them is a line or two for each. Rounds, claims and barriers are
// for programs that others help with.
class DirectRun {
 public:
  // nullopt: the program has more than steps, or too many of them.
  static std::optional<DirectRun> of(const RunState& state, const WorkerMemory& memory);
  // Through all devices. ExecutionError: as Worker says it.
  void run() const;

 private:
  using Stage = std::function<void(const KernelArgs&)>;
  struct Call {
    const Stage* stage = nullptr;
    KernelArgs args;
    const Step* step = nullptr;
  };

  bool add(const Step& step, KernelArgs args);
  bool add_parts(const Step& step, const Stage& stage, KernelArgs args, int64_t parts);

  std::vector<Call> calls_;
};

}  // namespace gspmd
