#include "models/pipelined_transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gspmd::models {
namespace {

bool has_axis(const Mesh& mesh, const std::string& axis) {
  return std::any_of(mesh.axes().begin(), mesh.axes().end(),
                     [&](const MeshAxis& a) { return a.name == axis; });
}

TransformerConfig with_scan(TransformerConfig config) {
  config.scan = true;
  return config;
}

// `rounds` filled in.
TransformerPipeline checked(TransformerPipeline pipeline, const TransformerConfig& config,
                            const Mesh& mesh) {
  check(config);
  if (!pipeline.mesh_axis.empty() && !has_axis(mesh, pipeline.mesh_axis))
    user_error("pipeline: the mesh {} has no axis \"{}\" for the stages; name one, or none",
               to_string(mesh), pipeline.mesh_axis);
  const bool circular = pipeline.kind == PipelineKind::circular;
  if (pipeline.stages < 1)
    user_error("pipeline: stages is {}; it must be at least 1", pipeline.stages);
  if (pipeline.rounds == 0)
    pipeline.rounds = circular ? std::max<int64_t>(config.layers / pipeline.stages, 1) : 1;
  PipelineSchedule({pipeline.kind, pipeline.stages, pipeline.microbatches, pipeline.rounds});
  if (config.layers % (pipeline.stages * pipeline.rounds) != 0)
    user_error(
        "pipeline: {} stages{} do not divide the {} layers; choose a divisor", pipeline.stages,
        circular ? fmt::format(" of {} blocks", pipeline.rounds) : std::string(), config.layers);
  return pipeline;
}

const Dims& leaf_dims(const Shape& shape) { return shape.dims; }
const Dims& leaf_dims(const Array& array) { return array.dims(); }

// The block leaves' dims l,... as r,l/r,...
template <class Leaf, class F>
void in_rounds(TransformerParams<Leaf>& params, const TransformerPipeline& pipeline, F reshaped) {
  if (pipeline.kind != PipelineKind::circular) return;
  for_each_leaf(params.blocks, [&](const std::string&, Leaf& leaf) {
    Dims dims = leaf_dims(leaf);
    dims[0] /= pipeline.rounds;
    dims.insert(dims.begin(), pipeline.rounds);
    leaf = reshaped(leaf, dims);
  });
}

Array with_dims(const Array& array, Dims dims) {
  Array result(Shape(array.dtype(), std::move(dims)));
  std::memcpy(result.bytes().data(), array.bytes().data(), array.bytes().size());
  return result;
}

}  // namespace

Layout pipeline_layout(std::string_view recipe, const Mesh& mesh, const std::string& mesh_axis) {
  std::vector<MeshAxis> others;
  for (const MeshAxis& axis : mesh.axes())
    if (axis.name != mesh_axis) others.push_back(axis);
  return layout_of_recipe(recipe, Mesh(others));
}

PipelinedTransformerModel::PipelinedTransformerModel(const TransformerConfig& config,
                                                     const TransformerPipeline& pipeline,
                                                     const Mesh& mesh, const Layout& layout)
    : transformer_(with_scan(config), mesh, layout),
      pipeline_(checked(pipeline, config, mesh)),
      mesh_(mesh) {}

PipelineSchedule PipelinedTransformerModel::schedule() const {
  return PipelineSchedule(
      {pipeline_.kind, pipeline_.stages, pipeline_.microbatches, pipeline_.rounds});
}

Leaves<Shape> PipelinedTransformerModel::parameter_shapes() const {
  auto shapes = models::parameter_shapes(config());
  in_rounds(shapes, pipeline_,
            [](const Shape& shape, Dims dims) { return Shape(shape.dtype, std::move(dims)); });
  return flatten(shapes);
}

Leaves<Array> PipelinedTransformerModel::initial_parameters(uint32_t seed) const {
  auto params = models::initial_parameters(config(), seed);
  in_rounds(params, pipeline_, with_dims);
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
  const auto embed = [&](const Tensor& part) { return transformer_.embed(params, part); };
  const Tensor x = vmap(embed)(to_microbatches(tokens, pipeline_.microbatches));
  PipelineOptions options;
  options.kind = pipeline_.kind;
  options.stages = pipeline_.stages;
  options.mesh = mesh_;
  options.mesh_axis = pipeline_.mesh_axis;
  options.remat = pipeline_.remat;
  const NameScope scope("layers");
  const auto block = [this](const BlockParams<Tensor>& p, const Tensor& y) {
    return transformer_.block(p, y);
  };
  const Tensor y = pipeline(block, params.blocks.at(0), x, options);
  if (pipeline_.mesh_axis.empty()) return y;
  return mesh_split(y, mesh_, {pipeline_.mesh_axis, open_dim, open_dim, open_dim});
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
    return transformer_.loss_of(transformer_.scores(tree, x), wanted);
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
    const Tensor logits = transformer_.scores(tree, x);
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
