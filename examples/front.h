#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "examples/task.h"

namespace gspmd::examples {

// What the command line of every example says.
struct RunOptions {
  std::string mesh = "1";
  std::string recipe;
  std::string optimizer = "adam";
  std::string compute;  // empty: the weights' dtype
  int64_t batch = 16;
  int64_t microbatches = 1;
  int64_t steps = 100;
  double lr = 1e-3;
  double clip_norm = 0;  // 0: never
  // Mesh axes, "data" or "x,y"; empty: none.
  std::string weight_update;  // whose devices share updates
  std::string fsdp;           // that split the weights, for any model
  bool gather_bf16 = false;   // weights of shared updates are sent as bf16
  uint32_t seed = 0;
  int threads = 0;
  int64_t evaluate_every = 0;  // 0: after the last step only
  std::string checkpoint;      // folder; empty: none
  int64_t checkpoint_every = 100;
  int64_t checkpoint_keep = 3;
  bool resume = false;
  std::vector<int64_t> devices_per_process;
  std::string trace;  // file; empty: none
  bool check = false;
  bool json = false;
};

// The front of an example: its command line, and the run with progress, checkpoints and a closing
// table or JSON. What an example adds are its options and a Task.
class Front {
 public:
  // `recipes`: the names that --recipe takes, of which the first is the default unless `defaults`
  // has one.
  Front(std::string name, std::string description, RunOptions defaults,
        std::vector<std::string> recipes);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;
  ~Front();

  // Options of the example, kept with a checkpoint: a resumed run must have the same. What `value`
  // holds now is the default.
  void add_size(const std::string& name, int64_t& value, const std::string& help);  // at least 1
  void add_number(const std::string& name, double& value, const std::string& help);
  void add_word(const std::string& name, std::string& value, std::vector<std::string> choices,
                const std::string& help);
  void add_flag(const std::string& name, bool& value, const std::string& help);
  // Options that may differ when a run goes on.
  void add_text(const std::string& name, std::string& value, const std::string& help);
  void add_count(const std::string& name, int64_t& value, const std::string& help);  // 0 or more

  const RunOptions& options() const;

  // Reads the command line and checks words and numbers. Returns true when the run shall start;
  // else `exit_code` is 0 (help was printed) or 2 (one message on standard error).
  bool parse(int argc, const char* const* argv, int& exit_code);
  // What the losses depend on, by option; after parse().
  std::map<std::string, std::string> identity() const;
  // The whole of an example's main(): 0; 1 where --check found a difference or the run failed; 2
  // where input is wrong, with one message on standard error.
  int main(int argc, const char* const* argv,
           const std::function<std::unique_ptr<Task>()>& make_task);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// "data=2,model=4"; a size alone gets the name x0, x1, ... by its place; "1" is one device.
// UserError.
Mesh parse_mesh(const std::string& text);

// What the options say of a trainer of the task's model on a mesh. UserError with the way out.
models::TrainerOptions trainer_options(const RunOptions& options, const Task& task,
                                       const Mesh& mesh);

// Learning rate of step 0, 1, ...: linear warm-up over a tenth of the steps (at most 60), then a
// cosine down to a tenth.
double learning_rate(const RunOptions& options, int64_t step);

}  // namespace gspmd::examples
