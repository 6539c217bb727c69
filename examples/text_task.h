#pragma once

#include <string>
#include <utility>

#include "examples/corpus.h"
#include "examples/front.h"

namespace gspmd::examples {

// A language model over bytes: batches are `tokens` and `labels`, s32[batch,seq], random windows of
// a text and the bytes after theirs. Held out: its windows side by side.
class TextTask : public Task {
 public:
  // `file` empty: the default text. UserError as the corpus.
  TextTask(const RunOptions& options, const std::string& file, int64_t seq);

  models::Leaves<Array> batch(int64_t step) const override;
  std::string data() const override;
  std::pair<std::string, std::string> fingerprint() const override;
  std::string unit() const override { return "tokens"; }
  int64_t units_per_row() const override { return seq_; }
  int64_t evaluation_batches() const override;
  EvaluationBatch evaluation_batch(int64_t index) const override;

 protected:
  const RunOptions& options() const { return options_; }
  const Corpus& corpus() const { return corpus_; }
  int64_t seq() const { return seq_; }

 private:
  RunOptions options_;
  int64_t seq_;
  Corpus corpus_;
};

}  // namespace gspmd::examples
