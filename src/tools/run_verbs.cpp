#include <fmt/format.h>

#include <chrono>

#include "gspmd/base/error.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/explain/estimate_cost.h"
#include "gspmd/passes/verify/manual_reference.h"
#include "gspmd/runtime/processes.h"
#include "io/atomic_file.h"
#include "tools/command.h"
#include "tools/compare.h"
#include "tools/copies.h"
#include "tools/execute.h"
#include "tools/inputs.h"
#include "tools/locate.h"
#include "tools/report.h"
#include "tools/rounding_noise.h"
#include "tools/streams.h"
#include "tools/time_limit.h"

namespace gspmd::tools {
namespace {

// Beyond this the reference kernels, plain loops, take minutes: such results count as not exact and
// are compared with the fast kernels on one device, unless --reference oracle asks for the others.
constexpr double kOracleFlops = 2e10;
// Values that the reference kernels hold at once, in terms of a planned run: nothing in place, and
// the magnitudes that tell whether sums are exact.
constexpr int64_t kOracleCopies = 3;

// A module for one device: nothing to complete and to partition.
PipelineOptions single_options(const Module& single, const Command& command) {
  PipelineOptions options = pipeline_options(command, single);
  options.run_propagation = false;
  options.disabled.emplace_back("partition");
  return options;
}

Prepared prepare_run(const Module& module, const Command& command) {
  Prepared prepared;
  if (module.num_partitions > 1) {
    prepared = prepare(module, pipeline_options(command, module));
  } else {
    const std::unique_ptr<Module> single = for_one_device(module);
    prepared = prepare(*single, single_options(*single, command));
  }
  check_memory_limit(prepared.compiled.plan, command.memory_limit, command.file);
  for (const Recomputation& recomputation : prepared.compiled.recomputations)
    write_message(fmt::format("made again: {}\n", to_string(recomputation)));
  return prepared;
}

// The results to compare with, and how.
struct Expected {
  std::vector<Array> outputs;
  std::vector<double> noise;
  bool exact = false;
  bool oracle = false;  // compared with: the reference kernels
  bool reference_ran =
      false;  // on one device, to compare with or to learn whether results are exact
  double seconds = 0;
};

std::vector<Array> fast_results(const Module& single, std::span<const Array> inputs,
                                const Command& command) {
  PipelineOptions options = single_options(single, command);
  options.dump_after.clear();  // the mesh's passes are the ones asked for
  return execute(prepare(single, options), inputs, command).outputs;
}

Expected expected_results(const Module& module, std::span<const Array> inputs,
                          const Command& command) {
  const auto start = std::chrono::steady_clock::now();
  Expected expected;
  const std::unique_ptr<Module> single = for_one_device(module);
  expected.reference_ran =
      command.reference == Reference::oracle || estimate_cost(*single).flops <= kOracleFlops;
  std::vector<Array> reference;
  if (expected.reference_ran) {
    Value value;
    const std::vector<Value> arguments = pack_arguments(*single, inputs);
    expected.exact = is_exact(*single, arguments, &value);
    reference = leaves(value);
  }
  expected.oracle = command.reference == Reference::oracle ||
                    (command.reference == Reference::automatic && expected.exact);
  if (expected.exact && expected.oracle) {
    expected.outputs = std::move(reference);
  } else {
    std::vector<Array> fast = fast_results(*single, inputs, command);
    if (expected.reference_ran) expected.noise = noise_between(fast, reference);
    expected.outputs = expected.oracle ? std::move(reference) : std::move(fast);
  }
  expected.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return expected;
}

// What exceeds the tolerance is looked at again with the noise of rounding measured.
Comparison compare_outcome(const Module& module, std::span<const Array> inputs,
                           const Expected& expected, std::span<const Array> outputs,
                           const Command& command) {
  Tolerance tolerance{command.rtol, command.atol, expected.noise};
  Comparison result = compare(expected.outputs, outputs, expected.exact, tolerance);
  if (result.equal || expected.exact || command.atol || !expected.reference_ran) return result;
  const std::vector<double> noise =
      rounding_noise(*for_one_device(module), inputs, expected.outputs);
  for (size_t i = 0; i < noise.size(); ++i)
    tolerance.noise[i] = std::max(tolerance.noise[i], noise[i]);
  return compare(expected.outputs, outputs, false, tolerance);
}

Json to_json(const std::optional<Difference>& difference) {
  if (!difference) return nullptr;
  Json json = {{"output", difference->output},
               {"index", difference->index},
               {"expected", element_json(difference->expected)},
               {"actual", element_json(difference->actual)}};
  if (difference->device >= 0) json["device"] = difference->device;
  return json;
}

// What verify found, of either kind of program.
struct Verdict {
  Comparison result;
  std::optional<WrongStep> wrong_step;
  bool exact = false;
  bool oracle = false;
  int64_t num_devices = 1;
  int64_t peak_bytes = 0;
  double compile_seconds = 0, run_seconds = 0, reference_seconds = 0;
  std::vector<CollectiveStats> collectives;
  std::vector<FullRematerialization> full_rematerializations;
  std::vector<EvaluatedStep> evaluated;
};

void print_text(const Verdict& verdict) {
  const Comparison& result = verdict.result;
  print_out("{} on {} devices: {}, compared with {}\n", result.equal ? "equal" : "DIFFERENT",
            verdict.num_devices, verdict.exact ? "exact" : "not exact",
            verdict.oracle ? "the oracle" : "the one-device program");
  print_out("largest error {:.3g} absolute, {:.3g} relative; peak {} bytes per device\n",
            result.max_abs_error, result.max_rel_error, verdict.peak_bytes);
  if (result.first)
    print_out("first difference: output {}{} at [{}]: expected {}, found {}\n",
              result.first->output,
              result.first->device < 0 ? "" : fmt::format(" of device {}", result.first->device),
              fmt::join(result.first->index, ","), element_text(result.first->expected),
              element_text(result.first->actual));
  if (verdict.wrong_step) print_out("{}\n", to_text(*verdict.wrong_step));
  write_output(to_table(verdict.collectives) + to_table(verdict.full_rematerializations) +
               to_table(verdict.evaluated));
}

int finish(const Verdict& verdict, const Command& command) {
  const Comparison& result = verdict.result;
  if (!command.json) {
    print_text(verdict);
  } else {
    print_json({{"equal", result.equal},
                {"exact", verdict.exact},
                {"reference", verdict.oracle ? "oracle" : "fast"},
                {"max_abs_error", number(result.max_abs_error)},
                {"max_rel_error", number(result.max_rel_error)},
                {"first_difference", to_json(result.first)},
                {"wrong_step", tools::to_json(verdict.wrong_step)},
                {"collectives", tools::to_json(verdict.collectives)},
                {"full_rematerializations", tools::to_json(verdict.full_rematerializations)},
                {"evaluated", tools::to_json(verdict.evaluated)},
                {"peak_bytes_per_device", verdict.peak_bytes},
                {"seconds",
                 {{"compile", verdict.compile_seconds},
                  {"run", verdict.run_seconds},
                  {"reference", verdict.reference_seconds}}}});
  }
  return result.equal ? 0 : 1;
}

Json to_json(std::span<const Array> outputs) {
  Json list = Json::array();
  for (const Array& output : outputs) list.push_back(tools::to_json(output));
  return list;
}

void print_outputs(std::span<const Array> outputs, const std::string& prefix) {
  for (size_t i = 0; i < outputs.size(); ++i)
    print_out("{}{}: {}\n", prefix, i, to_line(outputs[i]));
}

// How results differ from those of a file.
void print_comparison(const Comparison& result) {
  print_out("{}: largest error {:.3g} absolute, {:.3g} relative\n",
            result.equal ? "as expected" : "NOT as expected", result.max_abs_error,
            result.max_rel_error);
  if (result.first)
    print_out("first difference: output {} at [{}]: expected {}, found {}\n", result.first->output,
              fmt::join(result.first->index, ","), element_text(result.first->expected),
              element_text(result.first->actual));
}

int run_as_copies(const Module& module, const Command& command) {
  if (!command.expected.empty())
    user_error("--expected: each device of {} has results of its own; write them with --outputs",
               command.file);
  const CopiesProgram program = prepare_copies(module);
  check_memory_limit(program.compiled.plan, command.memory_limit, command.file);
  check_memory(fmt::format("run of {} copies", program.num_devices),
               saturating_multiply(2, program.bytes()));
  check_time("run", *program.module, program.num_devices, command);
  const CopiesOutcome outcome = run_copies(program, copies_inputs(program, command), command);
  const PerDevice& outputs = outcome.outputs;
  if (!command.outputs.empty() && is_first_process())
    write_outputs(command.outputs, stack(outputs));
  if (!command.json) {
    for (size_t d = 0; d < outputs.size(); ++d)
      print_outputs(outputs[d], fmt::format("device {}: ", d));
    write_message(to_table(outcome.evaluated));
    return 0;
  }
  Json devices = Json::array();
  for (const std::vector<Array>& device : outputs) devices.push_back(to_json(device));
  print_json({{"outputs", to_json(outputs[0])},
              {"device_outputs", devices},
              {"evaluated", tools::to_json(outcome.evaluated)},
              {"peak_bytes_per_device", program.compiled.plan.peak_bytes},
              {"seconds", {{"compile", program.compile_seconds}, {"run", outcome.seconds}}}});
  return 0;
}

int verify_copies(const Module& module, const Command& command) {
  const CopiesProgram program = prepare_copies(module);
  check_memory_limit(program.compiled.plan, command.memory_limit, command.file);
  check_memory(fmt::format("verify of {} copies", program.num_devices),
               saturating_multiply(1 + kOracleCopies, program.bytes()));
  check_time("verify", *program.module, program.num_devices, command);
  const PerDevice inputs = copies_inputs(program, command);
  Verdict verdict;
  verdict.oracle = true;
  verdict.num_devices = program.num_devices;
  verdict.peak_bytes = program.compiled.plan.peak_bytes;
  verdict.compile_seconds = program.compile_seconds;
  verdict.collectives = collective_stats(*program.module);
  const auto start = std::chrono::steady_clock::now();
  const PerDevice expected = evaluate_copies(program, inputs);
  verdict.reference_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CopiesOutcome outcome = run_copies(program, inputs, command);
  const PerDevice& outputs = outcome.outputs;
  verdict.run_seconds = outcome.seconds;
  verdict.evaluated = std::move(outcome.evaluated);
  for (size_t d = 0; d < outputs.size(); ++d) {
    Comparison device = compare(expected[d], outputs[d], false, {command.rtol, command.atol, {}});
    Comparison& all = verdict.result;
    all.equal = all.equal && device.equal;
    all.max_abs_error = std::max(all.max_abs_error, device.max_abs_error);
    all.max_rel_error = std::max(all.max_rel_error, device.max_rel_error);
    if (device.first && !all.first) {
      all.first = device.first;
      all.first->device = static_cast<int64_t>(d);
    }
  }
  return finish(verdict, command);
}

// A module with manual regions means what its copies compute that cut and gather at the regions'
// borders.
int verify_regions(const Module& module, const Command& command) {
  const Prepared prepared = prepare_run(module, command);
  const std::unique_ptr<Module> copies = copies_with_regions(*prepared.compiled.completed);
  const int64_t reference =
      saturating_multiply(prepared.num_devices * kOracleCopies, plan_memory(*copies).peak_bytes);
  check_memory(fmt::format("verify on {} devices", prepared.num_devices),
               sum_bytes({prepared.bytes(), reference, input_bytes(module), output_bytes(module)}));
  check_time("verify", *copies, prepared.num_devices, command);
  const std::vector<Array> inputs = make_inputs(module, command);
  Verdict verdict;
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Value> arguments = pack_arguments(module, inputs);
  const std::vector<std::vector<Value>> all(static_cast<size_t>(prepared.num_devices), arguments);
  const std::vector<Array> expected =
      leaves(evaluate_devices(*copies, prepared.num_devices, all).at(0));
  verdict.reference_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Outcome outcome = execute(prepared, inputs, command);
  verdict.result = compare(expected, outcome.outputs, false, {command.rtol, command.atol, {}});
  verdict.oracle = true;
  verdict.num_devices = prepared.num_devices;
  verdict.peak_bytes = prepared.compiled.plan.peak_bytes;
  verdict.compile_seconds = prepared.compile_seconds;
  verdict.run_seconds = outcome.seconds;
  verdict.collectives =
      collective_stats(*prepared.compiled.local, mesh_of(*prepared.compiled.completed).get());
  verdict.full_rematerializations = prepared.compiled.full_rematerializations;
  verdict.evaluated = outcome.evaluated;
  return finish(verdict, command);
}

}  // namespace

int run_verb(const Command& command) {
  if (command.expected.empty() && (command.rtol || command.atol))
    user_error("{}: run compares with --expected FILE alone; give it, or use verify",
               command.rtol ? "--rtol" : "--atol");
  check_outputs_path(command.outputs);
  if (!command.trace.empty()) io::check_writable(command.trace);
  const std::unique_ptr<Module> module = load_for_devices(command);
  const TimeLimit limit(command.time_limit);
  if (runs_as_copies(*module)) return run_as_copies(*module, command);
  const Prepared prepared = prepare_run(*module, command);
  check_memory(fmt::format("run on {} devices", prepared.num_devices),
               sum_bytes({prepared.bytes(), input_bytes(*module), output_bytes(*module)}));
  check_time("run", *prepared.compiled.local, prepared.num_devices, command);
  const std::vector<Array> inputs = make_inputs(*module, command);
  std::vector<Array> expected;
  if (!command.expected.empty()) expected = read_expected(*module, command.expected);
  const Outcome outcome = execute(prepared, inputs, command);
  if (!command.outputs.empty() && is_first_process())
    write_outputs(command.outputs, outcome.outputs);
  std::optional<Comparison> comparison;
  if (!command.expected.empty())
    comparison = compare(expected, outcome.outputs, false, {command.rtol, command.atol, {}});
  if (command.json) {
    Json json = {{"outputs", to_json(outcome.outputs)},
                 {"evaluated", tools::to_json(outcome.evaluated)},
                 {"peak_bytes_per_device", prepared.compiled.plan.peak_bytes},
                 {"seconds", {{"compile", prepared.compile_seconds}, {"run", outcome.seconds}}}};
    if (process_count() > 1)
      json["processes"] = {{"count", process_count()},
                           {"bytes_received", outcome.counters.bytes_received},
                           {"bytes_across", outcome.counters.bytes_across},
                           {"collectives_overlapped", outcome.counters.overlapped}};
    if (comparison)
      json["expected"] = {{"equal", comparison->equal},
                          {"max_abs_error", number(comparison->max_abs_error)},
                          {"max_rel_error", number(comparison->max_rel_error)},
                          {"first_difference", to_json(comparison->first)}};
    print_json(json);
  } else {
    print_outputs(outcome.outputs, "");
    write_message(to_table(outcome.evaluated));
    if (comparison) print_comparison(*comparison);
  }
  return !comparison || comparison->equal ? 0 : 1;
}

int verify_verb(const Command& command) {
  const std::unique_ptr<Module> module = load_for_devices(command);
  const TimeLimit limit(command.time_limit);
  if (runs_as_copies(*module)) return verify_copies(*module, command);
  if (module->num_partitions > 1 && has_manual_regions(*module))
    return verify_regions(*module, command);
  const Prepared prepared = prepare_run(*module, command);
  const int64_t reference = plan_memory(*for_one_device(*module)).peak_bytes;
  const int64_t outputs = output_bytes(*module);
  check_memory(fmt::format("verify on {} devices", prepared.num_devices),
               sum_bytes({prepared.bytes(), saturating_multiply(kOracleCopies, reference),
                          input_bytes(*module), outputs, outputs, outputs}));
  check_time("verify", *prepared.compiled.local, prepared.num_devices, command);
  const std::vector<Array> inputs = make_inputs(*module, command);
  const Expected expected = expected_results(*module, inputs, command);
  const Outcome outcome = execute(prepared, inputs, command);
  Verdict verdict;
  verdict.result = compare_outcome(*module, inputs, expected, outcome.outputs, command);
  if (!verdict.result.equal && expected.reference_ran && prepared.num_devices > 1)
    verdict.wrong_step = locate_wrong_step(prepared, *module, inputs, expected.exact, command);
  verdict.exact = expected.exact;
  verdict.oracle = expected.oracle;
  verdict.num_devices = prepared.num_devices;
  verdict.peak_bytes = prepared.compiled.plan.peak_bytes;
  verdict.compile_seconds = prepared.compile_seconds;
  verdict.run_seconds = outcome.seconds;
  verdict.reference_seconds = expected.seconds;
  verdict.collectives =
      collective_stats(*prepared.compiled.local, mesh_of(*prepared.compiled.completed).get());
  verdict.full_rematerializations = prepared.compiled.full_rematerializations;
  verdict.evaluated = outcome.evaluated;
  return finish(verdict, command);
}

}  // namespace gspmd::tools
