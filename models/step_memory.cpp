#include "models/step_memory.h"

#include "gspmd/ir/module.h"

namespace gspmd::models {

StepMemory step_memory(const Trainer& trainer) {
  const TrainerOptions& options = trainer.options();
  const ExecutableBase& step = trainer.executable();
  const std::vector<TracedLeaf>& arguments = step.traced().arguments();
  const Computation& program = *step.module().program->entry();
  StepMemory memory;
  DType dtype = options.precision.compute;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& path = arguments[i].path;
    const double bytes = double(program.parameters().at(i)->shape.bytes());
    if (path.starts_with("params.")) {
      memory.gradients += bytes;
      if (options.precision.compute == DType::f32) dtype = arguments[i].shape.dtype;
    } else if (!path.starts_with("state.") && !path.starts_with("model_state.")) {
      continue;
    }
    memory.state += bytes;
  }
  memory.activations = options.model->kept_activations(options.batch / options.microbatches) *
                       double(dtype_size(dtype)) / double(step.num_devices());
  return memory;
}

}  // namespace gspmd::models
