#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "gspmd/base/error.h"
#include "gspmd/ops/evaluate.h"
#include "tools/command.h"
#include "tools/compare.h"
#include "tools/execute.h"
#include "tools/report.h"

namespace gspmd::tools {
namespace {

int64_t sum(std::initializer_list<int64_t> terms) {
  int64_t total = 0;
  for (const int64_t term : terms)
    if (__builtin_add_overflow(total, term, &total)) return std::numeric_limits<int64_t>::max();
  return total;
}

// On one device nothing is left of the shardings.
Prepared prepare_run(const Module& module, const Command& command) {
  if (module.num_partitions > 1) return prepare(module, pipeline_options(command, module));
  const std::unique_ptr<Module> single = for_one_device(module);
  PipelineOptions options = pipeline_options(command, *single);
  options.run_propagation = false;
  return prepare(*single, options);
}

// The results to compare with, and how.
struct Expected {
  std::vector<Array> outputs;
  bool exact = false;
  bool oracle = false;
  double seconds = 0;
};

Expected expected_results(const Module& module, std::span<const Array> inputs,
                          const Command& command) {
  const auto start = std::chrono::steady_clock::now();
  Expected expected;
  const std::unique_ptr<Module> single = for_one_device(module);
  Value value;
  const std::vector<Value> arguments = pack_arguments(*single, inputs);
  expected.exact = is_exact(*single, arguments, &value);
  expected.oracle = command.reference == Reference::oracle ||
                    (command.reference == Reference::automatic && expected.exact);
  if (expected.oracle) {
    expected.outputs = leaves(value);
  } else {
    PipelineOptions options = pipeline_options(command, *single);
    options.run_propagation = false;
    options.dump_after.clear();  // the mesh's passes are the ones asked for
    expected.outputs = execute(prepare(*single, options), inputs, command).outputs;
  }
  expected.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return expected;
}

Json to_json(const std::optional<Difference>& difference) {
  if (!difference) return nullptr;
  return {{"output", difference->output},
          {"index", difference->index},
          {"expected", number(difference->expected)},
          {"actual", number(difference->actual)}};
}

void print_verdict(const Comparison& result, const Expected& expected, const Prepared& prepared) {
  fmt::print("{} on {} devices: {}, compared with {}\n", result.equal ? "equal" : "DIFFERENT",
             prepared.num_devices, expected.exact ? "exact" : "not exact",
             expected.oracle ? "the oracle" : "the one-device program");
  fmt::print("largest error {:.3g} absolute, {:.3g} relative; peak {} bytes per device\n",
             result.max_abs_error, result.max_rel_error, prepared.plan.peak_bytes);
  if (result.first)
    fmt::print("first difference: output {} at [{}]: expected {}, found {}\n", result.first->output,
               fmt::join(result.first->index, ","), result.first->expected, result.first->actual);
  fmt::print("{}{}",
             to_table(collective_stats(*prepared.compiled.local,
                                       mesh_of(*prepared.compiled.completed).get())),
             to_table(prepared.compiled.full_rematerializations));
}

}  // namespace

int run_verb(const Command& command) {
  const std::unique_ptr<Module> module = load_for_devices(command);
  const Prepared prepared = prepare_run(*module, command);
  check_memory(fmt::format("run on {} devices", prepared.num_devices),
               sum({prepared.bytes(), input_bytes(*module), output_bytes(*module)}));
  const std::vector<Array> inputs = random_inputs(*module, command);
  const Outcome outcome = execute(prepared, inputs, command);
  if (command.json) {
    Json outputs = Json::array();
    for (const Array& output : outcome.outputs) outputs.push_back(to_json(output));
    print_json({{"outputs", outputs},
                {"peak_bytes_per_device", prepared.plan.peak_bytes},
                {"seconds", {{"compile", prepared.compile_seconds}, {"run", outcome.seconds}}}});
    return 0;
  }
  for (size_t i = 0; i < outcome.outputs.size(); ++i)
    fmt::print("{}: {}\n", i, to_line(outcome.outputs[i]));
  return 0;
}

int verify_verb(const Command& command) {
  const std::unique_ptr<Module> module = load_for_devices(command);
  const Prepared prepared = prepare_run(*module, command);
  const int64_t reference = plan_memory(*for_one_device(*module)).peak_bytes;
  check_memory(fmt::format("verify on {} devices", prepared.num_devices),
               sum({prepared.bytes(), reference, input_bytes(*module), output_bytes(*module),
                    output_bytes(*module)}));
  const std::vector<Array> inputs = random_inputs(*module, command);
  const Expected expected = expected_results(*module, inputs, command);
  const Outcome outcome = execute(prepared, inputs, command);
  const Comparison result =
      compare(expected.outputs, outcome.outputs, expected.exact, {command.rtol, command.atol});
  if (!command.json) {
    print_verdict(result, expected, prepared);
    return result.equal ? 0 : 1;
  }
  print_json(
      {{"equal", result.equal},
       {"exact", expected.exact},
       {"reference", expected.oracle ? "oracle" : "fast"},
       {"max_abs_error", number(result.max_abs_error)},
       {"max_rel_error", number(result.max_rel_error)},
       {"first_difference", to_json(result.first)},
       {"collectives", to_json(collective_stats(*prepared.compiled.local,
                                                mesh_of(*prepared.compiled.completed).get()))},
       {"full_rematerializations", to_json(prepared.compiled.full_rematerializations)},
       {"peak_bytes_per_device", prepared.plan.peak_bytes},
       {"seconds",
        {{"compile", prepared.compile_seconds},
         {"run", outcome.seconds},
         {"reference", expected.seconds}}}});
  return result.equal ? 0 : 1;
}

}  // namespace gspmd::tools
