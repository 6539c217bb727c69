#include "custom_mutate.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/ops/loop_guard.h"
#include "gspmd/passes/explain/estimate_cost.h"
#include "mutate_text.h"
#include "report.h"
#include "tools/compare.h"
#include "tools/copies.h"
#include "tools/execute.h"
#include "tools/inputs.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;
constexpr double kMaxFlops = 3e6;
constexpr double kMaxSeconds = 1;

// Small enough to run many a second.
bool is_small(const Module& module) {
  int64_t bytes = 0;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      bytes = tools::sum_bytes({bytes, node->shape.bytes()});
  return bytes <= kMaxBytes && module.num_partitions <= 16 && module.num_replicas <= 1 &&
         estimate_cost(module).flops <= kMaxFlops;
}

void run_copies(const Module& module, const tools::Command& command) {
  const tools::CopiesProgram program = tools::prepare_copies(module);
  const tools::PerDevice inputs = tools::copies_inputs(program, command);
  double seconds = 0;
  tools::run_copies(program, inputs, command, &seconds);
  tools::evaluate_copies(program, inputs);
}

// One device by the reference kernels and by the fast ones; then the mesh. Integers have to agree.
void run(const Module& module, const tools::Command& command, std::string_view text) {
  const std::unique_ptr<Module> single = tools::for_one_device(module);
  const std::vector<Array> inputs = tools::make_inputs(*single, command);
  Value value;
  const bool exact = is_exact(*single, tools::pack_arguments(*single, inputs), &value);
  const std::vector<Array> expected = leaves(value);
  for (const int64_t devices : {int64_t{1}, std::max<int64_t>(2, module.num_partitions)}) {
    const std::unique_ptr<Module> copy = devices == 1 ? single->clone() : module.clone();
    copy->num_partitions = devices;
    PipelineOptions options = tools::pipeline_options(command, *copy);
    options.verify_between = true;
    const std::vector<Array> actual =
        tools::execute(tools::prepare(*copy, options), inputs, command).outputs;
    if (exact && !tools::compare(expected, actual, true, {}).equal)
      report(devices == 1 ? "the fast kernels differ" : "the mesh differs", text);
  }
}

void check(std::string_view text) {
  tools::Command command;
  command.threads = 1;
  try {
    const std::unique_ptr<Module> module = parse_module(text, "fuzz");
    if (!is_small(*module)) return;
    const LoopDeadline deadline(kMaxSeconds);
    if (tools::runs_as_copies(*module))
      run_copies(*module, command);
    else
      run(*module, command, text);
  } catch (const UserError&) {
  } catch (const ExecutionError&) {
  } catch (const std::exception& error) {
    report(error.what(), text);
  }
}

}  // namespace
}  // namespace gspmd

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return gspmd::fuzz::custom_mutate(data, size, max_size, seed, gspmd::fuzz::mutate_text);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) gspmd::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
