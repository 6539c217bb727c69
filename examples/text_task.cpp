#include "examples/text_task.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace gspmd::examples {

TextTask::TextTask(const RunOptions& options, const std::string& file, int64_t seq)
    : options_(options),
      seq_(seq),
      corpus_(file.empty() ? load_default_text(seq) : load_file(file, seq)) {}

models::Leaves<Array> TextTask::batch(int64_t step) const {
  const TokenBatch windows =
      random_windows(corpus_.train, options_.batch, seq_, options_.seed, step);
  return {{"tokens", windows.tokens}, {"labels", windows.labels}};
}

std::string TextTask::data() const {
  return fmt::format("{} bytes of text from {}, {} held out", corpus_.train.size(), corpus_.name,
                     corpus_.heldout.size());
}

std::pair<std::string, std::string> TextTask::fingerprint() const {
  const std::string& text = corpus_.train;
  return {"text", fmt::format("{} bytes, fingerprint {:016x}", text.size(),
                              XXH3_64bits(text.data(), text.size()))};
}

int64_t TextTask::evaluation_batches() const {
  const int64_t windows = (int64_t(corpus_.heldout.size()) - 1) / seq_;
  return (windows + options_.batch - 1) / options_.batch;
}

EvaluationBatch TextTask::evaluation_batch(int64_t index) const {
  const std::string& text = corpus_.heldout;
  const int64_t windows = (int64_t(text.size()) - 1) / seq_, first = index * options_.batch;
  const int64_t rows = std::min(options_.batch, windows - first);
  const Shape shape(DType::s32, {options_.batch, seq_});
  Array tokens(shape), labels(shape);
  const auto byte = [&](int64_t i) { return int32_t(static_cast<unsigned char>(text[size_t(i)])); };
  for (int64_t i = 0; i < rows * seq_; ++i) {
    tokens.data<int32_t>()[size_t(i)] = byte(first * seq_ + i);
    labels.data<int32_t>()[size_t(i)] = byte(first * seq_ + i + 1);
  }
  return {{{"tokens", tokens}, {"labels", labels}}, rows};
}

}  // namespace gspmd::examples
