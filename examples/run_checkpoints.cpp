#include "examples/run_checkpoints.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace gspmd::examples {
namespace {

// The schedule of learning rates follows them; to train on with others is a choice.
bool may_change(const std::string& option) { return option == "lr" || option == "steps"; }

void print_message(const std::string& program, const std::string& message) {
  if (is_first_process()) fmt::print(stderr, "{}: {}\n", program, message);
}

}  // namespace

RunCheckpoints::RunCheckpoints(std::string program, const RunOptions& options,
                               std::map<std::string, std::string> identity)
    : program_(std::move(program)), options_(options), identity_(std::move(identity)) {
  if (options.checkpoint.empty()) {
    if (options.resume) user_error("--resume: give the folder with --checkpoint DIR");
    return;
  }
  checkpoints_ = Checkpoints(
      options.checkpoint,
      {.keep = options.checkpoint_keep,
       .log = [name = program_](const std::string& message) { print_message(name, message); }});
  const std::vector<int64_t> steps = checkpoints_->steps();
  if (!options.resume && !steps.empty())
    user_error(
        "--checkpoint: {} has {} checkpoints, the newest of step {}; go on with --resume, or "
        "give another folder",
        options.checkpoint, steps.size(), steps.back());
}

void RunCheckpoints::check_same_run(int64_t step) const {
  const auto saved = saved_metadata(checkpoints_->path(step));
  for (const auto& [option, value] : identity_) {
    const auto at = saved.find(option);
    const std::string before = at == saved.end() ? "nothing" : at->second;
    if (before == value) continue;
    const std::string message = fmt::format("--resume: {} was made with --{} {}, this run has {}",
                                            checkpoints_->path(step), option, before, value);
    if (!may_change(option)) user_error("{}; give the same, or another folder", message);
    print_message(program_, message);
  }
}

// Told before the steps that would be lost.
void RunCheckpoints::check_writable() const {
  const std::string& folder = options_.checkpoint;
  if (::access(folder.c_str(), W_OK) != 0)
    user_error("--checkpoint: {}: cannot be written: {}; give the rights, or resume from a copy",
               folder, std::strerror(errno));
}

int64_t RunCheckpoints::resume(models::Trainer& trainer, models::Trainer* beside) {
  if (!checkpoints_ || !options_.resume) return 0;
  const std::optional<int64_t> step = checkpoints_->newest();
  if (!step) return 0;
  check_same_run(*step);
  if (*step < options_.steps) check_writable();
  if (beside) beside->restore(*checkpoints_);
  return trainer.restore(*checkpoints_).value_or(0);
}

void RunCheckpoints::save(const models::Trainer& trainer, int64_t step) {
  if (!checkpoints_) return;
  // Before the first step too: a folder that cannot be written is told at once.
  if (step % options_.checkpoint_every == 0 || step == options_.steps)
    trainer.save(*checkpoints_, step, identity_);
}

}  // namespace gspmd::examples
