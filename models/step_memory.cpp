#include "models/step_memory.h"

namespace gspmd::models {
namespace {

// Of one device.
double bytes_of(const Shape& whole, const Sharding& sharding) {
  // Of what lies flat (WeightUpdate), the elements are split.
  const bool is_flat = !sharding.is_replicated() && sharding.rank() != whole.rank();
  const Shape shape = is_flat ? Shape(whole.dtype, {whole.elements_count()}) : whole;
  return double(local_shape(shape, sharding).bytes());
}

}  // namespace

StepMemory step_memory(const Trainer& trainer) {
  const TrainerOptions& options = trainer.options();
  const ExecutableBase& step = trainer.executable();
  StepMemory memory;
  DType dtype = options.precision.compute;
  int64_t leaf = 0;
  for (const TracedLeaf& argument : step.traced().arguments()) {
    const double bytes = bytes_of(argument.shape, step.parameter_sharding(leaf++));
    if (argument.path.starts_with("params.")) {
      memory.gradients += bytes;
      if (options.precision.compute == DType::f32) dtype = argument.shape.dtype;
    } else if (!argument.path.starts_with("state.") && !argument.path.starts_with("model_state.")) {
      continue;
    }
    memory.state += bytes;
  }
  memory.activations = options.model->kept_activations(options.batch / options.microbatches) *
                       double(dtype_size(dtype)) / double(step.num_devices());
  return memory;
}

}  // namespace gspmd::models
