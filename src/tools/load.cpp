#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/print.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/custom_calls.h"
#include "gspmd/stablehlo/text.h"
#include "ir/attribute_table.h"
#include "passes/disabled.h"
#include "runtime/transport.h"
#include "tools/command.h"
#include "tools/copies.h"
#include "tools/partitioner_options.h"
#include "tools/streams.h"

namespace gspmd::tools {
namespace {

std::string read_all(std::FILE* file, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, file))
    text.append(buffer, count);
  if (std::ferror(file)) user_error("{}: cannot be read: {}", name, std::strerror(errno));
  return text;
}

InputText read_file(const std::string& name) {
  if (name == "-") return InputText(read_all(stdin, "standard input"));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "rb"),
                                                             std::fclose);
  if (!file) user_error("{}: cannot be opened: {}", name, std::strerror(errno));
  // A large one is not copied; a small one is, for somebody may write it meanwhile.
  constexpr int64_t kLarge = int64_t{64} << 20;
  struct stat status {};
  const int number = ::fileno(file.get());
  if (::fstat(number, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= kLarge) {
    const auto size = static_cast<size_t>(status.st_size);
    void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, number, 0);
    if (mapped != MAP_FAILED) return {static_cast<const char*>(mapped), size};
  }
  return InputText(read_all(file.get(), name));
}

void check_count(const char* option, size_t given, size_t leaves, size_t values) {
  if (given <= 1 || given == leaves || given == values) return;
  user_error("{}: {} values given; give one, or {}", option, given, leaves);
}

std::string name_of_file(const Command& command) {
  return command.file == "-" ? "<stdin>" : command.file;
}

// Meshes stand in the module's attributes, which have no line.
void check_meshes(const Module& module, const std::string& file) {
  try {
    sdy_devices(module);
  } catch (const UserError& error) {
    user_error("{}: {}", file, error.what());
  }
}

// They are kept as they are: what they compute is not known.
void warn_of_unknown_calls(const Module& module, const std::string& file) {
  constexpr int64_t kShown = 8;
  int64_t count = 0;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      if (!node->is(Opcode::custom_call) || is_known_call(*node) || ++count > kShown) continue;
      fmt::print(stderr,
                 "gspmd: warning: {}: custom-call: \"{}\": target \"{}\" is not known; it "
                 "reads whole values on every device\n",
                 file, node->name(), *node->attrs.custom_call_target);
    }
  if (count > kShown)
    fmt::print(stderr, "gspmd: warning: {}: {} more custom-calls are not known\n", file,
               count - kShown);
}

// They are kept and printed as they are: what they mean is not known.
void warn_of_unknown_attributes(const Module& module, const std::string& file) {
  std::map<std::pair<std::string_view, std::string_view>, const Node*> first;  // by opcode and name
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (!node->attrs.other.empty() && !node->is(Opcode::custom_call))
        for (const auto& [name, text] : *node->attrs.other)
          if (!is_kept_attribute(name))
            first.try_emplace({opcode_name(node->opcode()), name}, node.get());
  for (const auto& [what, node] : first)
    fmt::print(stderr,
               "gspmd: warning: {}: {}: \"{}\": attribute {} is not known; it is kept and changes "
               "no value\n",
               file, what.first, node->name(), what.second);
}

}  // namespace

void open_folder(Command& command, bool runs) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (command.file.empty() || !fs::is_directory(command.file, error)) return;
  const fs::path folder = command.file;
  std::vector<std::string> programs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".mlir" || entry.path().extension() == ".hlo")
      programs.push_back(entry.path().string());
  if (programs.size() != 1)
    user_error(
        "{} cannot be read: a folder with {} files *.mlir or *.hlo; give one of them, or keep "
        "one",
        command.file, programs.size());
  command.file = programs[0];
  const auto beside = [&](const char* name, std::string& path) {
    if (path.empty() && fs::exists(folder / name, error)) path = (folder / name).string();
  };
  beside("inputs.npz", command.inputs);
  if (runs) beside("outputs.npz", command.expected);
}

InputText::~InputText() {
  if (mapped_ != nullptr) ::munmap(const_cast<char*>(mapped_), size_);
}

InputText load_text(const Command& command) {
  Transport* const transport = command.file == "-" ? current_transport() : nullptr;
  if (transport == nullptr) return read_file(command.file);
  // The standard input reaches the first process only.
  std::string own;
  if (transport->process() == 0) own = std::string_view(read_file(command.file));
  return InputText(gather_texts(*transport, own, "standard input").at(0));
}

std::unique_ptr<Module> load_module(const Command& command, std::string_view text, bool any_entry) {
  const std::string file = name_of_file(command);
  std::unique_ptr<Module> module = read_module(text, file, {.any_entry = any_entry});
  check_meshes(*module, file);
  return module;
}

