#include "models/transformer_model.h"

#include <cmath>
#include <utility>

namespace gspmd::models {
namespace {

Array random_integers(Dims dims, int64_t below, uint32_t seed, int64_t stream) {
  const Array uniform = random_uniform_array(Shape(DType::f64, dims), seed, stream);
  Array values(Shape(DType::s32, std::move(dims)));
  for (int64_t i = 0; i < values.size(); ++i)
    values.set(i, std::floor(uniform.at(i) * double(below)));
  return values;
}

}  // namespace

TransformerModel::TransformerModel(const TransformerConfig& config, const Mesh& mesh,
                                   const Layout& layout)
    : transformer_(config, mesh, layout) {}

Leaves<Shape> TransformerModel::parameter_shapes() const {
  return flatten(models::parameter_shapes(transformer_.config()));
}

Leaves<Array> TransformerModel::initial_parameters(uint32_t seed) const {
  return flatten(models::initial_parameters(transformer_.config(), seed));
}

Leaves<Shape> TransformerModel::batch_shapes(int64_t rows) const {
  const TransformerConfig& config = transformer_.config();
  const Shape tokens(DType::s32, {rows, config.seq});
  const Shape signs(config.dtype, {rows, config.seq, config.vocab});
  return {{"tokens", tokens}, {"labels", config.form == Form::exact ? signs : tokens}};
}

Objective TransformerModel::objective(const Leaves<Tensor>& params, const Leaves<Tensor>& /*state*/,
                                      const Leaves<Tensor>& batch) const {
  const auto tree = tree_of(models::parameter_shapes(transformer_.config()), params);
  return {transformer_.loss(tree, batch.at(0).second, batch.at(1).second), {}, {}};
}

Leaves<Tensor> TransformerModel::evaluate(const Leaves<Tensor>& params,
                                          const Leaves<Tensor>& /*state*/,
                                          const Leaves<Tensor>& batch, const Tensor& weight) const {
  const TransformerConfig& config = transformer_.config();
  if (config.form == Form::exact) return {};
  const auto tree = tree_of(models::parameter_shapes(config), params);
  const Tensor logits = transformer_.logits(tree, batch.at(0).second);
  const Tensor chosen = one_hot(batch.at(1).second, config.vocab, logits.dtype());
  const Tensor nats = logsumexp(logits) - sum(logits * chosen, {.axes = -1});  // b,s
  const Tensor rows = mean(convert(nats, DType::f32), {.axes = 1});
  return {{"loss", sum(rows * weight)}, {"count", sum(weight)}};
}

double TransformerModel::training_flops(int64_t rows) const {
  return models::training_flops(transformer_.config(), rows);
}

double TransformerModel::kept_activations(int64_t rows) const {
  return models::kept_activations(transformer_.config(), rows);
}

TransformerParams<Array> transformer_params(const TransformerConfig& config,
                                            const Leaves<Array>& params) {
  return tree_of(parameter_shapes(config), params);
}

Leaves<Array> random_batch(const TransformerConfig& config, int64_t rows, uint32_t seed) {
  const Array tokens = random_integers({rows, config.seq}, config.vocab, seed, 0);
  if (config.form == Form::standard)
    return {{"tokens", tokens},
            {"labels", random_integers({rows, config.seq}, config.vocab, seed, 1)}};
  const Array digits = random_integers({rows, config.seq, config.vocab}, 3, seed, 1);
  Array signs(Shape(config.dtype, digits.dims()));
  for (int64_t i = 0; i < signs.size(); ++i) signs.set(i, digits.at(i) - 1);
  return {{"tokens", tokens}, {"labels", signs}};
}

}  // namespace gspmd::models
