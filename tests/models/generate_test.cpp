// Texts continued with a cache of keys and values are those that the whole model gives.
#include "models/generate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "gspmd/testing.h"
#include "models/small_models.h"

namespace gspmd::models {
namespace {

using Catch::Matchers::Contains;
using Tokens = Generator::Tokens;

TransformerConfig generator_config() {
  TransformerConfig config = small_config(DType::f64);
  config.vocab = 23;
  config.layers = 2;
  config.head = Head::untied;
  return config;
}

// The most likely next token by the whole model over all that is in its context.
int32_t most_likely(const TransformerConfig& config, const TransformerParams<Array>& params,
                    const Tokens& context) {
  const Transformer model(config, Mesh(), Layout());
  const auto logits = [&](TransformerParams<Tensor> p, Tensor tokens) {
    return model.logits(p, tokens);
  };
  const auto length = static_cast<int64_t>(context.size());
  const Array all = reference_results(logits, params, Array::of<int32_t>({1, length}, context))[0];
  int64_t best = 0;
  for (int64_t v = 1; v < config.vocab; ++v)
    if (all.at((length - 1) * config.vocab + v) > all.at((length - 1) * config.vocab + best))
      best = v;
  return static_cast<int32_t>(best);
}

// Token by token without a cache. Where the positions are full, the last half of them stays.
Tokens literal(const TransformerConfig& config, const TransformerParams<Array>& params,
               const Tokens& prompt, int64_t count) {
  Tokens text = prompt;
  const auto seq = static_cast<size_t>(config.seq);
  size_t begin = 0, length = 1;  // of the context, which grows by a token of the text at a time
  while (text.size() < prompt.size() + size_t(count)) {
    if (begin + length == text.size())
      text.push_back(most_likely(config, params, {text.begin() + int64_t(begin), text.end()}));
    if (++length > seq) {
      begin += length - 1 - seq / 2;
      length = seq / 2 + 1;
    }
  }
  return {text.begin() + int64_t(prompt.size()), text.end()};
}

std::vector<double> filtered(const std::vector<double>& logits, const SamplingOptions& options) {
  const auto n = static_cast<int64_t>(logits.size());
  const auto filter = [&](Tensor x) { return filtered_logits(x, options); };
  const Array kept = reference_results(filter, Array::of<double>({1, n}, logits))[0];
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(kept.at(i));
  return values;
}

// Places that may be drawn, one by one from the most likely.
std::set<size_t> nucleus(const std::vector<double>& logits, int64_t k, double p) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (k > 0) order.resize(size_t(k));
  double total = 0, sum = 0;
  for (const size_t i : order) total += std::exp(logits[i]);
  std::set<size_t> kept;
  for (const size_t i : order) {
    if (sum >= p * total) break;
    kept.insert(i);
    sum += std::exp(logits[i]);
  }
  return kept;
}

}  // namespace

TEST_CASE("generation: the most likely tokens are those of the whole model, on every mesh",
          "[models]") {
  const TransformerConfig config = generator_config();
  const TransformerParams<Array> params = initial_parameters(config, 4);
  // Prompts of several lengths, one longer than the positions; the texts fill them three times.
  const std::vector<Tokens> prompts = {{3}, {7, 1, 22, 0}, {5, 6, 7, 8, 9, 10, 11, 12}};
  std::vector<Tokens> expected;
  for (const Tokens& prompt : prompts) expected.push_back(literal(config, params, prompt, 14));
  // Something is said: not one token again and again.
  CHECK(std::set<int32_t>(expected[1].begin(), expected[1].end()).size() > 2);
  for (const Mesh& mesh : {Mesh(), Mesh{{"a", 2}, {"b", 4}}, Mesh{{"a", 3}}})
    for (const std::string& recipe : recipe_names()) {
      INFO(to_string(mesh) << " recipe " << recipe);
      GeneratorOptions options{config, mesh, layout_of_recipe(recipe, mesh), 3};
      options.sampling.temperature = 0;
      options.threads = 2;
      CHECK(Generator(options).generate(params, prompts, 14, 1) == expected);
    }
}

TEST_CASE("generation: blocks as one loop give the tokens of blocks one after the other",
          "[models]") {
  TransformerConfig config = generator_config();
  GeneratorOptions options{config, Mesh(), Layout(), 2, {.temperature = 0.9}, 2};
  const std::vector<Tokens> prompts = {{3, 4}, {7}};
  const auto unrolled = Generator(options).generate(initial_parameters(config, 4), prompts, 12, 9);
  options.config.scan = true;
  options.mesh = Mesh{{"a", 2}, {"b", 2}};
  options.layout = layout_of_recipe("2d", options.mesh);
  const auto params = initial_parameters(options.config, 4);
  CHECK(Generator(options).generate(params, prompts, 12, 9) == unrolled);
  CHECK(Generator(options).generate(params, prompts, 12, 10) != unrolled);
}

