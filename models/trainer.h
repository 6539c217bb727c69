#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "models/model.h"
#include "models/optimizer.h"

namespace gspmd::models {

struct TrainerOptions {
  std::shared_ptr<const Model> model = {};
  Mesh mesh = {};
  int64_t batch = 16;        // rows of a step
  int64_t microbatches = 1;  // the batch in so many parts, one after the other
  Precision precision = {};  // what loss and gradients are computed in; weights keep their dtype
  OptimizerOptions optimizer = {};
  double clip_norm = 0;              // gradients are scaled to this global norm at most; 0: never
  WeightUpdate weight_update = {};   // whether data-parallel devices share it
  uint32_t seed = 0;                 // of the initial parameters
  int threads = 0;                   // 0: the machine's cores
  int64_t memory_limit = INT64_MAX;  // bytes per device
  bool prepare = true;               // false: compile to inspect only
};

struct StepResult {
  double loss = 0;  // before the update
  Leaves<double> metrics;
};

// Trains a model by one compiled step: loss, gradients and update; the state stays on the devices.
// Without an optimizer (Optimizer::none) a step computes the loss and its gradients and leaves the
// parameters as they are.
class Trainer {
 public:
  // Compiles the step. UserError: as the model and compile(); a batch below 1, or that the
  // microbatches do not divide.
  explicit Trainer(const TrainerOptions& options);

  // One step on arrays of the model's batch_shapes(), by path.
  StepResult step(const Leaves<Array>& batch, double lr);
  // The model's averages over some batches, of which the last may be padded. Compiled when first
  // called.
  class Evaluation;
  Evaluation evaluation() const;

  const ExecutableBase& executable() const { return step_; }
  const TrainerOptions& options() const { return options_; }
  const Leaves<Array>& params() const { return params_; }
  const Leaves<Array>& model_state() const { return model_state_; }
  // Of the last step; without an optimizer only, else empty.
  const Leaves<Array>& gradients() const { return gradients_; }

  // The state after `step` steps as a checkpoint: parameters ("params.embedding"), the optimizer's
  // slots ("state.m.embedding", "state.step"), what else the model changes ("model_state....") and
  // "step".
  void save(Checkpoints& checkpoints, int64_t step,
            const std::map<std::string, std::string>& metadata) const;
  // Goes on from the newest whole checkpoint, whatever mesh it was made on; returns its step,
  // nullopt and nothing changed where there is none.
  std::optional<int64_t> restore(Checkpoints& checkpoints);

 private:
  // params, state, model_state, batch, lr -> params, state, model_state, loss, metrics, gradients
  using Result =
      std::tuple<Leaves<Array>, Leaves<Array>, Leaves<Array>, Array, Leaves<Array>, Leaves<Array>>;
  using Step =
      Executable<Result, Leaves<Array>, Leaves<Array>, Leaves<Array>, Leaves<Array>, Leaves<Array>>;
  using Evaluate = Executable<Leaves<Array>, Leaves<Array>, Leaves<Array>, Leaves<Array>, Array>;
  static Step compile_step(const TrainerOptions& options);
  static Step compile_beside(const TrainerOptions& options, Leaves<Array>& params);

  TrainerOptions options_;
  Leaves<Array> params_, state_, model_state_, gradients_;
  Step step_;
  mutable std::shared_ptr<const Evaluate> evaluate_;
};

// Sums up what Model::evaluate says, batch by batch.
class Trainer::Evaluation {
 public:
  // The first `rows` of a batch count; the others are padding.
  void add(const Leaves<Array>& batch, int64_t rows);
  // The sums over `count`. Empty before the first batch, or where the model has no evaluation.
  Leaves<double> averages() const;

 private:
  friend class Trainer;
  explicit Evaluation(const Trainer& trainer) : trainer_(&trainer) {}

  const Trainer* trainer_;
  Leaves<double> sums_;
};

}  // namespace gspmd::models
