#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/base/version.h"
#include "gspmd/runtime/processes.h"
#include "tools/command.h"
#include "tools/help.h"
#include "tools/interrupt.h"
#include "tools/numbers.h"
#include "tools/partitioner_options.h"
#include "tools/streams.h"

namespace gspmd::tools {
namespace {

// Graphs are many small pieces of different sizes, which glibc's fast bins would merge and split
// again and again: of a million instructions, completion took three times as long. Without effect
// where another allocator is linked.
void allocate_for_graphs() {
#ifdef __GLIBC__
  ::mallopt(M_MXFAST, 0);
#endif
}

constexpr int kFailed = 1;      // verify found a difference, or an execution failed
constexpr int kWrongInput = 2;  // the command line, the file or the module

// What a verb does, and so the options it takes: each stage those of the ones before it too.
enum class Stage : uint8_t { table, read, partition, run, compare };

struct Verb {
  const char* name;
  const char* what;  // one line, for the list of verbs
  int (*run)(const Command& command);
  Stage stage;
  bool may(Stage least) const { return stage >= least; }
};
constexpr Verb kVerbs[] = {
    {"print", "parse, verify, print canonical HLO text", print_verb, Stage::read},
    {"propagate", "complete the shardings; print the module", propagate_verb, Stage::partition},
    {"partition", "print the one per-device program", partition_verb, Stage::partition},
    {"run", "execute; on several devices: partition and run on the mesh", run_verb, Stage::run},
    {"verify", "compare the mesh with the oracle or with one device", verify_verb, Stage::compare},
    {"explain", "every collective: why, over which devices, how many bytes", explain_verb,
     Stage::partition},
    {"cost", "FLOPs, bytes per collective, peak memory, time estimate", cost_verb,
     Stage::partition},
    {"visualize", "which device has which part of a tensor, as text or a page", visualize_verb,
     Stage::partition},
    {"ops", "the op table: name, sharding rule of a sample, aspects", ops_verb, Stage::table},
};

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

uint64_t parse_seed(const std::string& text) {
  if (const auto seed = to_integer<uint64_t>(text)) return *seed;
  user_error("--seed {}: give an integer of 0 to 2^64-1", text);
}

double parse_tolerance(const std::string& option, const std::string& text) {
  const double tolerance = parse_number(option, text);
  if (tolerance < 0) user_error("{} {}: a tolerance is not negative", option, text);
  return tolerance;
}

// Option texts that become values after parsing.
struct Texts {
  std::string allow_output, allow_parameters;
  std::string values = "integers", reference = "auto", memory_limit, emit;
  std::optional<std::string> num_devices, threads, seed, time_limit, rtol, atol;
  std::vector<std::string> options;
  std::string strategy;
  bool no_propagate = false, no_spmd = false;
};

void add_propagation_options(CLI::App& app, Command& command, Texts& texts) {
  const char* const kGroup = "Completion";
  app.add_option("--allow-output-propagation", texts.allow_output,
                 "completion may change the root's shardings: all of them, or\n"
                 "=BOOL,BOOL,... for each element of a tuple")
      ->group(kGroup);
  app.add_option("--allow-parameter-propagation", texts.allow_parameters,
                 "the same for the parameters: all of them, or =BOOL,BOOL,...")
      ->group(kGroup);
  app.add_option("--strategy", texts.strategy,
                 "whose rules complete: gspmd or shardy; default: shardy where the\n"
                 "module says its shardings in sdy, else gspmd")
      ->group(kGroup);
  app.add_flag("--no-spmd", texts.no_spmd, "the completion rules for other than SPMD programs")
      ->group(kGroup);
  app.add_flag("--cse-prevention-only", command.cse_prevention_only,
               "only broadcasts of scalars get a sharding, marked so that a later\n"
               "completion drops it; all else stays")
      ->group(kGroup);
  app.add_flag("--origins", command.origins, "with --json: where each sharding came from")
      ->group(kGroup);
}

void add_partition_options(CLI::App& app, Command& command, Texts& texts) {
  const char* const kGroup = "Partitioning";
  app.add_flag("--no-propagate", texts.no_propagate,
               "take the shardings as they stand in the file; an instruction\n"
               "without one is replicated")
      ->group(kGroup);
  app.add_option("--num-devices", texts.num_devices,
                 "number of devices; default: the module's num_partitions")
      ->type_name("INT")
      ->group(kGroup);
  app.add_option("--option", texts.options, "NAME=VALUE, an option of the partitioner; repeatable")
      ->group(kGroup);
  app.add_option("--disable", command.disabled, "leave out a pass; repeatable")->group(kGroup);
  app.add_option("--dump-after", command.dump_after,
                 "print the text after a pass, or after all, on standard error")
      ->group(kGroup);
  app.add_option("--threads", texts.threads, "worker threads; default: the machine's cores")
      ->type_name("INT")
      ->group(kGroup);
}

void add_memory_option(CLI::App& app, Texts& texts) {
  app.add_option("--memory-limit", texts.memory_limit,
                 "bytes per device, or 40GB, 512MiB, ...: a program that needs more makes\n"
                 "values again instead of keeping them; where that is not enough, it is an\n"
                 "error that lists its largest tensors")
      ->group("Partitioning");
}

void add_run_options(CLI::App& app, Command& command, Texts& texts) {
  const char* const kGroup = "Execution";
  app.add_option("--devices-per-process", command.devices_per_process,
                 "of several processes: devices that each hosts, or N,N,... one by one;\n"
                 "default: equal blocks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(kGroup);
  app.add_option("--inputs", command.inputs, "npz file with the arguments")->group(kGroup);
  app.add_option("--seed", texts.seed, "of random inputs, 0 to 2^64-1; default 0")
      ->type_name("UINT")
      ->group(kGroup);
  app.add_option("--values", texts.values,
                 "random inputs: integers (default; -4..4, unsigned 0..4, pred 0/1)\n"
                 "or uniform (floats in [-1, 1))")
      ->group(kGroup);
  app.add_option("--time-limit", texts.time_limit,
                 "seconds after which a loop that still runs is an error; default 600")
      ->type_name("FLOAT")
      ->group(kGroup);
}

void add_visualize_options(CLI::App& app, Command& command) {
  app.add_option("--html", command.html, "write a page for a browser instead of text")
      ->group("Pictures");
  app.add_option("--tensor", command.tensors,
                 "an instruction's name; repeatable; default: the entry's parameters and root")
      ->group("Pictures");
  app.add_flag("--all", command.all_tensors, "every instruction that has a sharding")
      ->group("Pictures");
}

void add_options(CLI::App& app, const Verb& verb, Command& command, Texts& texts) {
  app.footer(verb_footer(verb.name));
  app.add_flag("--json", command.json, "one JSON object on standard output");
  if (verb.may(Stage::read))
    app.add_option(
           "FILE", command.file,
           "HLO or StableHLO text, or a folder with it (help of run); - reads\nstandard input")
        ->required();
  if (verb.run == print_verb || verb.run == propagate_verb || verb.run == partition_verb)
    app.add_option("--emit", texts.emit,
                   "language of the printed module: hlo or stablehlo; default: that of the\n"
                   "input");
  if (verb.may(Stage::partition)) {
    add_propagation_options(app, command, texts);
    add_partition_options(app, command, texts);
  }
  if (verb.may(Stage::partition) && verb.run != propagate_verb && verb.run != visualize_verb)
    add_memory_option(app, texts);
  if (verb.may(Stage::run)) add_run_options(app, command, texts);
  if (verb.run == visualize_verb) add_visualize_options(app, command);
  if (verb.stage == Stage::run) {
    app.add_option("--expected", command.expected,
                   "npz file of results to compare with, as verify does; exit code 1 where\n"
                   "they differ")
        ->group("Execution");
    app.add_option("--outputs", command.outputs, "npz file for the results")->group("Execution");
    app.add_option("--trace", command.trace,
                   "JSON file for a trace viewer (chrome://tracing, ui.perfetto.dev): what\n"
                   "each device did when")
        ->group("Execution");
  }
  if (verb.may(Stage::run)) {
    app.add_option("--rtol", texts.rtol, "relative tolerance")
        ->type_name("FLOAT")
        ->group("Comparison");
    app.add_option("--atol", texts.atol, "absolute tolerance")
        ->type_name("FLOAT")
        ->group("Comparison");
  }
  if (!verb.may(Stage::compare)) return;
  app.add_option("--reference", texts.reference,
                 "auto (default), oracle: plain kernels, or fast: one device")
      ->group("Comparison");
  app.add_flag("--poison-absent", command.poison_absent,
               "on the mesh, devices that do not hold a value get NaN, the largest integer\n"
               "or the opposite truth value of it, so that what reads it there shows")
      ->group("Comparison");
}

void finish(const CLI::App& app, const Verb& verb, Command& command, const Texts& texts) {
  open_folder(command, verb.stage == Stage::run);
  command.propagate = !texts.no_propagate;
  command.spmd = !texts.no_spmd;
  if (verb.may(Stage::partition)) {
    if (app.count("--allow-output-propagation") > 0)
      command.allow_output = parse_flags("--allow-output-propagation", texts.allow_output);
    if (app.count("--allow-parameter-propagation") > 0)
      command.allow_parameters =
          parse_flags("--allow-parameter-propagation", texts.allow_parameters);
  }
  if (texts.strategy == "shardy")
    command.strategy = Strategy::shardy;
  else if (texts.strategy == "gspmd")
    command.strategy = Strategy::gspmd;
  else if (!texts.strategy.empty())
    user_error("--strategy {}: use gspmd or shardy", texts.strategy);
  if (texts.num_devices)
    command.num_devices = parse_integer("--num-devices", *texts.num_devices, 1, int64_t{1} << 31);
  PipelineOptions checked;
  for (const std::string& option : texts.options)
    if (!set_partitioner_option(option, checked))
      write_message(fmt::format("gspmd: --option {}: accepted, without effect here\n", option));
  command.options = texts.options;
  if (texts.emit == "hlo")
    command.emit = Language::hlo;
  else if (texts.emit == "stablehlo")
    command.emit = Language::stablehlo;
  else if (!texts.emit.empty())
    user_error("--emit {}: use hlo or stablehlo", texts.emit);
  if (!texts.memory_limit.empty())
    command.memory_limit = parse_bytes("--memory-limit", texts.memory_limit);
  if (texts.threads)  // 0: the machine's
    command.threads = static_cast<int>(parse_integer("--threads", *texts.threads, 0, 1024));
  if (!verb.may(Stage::run)) return;
  if (texts.seed) command.seed = parse_seed(*texts.seed);
  if (texts.time_limit) {
    command.time_limit = parse_number("--time-limit", *texts.time_limit);
    if (!(command.time_limit > 0))
      user_error("--time-limit {}: give a number of seconds above 0", *texts.time_limit);
  }
  if (texts.values != "integers" && texts.values != "uniform")
    user_error("--values {}: use integers or uniform", texts.values);
  if (texts.values == "uniform") command.values = Values::uniform;
  if (texts.reference == "oracle")
    command.reference = Reference::oracle;
  else if (texts.reference == "fast")
    command.reference = Reference::fast;
  else if (texts.reference != "auto")
    user_error("--reference {}: use oracle or fast", texts.reference);
  if (texts.rtol) command.rtol = parse_tolerance("--rtol", *texts.rtol);
  if (texts.atol) command.atol = parse_tolerance("--atol", *texts.atol);
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
  CLI::App app(command_description());
  app.name("gspmd");
  app.footer(command_footer());
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", "gspmd " GSPMD_VERSION_STRING);
  app.require_subcommand(1);
  Command command;
  Texts texts;
  std::vector<CLI::App*> parsers;
  for (const Verb& verb : kVerbs) {
    parsers.push_back(app.add_subcommand(verb.name, verb.what));
    add_options(*parsers.back(), verb, command, texts);
    if (argc > 1 && verb.name == std::string_view(argv[1]))
      parsers.back()->description(verb_description(verb.name));
  }
  try {
    app.parse(arguments_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      app.exit(error, text, text);
      write_output(text.str());
      return 0;
    }
    std::string message = error.what();
    user_error("{}; gspmd --help lists verbs, gspmd VERB --help their options", message);
  }
  for (size_t i = 0; i < parsers.size(); ++i)
    if (parsers[i]->parsed()) {
      finish(*parsers[i], kVerbs[i], command, texts);
      set_devices_per_process(command.devices_per_process);
      return kVerbs[i].run(command);
    }
  return kWrongInput;
}

int report(const char* message, int code) {
  return end_job(fmt::format("gspmd: {}", message), code);
}

}  // namespace
}  // namespace gspmd::tools

int main(int argc, char** argv) {
  using namespace gspmd;
  tools::allocate_for_graphs();
  try {
    tools::guard_standard_streams();
    tools::end_cleanly_when_interrupted();
    print_from_first_process();
    const int code = tools::dispatch(argc, argv);
    tools::finish_output();
    return code;
  } catch (const UserError& error) {
    return tools::report(error.what(), tools::kWrongInput);
  } catch (const std::bad_alloc&) {
    return tools::report("memory ran out", tools::kFailed);
  } catch (const std::exception& error) {
    return tools::report(error.what(), tools::kFailed);
  }
}
