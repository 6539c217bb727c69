#include "examples/front.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <new>
#include <numbers>

#include "examples/training_run.h"
#include "models/fsdp.h"

namespace gspmd::examples {
namespace {

// Gradients of f16 below 6e-8 would be 0.
constexpr double kHalfLossScale = 1024;
constexpr double kDecay = 0.1;  // of adamw and lamb

std::string listed(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

void check_word(const std::string& option, const std::string& given,
                const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), given) == choices.end())
    user_error("--{}: there is no \"{}\"; choose one of {}", option, given, listed(choices));
}

const std::vector<std::string>& compute_types() {
  static const std::vector<std::string> names = {"f32", "bf16", "f16"};
  return names;
}

Precision precision_of(const RunOptions& o, const Task& task) {
  Precision precision;
  if (o.compute.empty()) return precision;
  check_word("compute", o.compute, compute_types());
  if (task.exact())
    user_error("--compute: the exact form is computed in the weights' dtype; leave it out");
  if (task.dtype() != DType::f32)
    user_error("--compute: {} goes with weights of f32, not of {}", o.compute,
               dtype_name(task.dtype()));
  precision.compute = dtype_from_name(o.compute).value_or(DType::f32);
  if (precision.compute == DType::f16) precision.loss_scale = kHalfLossScale;
  return precision;
}

}  // namespace

struct Front::Parts {
  CLI::App app;
  std::string name;
  RunOptions options;
  std::vector<std::string> recipes;
  std::map<std::string, std::function<std::string()>> values;  // of what a resumed run must share
  std::vector<std::function<void()>> checks;

  template <class T>
  CLI::Option* add(const std::string& option, T& value, const std::string& help) {
    return app.add_option("--" + option, value, help)->capture_default_str();
  }
  CLI::Option* add_size(const std::string& option, int64_t& value, const std::string& help) {
    return add(option, value, help)->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  }
  void add_word(const std::string& option, std::string& value, std::vector<std::string> choices,
                const std::string& help) {
    add(option, value, fmt::format("{}{}", help, fmt::join(choices, "|")));
    checks.push_back([&value, option, choices] { check_word(option, value, choices); });
  }
  void declare_run();
  void declare_files();
};

void Front::Parts::declare_run() {
  RunOptions& o = options;
  add("mesh", o.mesh, "axes and sizes, as data=2,model=4; 1: one device");
  add_word("recipe", o.recipe, recipes, "");
  add_size("batch", o.batch, "rows per step");
  add_size("microbatches", o.microbatches, "the batch in so many parts, one after the other");
  add_size("steps", o.steps, "training steps");
  add("lr", o.lr, "highest learning rate");
  add_word("optimizer", o.optimizer, models::optimizer_names(), "");
  add("clip-norm", o.clip_norm, "gradients are scaled to this global norm at most; 0: never");
  add("weight-update", o.weight_update,
      "mesh axes, as data or x,y, whose devices each do a part of the update and hold its state");
  app.add_flag("--gather-bf16", o.gather_bf16, "send the weights of shared updates as bf16");
  add("fsdp", o.fsdp, "mesh axes that split all weights, which are gathered layer by layer");
  add("compute", o.compute,
      "f32, bf16 or f16: what loss and gradients are computed in (default: dtype)");
  add("seed", o.seed, "of weights, batches and whatever else is drawn");
  app.add_option("--devices-per-process", o.devices_per_process,
                 "of several processes: devices that each hosts, or N,N,... one by one (default: "
                 "equal blocks)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->take_all();
  add("threads", o.threads, "worker threads; 0: the machine's cores")->check(CLI::Range(0, 1024));
  app.add_flag("--check", o.check,
               "run the single-device program beside it and compare every step");
  checks.push_back([&o] {
    if (!(o.lr >= 0 && std::isfinite(o.lr)))
      user_error("--lr: {} is no learning rate; give a number that is 0 or more", o.lr);
    if (!(o.clip_norm >= 0 && std::isfinite(o.clip_norm)))
      user_error("--clip-norm: {} is no norm; give a number that is 0 or more", o.clip_norm);
  });
}

void Front::Parts::declare_files() {
  RunOptions& o = options;
  add("evaluate-every", o.evaluate_every,
      "steps from one evaluation on held-out data to the next; 0: after the last step only")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31));
  add("checkpoint", o.checkpoint, "folder for checkpoints (default: none)");
  add_size("checkpoint-every", o.checkpoint_every, "steps from one checkpoint to the next");
  add_size("checkpoint-keep", o.checkpoint_keep, "newest checkpoints that stay");
  app.add_flag(
      "--resume", o.resume,
      "go on from the newest whole checkpoint, on any mesh; from the start where there is none");
  add("trace", o.trace,
      "write what each device does in the last step to a JSON file for a trace viewer");
  app.add_flag("--json", o.json, "one JSON object per step and a last one with the totals");
}

Front::Front(std::string name, std::string description, RunOptions defaults,
             std::vector<std::string> recipes)
    : parts_(std::make_unique<Parts>()) {
  parts_->app.description(std::move(description));
  parts_->app.name(name);
  parts_->app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  parts_->name = std::move(name);
  parts_->options = std::move(defaults);
  parts_->recipes = std::move(recipes);
  if (parts_->options.recipe.empty()) parts_->options.recipe = parts_->recipes.at(0);
  parts_->declare_run();
  parts_->declare_files();
}

Front::~Front() = default;

