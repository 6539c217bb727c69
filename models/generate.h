#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/transformer.h"

namespace gspmd::models {

// How the next token is chosen from its logits.
struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: the most likely token, whatever else
  int64_t top_k = 0;       // only the k most likely, and those equal to the last of them; 0: all
  double top_p = 1;        // only the fewest of the most likely that have this probability together
};

// The logits b,v (f32 or f64) that sampling draws from: what may not be drawn is -inf. UserError: a
// temperature below 0 or not finite, top_k below 0 or above v, top_p not in (0,1].
Tensor filtered_logits(Tensor logits, const SamplingOptions& options);
// Tokens s32[b], chosen by the options; `seed` is an integer without dims.
Tensor next_tokens(Tensor logits, const SamplingOptions& options, Tensor seed);

struct GeneratorOptions {
  TransformerConfig config = {};
  Mesh mesh = {};
  Layout layout = {};
  int64_t rows = 1;  // texts at a time
  SamplingOptions sampling = {};
  int threads = 0;  // 0: the machine's cores
};

// Continues texts token by token with one compiled step: a token of each row and the keys and
// values of those before give the next, chosen on the devices. A row's prompt is read by the same
// step.
class Generator {
 public:
  using Tokens = std::vector<int32_t>;

  // UserError as check(), compile() and filtered_logits(); the exact form; rows below 1.
  explicit Generator(const GeneratorOptions& options);

  // `count` tokens that follow each of the rows' prompts, which may differ in length: a pure
  // function of parameters, prompts and seed. Where config.seq positions are full, the model goes
  // on from the last half of them. UserError: other than `rows` prompts, an empty one, a token that
  // is not below config.vocab, a count below 0.
  std::vector<Tokens> generate(const TransformerParams<Array>& params,
                               const std::vector<Tokens>& prompts, int64_t count,
                               uint32_t seed) const;

  const ExecutableBase& executable() const { return step_; }

 private:
  using Step = Executable<std::pair<Array, KeyValueCache<Array>>, TransformerParams<Array>,
                          KeyValueCache<Array>, Array, Array, Array>;
  static Step compile_step(const GeneratorOptions& options);
  void check_prompts(const std::vector<Tokens>& prompts, int64_t count) const;

  GeneratorOptions options_;
  Step step_;
};

}  // namespace gspmd::models
