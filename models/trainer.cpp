#include "models/trainer.h"

#include <cmath>
#include <tuple>
#include <utility>

namespace gspmd::models {
namespace {

CompileOptions compile_options(const TrainerOptions& options, std::vector<int64_t> donate,
                               std::vector<std::string> names) {
  CompileOptions compile;
  compile.mesh = options.mesh;
  compile.donate = std::move(donate);
  compile.argument_names = std::move(names);
  compile.name = "train_step";
  compile.threads = options.threads;
  compile.prepare = options.prepare;
  compile.memory_limit = options.memory_limit;
  return compile;
}

Dims token_dims(const TrainerOptions& options) { return {options.batch, options.config.seq}; }

template <class Params>
SgdOptions update_options(const Sgd<Params>&, const TrainerOptions& options, const Tensor& lr) {
  return {.lr = lr, .momentum = options.momentum, .weight_decay = options.weight_decay};
}
template <class State>
AdamOptions update_options(const State&, const TrainerOptions& options, const Tensor& lr) {
  return {
      .lr = lr, .beta2 = options.beta2, .eps = options.eps, .weight_decay = options.weight_decay};
}

// What a checkpoint holds beside the parameters: the optimizer's slots, or nothing.
template <class State>
struct TrainingState {
  TransformerParams<Array> params;
  State state;
  int64_t step = 0;
  GSPMD_FIELDS(params, state, step)
};

// Every leaf goes where the step's argument of the same path lies.
LoadOptions load_options(const ExecutableBase& step) {
  LoadOptions options;
  options.num_devices = step.num_devices();
  options.sharding = [&step](const std::string& path, const Shape&) {
    return path == "step" ? Sharding::replicated() : step.parameter_sharding(path);
  };
  return options;
}

template <template <class> class State>
class UpdatingTrainer : public Trainer {
  using Params = TransformerParams<Array>;

 public:
  explicit UpdatingTrainer(const TrainerOptions& options)
      : options_(options),
        params_(options.prepare ? initial_parameters(options.config, options.seed) : Params()),
        state_(State<Params>::zeros_like(params_)),
        step_(compile_step(options)) {}

  double step(const Array& tokens, const Array& labels, double lr) override {
    const Array rate = Array::full(Shape(options_.config.dtype, {}), lr);
    Array loss;
    std::tie(params_, state_, loss) = step_(params_, state_, tokens, labels, rate);
    return loss.item();
  }
  const ExecutableBase& executable() const override { return step_; }
  const TransformerParams<Array>& params() const override { return params_; }
  void save(Checkpoints& checkpoints, int64_t step,
            const std::map<std::string, std::string>& metadata) const override {
    checkpoints.save(step, Saved{params_, state_, step}, metadata);
  }
  std::optional<int64_t> restore(Checkpoints& checkpoints) override {
    Saved saved{params_, state_};
    const std::optional<int64_t> step = checkpoints.restore(saved, load_options(step_));
    params_ = saved.params;
    state_ = saved.state;
    return step;
  }

 private:
  using Saved = TrainingState<State<Params>>;
  using Result = std::tuple<Params, State<Params>, Array>;
  using Step = Executable<Result, Params, State<Params>, Array, Array, Array>;

  static Step compile_step(const TrainerOptions& options) {
    const Transformer model(options.config, options.mesh, options.layout);
    auto train_step = [model, options](TransformerParams<Tensor> params,
                                       State<TransformerParams<Tensor>> state, Tensor tokens,
                                       Tensor labels, Tensor lr) {
      auto loss = [&model](const auto&... args) { return model.loss(args...); };
      auto [value, grads] = value_and_grad(loss)(params, tokens, labels);
      auto [new_params, new_state] =
          state.update(params, grads, update_options(state, options, lr));
      return std::tuple{new_params, new_state, value};
    };
    const TransformerParams<Shape> params = parameter_shapes(options.config);
    const auto state = State<TransformerParams<Shape>>::zeros_like(params);
    const Shape tokens(DType::s32, token_dims(options));
    return compile(train_step,
                   compile_options(options, {0, 1}, {"params", "state", "tokens", "labels", "lr"}),
                   params, state, tokens, tokens, Shape(options.config.dtype, {}));
  }

