#include "models/trainer.h"

#include <algorithm>
#include <future>
#include <tuple>
#include <utility>

namespace gspmd::models {
namespace {

constexpr int64_t kMicrobatchStep = 0x3c6ef372;  // from one microbatch's seed to the next

bool counts_rows(const Shape& shape) { return shape.rank() > 0; }

std::vector<std::string> names_of_arguments() {
  return {"params", "state", "model_state", "batch", ""};
}

// What the model says, its leaves as one list each: the scalar first, as value_and_grad wants it.
using Said = std::tuple<Tensor, Leaves<Tensor>, Leaves<Tensor>>;

// The objective as a function of the parameters and the rows of a batch. The state is caught: it
// keeps its dtype whatever the step is computed in.
class TracedModel {
 public:
  TracedModel(const Model& model, Leaves<Tensor> state) : model_(model), state_(std::move(state)) {}
  Said operator()(const Leaves<Tensor>& params, const Leaves<Tensor>& batch) const {
    Objective said = model_.objective(params, state_, batch);
    return {said.loss, std::move(said.metrics), std::move(said.state)};
  }

 private:
  const Model& model_;
  Leaves<Tensor> state_;
};

struct LossAndGradients {
  Tensor loss;
  Leaves<Tensor> metrics, model_state, gradients;
};

// The leaves of a batch for accumulate_gradients: scalars become one per row, and integers, which
// are seeds, others for each: a microbatch reads that of its first row.
Leaves<Tensor> with_rows(const Leaves<Tensor>& batch, int64_t rows) {
  return map_tree(batch, [&](const std::string&, const Tensor& leaf) {
    if (counts_rows(leaf.shape())) return leaf;
    const Tensor each = broadcast_to(leaf, {rows});
    if (!is_integer(leaf.dtype())) return each;
    return each + iota(each.shape(), 0) * kMicrobatchStep;
  });
}

// The mean of what microbatches said, stacked; of integers the last.
Leaves<Tensor> mean_of_parts(const Leaves<Tensor>& stacked) {
  return map_tree(stacked, [](const std::string&, const Tensor& leaf) {
    if (is_floating(leaf.dtype())) return mean(leaf, {.axes = 0});
    const int64_t n = leaf.dim(0);
    return squeeze(slice_dim(leaf, 0, n - 1, n), 0);
  });
}

LossAndGradients accumulated(const TrainerOptions& o, const TracedModel& objective,
                             const Leaves<Tensor>& params, const Leaves<Tensor>& batch) {
  if (batch.empty()) user_error("trainer: a model without a batch has no microbatches");
  const Leaves<Shape> shapes =
      map_tree(batch, [](const std::string&, const Tensor& leaf) { return leaf.shape(); });
  const auto part = [&](const Leaves<Tensor>& p, const Leaves<Tensor>& rows) {
    Leaves<Tensor> given = rows;
    for (size_t i = 0; i < given.size(); ++i)
      if (!counts_rows(shapes[i].second)) given[i].second = given[i].second(0);
    Said said = at_precision(objective, o.precision)(p, given);
    std::get<0>(said) = std::get<0>(said) * o.precision.loss_scale;
    return said;
  };
  auto [said, gradients] = accumulate_gradients(part, params, with_rows(batch, o.batch),
                                                {.microbatches = o.microbatches});
  const auto& [metrics, state] = said.second;
  const auto unscaled = [&](const std::string&, const Tensor& g) {
    return g / o.precision.loss_scale;
  };
  return {said.first / o.precision.loss_scale, mean_of_parts(metrics), mean_of_parts(state),
          map_tree(gradients, unscaled)};
}

LossAndGradients loss_and_gradients(const TrainerOptions& o, const Leaves<Tensor>& params,
                                    const Leaves<Tensor>& model_state,
                                    const Leaves<Tensor>& batch) {
  const TracedModel objective(*o.model, model_state);
  if (o.microbatches > 1) return accumulated(o, objective, params, batch);
  auto [said, gradients] = value_and_grad(objective, o.precision)(params, batch);
  return {std::get<0>(said), std::get<1>(said), std::get<2>(said), std::move(gradients)};
}

DType rate_dtype(const Leaves<Shape>& params) {
  for (const auto& [path, shape] : params)
    if (shape.dtype == DType::f64) return DType::f64;
  return DType::f32;
}

CompileOptions compile_options(const TrainerOptions& options, const char* name,
                               std::vector<std::string> arguments) {
  CompileOptions compile;
  compile.mesh = options.mesh;
  compile.argument_names = std::move(arguments);
  compile.name = name;
  compile.threads = options.threads;
  compile.prepare = options.prepare;
  compile.memory_limit = options.memory_limit;
  return compile;
}

const TrainerOptions& checked(const TrainerOptions& o) {
  if (!o.model) user_error("trainer: there is no model; give one in TrainerOptions::model");
  if (o.batch < 1) user_error("trainer: the batch is {}; it must be at least 1", o.batch);
  if (o.microbatches < 1 || o.batch % o.microbatches != 0)
    user_error("trainer: {} microbatches do not divide the batch of {}", o.microbatches, o.batch);
  return o;
}

Leaves<Array> zeros_of(const Leaves<Shape>& shapes) {
  return map_tree(shapes, [](const std::string&, const Shape& shape) { return Array(shape); });
}

// What a checkpoint holds.
struct Saved {
  Leaves<Array> params, state, model_state;
  int64_t step = 0;
  GSPMD_FIELDS(params, state, model_state, step)
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

}  // namespace

Trainer::Step Trainer::compile_step(const TrainerOptions& options) {
  checked(options);
  const bool updates = options.optimizer.kind != Optimizer::none;
  const auto step = [options, updates](Leaves<Tensor> params, Leaves<Tensor> state,
                                       Leaves<Tensor> model_state, Leaves<Tensor> batch,
                                       Leaves<Tensor> lr) {
    LossAndGradients found = loss_and_gradients(options, params, model_state, batch);
    if (options.clip_norm > 0)
      found.gradients = clip_by_global_norm(found.gradients, options.clip_norm).first;
    if (!updates)
      return std::tuple{Leaves<Tensor>(), Leaves<Tensor>(), found.model_state,
                        found.loss,       found.metrics,    found.gradients};
    auto [new_params, new_state] =
        apply_update(options.optimizer, params, found.gradients, state, lr.at(0).second);
    return std::tuple{new_params, new_state,     found.model_state,
                      found.loss, found.metrics, Leaves<Tensor>()};
  };
  const Leaves<Shape> params = options.model->parameter_shapes();
  Leaves<Shape> rate;
  if (updates) rate.emplace_back("lr", Shape(rate_dtype(params), {}));
  CompileOptions compiled = compile_options(options, "train_step", names_of_arguments());
  if (updates) {
    compiled.donate = {0, 1, 2};
    compiled.weight_update = options.weight_update;
  }
  return compile(step, compiled, params, optimizer_state(options.optimizer, params),
                 options.model->state_shapes(), options.model->batch_shapes(options.batch), rate);
}

// Parameters are made while the step is compiled.
Trainer::Step Trainer::compile_beside(const TrainerOptions& options, Leaves<Array>& params) {
  if (!checked(options).prepare) return compile_step(options);
  std::future<Leaves<Array>> made = std::async(
      std::launch::async,
      [model = options.model, seed = options.seed] { return model->initial_parameters(seed); });
  Step step = compile_step(options);
  params = made.get();
  return step;
}

Trainer::Trainer(const TrainerOptions& options)
    : options_(options), step_(compile_beside(options, params_)) {
  if (!options.prepare) return;
  const Model& model = *options.model;
  state_ = zeros_of(optimizer_state(options.optimizer, model.parameter_shapes()));
  model_state_ = model.initial_state();
}

StepResult Trainer::step(const Leaves<Array>& batch, double lr) {
  Leaves<Array> rate, metrics;
  if (options_.optimizer.kind != Optimizer::none)
    rate.emplace_back("lr",
                      Array::full(Shape(rate_dtype(options_.model->parameter_shapes()), {}), lr));
  auto [params, state, model_state, loss, said, gradients] =
      step_(params_, state_, model_state_, batch, rate);
  if (!rate.empty()) {
    params_ = std::move(params);
    state_ = std::move(state);
  }
  model_state_ = std::move(model_state);
  gradients_ = std::move(gradients);
  StepResult result{loss.item(), {}};
  for (const auto& [name, value] : said) result.metrics.emplace_back(name, value.item());
  return result;
}

Trainer::Evaluation Trainer::evaluation() const {
  if (!evaluate_) {
    const auto& model = options_.model;
    const auto sums = [model](Leaves<Tensor> params, Leaves<Tensor> state, Leaves<Tensor> batch,
                              Tensor weight) {
      return model->evaluate(params, state, batch, weight);
    };
    evaluate_ = std::make_shared<const Evaluate>(compile(
        sums, compile_options(options_, "evaluate", {"params", "model_state", "batch", "weight"}),
        model->parameter_shapes(), model->state_shapes(), model->batch_shapes(options_.batch),
        Shape(DType::f32, {options_.batch})));
  }
  return Evaluation(*this);
}

void Trainer::Evaluation::add(const Leaves<Array>& batch, int64_t rows) {
  const int64_t all = trainer_->options_.batch;
  if (rows < 0 || rows > all)
    user_error("evaluation: {} rows of a batch of {} are to count", rows, all);
  Array weight(Shape(DType::f32, {all}));
  for (int64_t i = 0; i < rows; ++i) weight.set(i, 1);
  const Leaves<Array> sums =
      (*trainer_->evaluate_)(trainer_->params_, trainer_->model_state_, batch, weight);
  sums_.resize(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    sums_[i].first = sums[i].first;
    sums_[i].second += sums[i].second.item();
  }
}

Leaves<double> Trainer::Evaluation::averages() const {
  const auto count = std::find_if(sums_.begin(), sums_.end(),
                                  [](const auto& sum) { return sum.first == "count"; });
  if (count == sums_.end()) return {};
  Leaves<double> averages;
  for (const auto& [name, sum] : sums_)
    if (name != "count") averages.emplace_back(name, sum / count->second);
  return averages;
}

void Trainer::save(Checkpoints& checkpoints, int64_t step,
                   const std::map<std::string, std::string>& metadata) const {
  checkpoints.save(step, Saved{params_, state_, model_state_, step}, metadata);
}

std::optional<int64_t> Trainer::restore(Checkpoints& checkpoints) {
  Saved saved{params_, state_, model_state_};
  const std::optional<int64_t> step = checkpoints.restore(saved, load_options(step_));
  params_ = saved.params;
  state_ = saved.state;
  model_state_ = saved.model_state;
  return step;
}

}  // namespace gspmd::models
