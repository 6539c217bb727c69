#pragma once

#include "models/pipeline_config.h"
#include "models/transformer_model.h"

namespace gspmd::models {

// A Transformer whose blocks are a pipeline; embedding and head are not part of a stage. Batches
// and evaluation are TransformerModel's; parameters are those of its scan form (l blocks in front
// of each leaf of blocks.0), of circular as [rounds, l / rounds, ...]: the same numbers in the same
// order. The micro-batches of the head are split over the axis of the stages.
class PipelinedTransformerModel : public Model {
 public:
  // `layout` names no axis of the stages. UserError: as Transformer's, stages (times rounds) that
  // do not divide the layers, an axis that the mesh lacks, and as PipelineSchedule.
  PipelinedTransformerModel(const TransformerConfig& config, const PipelineConfig& pipeline,
                            const Mesh& mesh, const Layout& layout);

  // With scan: that of plain_params().
  const TransformerConfig& config() const { return transformer_.config(); }
  PipelineSchedule schedule() const;
  // The parameters of a trainer, as Transformer takes them without a pipeline.
  TransformerParams<Array> plain_params(const Leaves<Array>& params) const;

  Leaves<Shape> parameter_shapes() const override;
  Leaves<Array> initial_parameters(uint32_t seed) const override;
  Leaves<Shape> batch_shapes(int64_t rows) const override;
  Objective objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                      const Leaves<Tensor>& batch) const override;
  Leaves<Tensor> evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                          const Leaves<Tensor>& batch, const Tensor& weight) const override;
  double training_flops(int64_t rows) const override;

 private:
  // What the blocks give for tokens b,s, by micro-batch: n,b/n,s,m.
  Tensor run_blocks(const TransformerParams<Tensor>& params, const Tensor& tokens) const;
  VmapOptions over_microbatches() const;

  Transformer transformer_;
  PipelineConfig pipeline_;
  Mesh mesh_;
};

}  // namespace gspmd::models
