#pragma once

#include <cstdint>

#include "models/trainer.h"

namespace gspmd::models {

// What a training step needs in theory on one device, in bytes, to judge what was planned for it
// (ExecutableStats::predicted_peak_bytes) by. A plan may need less: values are made again where
// that costs nothing, and no step needs all gradients and all activations at a time.
struct StepMemory {
  double state = 0;        // parameters, optimizer's slots and other state, as they are laid out
  double gradients = 0;    // one of each parameter, laid out as that
  double activations = 0;  // Model::kept_activations, in the dtype computed in, split evenly

  double total() const { return state + gradients + activations; }
};

// activations is 0 where the model does not know them. Those of one microbatch, where there are
// several.
StepMemory step_memory(const Trainer& trainer);

}  // namespace gspmd::models
