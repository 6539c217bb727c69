#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::tools {

enum class Values { integers, uniform };
enum class Reference { automatic, oracle, fast };

// The text of a program: large files are not copied but mapped.
class InputText {
 public:
  explicit InputText(std::string text) : text_(std::move(text)) {}
  InputText(const char* mapped, size_t size) : mapped_(mapped), size_(size) {}
  InputText(InputText&& other) noexcept
      : text_(std::move(other.text_)),
        mapped_(std::exchange(other.mapped_, nullptr)),
        size_(other.size_) {}
  InputText& operator=(InputText&&) = delete;
  ~InputText();
  operator std::string_view() const {
    return mapped_ == nullptr ? std::string_view(text_) : std::string_view(mapped_, size_);
  }

 private:
  std::string text_;
  const char* mapped_ = nullptr;
  size_t size_ = 0;
};

// What the command line says, checked for form; shared by all verbs.
struct Command {
  std::string file;
  bool json = false;
  bool propagate = true;
  bool origins = false;
  bool spmd = true;
  bool cse_prevention_only = false;
  Strategy strategy = Strategy::automatic;
  bool poison_absent = false;
  std::optional<int64_t> num_devices;        // absent: the module's num_partitions
  std::vector<int64_t> devices_per_process;  // of a job of several; empty: equal blocks
  std::vector<bool> allow_output, allow_parameters;
  uint64_t seed = 0;
  Values values = Values::integers;
  Reference reference = Reference::automatic;
  std::optional<double> rtol, atol;
  int threads = 0;
  int64_t memory_limit = INT64_MAX;  // bytes per device
  double time_limit = 600;           // seconds after which a running loop gives up
  std::string trace;                 // JSON file of what the run did; empty: none
  std::string html;                  // page of visualize; empty: text
  std::vector<std::string>
      tensors;  // instructions that visualize shows; empty: parameters and root
  bool all_tensors = false;
  std::string inputs, outputs;  // npz files; empty: random inputs, no file
  std::string expected;         // npz file of the results to compare with; empty: none
  std::vector<std::string> disabled, dump_after;
  std::vector<std::string> options;  // name=value of the partitioner
  std::optional<Language> emit;      // of the printed module; absent: that of the input
};

// A verb does its work, prints, and returns the exit code 0 or 1. Errors are thrown.
int print_verb(const Command& command);
int propagate_verb(const Command& command);
int partition_verb(const Command& command);
int run_verb(const Command& command);
int verify_verb(const Command& command);
int explain_verb(const Command& command);
int cost_verb(const Command& command);
int visualize_verb(const Command& command);
int ops_verb(const Command& command);

// Where command.file is a folder: its one file *.mlir or *.hlo instead, with the inputs.npz beside
// it, and, for a run, the outputs.npz to compare with, where these are there and no others are
// named. UserError: it has no such file, or several.
void open_folder(Command& command, bool runs);
// The text in command.file ("-": standard input). UserError where it cannot be read.
InputText load_text(const Command& command);
// The module of a text of that file. `any_entry`: of several public functions, none @main, the
// first is the entry; else they are an error.
std::unique_ptr<Module> load_module(const Command& command, std::string_view text,
                                    bool any_entry = false);
// All modules of the text of that file, which lines "// -----" split.
std::vector<std::unique_ptr<Module>> load_modules(const Command& command, std::string_view text);
// Writes the module in the language that --emit asks for, else in that of the input, piece by
// piece.
void emit_module(const Command& command, const Module& module, Language input,
                 const std::function<void(std::string_view)>& write);
// The same as one text.
std::string emitted_text(const Command& command, const Module& module, Language input);
// For verbs that partition: num_replicas checked, num_partitions set to the devices asked for.
std::unique_ptr<Module> load_for_devices(const Command& command);
std::unique_ptr<Module> load_for_devices(const Command& command, std::string_view text);
// The same before Shardy's rules complete it, and then.
std::unique_ptr<Module> load_as_given(const Command& command, std::string_view text);
std::unique_ptr<Module> for_devices(const Command& command, std::unique_ptr<Module> module);
PipelineOptions pipeline_options(const Command& command, const Module& module);
// Refuses flag lists that fit neither one value nor one per root element or parameter.
PropagateOptions propagate_options(const Command& command, const Module& module);

}  // namespace gspmd::tools
