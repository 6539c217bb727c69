#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/transformer.h"

namespace gspmd::models {

enum class Optimizer : uint8_t { sgd, adam, adamw };

struct TrainerOptions {
  TransformerConfig config = {};
  Mesh mesh = {};
  Layout layout = {};
  int64_t batch = 16;
  Optimizer optimizer = Optimizer::adam;
  double momentum = 0.9;  // of sgd
  double beta2 = 0.99;    // of adam and adamw
  double eps = 1e-8;
  double weight_decay = 0;
  uint32_t seed = 0;                 // of the initial parameters
  int threads = 0;                   // 0: the machine's cores
  int64_t memory_limit = INT64_MAX;  // bytes per device
  bool prepare = true;               // false: compile to inspect only
};

// Trains a Transformer by one compiled step: loss, gradients and update; the state stays on the
// devices. In the exact form a step computes the loss and its gradients and leaves the parameters
// as they are.
class Trainer {
 public:
  virtual ~Trainer() = default;
  // One step on tokens b,s and labels (b,s; exact form: b,s,v); returns the loss before the update.
  virtual double step(const Array& tokens, const Array& labels, double lr) = 0;
  virtual const ExecutableBase& executable() const = 0;
  virtual const TransformerParams<Array>& params() const = 0;
  // The state after `step` steps as a checkpoint: parameters ("params.embedding"), the optimizer's
  // slots
  // ("state.m.embedding", "state.step") and "step".
  virtual void save(Checkpoints& checkpoints, int64_t step,
                    const std::map<std::string, std::string>& metadata) const = 0;
  // Goes on from the newest whole checkpoint, whatever mesh it was made on; returns its step,
  // nullopt and nothing changed where there is none.
  virtual std::optional<int64_t> restore(Checkpoints& checkpoints) = 0;
  // Of the last step; exact form only, else empty.
  virtual std::vector<Array> gradients() const { return {}; }
};

// UserError as Transformer and compile.
std::unique_ptr<Trainer> make_trainer(const TrainerOptions& options);

// Seeded arguments of a step: uniform tokens and labels below config.vocab, s32[b,s]; exact form:
// labels in {-1,0,1}, b,s,v.
struct Batch {
  Array tokens, labels;
};
Batch random_batch(const TransformerConfig& config, int64_t batch, uint32_t seed);

}  // namespace gspmd::models
