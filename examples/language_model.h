#pragma once

#include <functional>
#include <string>

#include "models/transformer_run.h"

namespace gspmd::examples {

using Params = models::TransformerParams<Array>;

// Mean nats per byte of `text` under the model, every byte predicted once: windows overlap by half,
// and only the first counts from its start. Runs on the trainer's mesh.
double heldout_loss(const models::TransformerRun& options, const Params& params,
                    const std::string& text);

// `count` bytes that follow `prompt`, drawn at a temperature of 0.8 from the model's last `seq`
// bytes of context. A pure function of parameters and seed.
std::string generate(const models::TransformerRun& options, const Params& params,
                     const std::string& prompt, int64_t count, uint32_t seed);

// The same text with everything that a terminal could take for a command replaced by '?'.
std::string printable(const std::string& text);

}  // namespace gspmd::examples