  TrainerOptions options_;
  Params params_;
  State<Params> state_;
  Step step_;
};

class ExactTrainer : public Trainer {
  using Params = TransformerParams<Array>;

 public:
  explicit ExactTrainer(const TrainerOptions& options)
      : params_(options.prepare ? initial_parameters(options.config, options.seed) : Params()),
        step_(compile_step(options)) {}

  double step(const Array& tokens, const Array& labels, double /*lr*/) override {
    Array loss;
    std::tie(loss, gradients_) = step_(params_, tokens, labels);
    return loss.item();
  }
  const ExecutableBase& executable() const override { return step_; }
  const TransformerParams<Array>& params() const override { return params_; }
  void save(Checkpoints& checkpoints, int64_t step,
            const std::map<std::string, std::string>& metadata) const override {
    checkpoints.save(step, Saved{params_, step}, metadata);
  }
  std::optional<int64_t> restore(Checkpoints& checkpoints) override {
    Saved saved{params_};
    const std::optional<int64_t> step = checkpoints.restore(saved, load_options(step_));
    params_ = saved.params;
    return step;
  }
  std::vector<Array> gradients() const override {
    std::vector<Array> leaves;
    for_each_leaf(gradients_,
                  [&](const std::string&, const Array& leaf) { leaves.push_back(leaf); });
    return leaves;
  }

 private:
  struct Saved {
    Params params;
    int64_t step = 0;
    GSPMD_FIELDS(params, step)
  };
  using Step = Executable<std::tuple<Array, Params>, Params, Array, Array>;

  static Step compile_step(const TrainerOptions& options) {
    const Transformer model(options.config, options.mesh, options.layout);
    auto loss_and_gradients = [model](TransformerParams<Tensor> params, Tensor tokens,
                                      Tensor labels) {
      auto loss = [&model](const auto&... args) { return model.loss(args...); };
      auto [value, grads] = value_and_grad(loss)(params, tokens, labels);
      return std::tuple{value, grads};
    };
    Dims label_dims = token_dims(options);
    label_dims.push_back(options.config.vocab);
    return compile(loss_and_gradients, compile_options(options, {}, {"params", "tokens", "labels"}),
                   parameter_shapes(options.config), Shape(DType::s32, token_dims(options)),
                   Shape(options.config.dtype, label_dims));
  }

  Params params_, gradients_;
  Step step_;
};

Array random_integers(Dims dims, int64_t below, uint32_t seed, int64_t stream) {
  const Array uniform = random_uniform_array(Shape(DType::f64, dims), seed, stream);
  Array values(Shape(DType::s32, std::move(dims)));
  for (int64_t i = 0; i < values.size(); ++i) {
    values.set(i, std::floor(uniform.at(i) * double(below)));
  }
  return values;
}

}  // namespace

std::unique_ptr<Trainer> make_trainer(const TrainerOptions& options) {
  check(options.config);
  if (options.batch < 1) {
    user_error("trainer: the batch is {}; it must be at least 1", options.batch);
  }
  if (options.config.form == Form::exact) return std::make_unique<ExactTrainer>(options);
  switch (options.optimizer) {
    case Optimizer::sgd:
      return std::make_unique<UpdatingTrainer<Sgd>>(options);
    case Optimizer::adam:
      return std::make_unique<UpdatingTrainer<Adam>>(options);
    case Optimizer::adamw:
      return std::make_unique<UpdatingTrainer<AdamW>>(options);
  }
  internal_error("trainer: unknown optimizer {}", int(options.optimizer));
}

Batch random_batch(const TransformerConfig& config, int64_t batch, uint32_t seed) {
  const Array tokens = random_integers({batch, config.seq}, config.vocab, seed, 0);
  if (config.form == Form::standard) {
    return {tokens, random_integers({batch, config.seq}, config.vocab, seed, 1)};
  }
  const Array digits = random_integers({batch, config.seq, config.vocab}, 3, seed, 1);
  Array signs(Shape(config.dtype, digits.dims()));
  for (int64_t i = 0; i < signs.size(); ++i) signs.set(i, digits.at(i) - 1);
  return {tokens, signs};
}

}  // namespace gspmd::models
