#pragma once

#include <string>
#include <vector>

#include "models/transformer_run.h"

namespace gspmd::models {

// Small, with sizes that no mesh but those of two devices divides: vocabulary 257, batch 7.
inline TransformerConfig small_config(DType dtype) {
  TransformerConfig config;
  config.layers = 1;
  config.model = 16;
  config.hidden = 24;
  config.heads = 8;
  config.seq = 6;
  config.vocab = 257;
  config.dtype = dtype;
  return config;
}

inline const std::vector<Mesh>& test_meshes() {
  static const std::vector<Mesh> meshes = {Mesh{},
                                           Mesh{{"a", 8}},
                                           Mesh{{"a", 2}, {"b", 4}},
                                           Mesh{{"a", 4}, {"b", 2}},
                                           Mesh{{"a", 2}, {"b", 2}, {"c", 2}},
                                           Mesh{{"a", 3}},
                                           Mesh{{"a", 6}}};
  return meshes;
}

inline TransformerRun trainer_on(const TransformerConfig& config, const Mesh& mesh,
                                 const std::string& recipe, int64_t batch = 7) {
  TransformerRun run;
  run.config = config;
  run.mesh = mesh;
  run.layout = layout_of_recipe(recipe, mesh);
  run.batch = batch;
  run.optimizer.eps = 1e-6;
  run.seed = 3;
  run.threads = 2;
  return run;
}

// The losses of `steps` steps on seeded random batches.
inline std::vector<double> losses(const TransformerRun& run, int64_t steps, double lr = 1e-3) {
  const auto trainer = make_trainer(run);
  std::vector<double> values;
  for (int64_t step = 0; step < steps; ++step) {
    const auto batch = random_batch(run.config, run.batch, 100 + static_cast<uint32_t>(step));
    values.push_back(trainer->step(batch, lr).loss);
  }
  return values;
}

}  // namespace gspmd::models
