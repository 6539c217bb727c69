#include "examples/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace gspmd::examples {
namespace {

template <class T>
struct Choice {
  const char* name;
  T value;
};

constexpr Choice<models::Norm> kNorms[] = {{"rms", models::Norm::rms},
                                           {"layer", models::Norm::layer}};
constexpr Choice<models::Positions> kPositions[] = {{"learned", models::Positions::learned},
                                                    {"none", models::Positions::none}};
constexpr Choice<DType> kDTypes[] = {{"f32", DType::f32}, {"f64", DType::f64}};
constexpr Choice<DType> kComputeTypes[] = {
    {"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
// Gradients of f16 below 6e-8 would be 0.
constexpr double kHalfLossScale = 1024;

template <class T, size_t N>
T choose(const char* option, const std::string& given, const Choice<T> (&choices)[N]) {
  std::vector<std::string> names;
  for (const Choice<T>& choice : choices) {
    if (given == choice.name) return choice.value;
    names.emplace_back(choice.name);
  }
  user_error("--{}: there is no \"{}\"; choose one of {}", option, given, fmt::join(names, ", "));
}

void declare_model(CLI::App& app, TrainOptions& o) {
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 31);
  app.add_option("--layers", o.layers, "blocks")->check(size)->capture_default_str();
  app.add_option("--d-model", o.d_model, "width of the residual stream")
      ->check(size)
      ->capture_default_str();
  app.add_option("--d-ff", o.d_ff, "width of the feed-forward part")
      ->check(size)
      ->capture_default_str();
  app.add_option("--heads", o.heads, "attention heads; divide d-model")
      ->check(size)
      ->capture_default_str();
  app.add_option("--seq", o.seq, "bytes per window")->check(size)->capture_default_str();
  app.add_option("--norm", o.norm, "rms or layer")->capture_default_str();
  app.add_flag("--bias", o.bias, "biases in the feed-forward part and the norms");
  app.add_option("--positions", o.positions, "learned or none")->capture_default_str();
  app.add_option("--dtype", o.dtype, "f32 or f64: of the weights")->capture_default_str();
  app.add_option("--compute", o.compute,
                 "f32, bf16 or f16: what loss and gradients are computed in (default: dtype)");
  app.add_flag(
      "--exact", o.exact,
      "integer-preserving form: loss and gradients of fixed weights, bitwise equal on every mesh");
}

void declare_training(CLI::App& app, TrainOptions& o) {
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 31);
  app.add_option("--text", o.text,
                 "text file, last tenth held out (default: Debian's licence texts)");
  app.add_option("--mesh", o.mesh, "axes and sizes, as data=2,model=4; 1: one device")
      ->capture_default_str();
  app.add_option("--recipe", o.recipe, fmt::format("{}", fmt::join(models::recipe_names(), "|")))
      ->capture_default_str();
  app.add_option("--batch", o.batch, "windows per step")->check(size)->capture_default_str();
  app.add_option("--steps", o.steps, "training steps")->check(size)->capture_default_str();
  app.add_option("--lr", o.lr, "highest learning rate")->capture_default_str();
  app.add_option("--optimizer", o.optimizer,
                 fmt::format("{}", fmt::join(models::optimizer_names(), "|")))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of weights, batches and sample")->capture_default_str();
  app.add_option("--threads", o.threads, "worker threads; 0: the machine's cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_flag("--check", o.check,
               "run the single-device program beside it and compare every step");
  app.add_option("--sample", o.sample, "bytes to generate at the end")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--checkpoint", o.checkpoint, "folder for checkpoints (default: none)");
  app.add_option("--checkpoint-every", o.checkpoint_every, "steps from one checkpoint to the next")
      ->check(size)
      ->capture_default_str();
  app.add_option("--checkpoint-keep", o.checkpoint_keep, "newest checkpoints that stay")
      ->check(size)
      ->capture_default_str();
  app.add_flag(
      "--resume", o.resume,
      "go on from the newest whole checkpoint, on any mesh; from the start where there is none");
  app.add_option("--trace", o.trace,
                 "write what each device does in the last step to a JSON file for a trace viewer");
  app.add_flag("--json", o.json, "one JSON object per step and a last one with the totals");
}

}  // namespace

bool parse_options(int argc, const char* const* argv, TrainOptions& options, int& exit_code) {
  CLI::App app{"Trains a byte-level Transformer language model on a simulated mesh."};
  app.name("train_transformer");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  declare_training(app, options);
  declare_model(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    exit_code = 0;
    return false;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "train_transformer: {}; --help lists the options\n", error.what());
    exit_code = 2;
    return false;
  }
  return true;
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

models::OptimizerOptions optimizer_options(const TrainOptions& o) {
  models::OptimizerOptions result;
  const std::vector<std::string>& names = models::optimizer_names();
  if (std::find(names.begin(), names.end(), o.optimizer) == names.end())
    user_error("--optimizer: there is no \"{}\"; choose one of {}", o.optimizer,
               fmt::join(names, ", "));
  result.kind = models::optimizer_of_name(o.optimizer);
  result.weight_decay = result.kind == models::Optimizer::adamw ? 0.1 : 0;
  return result;
}

}  // namespace

models::TransformerRun trainer_options(const TrainOptions& o) {
  if (!(o.lr >= 0 && std::isfinite(o.lr)))
    user_error("--lr: {} is no learning rate; give a number that is 0 or more", o.lr);
  models::TransformerRun result;
  result.mesh = parse_mesh(o.mesh);
  result.layout = models::layout_of_recipe(o.recipe, result.mesh);
  result.optimizer = optimizer_options(o);
  result.batch = o.batch;
  result.seed = o.seed;
  result.threads = o.threads;
  models::TransformerConfig& config = result.config;
  config.layers = o.layers;
  config.model = o.d_model;
  config.hidden = o.d_ff;
  config.heads = o.heads;
  config.seq = o.seq;
  config.norm = choose("norm", o.norm, kNorms);
  config.bias = o.bias;
  config.positions = choose("positions", o.positions, kPositions);
  config.form = o.exact ? models::Form::exact : models::Form::standard;
  config.dtype = choose("dtype", o.dtype, kDTypes);
  models::check(config);
  if (!o.compute.empty()) {
    result.precision.compute = choose("compute", o.compute, kComputeTypes);
    if (config.dtype != DType::f32)
      user_error("--compute: {} goes with weights of f32, not of {}", o.compute, o.dtype);
    if (o.exact) user_error("--compute: the exact form is computed in the weights' dtype");
    if (result.precision.compute == DType::f16) result.precision.loss_scale = kHalfLossScale;
  }
  return result;
}

double learning_rate(const TrainOptions& options, int64_t step) {
  const int64_t warm_up = std::clamp<int64_t>(options.steps / 10, 1, 60);
  if (step < warm_up) return options.lr * double(step + 1) / double(warm_up);
  const double done =
      double(step - warm_up) / double(std::max<int64_t>(options.steps - warm_up, 1));
  return options.lr * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace gspmd::examples