void Front::add_size(const std::string& name, int64_t& value, const std::string& help) {
  parts_->add_size(name, value, help);
  parts_->values[name] = [&value] { return fmt::format("{}", value); };
}

void Front::add_number(const std::string& name, double& value, const std::string& help) {
  parts_->add(name, value, help);
  parts_->values[name] = [&value] { return fmt::format("{}", value); };
  parts_->checks.push_back([&value, name] {
    if (!std::isfinite(value)) user_error("--{}: {} is no finite number", name, value);
  });
}

void Front::add_word(const std::string& name, std::string& value, std::vector<std::string> choices,
                     const std::string& help) {
  parts_->add_word(name, value, std::move(choices), help.empty() ? "" : help + ": ");
  parts_->values[name] = [&value] { return value; };
}

void Front::add_flag(const std::string& name, bool& value, const std::string& help) {
  parts_->app.add_flag("--" + name, value, help);
  parts_->values[name] = [&value] { return value ? "true" : "false"; };
}

void Front::add_text(const std::string& name, std::string& value, const std::string& help) {
  parts_->add(name, value, help);
}

void Front::add_count(const std::string& name, int64_t& value, const std::string& help) {
  parts_->add(name, value, help)->check(CLI::Range(int64_t{0}, int64_t{1} << 31));
}

const RunOptions& Front::options() const { return parts_->options; }

bool Front::parse(int argc, const char* const* argv, int& exit_code) {
  exit_code = 0;
  try {
    parts_->app.parse(argc, argv);
    for (const auto& check : parts_->checks) check();
    return true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(parts_->app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    if (is_first_process())
      fmt::print(stderr, "{}: {}; --help lists the options\n", parts_->name, error.what());
  } catch (const UserError& error) {
    if (is_first_process()) fmt::print(stderr, "{}\n", error.what());
  }
  exit_code = 2;
  return false;
}

std::map<std::string, std::string> Front::identity() const {
  const RunOptions& o = parts_->options;
  std::map<std::string, std::string> identity = {
      {"batch", fmt::format("{}", o.batch)},
      {"clip-norm", fmt::format("{}", o.clip_norm)},
      {"compute", o.compute.empty() ? "dtype" : o.compute},
      {"lr", fmt::format("{}", o.lr)},
      {"microbatches", fmt::format("{}", o.microbatches)},
      {"optimizer", o.optimizer},
      {"seed", fmt::format("{}", o.seed)},
      {"steps", fmt::format("{}", o.steps)}};
  if (o.gather_bf16) identity["gather-bf16"] = "true";
  for (const auto& [name, value] : parts_->values) identity[name] = value();
  return identity;
}

int Front::main(int argc, const char* const* argv,
                const std::function<std::unique_ptr<Task>()>& make_task) {
  int exit_code = 0;
  try {
    print_from_first_process();
    if (!parse(argc, argv, exit_code)) return exit_code;
    set_devices_per_process(options().devices_per_process);
    return run_training(parts_->name, options(), identity(), *make_task());
  } catch (const UserError& error) {
    return end_job(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return end_job(fmt::format("{}: out of memory; choose smaller sizes", parts_->name), 2);
  } catch (const std::exception& error) {
    return end_job(error.what(), 1);
  }
}

Mesh parse_mesh(const std::string& text) {
  std::vector<MeshAxis> axes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    const std::string name =
        equals == std::string::npos ? fmt::format("x{}", axes.size()) : part.substr(0, equals);
    const std::string digits = equals == std::string::npos ? part : part.substr(equals + 1);
    int64_t size = 0;
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc() || last != digits.data() + digits.size() || name.empty()) {
      user_error("--mesh: \"{}\" in \"{}\" is no axis; write name=size,name=size or 1", part, text);
    }
    axes.push_back({name, size});
    begin = end + 1;
  }
  if (text == "1") return Mesh();
  return Mesh(axes);
}

namespace {

// Of "x,y"; what is no axis the mesh refuses.
std::vector<std::string> axis_names(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

models::TrainerOptions trainer_options(const RunOptions& o, const Task& task, const Mesh& mesh) {
  models::TrainerOptions result;
  result.precision = precision_of(o, task);
  result.optimizer.kind =
      task.exact() ? models::Optimizer::none : models::optimizer_of_name(o.optimizer);
  const bool decays = o.optimizer == "adamw" || o.optimizer == "lamb";
  result.optimizer.weight_decay = decays ? kDecay : 0;
  result.mesh = mesh;
  result.model = task.model(mesh);
  if (mesh.num_devices() > 1) {  // else there is nobody to share with, as with --check
    result.weight_update.axes = axis_names(o.weight_update);
    if (o.gather_bf16) result.weight_update.gather_dtype = DType::bf16;
    if (!o.fsdp.empty())
      result.model = models::fsdp_model(result.model, {mesh, axis_names(o.fsdp)});
  }
  result.batch = o.batch;
  result.microbatches = task.makes_microbatches() ? 1 : o.microbatches;
  result.clip_norm = o.clip_norm;
  result.seed = o.seed;
  result.threads = o.threads;
  return result;
}

double learning_rate(const RunOptions& options, int64_t step) {
  const int64_t warm_up = std::clamp<int64_t>(options.steps / 10, 1, 60);
  if (step < warm_up) return options.lr * double(step + 1) / double(warm_up);
  const double done =
      double(step - warm_up) / double(std::max<int64_t>(options.steps - warm_up, 1));
  return options.lr * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace gspmd::examples
