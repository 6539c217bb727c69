#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "examples/front.h"

namespace gspmd::examples {

// The checkpoints of one training run (--checkpoint, --resume, --checkpoint-every); does nothing
// where no folder is given. A checkpoint is of the state after a step; the data of later steps
// follow from the seed and the step, which it holds too.
class RunCheckpoints {
 public:
  // `identity`: what a resumed run must share, by option. UserError: --resume without a folder, a
  // folder with checkpoints without --resume.
  RunCheckpoints(std::string program, const RunOptions& options,
                 std::map<std::string, std::string> identity);

  // Brings a trainer, and one beside it where given, to the newest checkpoint and returns its step,
  // 0 where there is none. UserError where that is of another model or other data, or where the
  // steps that are left could not be saved.
  int64_t resume(models::Trainer& trainer, models::Trainer* beside = nullptr);
  // Saves where that is due: before the first step, every so many steps, and after the last.
  void save(const models::Trainer& trainer, int64_t step);

 private:
  void check_same_run(int64_t step) const;
  void check_writable() const;

  std::string program_;
  RunOptions options_;
  std::map<std::string, std::string> identity_;
  std::optional<Checkpoints> checkpoints_;
};

}  // namespace gspmd::examples
