#include "models/pipelined_transformer.h"

namespace gspmd::models {
namespace {

TransformerConfig with_scan(TransformerConfig config) {
  config.scan = true;
  return config;
}

const Dims& leaf_dims(const Shape& shape) { return shape.dims; }
const Dims& leaf_dims(const Array& array) { return array.dims(); }

// The block leaves with the dims that a pipeline wants.
template <class Leaf, class F>
void stack_blocks(TransformerParams<Leaf>& params, const PipelineConfig& pipeline, F reshaped) {
  for_each_leaf(params.blocks, [&](const std::string&, Leaf& leaf) {
    leaf = reshaped(leaf, stacked_dims(pipeline, leaf_dims(leaf)));
  });
}

}  // namespace

PipelinedTransformerModel::PipelinedTransformerModel(const TransformerConfig& config,
                                                     const PipelineConfig& pipeline,
                                                     const Mesh& mesh, const Layout& layout)
    : transformer_(with_scan(config), mesh, layout),
      pipeline_(checked(pipeline, config.layers, mesh)),
      mesh_(mesh) {}

PipelineSchedule PipelinedTransformerModel::schedule() const { return schedule_of(pipeline_); }

Leaves<Shape> PipelinedTransformerModel::parameter_shapes() const {
  auto shapes = models::parameter_shapes(config());
  stack_blocks(shapes, pipeline_,
               [](const Shape& shape, Dims dims) { return Shape(shape.dtype, std::move(dims)); });
  return flatten(shapes);
}

Leaves<Array> PipelinedTransformerModel::initial_parameters(uint32_t seed) const {
  auto params = models::initial_parameters(config(), seed);
  stack_blocks(params, pipeline_, with_dims);
  return flatten(params);
}

TransformerParams<Array> PipelinedTransformerModel::plain_params(
    const Leaves<Array>& params) const {
  const auto shapes = models::parameter_shapes(config());
  TransformerParams<Array> plain = tree_of(shapes, params);
  return map_leaves(
      [](const Shape& shape, const Array& array) { return with_dims(array, shape.dims); }, shapes,
      plain);
}

Leaves<Shape> PipelinedTransformerModel::batch_shapes(int64_t rows) const {
  const Shape tokens(DType::s32, {rows, config().seq});
  const Shape signs(config().dtype, {rows, config().seq, config().vocab});
  return {{"tokens", tokens}, {"labels", config().form == Form::exact ? signs : tokens}};
}

Tensor PipelinedTransformerModel::run_blocks(const TransformerParams<Tensor>& params,
                                             const Tensor& tokens) const {
  const auto embed = [&](const Tensor& part) {
    return transformer_.embedded(params, transformer_.table(params), part);
  };
  const Tensor x = vmap(embed)(to_microbatches(tokens, pipeline_.microbatches));
  const NameScope scope("layers");
  const auto block = [this](const BlockParams<Tensor>& p, const Tensor& y) {
    return transformer_.block(p, y);
  };
  const Tensor y = pipeline(block, params.blocks.at(0), x, options_of(pipeline_, mesh_));
  return split_microbatches(y, pipeline_, mesh_);
}

VmapOptions PipelinedTransformerModel::over_microbatches() const {
  VmapOptions options;
  options.mesh_axis = pipeline_.mesh_axis;
  return options;
}

Objective PipelinedTransformerModel::objective(const Leaves<Tensor>& params,
                                               const Leaves<Tensor>& /*state*/,
                                               const Leaves<Tensor>& batch) const {
  const auto tree = tree_of(models::parameter_shapes(config()), params);
  const Tensor y = run_blocks(tree, batch.at(0).second);
  const Tensor labels = to_microbatches(batch.at(1).second, pipeline_.microbatches);
  const auto loss = [&](const Tensor& x, const Tensor& wanted) {
    return transformer_.loss_of(transformer_.scores(tree, transformer_.table(tree), x), wanted);
  };
  const Tensor losses = vmap(loss, over_microbatches())(y, labels);
  return {config().form == Form::exact ? sum(losses) : mean(losses), {}, {}};
}

Leaves<Tensor> PipelinedTransformerModel::evaluate(const Leaves<Tensor>& params,
                                                   const Leaves<Tensor>& /*state*/,
                                                   const Leaves<Tensor>& batch,
                                                   const Tensor& weight) const {
  if (config().form == Form::exact) return {};
  const auto tree = tree_of(models::parameter_shapes(config()), params);
  const Tensor y = run_blocks(tree, batch.at(0).second);
  const auto nats = [&](const Tensor& x, const Tensor& labels) {
    const Tensor logits = transformer_.scores(tree, transformer_.table(tree), x);
    const Tensor chosen = one_hot(labels, config().vocab, logits.dtype());
    return mean(convert(logsumexp(logits) - sum(logits * chosen, {.axes = -1}), DType::f32),
                {.axes = 1});
  };
  const Tensor rows = from_microbatches(vmap(nats, over_microbatches())(
      y, to_microbatches(batch.at(1).second, pipeline_.microbatches)));
  return {{"loss", sum(rows * weight)}, {"count", sum(weight)}};
}

double PipelinedTransformerModel::training_flops(int64_t rows) const {
  return models::training_flops(config(), rows);
}

}  // namespace gspmd::models
