#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "gspmd/base/error.h"
#include "tools/command.h"

namespace gspmd::tools {
namespace {

constexpr int kFailed = 1;      // verify found a difference, or an execution failed
constexpr int kWrongInput = 2;  // the command line, the file or the module

struct Verb {
  const char* name;
  const char* what;
  int (*run)(const Command& command);
  bool takes_file;
  bool propagates;  // takes the propagation options
  bool partitions;  // takes the partitioner's options
  bool executes;    // takes inputs
};
constexpr Verb kVerbs[] = {
    {"print", "parse, verify, print canonical HLO text", print_verb, true, false, false, false},
    {"propagate", "complete the shardings; print the module", propagate_verb, true, true, true,
     false},
    {"partition", "print the one per-device program", partition_verb, true, true, true, false},
    {"run", "execute; on several devices: partition and run on the mesh", run_verb, true, true,
     true, true},
    {"verify", "compare the mesh with the oracle or with one device", verify_verb, true, true, true,
     true},
    {"explain", "every collective: why, over which devices, how many bytes", explain_verb, true,
     true, true, false},
    {"cost", "FLOPs, bytes per collective, peak memory, time estimate", cost_verb, true, true, true,
     false},
    {"ops", "the op table", ops_verb, false, false, false, false},
};

// The partitioner's options by their names in XLA. Those that choose between ways which this
// partitioner weighs by bytes, or ask for windowed einsums, are accepted and change nothing.
constexpr const char* kPartitionerOptions[] = {"conv_halo_exchange_always_on_lhs",
                                               "report_instruction_count",
                                               "threshold_for_windowed_einsum_mib",
                                               "unroll_windowed_einsum",
                                               "bidirectional_windowed_einsum",
                                               "allow_module_signature_change",
                                               "allow_module_layout_signature_change",
                                               "cache_all_gather",
                                               "choose_faster_windowed_einsum_over_mem",
                                               "skip_checking_windowed_einsum_users",
                                               "enable_windowed_einsum_for_all_gather",
                                               "enable_windowed_einsum_for_reduce_scatter",
                                               "enable_dynamic_slice_collective_broadcast",
                                               "disable_ag_rewrite_for_multiple_consumers",
                                               "partial_windowed_einsum",
                                               "preferred_gather_partition_methods",
                                               "preferred_scatter_partition_methods",
                                               "total_bytes_windowed_einsum_threshold",
                                               "max_windowed_einsum_iteration",
                                               "need_resolve_conflicts"};

void check_partitioner_option(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) user_error("--option {}: give name=value", text);
  const std::string name = text.substr(0, equals);
  for (const char* known : kPartitionerOptions)
    if (name == known) {
      fmt::print(stderr, "gspmd: --option {}: accepted, without effect here\n", text);
      return;
    }
  user_error("--option {}: there is no option \"{}\"; options are {}", text, name,
             fmt::join(kPartitionerOptions, ", "));
}

std::vector<bool> parse_flags(const std::string& option, const std::string& text) {
  std::vector<bool> flags;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (word != "true" && word != "false" && word != "1" && word != "0")
      user_error("{}: \"{}\" is not true or false", option, word);
    flags.push_back(word == "true" || word == "1");
    begin = end + 1;
  }
  return flags;
}

// Option texts that become values after parsing.
struct Texts {
  std::string allow_output, allow_parameters, inputs, outputs, values = "integers",
                                                               reference = "auto";
  std::vector<std::string> options;
  int64_t num_devices = 0;
  double rtol = -1, atol = -1;
  bool no_propagate = false, no_spmd = false;
};

void add_options(CLI::App& app, const Verb& verb, Command& command, Texts& texts) {
  app.add_flag("--json", command.json, "one JSON object on standard output");
  if (verb.takes_file)
    app.add_option("FILE", command.file, "HLO text; - reads standard input")->required();
  if (verb.propagates) {
    app.add_option("--allow-output-propagation", texts.allow_output,
                   "completion may change the root's shardings: all, or one bool per element");
    app.add_option("--allow-parameter-propagation", texts.allow_parameters,
                   "completion may change the parameters' shardings: all, or one bool each");
    app.add_flag("--no-spmd", texts.no_spmd, "the non-SPMD completion rules");
    app.add_flag("--origins", command.origins, "with --json: where each sharding came from");
  }
  if (verb.partitions) {
    app.add_flag("--no-propagate", texts.no_propagate,
                 "use the shardings in the file as they stand");
    app.add_option("--num-devices", texts.num_devices, "default: the module's num_partitions");
    app.add_option("--option", texts.options, "name=value, a partitioner option");
    app.add_option("--disable", command.disabled, "leave out a pass");
    app.add_option("--dump-after", command.dump_after,
                   "text after a pass, or all, to standard error");
    app.add_option("--threads", command.threads, "worker threads; default: the machine's");
  }
  if (verb.executes) {
    app.add_option("--seed", command.seed, "of the random inputs, 0 to 2^64-1")
        ->check([](const std::string& text) {  // CLI11 would wrap a negative number around
          return text.find('-') == std::string::npos ? "" : "--seed " + text + " is negative";
        });
    app.add_option("--values", texts.values, "integers (-4..4) or uniform ([-1, 1))");
    app.add_option("--inputs", texts.inputs, "npz file with the arguments");
    app.add_option("--outputs", texts.outputs, "npz file for the results");
    app.add_option("--reference", texts.reference, "auto, oracle or fast");
    app.add_option("--rtol", texts.rtol, "relative tolerance");
    app.add_option("--atol", texts.atol, "absolute tolerance");
  }
}

