#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/trainer.h"

namespace gspmd::examples {

// A number or a text that a run reports when it is done.
struct Result {
  std::string key;    // in JSON
  std::string label;  // in the closing table; empty: not there
  double value = 0;
  std::string unit = {};  // "nats/byte"
  std::string text = {};  // in the place of a value; printable
};

// The first `rows` of an evaluation's batch count; the others are padding.
struct EvaluationBatch {
  models::Leaves<Array> batch;
  int64_t rows = 0;
};

// What --check asks of losses in f32. Those of two trainings with kinks in their loss, as relu has,
// go apart once rounding puts a number on the other side of one: then only the first are compared,
// and the others reported.
struct Comparison {
  double tolerance = 2e-4;    // relative difference of the first 20 steps; more of later ones
  int64_t steps = INT64_MAX;  // how many are compared
};

// What an example trains, made from its options once they were read.
class Task {
 public:
  virtual ~Task() = default;

  // The model with the run's recipe on a mesh. --check asks for that of one device too.
  virtual std::shared_ptr<const models::Model> model(const Mesh& mesh) const = 0;
  // Arrays of the model's batch_shapes() for step 0, 1, ... A pure function of the step and the
  // run's seed; another thread calls it while a step runs.
  virtual models::Leaves<Array> batch(int64_t step) const = 0;

  // "90000 bytes of text from licences, 9000 held out"
  virtual std::string data() const = 0;
  // The option that chooses the data, and what tells these data from others.
  virtual std::pair<std::string, std::string> fingerprint() const = 0;
  // What is counted per second, and how many of them a row has.
  virtual std::string unit() const { return "rows"; }
  virtual int64_t units_per_row() const { return 1; }

  virtual DType dtype() const { return DType::f32; }  // of the weights
  // Loss and gradients are integers that every mesh gives bit by bit; nothing is updated.
  virtual bool exact() const { return false; }
  // --microbatches is the model's affair: the trainer takes whole batches.
  virtual bool makes_microbatches() const { return false; }
  virtual Comparison comparison() const { return {}; }
  // Bytes that parameters, slots and activations take over all devices, roughly and in floating
  // point, so that no size overflows it. 0: not known.
  virtual double estimated_bytes(const Mesh& /*mesh*/) const { return 0; }

  // Held-out data in batches of the run's size, for the model's evaluate().
  virtual int64_t evaluation_batches() const { return 0; }
  virtual EvaluationBatch evaluation_batch(int64_t /*index*/) const { return {}; }
  // What else is worth saying of a trained model.
  virtual std::vector<Result> results(const models::Trainer& /*trainer*/) const { return {}; }
};

}  // namespace gspmd::examples