TEST_CASE("generation: a step sends no part of the cache", "[models]") {
  TransformerConfig config = small_config(DType::f32);
  config.seq = 4096;  // far more than weights and tokens
  const Mesh mesh{{"a", 2}, {"b", 4}};
  for (const std::string& recipe : recipe_names()) {
    const Generator generator({config, mesh, layout_of_recipe(recipe, mesh), 8, {}, 2});
    const ExecutableStats& stats = generator.executable().stats();
    INFO(recipe << " sends " << stats.collective_bytes);
    CHECK(stats.evaluated.empty());
    // A device's part of keys and values is 8 rows * 4096 * 16 * 2 numbers of 4 bytes over 8.
    CHECK(stats.collective_bytes < 8 * 4096 * 16 * 2 * 4 / 8 / 4);
  }
}

TEST_CASE("sampling: what top_k and top_p leave is what the definition says, in random cases",
          "[models]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Array normal = random_normal_array(Shape(DType::f64, {11}), seed);
    std::vector<double> logits;
    for (int64_t i = 0; i < 11; ++i) logits.push_back(3 * normal.at(i));
    const int64_t k = seed % 12 == 11 ? 0 : int64_t(seed % 12);
    const double p = seed % 7 == 6 ? 1 : double(seed % 7 + 1) / 7.5;
    const std::vector<double> kept = filtered(logits, {.top_k = k, .top_p = p});
    const std::set<size_t> expected = nucleus(logits, k, p);
    INFO("seed " << seed << " k " << k << " p " << p);
    for (size_t i = 0; i < 11; ++i)
      CHECK(kept[i] == (expected.count(i) > 0 ? logits[i] : -INFINITY));
  }
}

TEST_CASE("sampling: tokens are drawn as often as their probabilities say", "[models]") {
  constexpr int64_t kRows = 20000;
  const std::vector<double> logits = {0.3, -1, 2, 0.5, 1.5};
  const SamplingOptions options{.temperature = 0.8, .top_k = 4, .top_p = 0.95};
  const auto draw = [&](Tensor x, Tensor seed) {
    return next_tokens(broadcast_to(x, {kRows, 5}), options, seed);
  };
  const Array drawn =
      reference_results(draw, Array::of<double>({5}, logits), Array::scalar(uint32_t{12}))[0];
  std::map<int64_t, double> shares;
  for (int64_t i = 0; i < kRows; ++i) shares[int64_t(drawn.at(i))] += 1.0 / double(kRows);
  const std::vector<double> kept = filtered(logits, options);
  double total = 0;
  for (const double logit : kept) total += std::exp(logit);
  for (int64_t v = 0; v < 5; ++v) {
    const double probability = std::exp(kept[size_t(v)]) / total;
    INFO("token " << v << ": " << shares[v] << " of probability " << probability);
    // Five deviations of a share of so many.
    CHECK(std::abs(shares[v] - probability) <=
          5 * std::sqrt(probability * (1 - probability) / double(kRows)));
  }
  CHECK(shares[1] == 0);
}

TEST_CASE("generation: wrong options and prompts are errors with the way out", "[models]") {
  const TransformerConfig config = generator_config();
  const auto made = [&](const SamplingOptions& sampling, int64_t rows) {
    return Generator({config, Mesh(), Layout(), rows, sampling, 1});
  };
  CHECK_THROWS_WITH(made({.temperature = -1}, 1), Contains("the temperature is -1"));
  CHECK_THROWS_WITH(made({.top_k = 24}, 1), Contains("top_k is 24") && Contains("23"));
  CHECK_THROWS_WITH(made({.top_p = 0}, 1), Contains("top_p is 0"));
  CHECK_THROWS_WITH(made({}, 0), Contains("rows is 0"));
  TransformerConfig exact = config;
  exact.form = Form::exact;
  CHECK_THROWS_WITH(Generator({exact, Mesh(), Layout()}), Contains("exact form"));
  const Generator generator = made({}, 2);
  const auto params = initial_parameters(config, 1);
  CHECK_THROWS_WITH(generator.generate(params, {{1}}, 3, 0), Contains("1 prompts"));
  CHECK_THROWS_WITH(generator.generate(params, {{1}, {}}, 3, 0), Contains("prompt 1 is empty"));
  CHECK_THROWS_WITH(generator.generate(params, {{1}, {23}}, 3, 0), Contains("the token 23"));
  CHECK_THROWS_WITH(generator.generate(params, {{1}, {2}}, -3, 0), Contains("-3 tokens"));
  CHECK(generator.generate(params, {{1}, {2}}, 0, 0) == std::vector<Tokens>(2));
}

}  // namespace gspmd::models
