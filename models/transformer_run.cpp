#include "models/transformer_run.h"

namespace gspmd::models {

std::unique_ptr<Trainer> make_trainer(TransformerRun run) {
  if (run.config.form == Form::exact) run.optimizer.kind = Optimizer::none;
  run.model = std::make_shared<TransformerModel>(run.config, run.mesh, run.layout);
  return std::make_unique<Trainer>(run);
}

}  // namespace gspmd::models
