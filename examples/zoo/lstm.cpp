// A language model by an LSTM. The language repeats the symbol of four places before with
// probability 0.9 and draws any of four otherwise: no count of pairs or triples says anything about
// the next symbol, so a model without memory has a loss of log 4 = 1.386, and the best there is has
// the entropy of the language, 0.350.
#include <random>

#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

constexpr int64_t kSymbols = 4, kDelay = 4;
constexpr double kRepeat = 0.9;

template <class T>
struct Model {
  T embedding;            // v,m
  T input, hidden, bias;  // m,4h  h,4h  4h
  T out;                  // h,v
  GSPMD_FIELDS(embedding, input, hidden, bias, out)
};

template <class T>
struct Cell {
  T h, c;  // b,h
  GSPMD_FIELDS(h, c)
};

Cell<Tensor> next(const Model<Tensor>& p, const Cell<Tensor>& cell, Tensor x) {  // x is b,m
  const Tensor gates = matmul(x, p.input) + matmul(cell.h, p.hidden) + p.bias;
  const auto part = split(gates, 4, -1);  // input, forget, cell, output
  const Tensor c = sigmoid(part[1] + 1) * cell.c + sigmoid(part[0]) * tanh(part[2]);
  return {sigmoid(part[3]) * tanh(c), c};
}

// Mean of -log p(next symbol), from the place on where the language repeats. tokens is t,b.
Tensor loss(const Mesh& mesh, const Model<Tensor>& p, Tensor tokens) {
  const int64_t length = tokens.dim(0), batch = tokens.dim(1);
  tokens = mesh_split(tokens, mesh, {_, "data"});
  const Tensor x = take(p.embedding, tokens(range(0, length - 1)));  // t,b,m
  const Tensor start =
      mesh_split(zeros({DType::f32, {batch, p.out.dim(0)}}), mesh, {"data", "model"});
  const auto [last, hidden] = scan(
      [&](Cell<Tensor> cell, Tensor slice) {
        cell = next(p, cell, slice);
        return std::pair{cell, cell.h};
      },
      Cell<Tensor>{start, start}, x);
  const Tensor logits = matmul(hidden, p.out);  // t,b,v
  return cross_entropy(logits(range(kDelay - 1, {})), tokens(range(kDelay, {})));
}

Array sentences(int64_t length, int64_t batch, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(size_t(length * batch));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t before = size_t(kDelay * batch);
    const bool repeats = i >= before && std::uniform_real_distribution<>()(random) < kRepeat;
    tokens[i] = repeats ? tokens[i - before] : int32_t(random() % kSymbols);
  }
  return Array::of<int32_t>({length, batch}, tokens);
}

Array weights(Dims dims, unsigned seed) {
  Array w = random_uniform_array({DType::f32, dims}, seed);
  for (float& x : w.data<float>()) x = (2 * x - 1) / std::sqrt(float(dims[0]));
  return w;
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t length = o.small ? 12 : 20, batch = o.small ? 24 : 32, m = 8, h = 32;
  const Model<Array> start{weights({kSymbols, m}, 1), weights({m, 4 * h}, 2),
                           weights({h, 4 * h}, 3), Array(DType::f32, {4 * h}),
                           weights({h, kSymbols}, 4)};
  const auto objective = [&](Model<Tensor> p, Tensor tokens) { return loss(o.mesh, p, tokens); };
  const int64_t steps = o.steps_or(400, 100);
  const Model<Array> trained = zoo::train(
      o.mesh, start, objective,
      [&](int64_t i) { return std::tuple{sentences(length, batch, unsigned(i))}; }, steps, 0.02);
  const double value =
      zoo::run_once(o.mesh, objective, trained, sentences(length, o.small ? 64 : 512, 1000000))
          .item();

  const double hit = kRepeat + (1 - kRepeat) / kSymbols, miss = (1 - kRepeat) / kSymbols;
  const double entropy = -hit * std::log(hit) - (kSymbols - 1) * miss * std::log(miss);
  report.number("held-out loss", value);
  report.claim(value < (o.small ? 0.8 : 1.05 * entropy) && value > 0.9 * entropy,
               fmt::format("after {} steps the loss is {:.3f}; the entropy of the language is "
                           "{:.3f}, and log 4 = 1.386 without memory",
                           steps, value, entropy));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-2); }
