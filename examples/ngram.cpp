#include "examples/ngram.h"

#include <algorithm>
#include <cmath>

namespace gspmd::examples {
namespace {

// Bytes [begin, end) as one number; every map holds keys of one length, so the length is not kept.
uint64_t pack(std::string_view text, size_t begin, size_t end) {
  uint64_t key = 0;
  for (size_t i = begin; i < end; ++i) key = key << 8 | static_cast<unsigned char>(text[i]);
  return key;
}

}  // namespace

NgramModel::NgramModel(std::string_view text, int64_t order)
    : contexts_(static_cast<size_t>(order) + 1), counts_(contexts_.size()) {
  for (size_t i = 0; i < text.size(); ++i) {
    for (size_t k = 0; k < contexts_.size() && k <= i; ++k) {
      Context& context = contexts_[k][pack(text, i - k, i)];
      ++context.seen;
      if (++counts_[k][pack(text, i - k, i + 1)] == 1) ++context.followers;
    }
  }
}

double NgramModel::probability(std::string_view text, size_t position) const {
  double p = 1.0 / 256;
  for (size_t k = 0; k < contexts_.size() && k <= position; ++k) {
    const auto context = contexts_[k].find(pack(text, position - k, position));
    if (context == contexts_[k].end()) break;
    const auto count = counts_[k].find(pack(text, position - k, position + 1));
    const double seen = count == counts_[k].end() ? 0 : double(count->second);
    const auto followers = double(context->second.followers);
    p = (seen + followers * p) / (double(context->second.seen) + followers);
  }
  return p;
}

double NgramModel::nats_per_byte(std::string_view text) const {
  double total = 0;
  for (size_t i = 0; i < text.size(); ++i) total -= std::log(probability(text, i));
  return total / double(std::max<size_t>(text.size(), 1));
}

}  // namespace gspmd::examples
