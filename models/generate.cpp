#include "models/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gspmd::models {
namespace {

constexpr uint32_t kSeedStep = 0x9e3779b9;  // from the seed of one token to the next
constexpr double kNever = -std::numeric_limits<double>::infinity();

void check(const SamplingOptions& o, int64_t vocab) {
  if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
    user_error("sampling: the temperature is {}; it must be 0 or more", o.temperature);
  if (o.top_k < 0 || o.top_k > vocab)
    user_error("sampling: top_k is {}; it must be 0, for all, or at most the vocabulary's {}",
               o.top_k, vocab);
  if (!(o.top_p > 0 && o.top_p <= 1))
    user_error("sampling: top_p is {}; it must be above 0 and at most 1", o.top_p);
}

// The least of what the most likely tokens with probability `p` together have, b,1.
Tensor least_of_nucleus(const Tensor& logits, double p) {
  const Tensor sorted = sort(logits, {.descending = true});
  const Tensor probabilities = softmax(sorted, {.axis = -1});
  const Tensor before = cumsum(probabilities, {.axis = -1}) - probabilities;
  const Tensor kept = where(before < p, sorted, std::numeric_limits<double>::infinity());
  return min(kept, {.axes = -1, .keep_dims = true});
}

}  // namespace

Tensor filtered_logits(Tensor logits, const SamplingOptions& options) {
  const int64_t vocab = logits.dim(-1);
  check(options, vocab);
  if (options.temperature != 1 && options.temperature > 0) logits = logits / options.temperature;
  if (options.top_k > 0 && options.top_k < vocab) {
    const Tensor most = top_k(logits, options.top_k).first;
    logits = where(logits < slice_dim(most, -1, options.top_k - 1, options.top_k), kNever, logits);
  }
  if (options.top_p < 1)
    logits = where(logits < least_of_nucleus(logits, options.top_p), kNever, logits);
  return logits;
}

Tensor next_tokens(Tensor logits, const SamplingOptions& options, Tensor seed) {
  check(options, logits.dim(-1));
  if (options.temperature == 0) return argmax(logits, {.axis = -1});
  return random_categorical(seed, filtered_logits(logits, options));
}

Generator::Generator(const GeneratorOptions& options)
    : options_(options), step_(compile_step(options)) {}

Generator::Step Generator::compile_step(const GeneratorOptions& o) {
  const Transformer model(o.config, o.mesh, o.layout);
  if (o.config.form == Form::exact)
    user_error("generator: the exact form has no probabilities; use the standard form");
  if (o.rows < 1) user_error("generator: rows is {}; it must be at least 1", o.rows);
  const auto step = [&](TransformerParams<Tensor> params, KeyValueCache<Tensor> cache,
                        Tensor tokens, Tensor position, Tensor seed) {
    auto [logits, next] = model.next_logits(params, cache, tokens, position);
    return std::pair{next_tokens(logits, o.sampling, seed), std::move(next)};
  };
  CompileOptions compile_options;
  compile_options.mesh = o.mesh;
  compile_options.threads = o.threads;
  compile_options.name = "generate";
  compile_options.argument_names = {"params", "cache", "tokens", "position", "seed"};
  return compile(step, compile_options, parameter_shapes(o.config), cache_shapes(o.config, o.rows),
                 Shape(DType::s32, {o.rows}), Shape(DType::s32, {}), Shape(DType::u32, {}));
}

void Generator::check_prompts(const std::vector<Tokens>& prompts, int64_t count) const {
  if (static_cast<int64_t>(prompts.size()) != options_.rows)
    user_error("generator: {} prompts are given, it was made for {} rows", prompts.size(),
               options_.rows);
  if (count < 0) user_error("generator: {} tokens are asked for; give 0 or more", count);
  for (size_t row = 0; row < prompts.size(); ++row) {
    if (prompts[row].empty())
      user_error("generator: prompt {} is empty; give at least one token", row);
    for (const int32_t token : prompts[row])
      if (token < 0 || token >= options_.config.vocab)
        user_error("generator: prompt {} has the token {}; they are 0 to {}", row, token,
                   options_.config.vocab - 1);
  }
}

std::vector<Generator::Tokens> Generator::generate(const TransformerParams<Array>& params,
                                                   const std::vector<Tokens>& prompts,
                                                   int64_t count, uint32_t seed) const {
  check_prompts(prompts, count);
  std::vector<Tokens> texts = prompts;
  const auto done = [&](size_t row) {
    return texts[row].size() >= prompts[row].size() + size_t(count);
  };
  const auto all_done = [&] {
    for (size_t row = 0; row < texts.size(); ++row)
      if (!done(row)) return false;
    return true;
  };
  const auto empty_cache = [&] {
    return map_tree(cache_shapes(options_.config, options_.rows),
                    [](const std::string&, const Shape& shape) { return Array(shape); });
  };
  KeyValueCache<Array> cache = empty_cache();
  Array tokens(Shape(DType::s32, {options_.rows}));
  int32_t position = 0;
  for (size_t at = 0; !all_done(); ++at, ++position) {  // texts[row][at] is read
    if (position == options_.config.seq) {
      position = 0;
      at -= static_cast<size_t>(std::max<int64_t>(options_.config.seq / 2, 1));
      cache = empty_cache();
    }
    for (size_t row = 0; row < texts.size(); ++row)
      tokens.set(int64_t(row), texts[row][std::min(at, texts[row].size() - 1)]);
    auto [next, kept] = step_(params, cache, tokens, Array::scalar(position),
                              Array::scalar(seed + uint32_t(at) * kSeedStep));
    cache = std::move(kept);
    for (size_t row = 0; row < texts.size(); ++row)
      if (at + 1 == texts[row].size() && !done(row))
        texts[row].push_back(static_cast<int32_t>(next.at(int64_t(row))));
  }
  for (size_t row = 0; row < texts.size(); ++row)
    texts[row].erase(texts[row].begin(), texts[row].begin() + int64_t(prompts[row].size()));
  return texts;
}

}  // namespace gspmd::models
