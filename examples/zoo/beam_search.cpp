// Beam search over a language whose most likely sentence is known, because all sentences can be
// tried. Each symbol depends on the two before it; symbol 0 ends a sentence. Greedy search, a beam
// of one, is led astray; a beam of 12 finds what brute force finds. The loop ends when no beam can
// grow.
#include <functional>

#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

constexpr int64_t kSymbols = 5, kLength = 7, kEnd = 0;

template <class T>
struct Beams {
  T step;      // scalar
  T symbols;   // k,t: sentences so far
  T scores;    // k: their log likelihoods
  T finished;  // k: whether they have ended
  GSPMD_FIELDS(step, symbols, scores, finished)
};

// Adds a symbol to each beam and keeps the `width` best. table is v,v,v: log p(next | two before).
Beams<Tensor> grown(Tensor table, const Beams<Tensor>& b) {
  const int64_t width = b.scores.dim(0);
  const auto symbol = [&](Tensor place) {  // that of each beam; before the first: kEnd
    const Tensor found = take(b.symbols, maximum(place, 0), {.axis = 1});
    return where(place >= 0, found, kEnd);
  };
  const Tensor next = table(symbol(b.step - 2), symbol(b.step - 1));  // k,v
  // A sentence that has ended goes on with one more end, for free.
  const Tensor is_end = equal(arange(kSymbols), kEnd);
  const Tensor after_end = where(is_end, zeros({DType::f32, {}}), -1e9);
  const Tensor candidates =
      b.scores(all, newaxis) + where(b.finished(all, newaxis), after_end(newaxis), next);
  const auto [scores, places] = top_k(reshape(candidates, {width * kSymbols}), width);
  const Tensor from = places / kSymbols, chosen = remainder(places, kSymbols);
  const Tensor symbols = take(b.symbols, from);
  const Tensor here = equal(arange(kLength), b.step);  // t
  return {b.step + 1, where(here, chosen(all, newaxis), symbols), scores,
          logical_or(take(b.finished, from), equal(chosen, kEnd))};
}

// The best sentence and its log likelihood.
auto beam_search(Tensor table, int64_t width) {
  // All beams start empty: all but the first count as hopeless.
  const Tensor first = equal(arange(width), 0);
  const Beams<Tensor> start{full({DType::s32, {}}, 0), zeros({DType::s32, {width, kLength}}),
                            where(first, zeros({DType::f32, {}}), -1e9),
                            zeros({DType::pred, {width}})};
  const Beams<Tensor> end = while_loop(
      [](const Beams<Tensor>& b) {
        return logical_and(b.step < kLength, logical_not(all(b.finished)));
      },
      [&](const Beams<Tensor>& b) { return grown(table, b); }, start);
  return std::tuple{end.symbols(0), end.scores(0), end.step};
}

// Languages, l,v,v,v: log softmax of random numbers; ends are rare at first.
Array languages(int64_t count) {
  Array table = random_normal_array({DType::f32, {count, kSymbols, kSymbols, kSymbols}}, 11);
  const auto row = table.data<float>();
  for (size_t i = 0; i < row.size(); i += kSymbols) {
    double total = 0;
    for (size_t j = i; j < i + kSymbols; ++j) total += std::exp(1.5 * row[j]);
    for (size_t j = i; j < i + kSymbols; ++j) row[j] = float(1.5 * row[j] - std::log(total));
  }
  return table;
}

// The best of all sentences of one language, and its log likelihood.
std::pair<std::vector<int64_t>, double> brute_force(const Array& table, int64_t language) {
  std::pair<std::vector<int64_t>, double> best{{}, -1e9};
  std::vector<int64_t> sentence;
  const std::function<void(int64_t, int64_t, double)> extend = [&](int64_t a, int64_t b,
                                                                   double score) {
    const bool ended = !sentence.empty() && sentence.back() == kEnd;
    if (ended || std::ssize(sentence) == kLength) {
      if (score > best.second) best = {sentence, score};
      return;
    }
    for (int64_t next = 0; next < kSymbols; ++next) {
      sentence.push_back(next);
      const int64_t row = (language * kSymbols + a) * kSymbols + b;
      extend(b, next, score + table.at(row * kSymbols + next));
      sentence.pop_back();
    }
  };
  extend(kEnd, kEnd, 0);
  best.first.resize(kLength, kEnd);
  return best;
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t count = o.small ? 6 : 30;
  const Array tables = languages(count);
  const auto searched = [&](int64_t width) {
    const auto one = [&](Tensor table) {
      return beam_search(mesh_split(table, o.mesh, {_, "model", _}), width);
    };
    return zoo::run_once(o.mesh, vmap(one, {.mesh_axis = "data"}), tables);
  };
  const auto [greedy, greedy_scores, greedy_steps] = searched(1);
  const auto [found, scores, steps] = searched(12);
  int64_t equal_sentences = 0, greedy_worse = 0;
  double difference = 0, total = 0;
  for (int64_t l = 0; l < count; ++l) {
    const auto [sentence, score] = brute_force(tables, l);
    bool same = true;
    for (int64_t t = 0; t < kLength; ++t)
      same = same && int64_t(found.at(l * kLength + t)) == sentence[size_t(t)];
    equal_sentences += same;
    greedy_worse += greedy_scores.at(l) < score - 1e-4;
    difference = std::max(difference, std::abs(scores.at(l) - score));
    total += scores.at(l);
  }
  report.number("sum of log likelihoods", total);
  report.claim(equal_sentences == count,
               fmt::format("the sentence found is the most likely of all in {} of {} languages",
                           equal_sentences, count));
  report.claim(difference < 1e-4,
               fmt::format("log likelihoods differ by at most {:.1e}", difference));
  report.claim(greedy_worse > count / 4,
               fmt::format("greedy search misses it in {} languages", greedy_worse));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-5); }
