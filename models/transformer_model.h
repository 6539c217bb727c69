#pragma once

#include "models/model.h"
#include "models/transformer.h"

namespace gspmd::models {

// A Transformer as a trainer sees it. A batch is `tokens` and `labels`, s32[b,s] (exact form:
// labels b,s,v of the parameters' dtype). Evaluation: `loss`, nats per token.
class TransformerModel : public Model {
 public:
  // UserError as Transformer's.
  TransformerModel(const TransformerConfig& config, const Mesh& mesh, const Layout& layout);

  const Transformer& transformer() const { return transformer_; }

  Leaves<Shape> parameter_shapes() const override;
  Leaves<Array> initial_parameters(uint32_t seed) const override;
  Leaves<Shape> batch_shapes(int64_t rows) const override;
  Objective objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                      const Leaves<Tensor>& batch) const override;
  Leaves<Tensor> evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                          const Leaves<Tensor>& batch, const Tensor& weight) const override;
  double training_flops(int64_t rows) const override;
  double kept_activations(int64_t rows) const override;

 private:
  Transformer transformer_;
};

// The parameters of a trainer of such a model.
TransformerParams<Array> transformer_params(const TransformerConfig& config,
                                            const Leaves<Array>& params);

// Seeded arguments of a step: uniform tokens and labels below config.vocab, s32[b,s]; exact form:
// labels in {-1,0,1}, b,s,v.
Leaves<Array> random_batch(const TransformerConfig& config, int64_t rows, uint32_t seed);

}  // namespace gspmd::models
