#include "examples/language_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/generate.h"

namespace gspmd::examples {
namespace {

constexpr double kTemperature = 0.8;
constexpr double kNucleus = 0.95;

CompileOptions inference_options(const LanguageModel& trained, const char* name,
                                 std::vector<std::string> arguments) {
  CompileOptions compile;
  compile.mesh = trained.mesh;
  compile.threads = trained.threads;
  compile.name = name;
  compile.argument_names = std::move(arguments);
  return compile;
}

// A window of the text and how many of its first predictions another window makes.
struct Window {
  size_t start = 0;
  int64_t skip = 0;
};

std::vector<Window> cover(const std::string& text, int64_t seq) {
  const auto last = static_cast<int64_t>(text.size()) - seq - 1;
  const int64_t stride = std::max<int64_t>(seq / 2, 1);
  std::vector<Window> windows;
  int64_t predicted = 1;  // bytes before this one are done; the first has no context
  for (int64_t start = 0;; start += stride) {
    const int64_t at = std::min(start, last);
    windows.push_back({static_cast<size_t>(at), predicted - at - 1});
    predicted = at + seq + 1;
    if (at == last) return windows;
  }
}

int32_t byte_at(const std::string& text, size_t i) { return static_cast<unsigned char>(text[i]); }

}  // namespace

double heldout_loss(const LanguageModel& trained, const std::string& text, int64_t batch) {
  const models::Transformer model(trained.config, trained.mesh, trained.layout);
  const int64_t seq = trained.config.seq, vocab = trained.config.vocab;
  const DType dtype = trained.config.dtype;
  auto nats = [&](models::TransformerParams<Tensor> p, Tensor tokens, Tensor labels) {
    const Tensor logits = model.logits(p, tokens);
    return logsumexp(logits) - sum(logits * one_hot(labels, vocab, dtype), {.axes = -1});
  };
  const Shape shape(DType::s32, {batch, seq});
  const auto program =
      compile(nats, inference_options(trained, "nats", {"params", "tokens", "labels"}),
              trained.params, shape, shape);

  const std::vector<Window> windows = cover(text, seq);
  double total = std::log(double(vocab));  // the first byte
  for (size_t first = 0; first < windows.size(); first += static_cast<size_t>(batch)) {
    Array tokens(shape), labels(shape);
    const size_t rows = std::min(windows.size() - first, static_cast<size_t>(batch));
    for (size_t row = 0; row < rows; ++row) {
      for (size_t s = 0; s < size_t(seq); ++s) {
        const size_t from = windows[first + row].start + s;
        tokens.data<int32_t>()[row * size_t(seq) + s] = byte_at(text, from);
        labels.data<int32_t>()[row * size_t(seq) + s] = byte_at(text, from + 1);
      }
    }
    const Array losses = program(trained.params, tokens, labels);
    for (size_t row = 0; row < rows; ++row) {
      for (int64_t s = windows[first + row].skip; s < seq; ++s) {
        total += losses.at(int64_t(row) * seq + s);
      }
    }
  }
  return total / double(text.size());
}

std::string generate(const LanguageModel& trained, const std::string& prompt, int64_t count,
                     uint32_t seed) {
  const models::Generator generator({.config = trained.config,
                                     .mesh = trained.mesh,
                                     .layout = trained.layout,
                                     .sampling = {.temperature = kTemperature, .top_p = kNucleus},
                                     .threads = trained.threads});
  models::Generator::Tokens tokens;
  for (size_t i = 0; i < prompt.size(); ++i) tokens.push_back(byte_at(prompt, i));
  const auto texts = generator.generate(trained.params, {tokens}, count, seed);
  std::string text;
  for (const int32_t token : texts.at(0)) text += static_cast<char>(token);
  return text;
}

}  // namespace gspmd::examples
