#pragma once

#include <string>

#include "models/transformer_run.h"

namespace gspmd::examples {

// What a trained Transformer is evaluated with: its model's configuration, and where it runs.
struct LanguageModel {
  models::TransformerConfig config;
  models::Layout layout;
  Mesh mesh;
  int threads = 0;
  models::TransformerParams<Array> params;
};

// Mean nats per byte of `text` under the model, every byte predicted once: windows overlap by half,
// `batch` of them at a time, and only the first counts from its start.
double heldout_loss(const LanguageModel& trained, const std::string& text, int64_t batch);

// `count` bytes that follow `prompt`, drawn at a temperature of 0.8 from the most likely bytes
// that have 95 % of the probability. A pure function of parameters and seed.
std::string generate(const LanguageModel& trained, const std::string& prompt, int64_t count,
                     uint32_t seed);

}  // namespace gspmd::examples