std::vector<std::unique_ptr<Module>> load_modules(const Command& command, std::string_view text) {
  const std::string file = name_of_file(command);
  std::vector<std::unique_ptr<Module>> modules = read_modules(text, file, {.any_entry = true});
  for (const auto& module : modules) check_meshes(*module, file);
  return modules;
}

void emit_module(const Command& command, const Module& module, Language input,
                 const std::function<void(std::string_view)>& write) {
  if (command.emit.value_or(input) == Language::hlo) return print_module(module, write);
  if (!is_completed_in_sdy(module)) return print_stablehlo(module, write);
  const std::unique_ptr<Module> one_form = module.clone();
  keep_sdy_only(*one_form);
  print_stablehlo(*one_form, write);
}

std::string emitted_text(const Command& command, const Module& module, Language input) {
  std::string text;
  emit_module(command, module, input, [&](std::string_view piece) { text += piece; });
  return text;
}

std::unique_ptr<Module> load_for_devices(const Command& command) {
  return load_for_devices(command, load_text(command));
}

std::unique_ptr<Module> load_as_given(const Command& command, std::string_view text) {
  std::unique_ptr<Module> module = load_module(command, text);
  if (module->num_replicas > 1)
    user_error(
        "{}: replica_count={}; only modules of one replica can be partitioned, use num_partitions",
        command.file, module->num_replicas);
  if (!command.num_devices && module->num_partitions == 1)
    module->num_partitions = std::max<int64_t>(1, sdy_devices(*module));
  if (command.num_devices && *command.num_devices != module->num_partitions) {
    module->num_partitions = *command.num_devices;
    verify_module(*module);  // groups of all devices have another size now
  }
  return module;
}

std::unique_ptr<Module> load_for_devices(const Command& command, std::string_view text) {
  return for_devices(command, load_as_given(command, text));
}

std::unique_ptr<Module> for_devices(const Command& command, std::unique_ptr<Module> module) {
  PropagateOptions completion = propagate_options(command, *module);
  if (command.propagate && module->num_partitions > 1 && !runs_as_copies(*module) &&
      uses_shardy(*module, completion))
    propagate_shardy(*module, completion.shardy);
  if (lower_sdy(*module)) verify_module(*module);
  warn_of_unknown_calls(*module, command.file);
  warn_of_unknown_attributes(*module, command.file);
  return module;
}

PropagateOptions propagate_options(const Command& command, const Module& module) {
  const Computation& entry = *module.entry();
  const auto& parameters = entry.parameters();
  size_t leaves = 0;
  for (const Node* parameter : parameters)
    leaves += static_cast<size_t>(leaf_count(parameter->shape));
  check_count("--allow-output-propagation", command.allow_output.size(),
              static_cast<size_t>(leaf_count(entry.root()->shape)),
              entry.root()->shape.elements.size());
  check_count("--allow-parameter-propagation", command.allow_parameters.size(), parameters.size(),
              leaves);
  PropagateOptions options;
  options.strategy = command.strategy;
  for (const std::string& text : command.options)
    if (text.starts_with("sdy_")) {  // who asks for a part of Shardy's rules asks for them
      set_shardy_option(text, options.shardy);
      if (options.strategy == Strategy::automatic) options.strategy = Strategy::shardy;
    }
  options.spmd = command.spmd;
  options.cse_prevention_only = command.cse_prevention_only;
  options.allow_output = command.allow_output;
  options.allow_parameters = command.allow_parameters;
  // A module that this library traced keeps uneven boundaries.
  options.replicate_indivisible_boundary =
      !module.frontend_attributes.contains("gspmd.open_outputs");
  return options;
}

PipelineOptions pipeline_options(const Command& command, const Module& module) {
  PipelineOptions options;
  options.num_devices = module.num_partitions;
  options.propagate = propagate_options(command, module);
  options.propagate.strategy = Strategy::gspmd;  // what is Shardy's is done when it is loaded
  options.run_propagation = command.propagate;
  check_disabled(command.disabled);
  options.disabled = command.disabled;
  options.poison_absent = command.poison_absent;
  options.keep_uncombined = false;
  options.memory_limit = command.memory_limit;
  options.dump_after = command.dump_after;
  for (const std::string& text : command.options) set_partitioner_option(text, options);
  options.dump = [](const std::string& pass, const std::string& text) {
    write_message(fmt::format("// after {}\n{}", pass, text));
  };
  // Some verbs compile the module several times.
  options.on_note = [said = std::make_shared<std::set<std::string>>(),
                     file = name_of_file(command)](const std::string& note) {
    if (said->insert(note).second) fmt::print(stderr, "gspmd: note: {}: {}\n", file, note);
  };
  const std::vector<std::string> known = pass_names();
  for (const std::string& name : command.dump_after)
    if (name != "all" && std::find(known.begin(), known.end(), name) == known.end())
      user_error("--dump-after {}: there is no such pass; passes are {}", name,
                 fmt::join(known, ", "));
  return options;
}

}  // namespace gspmd::tools
