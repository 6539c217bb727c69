#pragma once

#include <memory>

#include "models/trainer.h"
#include "models/transformer_model.h"

namespace gspmd::models {

// A training of a Transformer by its configuration and layout, of which make_trainer() makes the
// model. The exact form has no optimizer: a step computes loss and gradients of fixed weights.
struct TransformerRun : TrainerOptions {
  TransformerConfig config = {};
  Layout layout = {};
};

// UserError as Transformer's and Trainer's.
std::unique_ptr<Trainer> make_trainer(TransformerRun run);

}  // namespace gspmd::models