// Not available in this version: said before any work is done.
void check_npz(const Texts& texts) {
  const char* const kWay =
      "npz files are not available in this version; inputs are random from --seed";
  if (!texts.inputs.empty()) user_error("--inputs {}: {}", texts.inputs, kWay);
  if (!texts.outputs.empty())
    user_error("--outputs {}: npz files are not available in this version; use --json",
               texts.outputs);
}

void finish(const CLI::App& app, const Verb& verb, Command& command, const Texts& texts) {
  command.propagate = !texts.no_propagate;
  command.spmd = !texts.no_spmd;
  if (verb.propagates) {
    if (app.count("--allow-output-propagation") > 0)
      command.allow_output = parse_flags("--allow-output-propagation", texts.allow_output);
    if (app.count("--allow-parameter-propagation") > 0)
      command.allow_parameters =
          parse_flags("--allow-parameter-propagation", texts.allow_parameters);
  }
  if (verb.partitions && app.count("--num-devices") > 0) {
    if (texts.num_devices < 1 || texts.num_devices > (int64_t{1} << 31))
      user_error("--num-devices {}: outside 1 to {}", texts.num_devices, int64_t{1} << 31);
    command.num_devices = texts.num_devices;
  }
  for (const std::string& option : texts.options) check_partitioner_option(option);
  if (command.threads < 0 || command.threads > 1024)
    user_error("--threads {}: outside 0 (the machine's) to 1024", command.threads);
  if (!verb.executes) return;
  check_npz(texts);
  if (texts.values != "integers" && texts.values != "uniform")
    user_error("--values {}: use integers or uniform", texts.values);
  if (texts.values == "uniform") command.values = Values::uniform;
  if (texts.reference == "oracle")
    command.reference = Reference::oracle;
  else if (texts.reference == "fast")
    command.reference = Reference::fast;
  else if (texts.reference != "auto")
    user_error("--reference {}: use oracle or fast", texts.reference);
  for (const auto& [name, value, target] :
       {std::tuple{"--rtol", texts.rtol, &command.rtol}, {"--atol", texts.atol, &command.atol}}) {
    if (app.count(name) == 0) continue;
    if (!(value >= 0)) user_error("{} {}: a tolerance is not negative", name, value);
    *target = value;
  }
}

// The bare flags mean true; written out, so that they do not take the word behind them for a value.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {  // CLI11 reads a vector from its back
    std::string argument = argv[i];
    if (argument == "--allow-output-propagation" || argument == "--allow-parameter-propagation")
      argument += "=true";
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

int dispatch(int argc, char** argv) {
  CLI::App app(
      "Completes shardings of HLO modules, partitions them for a mesh of devices, and runs them.");
  app.name("gspmd");
  app.set_version_flag("--version", "gspmd 0.1.0");
  app.require_subcommand(1);
  Command command;
  Texts texts;
  std::vector<CLI::App*> parsers;
  for (const Verb& verb : kVerbs) {
    parsers.push_back(app.add_subcommand(verb.name, verb.what));
    add_options(*parsers.back(), verb, command, texts);
  }
  try {
    app.parse(arguments_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string message = error.what();
    user_error("{}; gspmd --help lists verbs, gspmd VERB --help their options", message);
  }
  for (size_t i = 0; i < parsers.size(); ++i)
    if (parsers[i]->parsed()) {
      finish(*parsers[i], kVerbs[i], command, texts);
      return kVerbs[i].run(command);
    }
  return kWrongInput;
}

int report(const char* message, int code) {
  fmt::print(stderr, "gspmd: {}\n", message);
  return code;
}

}  // namespace
}  // namespace gspmd::tools

int main(int argc, char** argv) {
  using namespace gspmd;
  try {
    return tools::dispatch(argc, argv);
  } catch (const UserError& error) {
    return tools::report(error.what(), tools::kWrongInput);
  } catch (const std::bad_alloc&) {
    return tools::report("memory ran out", tools::kFailed);
  } catch (const std::exception& error) {
    return tools::report(error.what(), tools::kFailed);
  }
}
